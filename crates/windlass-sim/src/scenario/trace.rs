//! The trace of a run, and its comparison with the one that the scenario expects.

use std::time::Duration;

use windlass_core::{Timestamp, WorkState};

use super::words::Words;
use super::{Scenario, scenario_dir};

/// The time between two changes from which a driver in real time must keep their order.
pub const APART: Duration = Duration::from_millis(20);

/// The changes of state in a run, and its refusals.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The changes, in the order in which they happened.
    pub entries: Vec<Entry>,
    /// The refused actions: when, and which with its reason.
    pub refusals: Vec<(Timestamp, String)>,
}

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The time of the change.
    pub at: Timestamp,
    /// The index of the work in the scenario.
    pub work: usize,
    /// The new state.
    pub state: WorkState,
    /// Its latest attempt; 0 before the first.
    pub attempt: u32,
}

impl Entry {
    /// Returns whether it is the same change, at whatever time.
    fn is_like(&self, other: &Entry) -> bool {
        (self.work, self.state, self.attempt) == (other.work, other.state, other.attempt)
    }
}

impl Scenario {
    /// Compares a trace in virtual time with the expected one, or writes it to the file if
    /// `UPDATE_SCENARIOS` is set.
    ///
    /// # Panics
    ///
    /// Panics if they differ.
    pub fn check(&self, trace: Trace) {
        let got = self.render(trace);
        if std::env::var_os("UPDATE_SCENARIOS").is_some() {
            return self.update(&got);
        }
        assert!(got == self.expected, "{}: expected\n{}\ngot\n{got}", self.name, self.expected);
    }

    /// Compares a trace in real time with the expected one. Each work's own changes must be in order,
    /// and so must changes of several works that the scenario has at least [`APART`] apart. The error
    /// describes the first difference.
    ///
    /// # Panics
    ///
    /// Panics if the expected trace cannot be parsed.
    pub fn fits_in_real_time(&self, trace: &[Entry]) -> Result<(), String> {
        let expected = self.expected_entries();
        let seen = || self.render(Trace { entries: trace.to_vec(), refusals: Vec::new() });
        if trace.len() != expected.len() {
            return Err(format!("{} changes, not {}:\n{}", trace.len(), expected.len(), seen()));
        }
        let mut places = Vec::new();
        for (number, later) in expected.iter().enumerate() {
            let before = expected[..number].iter().filter(|entry| entry.is_like(later)).count();
            let mut like = trace.iter().enumerate().filter(|(_, got)| got.is_like(later));
            let Some((place, _)) = like.nth(before) else {
                return Err(format!("{:?} is missing in\n{}", self.line(later), seen()));
            };
            places.push(place);
            for (earlier, before) in expected.iter().zip(&places[..number]) {
                let apart = later.at.since(earlier.at) >= APART;
                if (earlier.work == later.work || apart) && *before > place {
                    let (earlier, later) = (self.line(earlier), self.line(later));
                    return Err(format!("{earlier:?} is not before {later:?} in\n{}", seen()));
                }
            }
        }
        Ok(())
    }

    /// Returns whether the expected trace has the action `what` refused at `at`.
    #[must_use]
    pub fn refuses(&self, at: Timestamp, what: &str) -> bool {
        self.expected.lines().any(|line| line.starts_with(&format!("{at} ! {what}:")))
    }

    fn expected_entries(&self) -> Vec<Entry> {
        let entry = |line: &str| {
            let mut words = Words::new(line);
            let at = Timestamp::ZERO.after(words.duration()?);
            let work = self.known(words.word()?)?;
            let state = words.word()?;
            let state = WorkState::ALL.into_iter().find(|known| known.to_string() == state);
            let state = state.ok_or("unknown state")?;
            Ok(Entry { at, work, state, attempt: words.number()? })
        };
        let changes = self.expected.lines().filter(|line| !line.contains(" ! "));
        let entries: Result<Vec<_>, String> = changes.map(entry).collect();
        entries.unwrap_or_else(|problem| panic!("{}: {problem}", self.name))
    }

    fn render(&self, trace: Trace) -> String {
        let line = |entry: Entry| ((entry.at, entry.work), self.line(&entry) + "\n");
        let mut lines: Vec<_> = trace.entries.into_iter().map(line).collect();
        let refusals = trace.refusals.into_iter();
        lines.extend(refusals.map(|(at, why)| ((at, usize::MAX), format!("{at} ! {why}\n"))));
        lines.sort_by_key(|(place, _)| *place);
        lines.into_iter().map(|(_, line)| line).collect()
    }

    fn line(&self, entry: &Entry) -> String {
        let Entry { at, work, state, attempt } = entry;
        format!("{at} {} {state} {attempt}", self.works[*work].name)
    }

    fn update(&self, trace: &str) {
        let path = scenario_dir().join(format!("{}.txt", self.name));
        let text = std::fs::read_to_string(&path).expect("it was read before");
        let world = text.split("\n----\n").next().unwrap_or_default().trim_end();
        std::fs::write(path, format!("{world}\n----\n{trace}")).expect("it can be written");
    }
}
