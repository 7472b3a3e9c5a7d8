//! One pass through a step: its command, what it has to ensure, and what follows in any case.
//!
//! The slot and the resources of a step are held while its command runs; its locks and slots of
//! semaphores until the end of the pass. `finally` follows the last attempt, and an interrupt, but
//! no attempt that another one follows.

use std::time::Instant;

use windlass_core::{
    Ending, Grant, Input, Outcome, Phase, StopReason, Timestamp, Transition, WorkId, WorkState,
};
use windlass_store::{
    AttemptEnd, AttemptRecord, GuardWait, HolderId, Name, StoreError, Token, Transaction,
};
use windlass_workflow::{OnFailure, Retry};

use super::condition::{Conclusion, Condition, Orders, Side};
use super::ending::{GRACE, cannot_end, joined};
use super::leader::{Leader, Start};
use super::requests::Wish;
use super::{Coordinator, News, RunError};
use crate::clock::millis;
use crate::ended::{Ended, Exit};
use crate::guard::Verdict;
use crate::processes::Job;
use crate::schedule::TOO_LATE;

/// How processes end that somebody else wants gone.
const KILLED: Exit = Exit::Signal(9);
/// How names are lost.
pub(super) const PAUSED: &str = "as after a pause of windlass or of the machine";

/// A pass that is under way.
pub(super) struct Running {
    pub(super) start: Start,
    pub(super) stage: Stage,
    /// It was not asked to end, and is killed then.
    kill_at: Option<Instant>,
    began: Timestamp,
    /// How its command ended.
    ended: Option<Ended>,
    outcome: Outcome,
    why: Option<String>,
    /// What it left running that had to be ended. Changes nothing about the outcome.
    note: Option<String>,
}

/// How far a pass has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its command runs.
    Command,
    /// What it has to ensure is checked.
    Ensuring,
    /// What follows in any case runs; then the attempt ends.
    Finally,
    /// The same for a step whose last attempt has ended before.
    CleanUp,
}

/// What is stored beside the facts.
pub(super) enum Record {
    /// An attempt has ended, and the names that it held are free.
    Attempt { record: AttemptRecord, holder: HolderId, names: Vec<(Name, Token)> },
    /// A step waits for a guard.
    Wait(GuardWait),
    /// A step waits for no guard any more.
    WaitOver(WorkId),
    /// An event.
    Emit(String),
    /// A request was carried out.
    Taken(u64),
    /// The run has not ended after all.
    GoesOn,
}

impl Record {
    /// Whether nobody but the run itself has to do with it.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Record::Attempt { names, .. } if names.is_empty())
    }

    /// How an attempt went, if it is that.
    pub(super) fn attempt(&self) -> Option<&AttemptRecord> {
        match self {
            Record::Attempt { record, .. } => Some(record),
            _ => None,
        }
    }

    pub(super) fn store(
        &self,
        transaction: &Transaction<'_>,
        leader: &Leader,
    ) -> Result<(), StoreError> {
        let run = &leader.run.id;
        match self {
            Record::Attempt { record, holder, names } => {
                for (name, token) in names {
                    transaction.leases().release(name, holder, *token)?;
                }
                transaction.steps().put_attempt(run, record)
            }
            Record::Wait(wait) => transaction.steps().put_guard_wait(run, wait),
            Record::WaitOver(work) => transaction.steps().delete_guard_wait(run, *work),
            Record::Emit(event) => transaction.events().emit(event).map(drop),
            Record::Taken(number) => transaction.requests().take(*number).map(drop),
            Record::GoesOn => transaction.runs().set_end(run, None),
        }
    }
}

impl Running {
    pub(super) fn new(start: Start, began: Timestamp) -> Self {
        Self {
            start,
            stage: Stage::Command,
            kill_at: None,
            began,
            ended: None,
            outcome: Outcome::Interrupted,
            why: None,
            note: None,
        }
    }

    /// A pass whose command ended while another process led the run, as that has stored it.
    pub(super) fn remembered(start: Start, record: &AttemptRecord, retry: &Retry) -> Self {
        let exit = match (record.code, record.signal) {
            (Some(code), _) => Some(Exit::Code(code)),
            (None, signal) => signal.map(Exit::Signal),
        };
        let outcome = match exit {
            Some(exit) if record.why.is_none() || !exit.is_success() => {
                outcome(&exit.into(), retry, false)
            }
            _ => Outcome::Failed,
        };
        let began = Timestamp::from_millis(record.started_ms.unsigned_abs());
        let ended = exit.map(Ended::from);
        let why = record.why.clone();
        Self { stage: Stage::Finally, ended, outcome, why, ..Self::new(start, began) }
    }

    pub(super) fn kill_at(&self) -> Option<Instant> {
        self.kill_at
    }

    fn record(&self, step: &str, now: Timestamp, end: AttemptEnd) -> AttemptRecord {
        let (code, signal) = match self.ended.as_ref().map(|ended| ended.exit) {
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let usage = self.ended.as_ref().map(|ended| ended.usage);
        let Grant { work, attempt } = self.start.grant;
        AttemptRecord {
            work,
            attempt,
            step: step.to_owned(),
            started_ms: millis(self.began),
            ended_ms: millis(now),
            end,
            code,
            signal,
            why: self.why.clone(),
            peak_kib: usage.and_then(|usage| usage.peak_memory).map(|bytes| bytes / 1024),
            cpu_ms: usage.map(|usage| u64::try_from(usage.cpu.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl Coordinator {
    /// Takes one piece of news in.
    pub(super) fn apply(&mut self, news: News) {
        match news {
            News::Exited { job: Job::Work(work), ended } => self.exited(work, &ended),
            News::Exited { job: Job::Hook(hook), ended } => self.hook_ended(hook, &ended),
            News::Concluded(work, side, conclusion) => self.concluded(work, side, conclusion),
            News::Request(wish) => self.grant_wish(wish),
            News::Checked { .. } | News::Signal(_) | News::Rang => {
                unreachable!("those are taken in before")
            }
        }
    }

    /// How a process has ended: whoever takes a name over from us kills it first, and that is said then.
    pub(super) fn unless_lost(&mut self, job: Job, mut ended: Ended) -> Result<Ended, RunError> {
        let killed = ended.exit == KILLED && ended.flaw.is_none();
        let lost = if killed { self.lost_name(job)? } else { None };
        ended.flaw =
            lost.map(|name| format!("{name} was lost while it ran, {PAUSED}")).or(ended.flaw);
        Ok(ended)
    }

    /// A name that an attempt holds no longer.
    pub(super) fn lost_name(&mut self, job: Job) -> Result<Option<Name>, RunError> {
        let Self { store, running, .. } = self;
        let Job::Work(work) = job else { return Ok(None) };
        for (name, token) in &running[&work].start.names {
            let (held, _) =
                store.transact_leases(|transaction| transaction.leases().check(name, *token))?;
            if !held.is_yes() {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    /// A process of the step has ended.
    fn exited(&mut self, work: WorkId, ended: &Ended) {
        let running = self.running.get_mut(&work).expect("it runs");
        running.kill_at = None;
        match running.stage {
            Stage::Command => {
                running.ended = Some(ended.clone());
                running.note = ended.note();
                self.command_over(work, ended);
            }
            Stage::Ensuring => unreachable!("nothing of it runs"),
            Stage::Finally => self.finally_over(work, ended),
            Stage::CleanUp => {
                self.uncleaned.remove(&work);
                self.running.remove(&work);
            }
        }
    }

    /// The command of the step has ended: it has to be ensured, or that was it.
    fn command_over(&mut self, work: WorkId, ended: &Ended) {
        let grant = self.latest(work);
        let step = self.schedule.step(work);
        let asked = matches!(self.schedule.engine().phase(work), Some(Phase::Cancelling { .. }));
        let stopping = self.stop.is_some();
        if ended.is_success() && !step.ensures.is_empty() && !asked && !stopping {
            let orders = self.condition_orders(grant, Side::After);
            self.let_go(work);
            self.running.get_mut(&work).expect("it runs").stage = Stage::Ensuring;
            self.conditions.begin(work, Side::After, orders, self.schedule.now());
            return;
        }
        let outcome = outcome(ended, &step.retry, stopping);
        self.settle(work, outcome, ended.why());
    }

    /// How the attempt ends is decided, unless the engine knows better; what follows in any case
    /// comes first.
    fn settle(&mut self, work: WorkId, outcome: Outcome, why: Option<String>) {
        let running = self.running.get_mut(&work).expect("it runs");
        running.outcome = outcome;
        running.why = running.why.take().or(why);
        let ending = self.schedule.engine().ending(running.start.grant, outcome);
        let last = match ending.expect("it is under way") {
            Ending::Retry { .. } => false,
            Ending::Interrupted => self.stop.is_some(),
            _ => true,
        };
        let step = self.schedule.step(work);
        if !last || step.finally.is_none() {
            return self.complete(work);
        }
        running.stage = Stage::Finally;
        let record = running.record(&step.name, self.schedule.now(), AttemptEnd::Finishing);
        let holder = self.leader.holder_of(running.start.grant);
        self.records.push(Record::Attempt { record, holder, names: Vec::new() });
        self.let_go(work);
        self.due_finally.push(work);
    }

    /// What follows in any case has run: the attempt ends.
    fn finally_over(&mut self, work: WorkId, ended: &Ended) {
        self.uncleaned.remove(&work);
        let running = self.running.get_mut(&work).expect("it runs");
        if let Some(why) = ended.why().filter(|_| running.outcome == Outcome::Success) {
            running.outcome = Outcome::Failed;
            running.why = Some(format!("finally: {why}"));
        }
        let note = ended.note().map(|note| format!("finally: {note}"));
        running.note = joined([running.note.take(), note]);
        self.complete(work);
    }

    /// The attempt ends: the engine hears of it, and what it held is free.
    fn complete(&mut self, work: WorkId) {
        let mut running = self.running.remove(&work).expect("it runs");
        let (grant, outcome) = (running.start.grant, running.outcome);
        let ending = self.schedule.engine().ending(grant, outcome).expect("it is under way");
        running.why = self.why_asked(work).or(running.why);
        if ending == Ending::Interrupted {
            running.why = Some("interrupted".to_owned());
        }
        running.why = joined([running.why, running.note.take()]);
        self.items.give_back(work);
        let step = self.schedule.step(work).name.clone();
        let end = match ending {
            Ending::Success => AttemptEnd::Success,
            Ending::Retry { .. } => AttemptEnd::Retry,
            Ending::Cancelled => AttemptEnd::Cancelled,
            Ending::Interrupted => AttemptEnd::Interrupted,
            _ => AttemptEnd::Failed,
        };
        let record = running.record(&step, self.schedule.now(), end);
        self.schedule.apply(Input::Finished { grant, outcome }).expect("an attempt ends once");
        self.whys.extend(running.why.map(|why| ((work, grant.attempt), why)));
        let (holder, names) = (self.leader.holder_of(grant), running.start.names);
        self.records.push(Record::Attempt { record, holder, names });
    }

    /// Why the attempt was asked to end, if it was.
    fn why_asked(&self, work: WorkId) -> Option<String> {
        let Some(Phase::Cancelling { why, .. }) = self.schedule.engine().phase(work) else {
            return None;
        };
        Some(match (why, self.schedule.step(work).timeout) {
            (StopReason::Timeout, Some(timeout)) => format!("timed out after {timeout:?}"),
            (StopReason::Deadline, _) => TOO_LATE.to_owned(),
            _ => match self.schedule.why_stopped().filter(|_| !self.cancelled) {
                Some(why) if self.schedule.plan().on_failure == OnFailure::Cancel => {
                    format!("while it ran: {why}")
                }
                _ => "while it ran".to_owned(),
            },
        })
    }

    /// The slot and the resources of the step are free for others.
    fn let_go(&mut self, work: WorkId) {
        let grant = self.latest(work);
        self.items.give_back(work);
        self.schedule.apply(Input::Suspend(grant)).expect("it is under way");
    }

    /// The step is before its `when` and its guards.
    pub(super) fn begin_conditions(&mut self, work: WorkId) {
        let Grant { attempt, .. } = self.latest(work);
        let orders = self.condition_orders(Grant { work, attempt: attempt + 1 }, Side::Before);
        self.conditions.begin(work, Side::Before, orders, self.schedule.now());
    }

    fn condition_orders(&self, grant: Grant, side: Side) -> Orders {
        let written = |step: &str, key: &str| self.schedule.output(&self.logs, step, key);
        let orders = self.leader.orders(&self.schedule, &written);
        let step = self.schedule.step(grant.work);
        let when = step.when.as_ref().filter(|_| side == Side::Before);
        let when = when.map(|script| (Condition::When, orders.when(grant, script)));
        let guards = if side == Side::Before { &step.guards } else { &step.ensures };
        let guards =
            guards.iter().map(|&place| (Condition::Guard(place), orders.guard(grant, place)));
        when.into_iter().chain(guards).collect()
    }

    /// The conditions of the step are decided. One that has ended meanwhile does not care.
    fn concluded(&mut self, work: WorkId, side: Side, conclusion: Conclusion) {
        self.records.push(Record::WaitOver(work));
        match (side, conclusion) {
            (Side::Before, Conclusion::Passed) => {
                // It may have been cancelled a moment ago.
                let _ = self.schedule.apply(Input::Open(work));
            }
            (Side::Before, Conclusion::Skip) => {
                if self.schedule.apply(Input::Skip(work)).is_ok() {
                    self.note_why(work, "when says so".to_owned());
                }
            }
            (Side::Before, Conclusion::Failed(why)) => self.reject(work, why),
            (Side::After, conclusion) => self.ensured(work, conclusion),
        }
    }

    /// The step never begins.
    fn reject(&mut self, work: WorkId, why: String) {
        if self.schedule.apply(Input::Reject(work)).is_ok() {
            self.record_why(work, AttemptEnd::Failed, why);
        }
    }

    /// Notes why steps have ended that the run itself ends between their attempts.
    pub(super) fn explain_ends(&mut self) {
        let new = &self.schedule.transitions()[self.explained..];
        self.explained += new.len();
        let ended = |phase: Phase| {
            let idle = |change: &&Transition| change.from == Some(WorkState::Pending);
            let ended = new.iter().filter(idle).filter(|change| change.to == phase);
            ended.map(|change| change.work).collect::<Vec<_>>()
        };
        let (failed, cancelled) = (ended(Phase::Failed), ended(Phase::Cancelled));
        if !failed.is_empty() && self.schedule.is_too_late() {
            self.explain(&failed, AttemptEnd::Failed, TOO_LATE);
        }
        if !cancelled.is_empty()
            && !self.cancelled
            && let Some(why) = self.schedule.why_stopped()
        {
            self.explain(&cancelled, AttemptEnd::Cancelled, &why);
        }
    }

    /// Those have ended like that, unless another reason is known.
    fn explain(&mut self, works: &[WorkId], end: AttemptEnd, why: &str) {
        for &work in works {
            if !self.whys.contains_key(&(work, self.latest(work).attempt)) {
                self.record_why(work, end, why.to_owned());
            }
        }
    }

    /// Why a step ends between its attempts, for those who look later, too.
    fn record_why(&mut self, work: WorkId, end: AttemptEnd, why: String) {
        let (step, now) = (self.schedule.step(work), self.schedule.now());
        let grant = Grant { work, attempt: 0 };
        let mut never = Running::new(Start { grant, names: Vec::new(), broken: None }, now);
        never.why = Some(why.clone());
        let (record, holder) = (never.record(&step.name, now, end), self.leader.holder_of(grant));
        self.records.push(Record::Attempt { record, holder, names: Vec::new() });
        self.note_why(work, why);
    }

    /// Why a step ends between its attempts.
    fn note_why(&mut self, work: WorkId, why: String) {
        let Grant { attempt, .. } = self.latest(work);
        self.whys.insert((work, attempt), why);
    }

    /// What the step has to ensure is decided.
    fn ensured(&mut self, work: WorkId, conclusion: Conclusion) {
        if !self.running.get(&work).is_some_and(|running| running.stage == Stage::Ensuring) {
            return;
        }
        match conclusion {
            Conclusion::Passed | Conclusion::Skip => self.settle(work, Outcome::Success, None),
            Conclusion::Failed(why) if self.stop.is_some() => {
                self.settle(work, Outcome::Interrupted, Some(why));
            }
            Conclusion::Failed(why) => {
                let named = self.schedule.step(work).retry.on_exit.is_some();
                let again = Outcome::Retry { delay: std::time::Duration::ZERO };
                self.settle(work, if named { Outcome::Failed } else { again }, Some(why));
            }
        }
    }

    /// Somebody wants something of the run.
    fn grant_wish(&mut self, wish: Wish) {
        match wish {
            Wish::CancelAll { number } => {
                self.records.push(Record::Taken(number));
                self.cancelled = true;
                self.schedule.apply(Input::CancelAll).expect("everything can be cancelled");
            }
            Wish::Cancel { number, work } => {
                self.records.push(Record::Taken(number));
                // It may have ended meanwhile.
                let _ = self.schedule.apply(Input::Cancel(work));
            }
            Wish::Decide { number, work, verdict } => {
                self.records.push(Record::Taken(number));
                self.decide(work, verdict);
            }
            Wish::Unknown { number } => self.records.push(Record::Taken(number)),
        }
    }

    fn decide(&mut self, work: WorkId, verdict: Verdict) {
        let (now, guards) = (self.schedule.now(), &self.schedule.plan().guards);
        let told = self.conditions.decide(work, verdict, now, guards);
        let mut all = Vec::new();
        self.hear(told, &mut all);
        all.into_iter().for_each(|news| self.apply(news));
    }

    /// Asks a step to end, within its grace. What follows in any case is only given that long.
    pub(super) fn ask_to_end(&mut self, work: WorkId) -> Result<(), RunError> {
        let grace = self.schedule.step(work).grace.unwrap_or(GRACE);
        let Some(running) = self.running.get_mut(&work) else { return Ok(()) };
        match running.stage {
            Stage::Command => {
                if !self.end_waiting(Job::Work(work)) {
                    self.processes.ask_to_end(Job::Work(work), grace).map_err(cannot_end)?;
                }
            }
            Stage::Ensuring => {
                self.conditions.forget(work);
                let stopped = Conclusion::Failed("interrupted".to_owned());
                self.inbox.push(News::Concluded(work, Side::After, stopped));
            }
            Stage::Finally | Stage::CleanUp => {
                running.kill_at.get_or_insert(Instant::now() + grace);
                self.processes.ask_rest_to_end(Job::Work(work), grace).map_err(cannot_end)?;
            }
        }
        Ok(())
    }

    /// Kills what has used up its grace without having been asked.
    pub(super) fn kill_the_slow(&mut self) -> Result<(), RunError> {
        let now = Instant::now();
        let slow = |running: &mut Running| running.kill_at.take_if(|at| *at <= now).is_some();
        let running = self.running.iter_mut().filter_map(|(work, own)| slow(own).then_some(*work));
        for job in running.map(Job::Work).collect::<Vec<_>>() {
            if !self.end_waiting(job) {
                self.processes.kill(job).map_err(cannot_end)?;
            }
        }
        Ok(())
    }
}

/// What comes of an end, as far as the step says.
fn outcome(ended: &Ended, retry: &Retry, stopping: bool) -> Outcome {
    let named = |codes: &Vec<i32>| codes.contains(&ended.exit.code());
    let again = retry.count > 0 && retry.on_exit.as_ref().is_none_or(named);
    match ended.is_success() {
        true => Outcome::Success,
        false if stopping => Outcome::Interrupted,
        // The delay is what the step's policy says.
        false if again => Outcome::Retry { delay: std::time::Duration::ZERO },
        false => Outcome::Failed,
    }
}
