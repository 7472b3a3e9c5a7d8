//! What must be true of the whole past of a cluster, whatever its processes have been through.
//!
//! The database itself records each lease that begins and ends, and each end that it has acknowledged to a
//! worker, in the transactions that do so. Steps record when they began and ended, by the clock of the one
//! kernel under all machines.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, from_str};
use windlass_core::{Ending, Happening};
use windlass_server::{RunView, Store};
use windlass_store::decode;

use super::{Cluster, Database};

/// Has the database record leases and ends.
const RECORD: &str = r#"
CREATE TABLE public.lease_history (
    number BIGSERIAL PRIMARY KEY, commit TEXT, is_held BOOLEAN, kind TEXT, name TEXT, token BIGINT
);
CREATE TABLE public.end_history (number BIGSERIAL PRIMARY KEY, run TEXT, key TEXT, token BIGINT, text TEXT);

CREATE FUNCTION public.record_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO public.lease_history (commit, is_held, kind, name, token)
        VALUES (pg_current_xact_id()::text, FALSE, OLD.kind, OLD.name, OLD.token);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO public.lease_history (commit, is_held, kind, name, token)
        VALUES (pg_current_xact_id()::text, TRUE, NEW.kind, NEW.name, NEW.token);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER record AFTER INSERT OR DELETE ON windlass.lease
    FOR EACH ROW EXECUTE FUNCTION public.record_lease();
CREATE TRIGGER record_other AFTER UPDATE ON windlass.lease
    FOR EACH ROW WHEN (OLD.token <> NEW.token) EXECUTE FUNCTION public.record_lease();

CREATE FUNCTION public.record_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.end_history (run, key, token, text)
    SELECT run, key, token, NEW.text FROM windlass.work_order WHERE token = NEW.token;
    RETURN NULL;
END $$;
CREATE TRIGGER record AFTER INSERT ON windlass.report
    FOR EACH ROW EXECUTE FUNCTION public.record_end();
"#;
/// All of the past, as of one moment.
const PAST: &str = r#"
SELECT json_build_object(
    'submitted', (SELECT coalesce(json_agg(id), '[]') FROM windlass.run WHERE env IS NOT NULL),
    'facts', (SELECT coalesce(json_agg(json_build_array(run, seq, count, epoch, facts) ORDER BY run, seq), '[]')
        FROM windlass.fact),
    'attempts', (SELECT coalesce(json_agg(json_build_array(run, work, attempt, ending)), '[]')
        FROM windlass.attempt),
    'ends', (SELECT coalesce(json_agg(json_build_array(run, key, text) ORDER BY number), '[]')
        FROM public.end_history WHERE token NOT IN (SELECT token FROM windlass.report)),
    'leases', (SELECT coalesce(json_agg(json_build_array(commit, is_held, kind, name, token) ORDER BY number), '[]')
        FROM public.lease_history)
)"#;
/// The kinds of names that one holder has at a time.
const EXCLUSIVE: [&str; 4] = ["lock", "run", "scheduler", "worker"];

/// An attempt: its run, its work and its number.
type Attempt = (String, u64, u32);

/// Has the database of a store record from now on.
pub(super) fn record(database: &Database) {
    database.sql(RECORD);
}

impl Cluster {
    /// Checks the past of the store, and what steps and holders have recorded themselves.
    #[track_caller]
    pub(super) fn check_history(&self) {
        self.check_history_in(&self.database);
    }

    /// Checks the same for a store whose database has taken the place of another.
    #[track_caller]
    pub(super) fn check_history_in(&self, database: &Database) {
        assert_eq!(self.bench.read("overlaps"), "", "{}", self.said());
        check_tokens(&self.bench.read("held"));
        check_intervals(&self.bench.read("intervals"));
        let past: Value = from_str(&database.sql(PAST)).expect("it is JSON");
        let ended = check_journals(rows(&past, "facts"));
        check_records(rows(&past, "attempts"), &ended);
        check_ends(rows(&past, "ends"), &ended);
        check_successes(&past, &ended);
        check_leases(rows(&past, "leases"));
        self.check_replays(database, rows(&past, "facts"));
    }

    /// Checks that two replays of each journal lead to the same state.
    fn check_replays(&self, database: &Database, facts: &[Value]) {
        let homes = self.bench.path("home-of-checks");
        let url = database.url_by_socket();
        let mut store = Store::in_database(&url, &homes).expect("the database is there");
        let runs: BTreeSet<_> = facts.iter().map(|row| text(&row[0])).collect();
        for run in runs {
            let mut digest =
                || RunView::find(&mut store, run).expect("it can be replayed").digest();
            assert_eq!(digest(), digest(), "two replays of run {run}");
        }
    }
}

fn rows<'a>(past: &'a Value, table: &str) -> &'a [Value] {
    past[table].as_array().expect("it is a table")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("it is a text")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("it is a number")
}

/// Checks that journals have no gap and no fact of an earlier leader after one of a later one, and that each
/// attempt begins and ends once. Returns how attempts have ended.
fn check_journals(rows: &[Value]) -> BTreeMap<Attempt, Ending> {
    let mut last: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let (mut started, mut ended) = (BTreeSet::new(), BTreeMap::new());
    let mut latest: BTreeMap<(&str, u64), u32> = BTreeMap::new();
    for row in rows {
        let (run, seq, count, epoch) =
            (text(&row[0]), number(&row[1]), number(&row[2]), number(&row[3]));
        if let Some((last_seq, last_epoch)) = last.insert(run, (seq, epoch)) {
            assert_eq!(seq, last_seq + count, "run {run}: its journal has a gap");
            assert!(
                epoch >= last_epoch,
                "run {run}: facts of {epoch} follow those of {last_epoch}"
            );
        }
        for line in text(&row[4]).lines() {
            match decode(line).expect("it is a fact").what {
                Happening::Started { work, attempt, .. } => {
                    let before = latest.insert((run, work.get()), attempt).unwrap_or_default();
                    assert!(before < attempt, "run {run}: {work}@{attempt} begins after @{before}");
                    let succeeded = ended.get(&(run.to_owned(), work.get(), before));
                    assert_ne!(succeeded, Some(&Ending::Success), "run {run}: {work} runs again");
                    started.insert((run.to_owned(), work.get(), attempt));
                }
                Happening::Ended { work, attempt, ending } => {
                    let of = (run.to_owned(), work.get(), attempt);
                    assert!(started.contains(&of), "{of:?} has not begun, and ends");
                    let before = ended.insert(of.clone(), ending);
                    assert_eq!(before, None, "{of:?} ends twice");
                }
                _ => {}
            }
        }
    }
    ended
}

/// Checks that what `show` prints of attempts is what the journals say.
fn check_records(rows: &[Value], ended: &BTreeMap<Attempt, Ending>) {
    let is_success = |row: &&Value| row[3] == "success";
    let shown: BTreeSet<_> = rows.iter().filter(is_success).map(attempt_of).collect();
    let successes = ended.iter().filter(|(_, ending)| **ending == Ending::Success);
    let stored: BTreeSet<_> = successes.map(|(attempt, _)| attempt.clone()).collect();
    assert_eq!(shown, stored, "the records of attempts and the journals differ");
}

fn attempt_of(row: &Value) -> Attempt {
    let attempt = u32::try_from(number(&row[2])).expect("it is small");
    (text(&row[0]).to_owned(), number(&row[1]), attempt)
}

/// Returns the attempt whose command an order has executed, if it was one.
fn command_of(end: &Value) -> Option<Attempt> {
    let mut words = text(&end[1]).split(' ');
    let kind = words.next()?;
    let (work, attempt) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (kind == "command").then(|| (text(&end[0]).to_owned(), work, attempt))
}

/// Checks that each end that was acknowledged and taken in is in the journal, as it was reported.
fn check_ends(rows: &[Value], ended: &BTreeMap<Attempt, Ending>) {
    let mut acknowledged = BTreeSet::new();
    for row in rows {
        let Some(attempt) = command_of(row) else { continue };
        let report: Value = from_str(text(&row[2])).expect("a report is JSON");
        let end = &report["end"];
        // An order that came too late is given to another worker.
        if end == "late" {
            continue;
        }
        assert!(acknowledged.insert(attempt.clone()), "{attempt:?} was acknowledged twice");
        let ending = ended.get(&attempt);
        let ending = ending.unwrap_or_else(|| panic!("{attempt:?} is lost: {report}"));
        let has_succeeded = end["ended"]["exit"]["code"] == 0;
        assert_eq!(*ending == Ending::Success, has_succeeded, "{attempt:?}: {report}");
    }
}

/// Checks that each success of a submitted run was reported.
fn check_successes(past: &Value, ended: &BTreeMap<Attempt, Ending>) {
    let submitted: BTreeSet<_> = rows(past, "submitted").iter().map(text).collect();
    let reported: BTreeSet<_> = rows(past, "ends").iter().filter_map(command_of).collect();
    for (attempt, ending) in ended {
        let is_reported = !submitted.contains(&*attempt.0) || reported.contains(attempt);
        assert!(is_reported || *ending != Ending::Success, "{attempt:?} was never reported");
    }
}

/// Checks that after each commit a name has one holder at most, and that each has a larger token than all
/// before.
fn check_leases(rows: &[Value]) {
    assert!(!rows.is_empty(), "no lease was recorded");
    let mut held: BTreeMap<(&str, &str), BTreeSet<u64>> = BTreeMap::new();
    let mut latest: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for commit in rows.chunk_by(|a, b| a[0] == b[0]) {
        let mut changed = BTreeSet::new();
        for row in commit {
            let (name, token) = ((text(&row[2]), text(&row[3])), number(&row[4]));
            if !EXCLUSIVE.contains(&name.0) {
                continue;
            }
            changed.insert(name);
            let tokens = held.entry(name).or_default();
            if row[1] == false {
                assert!(tokens.remove(&token), "{name:?}: {token} was not held");
                continue;
            }
            let before = latest.insert(name, token).unwrap_or_default();
            assert!(token > before, "{name:?}: {token} follows {before}");
            tokens.insert(token);
        }
        for name in changed {
            assert!(held[&name].len() <= 1, "{name:?} is held under {:?} at a time", held[&name]);
        }
    }
}

/// Checks that each holder of the lock has a larger token than all before. A line is `HOST TOKEN`.
fn check_tokens(lines: &str) {
    let mut latest = 0;
    for line in lines.lines() {
        let token = line.split(' ').nth(1).and_then(|token| token.parse::<u64>().ok());
        let token = token.unwrap_or_else(|| panic!("{line:?} has a token"));
        assert!(token > latest, "{line:?} follows {latest}");
        latest = token;
    }
}

/// Checks that no more users of a name than it allows were there at a time, according to those that have
/// recorded their end. A line is `NAME/LIMIT HOLDER begin|end SECONDS`.
fn check_intervals(lines: &str) {
    let mut open = BTreeMap::new();
    let mut changes: BTreeMap<(&str, i32), Vec<(f64, i32)>> = BTreeMap::new();
    for line in lines.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [name, holder, what, seconds] = words[..] else { panic!("malformed: {line:?}") };
        let at: f64 = seconds.parse().expect("seconds since the boot");
        if what == "begin" {
            assert_eq!(open.insert((name, holder), at), None, "{line:?} begins twice");
        } else if let Some(began) = open.remove(&(name, holder)) {
            let (_, limit) = name.split_once('/').expect("it has a limit");
            let of_name = changes.entry((name, limit.parse().expect("a number"))).or_default();
            of_name.extend([(began, 1), (at, -1)]);
        } else {
            panic!("{line:?} has not begun");
        }
    }
    for ((name, limit), mut changes) in changes {
        // Ends first: the clock has steps of 10 ms, and rounds down.
        changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut used = 0;
        for (at, change) in changes {
            used += change;
            assert!(used <= limit, "{used} of {name} at {at} s");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use serde_json::json;

    use super::*;

    const STARTED: &str = r#"{"at":1,"started":{"work":1,"attempt":1}}"#;
    const SUCCEEDED: &str = r#"{"at":2,"succeeded":{"work":1,"attempt":1}}"#;

    /// Expects a check to accept the first history and to refuse all others.
    #[track_caller]
    fn tells_apart<T>(check: fn(T), histories: &[T])
    where
        T: Clone + std::panic::UnwindSafe,
    {
        let refused = |history: &T| {
            let history = history.clone();
            catch_unwind(move || check(history)).is_err()
        };
        let refused: Vec<_> = histories.iter().map(refused).collect();
        let expected: Vec<_> = (0..histories.len()).map(|place| place > 0).collect();
        assert_eq!(refused, expected);
    }

    #[test]
    fn a_journal_with_a_gap_a_late_fact_or_a_second_end_is_found() {
        let row = |seq: u64, epoch: u64, facts: &[&str]| {
            json!(["r", seq, facts.len(), epoch, facts.join("\n")])
        };
        let check = |rows: Vec<Value>| drop(check_journals(&rows));
        tells_apart(
            check,
            &[
                vec![row(1, 5, &[STARTED]), row(2, 6, &[SUCCEEDED])],
                vec![row(1, 5, &[STARTED]), row(3, 6, &[SUCCEEDED])],
                vec![row(1, 6, &[STARTED]), row(2, 5, &[SUCCEEDED])],
                vec![row(1, 5, &[STARTED]), row(3, 5, &[SUCCEEDED, SUCCEEDED])],
                vec![row(1, 5, &[SUCCEEDED])],
                vec![row(2, 5, &[STARTED, STARTED])],
            ],
        );
    }

    #[test]
    fn an_end_that_is_lost_invented_or_acknowledged_twice_is_found() {
        let reported = |code: u64| {
            let text = json!({"at": 1, "end": {"ended": {"exit": {"code": code}}}}).to_string();
            json!(["r", "command 1 1", text])
        };
        let check = |(ends, facts): (Vec<Value>, &[&str])| {
            let journal = [json!(["r", facts.len(), facts.len(), 5, facts.join("\n")])];
            let ended = check_journals(&journal);
            check_ends(&ends, &ended);
            check_successes(&json!({"submitted": ["r"], "ends": ends}), &ended);
        };
        let (whole, begun): (&[&str], &[&str]) = (&[STARTED, SUCCEEDED], &[STARTED]);
        tells_apart(
            check,
            &[
                (vec![reported(0)], whole),
                (vec![reported(0)], begun),
                (vec![], whole),
                (vec![reported(1)], whole),
                (vec![reported(0), reported(0)], whole),
            ],
        );
    }

    #[test]
    fn two_holders_at_a_time_and_a_token_that_does_not_grow_are_found() {
        let row =
            |commit: &str, is_held: bool, token: u64| json!([commit, is_held, "lock", "x", token]);
        let check = |rows: Vec<Value>| check_leases(&rows);
        tells_apart(
            check,
            &[
                vec![row("1", true, 1), row("2", true, 2), row("2", false, 1)],
                vec![row("1", true, 1), row("2", true, 2), row("3", false, 1)],
                vec![row("1", true, 2), row("2", false, 2), row("3", true, 2)],
                vec![row("1", true, 2), row("2", false, 1)],
            ],
        );
        tells_apart(check_tokens, &["one 1\ntwo 2\n", "one 2\ntwo 2\n"]);
    }

    #[test]
    fn more_users_than_a_limit_allows_are_found() {
        let fits = "x/2 a begin 1.0\nx/2 b begin 1.5\nx/2 a end 2.0\nx/2 c begin 2.0\nx/2 b end 3\nx/2 c end 3\n";
        let too_many = fits.replace("c begin 2.0", "c begin 1.9");
        tells_apart(check_intervals, &[fits, &too_many]);
    }
}
