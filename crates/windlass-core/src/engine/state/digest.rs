//! A hash of the state: engines that applied equal facts have equal digests.

use std::collections::BTreeMap;

use super::State;
use crate::engine::config::Precedence;
use crate::phase::Phase;
use crate::{Timestamp, WorkId};

impl State {
    /// See [`Engine::digest`](crate::Engine::digest).
    pub(in crate::engine) fn digest(&self) -> u64 {
        let mut digest = Fnv::default();
        // An engine that was restored may number its costs in another order.
        let mut costs = BTreeMap::new();
        for (index, entry) in self.works.iter() {
            digest.add(index as u64);
            let phase = entry.phase().journaled();
            digest.add(phase_number(phase));
            match phase {
                Phase::Delayed { due } => digest.add(due.as_nanos()),
                Phase::Cancelling { why, holds } => {
                    digest.add(why as u64);
                    digest.add(u64::from(holds));
                }
                Phase::Ready | Phase::Resuming | Phase::Paused => {
                    digest.add(entry.seq.get());
                    digest.add(entry.ready_since.as_nanos());
                }
                _ => {}
            }
            if self.precedence == Precedence::Submitted {
                digest.add(entry.seq.get());
            }
            digest.add(entry.priority.cast_unsigned());
            digest.add(u64::from(entry.attempts));
            digest.add(u64::from(entry.retries_left));
            digest.add(u64::from(entry.unneeded));
            digest.add(u64::from(entry.is_shut()));
            if phase == Phase::Waiting {
                digest.add(u64::from(self.dag.unmet(index)));
            }
            // With the phase, the cost decides what is in use.
            let next = costs.len() as u64;
            digest.add(*costs.entry(entry.cost).or_insert(next));
        }
        for &(due, work) in self.clock.timers() {
            digest.add(due.as_nanos());
            digest.add(work.get());
        }
        for (work, left) in self.clock.times_left() {
            digest.add(work.get());
            digest.add(left.as_nanos() as u64);
        }
        for (work, left) in self.clock.stopped_deadlines() {
            digest.add(work.get());
            digest.add(left.as_nanos() as u64);
        }
        for work in self.pauses.works() {
            digest.add(work.get());
        }
        digest.add(self.pauses.since().map_or(0, Timestamp::as_nanos));
        digest.add(self.pauses.before().as_nanos() as u64);
        for (work, _) in self.works().filter(|(_, entry)| entry.is_related()) {
            let children = self.families.counts(work);
            digest.add(children.succeeded as u64);
            digest.add(children.failed as u64);
            digest.add(children.total as u64);
            digest.add(self.families.parent(work).map_or(0, WorkId::get));
        }
        for (work, spent) in self.retries.all_spent() {
            digest.add(work.get());
            digest.add(u64::from(spent));
        }
        for (work, worker) in self.places.all_latest() {
            digest.add(work.get());
            digest.add(u64::from(worker.number()));
        }
        digest.add(self.works.pushed() as u64);
        digest.add(self.next_seq.get());
        digest.0
    }
}

fn phase_number(phase: Phase) -> u64 {
    match phase {
        Phase::Waiting => 0,
        Phase::Ready | Phase::Granted | Phase::WaitingOutside => 1,
        Phase::Delayed { .. } => 2,
        Phase::Running => 3,
        Phase::Cancelling { .. } => 4,
        Phase::Success => 5,
        Phase::Failed => 6,
        Phase::Blocked => 7,
        Phase::Cancelled => 8,
        Phase::Skipped => 9,
        Phase::Gated => 10,
        Phase::Suspended => 11,
        Phase::Resuming => 12,
        Phase::Joining => 13,
        Phase::Paused => 14,
        Phase::Halted => 15,
    }
}

/// FNV-1a, because the hasher of the standard library may change between releases.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
