//! A run that a scheduler leads, and whose orders workers execute.
//!
//! Everything of one round happens in one transaction: reports and requests are taken in, the run decides,
//! and facts, records, orders and wishes are written. So an order exists exactly if the journal knows why,
//! and a report is taken in exactly once. A worker begins to execute after the commit.
//!
//! The run decides inside the transaction, so a transaction that was not committed leaves a run that
//! knows more than the store. Its scheduler drops it and reads the run again.
//!
//! The attempts of a run outlive its schedulers: their tags and the holders of their names do not depend on
//! who leads, and a new scheduler finds each attempt where the last one left it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_core::{
    ClientId, Grant, HolderId, Name, Need, Phase, ResourceCost, Timestamp, Token, WorkId,
};
use windlass_store::{
    AttemptRecord, Event, Leftover, Life, NewOrder, Process, Request, RunEnd, RunRecord,
    StepOutput, StoreError, StoredOrder, StoredQueue, Transaction,
};

use super::attempts::{Order, OrderId, Report, StopMode};
use super::identity::RunIdentity;
use super::journal::{
    Admission, Admitted, Committed, Expected, Leader, NameClaims, Request as RunRequest, items_of,
    write_records,
};
use super::requests::forget_requests;
use super::state::{Executing, RunState};
use super::{RunError, needs_names, plan_of};
use crate::attempt::remove_logs;
use crate::clock::Clock;
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::queue::{change_of, fold_changes, step_of};
use crate::schedule::{Compaction, ItemNames, LimitWait, RunHistory, Schedule, SharedCapacity};
use crate::service::placement::Placement;
use crate::service::texts::{
    EndText, Holdings, OrderText, OrderTimes, ReportText, WishText, id_of, key, to_text,
};
use crate::service::variable_of;

/// The attempts of a served run outlive every leader, so none of their names contains an epoch.
pub(crate) const NO_EPOCH: Token = Token(0);

/// Where a scheduler leads its runs.
pub(crate) struct Host {
    /// The directory of the store.
    state: PathBuf,
    /// The process that leads.
    process: Process,
    /// On whose source each run starts a clock of its own.
    clock: Clock,
    /// The capacity that all runs share.
    pub(crate) capacity: SharedCapacity,
}

impl Host {
    /// Creates a host whose runs share no capacity so far.
    pub(crate) fn new(state: &Path, process: Process, clock: Clock) -> Self {
        let capacity = SharedCapacity::new(&ResourceCost::new());
        Self { state: state.to_owned(), process, clock, capacity }
    }

    /// Returns the process that leads.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }
}

/// A run that this process schedules.
pub(crate) struct ServedRun {
    state: RunState,
    leader: Leader,
    /// The orders that were not taken in.
    orders: BTreeMap<OrderId, u64>,
    /// The orders that no worker is there for: checks, hooks, and each `finally` whose worker is gone.
    unplaced: Vec<Order>,
    /// The orders that this round has decided on and not written yet.
    decided: Vec<(OrderId, NewOrder)>,
    /// Where the latest attempt of each step began.
    placed: BTreeMap<WorkId, Life>,
    /// How many workers the store has names for that facts mean by numbers.
    named_workers: usize,
    /// The environment that every command of the run is given.
    env: BTreeMap<String, String>,
    /// Whether steps need names, which only the store can give.
    shares_names: bool,
    /// Stale holds whose processes were ended, so that the next round can take their names.
    cleared: Vec<(Name, Token)>,
    /// What dead holders of names have left running.
    leftovers: Vec<Leftover>,
    /// Whether it stays open, and commands are added to it.
    is_queue: bool,
    /// There may be logs of steps that are forgotten.
    has_old_logs: bool,
    /// It has decided nothing since it was adopted.
    is_new: bool,
}

/// Ends what dead holders have left running, and returns the names that can be taken now.
pub(crate) type EndLeftovers<'a> =
    &'a mut dyn FnMut(Vec<Leftover>) -> Result<Vec<(Name, Token)>, RunError>;

/// What a round has for one run.
#[derive(Default)]
pub(crate) struct RoundNews {
    /// Reports, with the tokens of their orders, in the order in which the orders ended.
    pub(crate) reports: Vec<(u64, OrderId, ReportText)>,
    pub(crate) requests: Vec<Request>,
    pub(crate) events: Vec<Event>,
}

/// Who claims names for a run.
#[derive(Clone, Copy)]
struct Claimant<'a> {
    /// The process that will hold them, if it is not that of the scheduler.
    process: Option<&'a Process>,
    asking: QueuePlace<'a>,
}

/// What the names and limits that a run claims in a round have in common with those of other runs.
#[derive(Clone, Copy)]
pub(crate) struct QueuePlace<'a> {
    /// What is notified when one of them may be free.
    pub(crate) wakeup: Option<&'a str>,
    /// Whose place in the queues of limits the runs have.
    pub(crate) place: &'a HolderId,
}

/// What became of a step that was to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepStart {
    /// There was none.
    Nothing,
    /// It has started, or a name has refused it.
    Plain,
    /// It has started, and holds some of a limit of the store.
    WithLimits,
}

/// What follows a round for a run.
pub(crate) enum RoundEnd {
    /// Nothing.
    Done,
    /// Other steps may start, and then the round ends again.
    MayStart,
    /// The run has ended like that, and is over for this object.
    Over(RunEnd),
}

impl ServedRun {
    /// Takes the lead of a submitted run, where the last scheduler left it.
    pub(crate) fn adopt(
        transaction: &Transaction<'_>,
        run: RunRecord,
        host: &Host,
    ) -> Result<Result<Self, RunError>, StoreError> {
        let plan = match plan_of(&run) {
            Ok(plan) => plan,
            Err(error) => return Ok(Err(error)),
        };
        let identity = RunIdentity::new(&run.id, &run.dir, &host.state, NO_EPOCH);
        let env = run.env.clone().unwrap_or_default();
        // A scheduler that was suspended keeps the leads of its runs alive when it goes on, though it can
        // write nothing any more.
        Leader::depose(transaction, &run.id)?;
        let process = host.process.clone();
        let taken = Leader::take_over(transaction, run, &plan, Expected::Open, process)?;
        let (leader, _) = match taken {
            Ok(taken) => taken,
            Err(error) => return Ok(Err(error)),
        };
        let mut schedule = Schedule::sharing(plan, host.clock.start_again(), &host.capacity);
        let mut history = RunHistory::read(transaction, identity.id())?;
        let is_new = history.is_new();
        let mut edited = Vec::new();
        match is_new {
            true => schedule.submit_all(),
            false => {
                edited = history.replay(&mut schedule);
                let named = |work: &WorkId| needs_names(schedule.step(*work));
                let named: Vec<_> = schedule.works().filter(named).collect();
                schedule.expect_queued(named.into_iter());
            }
        }
        let mut served = Self {
            is_queue: schedule.stays_open(),
            has_old_logs: schedule.stays_open(),
            state: RunState::new(schedule, identity),
            leader,
            orders: BTreeMap::new(),
            unplaced: Vec::new(),
            decided: Vec::new(),
            placed: BTreeMap::new(),
            named_workers: 0,
            env,
            shares_names: false,
            cleared: Vec::new(),
            leftovers: Vec::new(),
            is_new: true,
        };
        for StepOutput { work, attempt, text } in transaction.steps().outputs(served.id())? {
            let values = serde_json::from_str(&text).unwrap_or_default();
            served.state.schedule_mut().note_outputs(Grant { work, attempt }, values);
        }
        let attempts = transaction.steps().attempts(served.id())?;
        served.state.count_lost(&attempts);
        served.note_names();
        served.named_workers = served.state.schedule().worker_names().len();
        if !is_new {
            served.requeue(transaction, &edited)?;
            served.pick_up(transaction, &attempts)?;
        }
        Ok(Ok(served))
    }

    /// Notes whether steps need names.
    fn note_names(&mut self) {
        let schedule = self.state.schedule();
        self.shares_names = schedule.works().any(|work| needs_names(schedule.step(work)));
    }

    /// Takes the commands that were added since the last round.
    fn take_added(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        if !self.is_queue {
            return Ok(());
        }
        let taken = self.state.schedule().taken();
        for stored in transaction.queues().steps_after(self.id(), taken)? {
            let (work, step) = step_of(&stored)?;
            self.shares_names |= needs_names(&step);
            self.state.schedule_mut().add(work, step);
        }
        self.take_changes(transaction)
    }

    /// Changes steps that have not begun, as users have asked since the last round.
    fn take_changes(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let known = self.state.schedule().last_change();
        let stored = transaction.queues().changes_after(self.id(), known)?;
        if stored.is_empty() {
            return Ok(());
        }
        let changes = stored.iter().map(change_of).collect::<Result<_, _>>()?;
        self.state.schedule_mut().expect_changes(changes);
        let edited = self.state.schedule_mut().take_changes();
        self.requeue(transaction, &edited)
    }

    /// Gives up the places of edited steps in the queues of names. They join those of the names that they need
    /// now.
    fn requeue(
        &mut self,
        transaction: &Transaction<'_>,
        edited: &[WorkId],
    ) -> Result<(), StoreError> {
        for &work in edited {
            self.shares_names |= needs_names(self.state.schedule().step(work));
            let grant = Grant { work, attempt: 1 };
            transaction.leases().leave_queue(&self.state.identity().holder(grant))?;
        }
        Ok(())
    }

    /// Finds the attempts of the run where they are: under way at workers, or between two orders.
    fn pick_up(
        &mut self,
        transaction: &Transaction<'_>,
        attempts: &[AttemptRecord],
    ) -> Result<(), StoreError> {
        let run = self.state.identity().id().to_owned();
        self.state.note_decisions(&transaction.steps().decisions(&run)?);
        let mut executing = Executing::default();
        for order in transaction.orders().of_run(&run)? {
            let Some(id) = id_of(&order.key) else { continue };
            self.orders.insert(id, order.token);
            id.work().map(|work| self.placed.insert(work, order.life.clone()));
            let (items, of_worker) = own_items(&order);
            if let Some(work) = id.work() {
                let worker = &order.life.worker;
                self.state.schedule_mut().take_worker_items_again(work, worker, of_worker);
            }
            executing.orders.insert(id, items);
            if let OrderId::Check { .. } = id {
                // Its condition is checked again, with a number of its own.
                transaction.orders().wish(order.token, &to_text(&WishText::Kill))?;
            }
        }
        let held = transaction.leases().held()?;
        for (holder, name, token) in held {
            if let Some(grant) = self.state.identity().grant_of(&holder) {
                executing.names.entry(grant).or_default().push((name, token));
            }
        }
        for (grant, names) in &executing.names {
            executing.items.insert(*grant, items_of(transaction, names)?);
        }
        self.state.take_over(attempts, &executing);
        Ok(())
    }

    pub(crate) fn id(&self) -> &str {
        self.state.identity().id()
    }

    pub(crate) fn priority(&self) -> i16 {
        self.state.schedule().plan().priority
    }

    pub(crate) fn client(&self) -> ClientId {
        self.state.schedule().client()
    }

    /// Returns when there is something to decide though nothing happens.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let schedule = self.state.schedule();
        let of_queue = [schedule.next_forgetting(), schedule.next_opening()];
        self.state.next_due().into_iter().chain(of_queue.into_iter().flatten()).min()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.state.schedule().now()
    }

    /// Returns whether the run waits for names or events, which other processes may bring.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.state.waits_for_others() || !self.cleared.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn digest(&self) -> u64 {
        self.state.schedule().engine().digest()
    }

    /// Returns whether it has something to decide though nothing has happened: it was adopted just now, or
    /// names can be taken that dead holders had.
    pub(crate) fn wants_round(&self) -> bool {
        self.is_new || !self.cleared.is_empty()
    }

    /// Returns whether nothing of a run that stays open is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_queue && self.state.schedule().engine().is_done()
    }

    /// Returns whether commands were added to the queue that the run is, or changed, that it has not taken.
    pub(crate) fn lags_behind(&self, queue: &StoredQueue) -> bool {
        let schedule = self.state.schedule();
        schedule.taken() < queue.added || schedule.last_change() < queue.changed
    }

    pub(crate) fn heeds_events(&self) -> bool {
        self.state.heeds_events()
    }

    /// Takes in what has happened, before it is decided what starts.
    pub(crate) fn begin_round(
        &mut self,
        transaction: &Transaction<'_>,
        news: RoundNews,
        placement: &Placement,
    ) -> Result<(), StoreError> {
        self.is_new = false;
        self.take_in(transaction, news, placement)?;
        self.keep_names(transaction, placement)?;
        self.place_rest(transaction, placement)?;
        self.give_back_names(transaction)
    }

    /// Searches again for a step that may start: there may be room in the capacity that the run shares.
    pub(crate) fn search_again(&mut self) {
        self.state.schedule_mut().search_again();
    }

    /// Searches again for a step that lacked room at workers, which may have some now.
    pub(crate) fn search_placement(&mut self) {
        self.state.schedule_mut().search_placement();
    }

    /// Returns the limits of the store that its steps use.
    pub(crate) fn limits(&self) -> BTreeSet<String> {
        self.state.schedule().limits()
    }

    /// Returns whether its steps use limits of the store.
    pub(crate) fn uses_limits(&self) -> bool {
        self.state.schedule().uses_limits()
    }

    /// Returns the first step that nothing but limits of the store refuse, and notes whether there is one.
    pub(crate) fn limit_wait(&mut self) -> Option<LimitWait> {
        let is_open = self.uses_limits() && self.is_open();
        let wait = if is_open { self.state.schedule().limit_wait() } else { None };
        self.state.schedule_mut().set_waits_for_limits(wait.is_some());
        wait
    }

    /// Starts the first step that fits, if its names are free, at the worker that core has chosen. Returns what
    /// became of it; others may follow.
    pub(crate) fn start_next(
        &mut self,
        transaction: &Transaction<'_>,
        placement: &Placement,
        asking: QueuePlace<'_>,
    ) -> Result<StepStart, StoreError> {
        if !self.is_open() {
            return Ok(StepStart::Nothing);
        }
        let Some(grant) = self.state.schedule_mut().take_next() else {
            return Ok(StepStart::Nothing);
        };
        let worker = self.state.schedule().placed_at(grant.work).expect("it starts at a worker");
        let (life, process) = placement.of(&worker).expect("core knows the same workers");
        // The names of an attempt belong to the life that executes it.
        let claimant = Claimant { process: Some(process), asking };
        let admit = |claims: &mut NameClaims<'_>, schedule: &mut Schedule| {
            claims.admit_one(schedule, grant)
        };
        let admitted = self.with_claims(transaction, claimant, admit)?;
        let mut committed = Committed::default();
        let mut started = StepStart::Plain;
        match admitted {
            Admitted::Held(start) => {
                if start.has_limits() {
                    started = StepStart::WithLimits;
                }
                let schedule = self.state.schedule_mut();
                schedule.begin(grant).expect("it was granted just now");
                schedule.take_worker_items(grant.work, &worker, &placement.items(&worker));
                self.placed.insert(grant.work, life.clone());
                committed.starts.push(start);
            }
            Admitted::Refused(why) => committed.refusals.push((grant.work, why)),
        }
        for start in self.state.on_committed(committed) {
            let left = self.state.schedule().time_left(start.grant.work);
            let order = self.state.begin_attempt(start);
            self.place_order(transaction, order, left, placement)?;
        }
        Ok(started)
    }

    /// Writes everything that follows from what was decided.
    pub(crate) fn end_round(
        &mut self,
        transaction: &Transaction<'_>,
        placement: &Placement,
        asking: QueuePlace<'_>,
    ) -> Result<RoundEnd, StoreError> {
        self.state.publish(&mut |_| {});
        let mut orders = self.state.take_orders();
        orders.extend(self.state.take_due_orders());
        if self.state.begin_closing() {
            orders.extend(self.state.take_due_orders());
        }
        for order in orders {
            self.place_order(transaction, order, None, placement)?;
        }
        self.write_orders(transaction)?;
        for (id, mode) in self.state.take_stops() {
            self.wish(transaction, id, mode)?;
        }
        if self.state.has_decisions() || self.state.has_records() {
            self.state.on_tick();
            self.state.on_all_taken_in();
            self.give_back_names(transaction)?;
            for needs in self.refused_needs() {
                self.wake_refused(transaction, &needs, asking)?;
            }
            return Ok(RoundEnd::MayStart);
        }
        self.forget_old();
        self.append(transaction)?;
        self.compact(transaction)?;
        Ok(self.end(transaction)?.map_or(RoundEnd::Done, RoundEnd::Over))
    }

    fn take_in(
        &mut self,
        transaction: &Transaction<'_>,
        news: RoundNews,
        placement: &Placement,
    ) -> Result<(), StoreError> {
        let now = transaction.now().at;
        // First of all: a step that was changed in time is not blocked by what is reported with the change.
        let first = news.reports.iter().map(|(_, _, report)| report.at).min();
        let ago = first.map_or(Duration::ZERO, |at| now.since(Timestamp::from_nanos(at)));
        self.state.go_back(ago);
        self.take_added(transaction)?;
        for (token, id, mut report) in news.reports {
            let known = self.orders.get(&id) == Some(&token);
            assert!(known, "an order is taken in once, by the run that wrote it");
            self.orders.remove(&id);
            self.state.go_back(now.since(Timestamp::from_nanos(report.at)));
            self.state.on_tick();
            self.keep_outputs(transaction, id, &mut report.end)?;
            let report = self.heeded(report.into_report(id), placement);
            let lost = match self.state.names_in_doubt(&report) {
                [] => None,
                names => lost_name(transaction, names)?,
            };
            self.state.on_report(report, lost);
        }
        self.state.go_on();
        self.state.on_tick();
        self.state.schedule_mut().open_due();
        self.state.on_events(&news.events);
        let was_paused = self.is_paused();
        let mut decided = false;
        for Request { number, text, .. } in news.requests {
            let request = RunRequest { number, text };
            decided |= request.is_decision();
            self.state.on_request(&request);
        }
        if decided {
            self.state.on_decisions(&transaction.steps().decisions(self.id())?);
        }
        self.state.on_all_taken_in();
        if self.is_paused() != was_paused {
            self.move_deadlines(transaction)?;
        }
        Ok(())
    }

    /// Returns a report as it counts: a command that was not started in time is repeated where its step has
    /// room. If that worker is gone, the attempt is lost, and the next one starts where it fits.
    fn heeded(&self, report: Report, placement: &Placement) -> Report {
        let has_room = |grant: Grant| {
            self.placed.get(&grant.work).is_some_and(|life| placement.find(life).is_some())
        };
        match report {
            Report::Late(id @ OrderId::Command(grant)) if !has_room(grant) => {
                Report::Lost { id, why: "its worker was gone before it was started".to_owned() }
            }
            report => report,
        }
    }

    /// Stores what an attempt has handed on: the next scheduler may be on another machine.
    fn keep_outputs(
        &mut self,
        transaction: &Transaction<'_>,
        id: OrderId,
        end: &mut EndText,
    ) -> Result<(), StoreError> {
        let (OrderId::Command(grant), EndText::Ended(ended)) = (id, end) else { return Ok(()) };
        // No step can refer to another one of a queue.
        let Some(values) = ended.outputs.take().filter(|_| !self.is_queue) else { return Ok(()) };
        let Grant { work, attempt } = grant;
        let output = StepOutput { work, attempt, text: to_text(&values) };
        transaction.steps().put_output(self.id(), &output)?;
        self.state.schedule_mut().note_outputs(grant, values);
        Ok(())
    }

    fn is_paused(&self) -> bool {
        self.state.schedule().engine().all_paused_since().is_some()
    }

    /// Tells the workers until when the attempts under way may run: the deadline of a paused run stands
    /// still.
    fn move_deadlines(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let schedule = self.state.schedule();
        for (id, token) in schedule.plan().deadline.iter().flat_map(|_| &self.orders) {
            let OrderId::Command(Grant { work, .. }) = *id else { continue };
            if schedule.engine().phase(work) == Some(Phase::Running) {
                let left = schedule.attempt_left(work);
                let until = left.map(|left| transaction.now().at.after(left));
                transaction.orders().wish(*token, &to_text(&WishText::limit(until)))?;
            }
        }
        Ok(())
    }

    /// Returns whether steps may start.
    fn is_open(&self) -> bool {
        self.state.admission() == Admission::Open
    }

    /// Stores how attempts have ended, and gives back what they and ended steps have of names.
    fn give_back_names(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        self.write_records(transaction)?;
        self.leave_queues(transaction)
    }

    /// Returns what steps need that a name has refused and that may start, each combination once.
    pub(crate) fn refused_needs(&self) -> Vec<Vec<Need>> {
        if self.is_open() { self.state.schedule().refused_needs() } else { Vec::new() }
    }

    /// Wakes the steps that need this, that a name has refused, and that may have it now. `wakeup` is notified
    /// when another one may be free.
    pub(crate) fn wake_refused(
        &mut self,
        transaction: &Transaction<'_>,
        needs: &[Need],
        asking: QueuePlace<'_>,
    ) -> Result<(), StoreError> {
        let claimant = Claimant { process: None, asking };
        self.with_claims(transaction, claimant, |claims, schedule| {
            claims.wake_refused_by(schedule, needs)
        })
    }

    /// Calls `act` with what claims names for the run.
    fn with_claims<T>(
        &mut self,
        transaction: &Transaction<'_>,
        claimant: Claimant<'_>,
        act: impl FnOnce(&mut NameClaims<'_>, &mut Schedule) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let identity = self.state.identity().clone();
        let (own, Claimant { process, asking }) = (self.leader.process(), claimant);
        let QueuePlace { wakeup, place } = asking;
        let claims = NameClaims::new(transaction, &identity, own, place, &self.cleared, wakeup);
        let mut claims = claims.silent();
        claims.process = process.unwrap_or(own);
        let result = act(&mut claims, self.state.schedule_mut());
        self.leftovers.append(&mut claims.leftovers);
        result
    }

    /// Decides which life executes an order, which may run for the time that is `left`.
    fn place_order(
        &mut self,
        transaction: &Transaction<'_>,
        mut order: Order,
        left: Option<Duration>,
        placement: &Placement,
    ) -> Result<(), StoreError> {
        let placed = order.id.work().and_then(|work| self.placed.get(&work));
        let Some((life, process)) = placement.at(placed) else {
            self.unplaced.push(order);
            return Ok(());
        };
        if placed != Some(life) {
            match order.id {
                OrderId::Command(_) => {
                    unreachable!("a command is executed where core has found room")
                }
                OrderId::Finally(grant) => {
                    if self.hand_over_names(transaction, grant, process)?.is_some() {
                        order = self.state.finally_without_names(grant);
                    }
                    self.placed.insert(grant.work, life.clone());
                }
                OrderId::Check { .. } | OrderId::Hook(_) => {}
            }
        }
        let (id, now) = (order.id, transaction.now().at);
        let since = self.now();
        let start_by = order.start_by.map(|by| now.after(by.since(since)));
        let times = OrderTimes { until: left.map(|left| now.after(left)), start_by };
        if let Ok(command) = &mut order.command {
            let own = |name: &String| command.env.iter().any(|(set, _)| set == name);
            let taken: Vec<_> = self.env.iter().filter(|(name, _)| !own(name)).collect();
            let taken: Vec<_> = taken.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            command.env.splice(0..0, taken);
        }
        let has = id.work().map(|work| self.holdings(work)).unwrap_or_default();
        if let Ok(command) = &mut order.command {
            let items = has.worker_items.iter();
            command.env.extend(items.map(|(name, items)| (variable_of(name), items.join(","))));
        }
        let text = OrderText::new(order, times, has, self.state.identity().state());
        let order = NewOrder { key: key(id), life: life.clone(), text: to_text(&text) };
        self.decided.push((id, order));
        Ok(())
    }

    /// Returns what the attempt of a step has, for the text of its order.
    fn holdings(&self, work: WorkId) -> Holdings {
        let schedule = self.state.schedule();
        Holdings {
            items: self.state.items(work),
            takes: schedule.takes_of_worker(work),
            worker_items: schedule.worker_items(work),
        }
    }

    /// Writes the orders that were decided on.
    fn write_orders(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let (ids, orders): (Vec<_>, Vec<_>) = std::mem::take(&mut self.decided).into_iter().unzip();
        if !orders.is_empty() {
            let tokens = transaction.orders().write(self.id(), &orders)?;
            self.orders.extend(ids.into_iter().zip(tokens));
        }
        Ok(())
    }

    /// Has a life that is there hold the names of attempts of which nothing runs now, but whose `finally` or
    /// `ensure` follows, if the life that has executed their commands is gone.
    fn keep_names(
        &mut self,
        transaction: &Transaction<'_>,
        placement: &Placement,
    ) -> Result<(), StoreError> {
        if !self.shares_names || !placement.has_workers() {
            return Ok(());
        }
        for grant in self.state.attempts_with_names() {
            let placed = self.placed.get(&grant.work);
            let (life, process) = placement.at(placed).expect("there are workers");
            if placed == Some(life) || self.orders.contains_key(&OrderId::Finally(grant)) {
                continue;
            }
            let lost = self.hand_over_names(transaction, grant, process)?;
            lost.into_iter().for_each(|_| self.state.forget_names(grant.work));
            self.placed.insert(grant.work, life.clone());
        }
        Ok(())
    }

    /// Has `process` hold the names of an attempt in the place of another one. Returns a name that the step
    /// has lost, if it has; then it has given back the others.
    fn hand_over_names(
        &self,
        transaction: &Transaction<'_>,
        grant: Grant,
        process: &Process,
    ) -> Result<Option<Name>, StoreError> {
        let holder = self.state.identity().holder(grant);
        let names = self.state.names(grant.work);
        let mut lost = None;
        for (name, token) in names {
            if !transaction.leases().hand_over(name, &holder, *token, process)? {
                lost = Some(name.clone());
            }
        }
        for (name, token) in names.iter().filter(|_| lost.is_some()) {
            transaction.leases().release(name, &holder, *token)?;
        }
        Ok(lost)
    }

    /// Writes the orders for which no worker was there.
    fn place_rest(
        &mut self,
        transaction: &Transaction<'_>,
        placement: &Placement,
    ) -> Result<(), StoreError> {
        if !placement.has_workers() {
            return Ok(());
        }
        let unplaced = std::mem::take(&mut self.unplaced);
        unplaced
            .into_iter()
            .try_for_each(|order| self.place_order(transaction, order, None, placement))
    }

    fn wish(
        &self,
        transaction: &Transaction<'_>,
        id: OrderId,
        mode: StopMode,
    ) -> Result<(), StoreError> {
        let Some(token) = self.orders.get(&id) else { return Ok(()) };
        let left = id.work().and_then(|work| self.state.schedule().attempt_left(work));
        let until = left.map(|left| transaction.now().at.after(left));
        transaction.orders().wish(*token, &to_text(&WishText::of(mode, until)))
    }

    fn write_records(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let records = self.state.take_records();
        if !records.is_empty() {
            // That a step waits for a guard is shown, too, and is no fact.
            transaction.runs().announce();
        }
        write_records(transaction, self.id(), &records)
    }

    fn leave_queues(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let schedule = self.state.schedule_mut();
        let over =
            schedule.leave_queues(|phase| phase == Phase::Paused || phase.state().is_terminal());
        for grant in over {
            transaction.leases().leave_queue(&self.state.identity().holder(grant))?;
        }
        Ok(())
    }

    fn append(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let facts = self.state.schedule_mut().take_facts();
        if !facts.is_empty() {
            transaction.runs().announce();
        }
        self.name_workers(transaction)?;
        self.state.schedule_mut().count_facts(facts.len());
        self.leader.append(transaction, &facts)
    }

    /// Stores the names of workers that facts mean by new numbers.
    fn name_workers(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let names = self.state.schedule().worker_names();
        let (known, all) = (self.named_workers, names.len());
        for (number, name) in names.enumerate().skip(known) {
            let number = u32::try_from(number).expect("fewer than 2^32 workers");
            transaction.orders().name_worker(self.id(), number, name)?;
        }
        self.named_workers = all;
        Ok(())
    }

    /// Forgets steps that have ended long ago.
    fn forget_old(&mut self) {
        for work in self.state.schedule_mut().forget_old() {
            self.placed.remove(&work);
            self.state.forget(work);
        }
    }

    /// Puts a base in the place of the journal if it is time for that, and deletes what is stored of the steps
    /// that were forgotten.
    fn compact(&mut self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let Some(compaction) = self.state.schedule_mut().compact() else { return Ok(()) };
        self.has_old_logs = true;
        let Compaction { base, forgotten, edits, changes } = compaction;
        fold_changes(transaction, self.id(), &edits, changes)?;
        transaction.queues().compact(self.id(), &base.encode(), &forgotten)?;
        #[cfg(windlass_faults)]
        Point::BeforeCompact.reached();
        Ok(())
    }

    /// Stores how the run has ended, if it has, and gives up its lead.
    fn end(&mut self, transaction: &Transaction<'_>) -> Result<Option<RunEnd>, StoreError> {
        let Some(end) = self.state.end().and_then(|end| self.state.stored_end(end)) else {
            return Ok(None);
        };
        let run = self.id().to_owned();
        transaction.runs().set_end(&run, Some(end))?;
        forget_requests(transaction, &run)?;
        self.leader.give_up(transaction)?;
        Ok(Some(end))
    }

    /// Removes the logs of steps that are forgotten, after the commit that has deleted the steps.
    pub(crate) fn remove_old_logs(&mut self) {
        if !std::mem::take(&mut self.has_old_logs) {
            return;
        }
        #[cfg(windlass_faults)]
        Point::AfterCompact.reached();
        let schedule = self.state.schedule();
        let is_old =
            |work: WorkId| work.get() <= schedule.taken() && schedule.known_step(work).is_none();
        // What cannot be removed now is tried again when the next logs are.
        let _ = remove_logs(self.state.identity().logs(), is_old);
    }

    /// Has `end` end what dead holders of the run's names have left running, after the commit that found
    /// it; the next round takes the names.
    pub(crate) fn end_leftovers(&mut self, end: EndLeftovers<'_>) -> Result<(), RunError> {
        self.cleared = end(std::mem::take(&mut self.leftovers))?;
        Ok(())
    }
}

/// Returns one of `names` that is not held any more, if there is one.
fn lost_name(
    transaction: &Transaction<'_>,
    names: &[(Name, Token)],
) -> Result<Option<Name>, StoreError> {
    for (name, token) in names {
        if !transaction.leases().check(name, *token)?.0.is_yes() {
            return Ok(Some(name.clone()));
        }
    }
    Ok(None)
}

/// Returns the items of its run's resources and of its worker's that the attempt of an order has.
fn own_items(order: &StoredOrder) -> (Vec<(usize, usize)>, ItemNames) {
    let text = serde_json::from_str::<OrderText>(&order.text);
    text.map(|text| (text.items, text.worker_items)).unwrap_or_default()
}
