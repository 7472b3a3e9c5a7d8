//! A channel between threads whose receiver can be polled together with processes, pipes and timers.
//!
//! The standard library's channel has no file descriptor; an eventfd beside it becomes readable with each
//! message. Senders never block: every sender sends a bounded number of messages.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, SendError};

use rustix::event::{EventfdFlags, eventfd};

/// The receiving end; its descriptor is readable while there may be messages.
pub(crate) struct Receiver<T> {
    messages: mpsc::Receiver<T>,
    event: Arc<OwnedFd>,
}

/// The sending end.
pub(crate) struct Sender<T> {
    messages: mpsc::Sender<T>,
    event: Arc<OwnedFd>,
}

/// Creates a channel.
pub(crate) fn channel<T>() -> io::Result<(Sender<T>, Receiver<T>)> {
    let (sender, messages) = mpsc::channel();
    let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    Ok((Sender { messages: sender, event: Arc::clone(&event) }, Receiver { messages, event }))
}

impl<T> Receiver<T> {
    /// Returns all messages that have come.
    pub(crate) fn take(&self) -> Vec<T> {
        // The counter is reset before the messages are read, so that a message that comes later sets it
        // again. The read fails if no message has come.
        let _ = rustix::io::read(&*self.event, &mut [0; 8]);
        self.messages.try_iter().collect()
    }
}

impl<T> Sender<T> {
    /// Sends a message. Fails if the receiver was dropped.
    pub(crate) fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.messages.send(message)?;
        // The write only fails if the counter is full, and then the receiver is readable.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), event: Arc::clone(&self.event) }
    }
}

impl<T> AsFd for Receiver<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::poll::poll;

    #[test]
    fn a_receiver_is_readable_until_its_messages_are_taken() {
        let (sender, receiver) = channel().expect("the system has one");
        let is_readable = || poll(&[&receiver], Some(Duration::ZERO)).expect("it can be asked")[0];
        assert!(!is_readable() && receiver.take().is_empty());
        let another = sender.clone();
        std::thread::spawn(move || another.send(1)).join().expect("no panic").expect("it is read");
        sender.send(2).expect("it is read");
        assert!(is_readable());
        assert_eq!(receiver.take(), [1, 2]);
        assert!(!is_readable() && receiver.take().is_empty());
    }
}
