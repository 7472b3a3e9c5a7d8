//! What was seen in a run, and whether that is what the scenario expects.

use std::time::Duration;

use windlass_core::{Timestamp, WorkState};

use super::words::Words;
use super::{Scenario, scenario_dir};

/// How far apart two changes must be for a driver in real time to keep their order.
pub const APART: Duration = Duration::from_millis(20);

/// What was seen: changes of state, and what was refused.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The changes, in the order in which they were seen.
    pub entries: Vec<Entry>,
    /// What was refused, when, and why.
    pub refusals: Vec<(Timestamp, String)>,
}

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// The work's place in the scenario.
    pub work: usize,
    /// The state it is in now.
    pub state: WorkState,
    /// Its latest attempt; 0 before the first.
    pub attempt: u32,
}

impl Scenario {
    /// Compares a trace in virtual time with the expected one. With `UPDATE_SCENARIOS` set, the
    /// file takes the trace over instead.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn check(&self, trace: Trace) {
        let got = self.render(trace);
        if std::env::var_os("UPDATE_SCENARIOS").is_some() {
            return self.update(&got);
        }
        assert!(got == self.expected, "{}: expected\n{}\ngot\n{got}", self.name, self.expected);
    }

    /// Compares a trace in real time with the expected one: each work's own changes in order, and
    /// across works the order of what the scenario keeps at least [`APART`] apart.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn check_in_real_time(&self, trace: &[Entry]) {
        let expected = self.expected_entries();
        let same =
            |a: &Entry, b: &Entry| (a.work, a.state, a.attempt) == (b.work, b.state, b.attempt);
        let place = |wanted: &Entry| trace.iter().position(|got| same(got, wanted));
        let seen = || self.render(Trace { entries: trace.to_vec(), refusals: Vec::new() });
        assert_eq!(trace.len(), expected.len(), "{}: as many changes in\n{}", self.name, seen());
        for (number, later) in expected.iter().enumerate() {
            let at = place(later);
            assert!(at.is_some(), "{}: {later:?} is missing in\n{}", self.name, seen());
            for earlier in &expected[..number] {
                let apart = later.at.since(earlier.at) >= APART;
                if earlier.work == later.work || apart {
                    let order = "is not before";
                    assert!(place(earlier) < at, "{}: {earlier:?} {order} {later:?}", self.name);
                }
            }
        }
    }

    fn expected_entries(&self) -> Vec<Entry> {
        let entry = |line: &str| {
            let mut words = Words::new(line);
            let at = Timestamp::ZERO.after(words.duration()?);
            let work = self.known(words.word()?)?;
            let state = words.word()?;
            let state = WorkState::ALL.into_iter().find(|known| known.to_string() == state);
            let state = state.ok_or("no such state")?;
            Ok(Entry { at, work, state, attempt: words.number()? })
        };
        let changes = self.expected.lines().filter(|line| !line.contains(" ! "));
        let entries: Result<Vec<_>, String> = changes.map(entry).collect();
        entries.unwrap_or_else(|problem| panic!("{}: {problem}", self.name))
    }

    fn render(&self, trace: Trace) -> String {
        let line = |entry: Entry| {
            let Entry { at, work, state, attempt } = entry;
            let name = &self.works[work].name;
            ((at, work), format!("{at} {name} {state} {attempt}\n"))
        };
        let mut lines: Vec<_> = trace.entries.into_iter().map(line).collect();
        let refusals = trace.refusals.into_iter();
        lines.extend(refusals.map(|(at, why)| ((at, usize::MAX), format!("{at} ! {why}\n"))));
        lines.sort_by_key(|(place, _)| *place);
        lines.into_iter().map(|(_, line)| line).collect()
    }

    fn update(&self, trace: &str) {
        let path = scenario_dir().join(format!("{}.txt", self.name));
        let text = std::fs::read_to_string(&path).expect("it was read before");
        let world = text.split("\n----\n").next().unwrap_or_default().trim_end();
        std::fs::write(path, format!("{world}\n----\n{trace}")).expect("it can be written");
    }
}
