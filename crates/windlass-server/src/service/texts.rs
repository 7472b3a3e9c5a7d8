//! The texts of orders, wishes and reports in the store, by which a scheduler and its workers talk.
//!
//! They are JSON, so that processes of another version can read them: a field that a version does not
//! know is left out, and one that it misses has a default. Times are those of the store's clock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::{Amount, Grant, SLOTS, Timestamp, WorkId};
use windlass_store::StoredOrder;

use crate::attempt::{OUTPUT_VARIABLE, STATE_VARIABLE};
use crate::command::CommandSpec;
use crate::coordinator::attempts::{
    CheckEnd, Limits, LogSpec, Order, OrderId, OrderKind, Report, StopMode,
};
use crate::ended::Ended;

/// The text of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OrderText {
    kind: KindText,
    /// What to run, or why that is unknown.
    command: Result<CommandSpec, String>,
    tag: String,
    log: Option<LogSpec>,
    output: Option<PathBuf>,
    limits: Limits,
    /// Until when it may run, also while no scheduler is there to end it.
    until: Option<u64>,
    start_by: Option<u64>,
    /// The directory that the store has on the machine of the scheduler, with which the paths begin that
    /// each machine has for itself.
    #[serde(default)]
    state: PathBuf,
    /// The items of the run's resources that the attempt has, for the next scheduler.
    #[serde(default)]
    pub(crate) items: Vec<(usize, usize)>,
    /// What it takes of its worker, in steps of 1/10 000.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) takes: BTreeMap<String, u64>,
    /// The items of its worker's resources that it has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) worker_items: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindText {
    Command,
    Finally,
    Check,
    Hook(u32),
}

/// How an order is to end, or to go on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WishText {
    Ask {
        grace_ms: u64,
    },
    Finish {
        grace_ms: u64,
    },
    Kill,
    /// Its processes are stopped for a while.
    Halt,
    /// It goes on, also after it was stopped, and this is its new time limit.
    Limit {
        until: Option<u64>,
    },
}

/// The result of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReportText {
    /// When nothing of it ran any more.
    pub(crate) at: u64,
    pub(crate) end: EndText,
}

/// How an order ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndText {
    Ended(Ended),
    Checked(CheckEnd),
    Late,
    Lost(String),
}

/// The times of an order that only the scheduler knows, on the store's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OrderTimes {
    pub(crate) until: Option<Timestamp>,
    pub(crate) start_by: Option<Timestamp>,
}

/// What the attempt of an order has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    pub(crate) items: Vec<(usize, usize)>,
    pub(crate) takes: BTreeMap<String, u64>,
    pub(crate) worker_items: BTreeMap<String, Vec<String>>,
}

impl OrderText {
    pub(crate) fn new(order: Order, times: OrderTimes, has: Holdings, state: &Path) -> Self {
        let Order { id, command, tag, log, output, limits, .. } = order;
        let kind = match id {
            OrderId::Command(_) => KindText::Command,
            OrderId::Finally(_) => KindText::Finally,
            OrderId::Check { .. } => KindText::Check,
            OrderId::Hook(call) => KindText::Hook(call),
        };
        let (until, start_by) =
            (times.until.map(Timestamp::as_nanos), times.start_by.map(Timestamp::as_nanos));
        let state = state.to_owned();
        let Holdings { items, takes, worker_items } = has;
        Self {
            kind,
            command,
            tag,
            log,
            output,
            limits,
            until,
            start_by,
            state,
            items,
            takes,
            worker_items,
        }
    }

    /// Returns the tag that the order's processes carry, besides that of their worker.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns where its output goes; none for a check.
    pub(crate) fn log(&self) -> Option<&LogSpec> {
        self.log.as_ref()
    }

    pub(crate) fn kind(&self) -> OrderKind {
        match self.kind {
            KindText::Command => OrderKind::Command,
            KindText::Finally => OrderKind::Finally,
            KindText::Check => OrderKind::Check,
            KindText::Hook(call) => OrderKind::Hook(call),
        }
    }

    /// Has the paths begin with the directory that the store has on this machine.
    pub(crate) fn move_to(&mut self, state: &Path) {
        if self.state.as_os_str().is_empty() || self.state == state {
            return;
        }
        let moved = |path: &Path| -> Option<PathBuf> {
            let rest = path.strip_prefix(&self.state).ok()?;
            Some(state.components().chain(rest.components()).collect())
        };
        let own = self.log.as_mut().map(|log| &mut log.path).into_iter().chain(&mut self.output);
        for path in own {
            *path = moved(path).unwrap_or_else(|| path.clone());
        }
        let own = |name: &str| [STATE_VARIABLE, OUTPUT_VARIABLE].contains(&name);
        let env = self.command.iter_mut().flat_map(|command| &mut command.env);
        for (_, value) in env.filter(|(name, _)| own(name)) {
            if let Some(path) = moved(Path::new(value)) {
                *value = path.display().to_string();
            }
        }
    }

    /// Returns the order under the key by which a worker knows it. `now` is the time on the store's
    /// clock, `clock` the same time on the clock by which the worker executes orders.
    pub(crate) fn into_order<K>(self, id: K, now: Timestamp, clock: Timestamp) -> Order<K> {
        let Self { command, tag, log, output, mut limits, until, start_by, .. } = self;
        let left = until.map(|until| Timestamp::from_nanos(until).since(now));
        limits.time = [limits.time, left].into_iter().flatten().min();
        let start_by = start_by.map(|by| clock.after(Timestamp::from_nanos(by).since(now)));
        Order { id, command, tag, log, output, limits, start_by }
    }
}

impl WishText {
    /// Returns the wish for an order, which may go on until then if it is not to end.
    pub(crate) fn of(mode: StopMode, until: Option<Timestamp>) -> Self {
        let millis = |grace: Duration| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        match mode {
            StopMode::Ask { grace } => WishText::Ask { grace_ms: millis(grace) },
            StopMode::Finish { grace } => WishText::Finish { grace_ms: millis(grace) },
            StopMode::Kill => WishText::Kill,
            StopMode::Halt => WishText::Halt,
            StopMode::Continue => WishText::limit(until),
        }
    }

    /// Returns the wish for an order that may go on until then.
    pub(crate) fn limit(until: Option<Timestamp>) -> Self {
        WishText::Limit { until: until.map(Timestamp::as_nanos) }
    }
}

impl ReportText {
    /// Returns what a worker reports; nothing for what concerns only the worker.
    pub(crate) fn of<K>(report: Report<K>, now: Timestamp) -> Option<(K, Self)> {
        let (id, end) = match report {
            Report::Ended { id, ended } => (id, EndText::Ended(ended)),
            Report::Checked { id, end } => (id, EndText::Checked(end)),
            Report::Late(id) => (id, EndText::Late),
            Report::Lost { id, why } => (id, EndText::Lost(why)),
            Report::NoRoom(_) => return None,
        };
        Some((id, Self { at: now.as_nanos(), end }))
    }

    /// Returns the report as a run takes it in.
    pub(crate) fn into_report(self, id: OrderId) -> Report {
        match self.end {
            EndText::Ended(ended) => Report::Ended { id, ended },
            EndText::Checked(end) => Report::Checked { id, end },
            EndText::Late => Report::Late(id),
            EndText::Lost(why) => Report::Lost { id, why },
        }
    }
}

/// Returns what an order takes of its worker: a slot, if another version has written it.
pub(crate) fn takes_of(order: &StoredOrder) -> BTreeMap<String, u64> {
    #[derive(Deserialize)]
    struct Takes {
        #[serde(default)]
        takes: BTreeMap<String, u64>,
    }
    let takes = serde_json::from_str(&order.text).map(|Takes { takes }| takes).unwrap_or_default();
    match takes.is_empty() {
        true => BTreeMap::from([(SLOTS.to_owned(), Amount::from(1).steps())]),
        false => takes,
    }
}

/// Returns a text for the store.
pub(crate) fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it has only texts and numbers")
}

/// How the keys of commands begin.
pub(crate) const COMMANDS: &str = "command ";

/// Returns the key of an order in its run.
pub(crate) fn key(id: OrderId) -> String {
    match id {
        OrderId::Command(Grant { work, attempt }) => format!("command {work} {attempt}"),
        OrderId::Finally(Grant { work, attempt }) => format!("finally {work} {attempt}"),
        OrderId::Check { work, round } => format!("check {work} {round}"),
        OrderId::Hook(call) => format!("hook {call}"),
    }
}

/// Returns the order that a key names; none if another version wrote it.
pub(crate) fn id_of(key: &str) -> Option<OrderId> {
    let mut words = key.split(' ');
    let kind = words.next()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (first, second) = (number()?, number());
    let narrow = |number: u64| u32::try_from(number).ok();
    let work = || WorkId::new(first);
    let grant = || Some(Grant { work: work()?, attempt: narrow(second?)? });
    Some(match kind {
        "command" => OrderId::Command(grant()?),
        "finally" => OrderId::Finally(grant()?),
        "check" => OrderId::Check { work: work()?, round: second? },
        "hook" => OrderId::Hook(narrow(first)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_paths_of_its_own() {
        let env = [(STATE_VARIABLE, "/far"), (OUTPUT_VARIABLE, "/far/runs/1/a.out"), ("A", "/far")];
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let command = CommandSpec {
            program: "/far/program".to_owned(),
            arguments: Vec::new(),
            env: env.map(own).to_vec(),
            dir: "/far".into(),
        };
        let span = Duration::ZERO;
        let order = Order {
            id: OrderId::Hook(1),
            command: Ok(command),
            tag: String::new(),
            log: Some(LogSpec::new("/far/runs/1/a.log".into(), 1)),
            output: Some("/far/runs/1/a.out".into()),
            limits: Limits { time: None, linger: span, grace: span },
            start_by: None,
        };
        let mut text =
            OrderText::new(order, OrderTimes::default(), Holdings::default(), Path::new("/far"));
        text.move_to(Path::new("/near"));
        let order = text.into_order((), Timestamp::ZERO, Timestamp::ZERO);
        assert_eq!(order.log.expect("it has one").path, Path::new("/near/runs/1/a.log"));
        assert_eq!(order.output, Some("/near/runs/1/a.out".into()));
        let command = order.command.expect("it is known");
        let moved =
            [(STATE_VARIABLE, "/near"), (OUTPUT_VARIABLE, "/near/runs/1/a.out"), ("A", "/far")];
        assert_eq!(command.env, moved.map(own), "what else there is stays");
        assert_eq!((command.program.as_str(), command.dir), ("/far/program", "/far".into()));
    }

    #[test]
    fn a_key_names_its_order() {
        let work = WorkId::from_index(7);
        let grant = Grant { work, attempt: 3 };
        let round = u64::MAX;
        let ids = [
            OrderId::Command(grant),
            OrderId::Finally(grant),
            OrderId::Check { work, round },
            OrderId::Hook(2),
        ];
        for id in ids {
            assert_eq!(id_of(&key(id)), Some(id));
        }
        for unknown in ["", "command", "command 1", "command x 1", "dance 1 2"] {
            assert_eq!(id_of(unknown), None, "{unknown}");
        }
    }
}
