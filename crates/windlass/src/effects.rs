//! What a session leaves to be done once the scheduler's lock is free: nothing of the user's runs, is woken
//! or is dropped under it.

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::ClientId;

use crate::context::AttemptShared;
use crate::event::WorkEvent;
use crate::event_log::EventLog;
use crate::panic::quietly;
use crate::reference::End;
use crate::report::Report;

#[derive(Default)]
pub(crate) struct Effects {
    /// Other clients of the capacity that should look again.
    pub(crate) clients: Vec<ClientId>,
    /// Whether a work has ended.
    pub(crate) has_ended: bool,
    /// Absent after most sessions.
    extras: Option<Box<Extras>>,
}

#[derive(Default)]
pub(crate) struct Extras {
    /// Attempts that are asked to stop.
    stopped: Vec<Arc<AttemptShared>>,
    /// Attempts for which something has changed: they go on, or a child has ended.
    woken: Vec<Arc<AttemptShared>>,
    /// Ends of works, and the channels to their waiters.
    ends: Vec<(oneshot::Sender<End>, End)>,
    /// The `tracing` events about what has happened.
    reports: Vec<Report>,
    /// Values of the user's, whose destructors may do anything.
    drops: Vec<Box<dyn Send>>,
    #[cfg(feature = "metrics")]
    measurements: Vec<crate::meter::Measurement>,
    /// The log of events, for subscribers that wait for one.
    readers: Option<Arc<EventLog<WorkEvent>>>,
}

impl Effects {
    fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Asks an attempt to stop.
    pub(crate) fn stop(&mut self, attempt: Arc<AttemptShared>) {
        self.extras().stopped.push(attempt);
    }

    /// Wakes an attempt, because something has changed for it.
    pub(crate) fn wake(&mut self, attempt: Arc<AttemptShared>) {
        self.extras().woken.push(attempt);
    }

    /// An attempt is over: nothing inside it has to wait for its slot any more.
    pub(crate) fn release(&mut self, attempt: Option<Arc<AttemptShared>>) {
        if let Some(attempt) = attempt.filter(|attempt| attempt.release()) {
            self.wake(attempt);
        }
    }

    /// Sends the end of a work to its waiters.
    pub(crate) fn send_end(&mut self, waiter: oneshot::Sender<End>, end: End) {
        self.extras().ends.push((waiter, end));
    }

    #[inline]
    pub(crate) fn report(&mut self, report: Option<Report>) {
        if let Some(report) = report {
            self.extras().reports.push(report);
        }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn measure(&mut self, measurement: crate::meter::Measurement) {
        self.extras().measurements.push(measurement);
    }

    pub(crate) fn drop_later(&mut self, value: Box<dyn Send>) {
        self.extras().drops.push(value);
    }

    pub(crate) fn drop_all_later(&mut self, mut values: Vec<Box<dyn Send>>) {
        let drops = &mut self.extras().drops;
        values.append(drops);
        *drops = values;
    }

    /// Wakes subscribers.
    pub(crate) fn wake_readers(&mut self, readers: Arc<EventLog<WorkEvent>>) {
        self.extras().readers = Some(readers);
    }

    pub(crate) fn has_drops(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| !extras.drops.is_empty())
    }

    /// Returns whether an attempt is woken.
    pub(crate) fn wakes_attempts(&self) -> bool {
        let wakes = |extras: &Extras| !extras.stopped.is_empty() || !extras.woken.is_empty();
        self.extras.as_deref().is_some_and(wakes)
    }

    /// Returns what few sessions leave to be done.
    #[inline]
    pub(crate) fn into_extras(self) -> Option<Box<Extras>> {
        self.extras
    }
}

impl Extras {
    /// Notifies attempts, waiters and subscribers, whatever their wakers do. Returns the values to be
    /// dropped, which is done last, because a destructor may do anything.
    pub(crate) fn notify(self) -> Vec<Box<dyn Send>> {
        // Before the wake-ups, so that a run does not return before its events are emitted.
        self.reports.into_iter().for_each(Report::emit);
        #[cfg(feature = "metrics")]
        self.measurements.into_iter().for_each(crate::meter::Measurement::record);
        self.stopped.iter().for_each(|attempt| quietly(|| attempt.stop()));
        self.woken.iter().for_each(|attempt| quietly(|| attempt.wake_all()));
        // A receiver may be gone.
        self.ends.into_iter().for_each(|(waiter, end)| quietly(|| _ = waiter.send(end)));
        if let Some(readers) = self.readers {
            quietly(|| readers.wake());
        }
        self.drops
    }
}
