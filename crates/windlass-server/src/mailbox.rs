//! Messages between threads that can be waited for together with other things.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, SendError};

use rustix::event::{EventfdFlags, eventfd};

/// Where messages arrive; readable while there may be some.
pub(crate) struct Mailbox<T> {
    messages: mpsc::Receiver<T>,
    bell: Arc<OwnedFd>,
}

/// Puts messages into a mailbox.
pub(crate) struct Sender<T> {
    messages: mpsc::Sender<T>,
    bell: Arc<OwnedFd>,
}

/// Creates a mailbox and a sender for it.
pub(crate) fn mailbox<T>() -> io::Result<(Sender<T>, Mailbox<T>)> {
    let (sender, messages) = mpsc::channel();
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    Ok((Sender { messages: sender, bell: Arc::clone(&bell) }, Mailbox { messages, bell }))
}

impl<T> Mailbox<T> {
    /// Takes all messages that have come.
    pub(crate) fn take(&self) -> Vec<T> {
        // The counter is reset before the messages are read, so that a message that comes later sets it
        // again. The read fails if no message has come.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        self.messages.try_iter().collect()
    }
}

impl<T> Sender<T> {
    /// Sends a message; fails if the mailbox was dropped.
    pub(crate) fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.messages.send(message)?;
        // It can only fail when the counter is full, and then the mailbox is readable.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), bell: Arc::clone(&self.bell) }
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::poll::poll;

    #[test]
    fn it_can_be_read_from_a_message_to_the_next_look() {
        let (sender, mailbox) = mailbox().expect("the system has one");
        let rings = || poll(&[&mailbox], Some(Duration::ZERO)).expect("it can be asked")[0];
        assert!(!rings() && mailbox.take().is_empty());
        let another = sender.clone();
        std::thread::spawn(move || another.send(1)).join().expect("no panic").expect("it is read");
        sender.send(2).expect("it is read");
        assert!(rings());
        assert_eq!(mailbox.take(), [1, 2]);
        assert!(!rings() && mailbox.take().is_empty());
    }
}
