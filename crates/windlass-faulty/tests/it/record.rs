//! The record that the steps write themselves, and the rules it has to follow.

use std::collections::{BTreeMap, BTreeSet};

use crate::flow::Flow;

/// One line: `step attempt pid what value`.
pub(crate) struct Line<'a> {
    pub(crate) step: &'a str,
    pub(crate) attempt: u32,
    what: &'a str,
    value: &'a str,
}

/// Parses the lines, in the order in which they were written.
pub(crate) fn lines(record: &str) -> Vec<Line<'_>> {
    record.lines().map(line).collect()
}

fn line(text: &str) -> Line<'_> {
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (step, attempt) = (word(), word().parse());
    let _pid = word();
    let attempt = attempt.unwrap_or_else(|_| panic!("malformed record: {text:?}"));
    Line { step, attempt, what: word(), value: word() }
}

impl Line<'_> {
    pub(crate) fn is_start(&self) -> bool {
        self.what == "start"
    }

    fn is_good_end(&self) -> bool {
        self.what == "end" && self.value == "0"
    }
}

/// Checks the rules that hold at every time.
pub(crate) fn check(flow: &Flow, record: &str) {
    let mut started: BTreeSet<(&str, u32)> = BTreeSet::new();
    let mut latest: BTreeMap<&str, u32> = BTreeMap::new();
    let mut ended: BTreeSet<&str> = BTreeSet::new();
    for line in lines(record) {
        let Line { step, attempt, what, value } = line;
        assert_ne!(what, "overlap", "{step}@{attempt}: another attempt holds {value}");
        if line.is_start() {
            assert!(started.insert((step, attempt)), "{step}@{attempt} was started twice");
            let before = latest.insert(step, attempt).unwrap_or(0);
            assert!(before < attempt, "{step}@{attempt} was started after @{before}");
            for before in &flow.steps[step].after {
                assert!(
                    ended.contains(before.as_str()),
                    "{step} was started before {before} ended"
                );
            }
        }
        if line.is_good_end() {
            assert!(started.contains(&(step, attempt)), "{step}@{attempt} ended without a start");
            ended.insert(step);
        }
    }
    check_tokens(&lines(record));
}

/// Checks that each holder of a lock has a larger token than all before.
fn check_tokens(lines: &[Line<'_>]) {
    let mut latest = 0;
    for line in lines.iter().filter(|line| line.is_start() && line.step.starts_with("locked")) {
        let first = line.value.split(' ').next().and_then(|token| token.parse::<u64>().ok());
        let token = first.unwrap_or_else(|| panic!("{} has a token", line.step));
        assert!(token > latest, "{}@{} has {token} after {latest}", line.step, line.attempt);
        latest = token;
    }
}

/// Checks that each finished step with a `finally` has run it after its last attempt.
pub(crate) fn check_cleaned(flow: &Flow, record: &str, finished: &BTreeMap<String, u32>) {
    let mut cleaned: BTreeMap<&str, bool> = BTreeMap::new();
    for line in lines(record) {
        if line.is_start() || line.what == "finally" {
            cleaned.insert(line.step, line.what == "finally");
        }
    }
    for step in finished.keys().filter(|step| flow.steps[*step].cleans) {
        assert_eq!(cleaned.get(step.as_str()), Some(&true), "{step} has not cleaned up");
    }
}

/// Returns the attempts that have recorded a success.
pub(crate) fn succeeded(record: &str) -> BTreeSet<(&str, u32)> {
    let lines = lines(record).into_iter().filter(Line::is_good_end);
    lines.map(|line| (line.step, line.attempt)).collect()
}
