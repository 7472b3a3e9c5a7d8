//! Reasons as sentences.

use windlass_server::{
    Amount, AttemptEnd, AttemptView, EdgeKind, Explanation, HolderLabel, HolderView, Name,
    RunState, Skipped, StepExplanation, StepState, StepView, WaitReason, WorkerKind, step_argument,
};

use crate::limits::amount_text;
use crate::look::{attempt_of, ending, not_taken};
use crate::prune::size;
use crate::ps::names;
use crate::style::plain;
use crate::times::{Times, between, span};

/// The name of the resource of slots.
pub(super) const SLOTS: &str = "slots";
/// The name of a `when` among guards.
pub(super) const WHEN: &str = "when";
/// The number from which amounts are shown as sizes.
const LARGE: u64 = 1 << 20;

pub(super) struct Words<'a> {
    pub(super) why: &'a Explanation,
    /// The step to explain.
    pub(super) step: &'a StepExplanation,
    pub(super) times: &'a Times,
}

impl Words<'_> {
    fn view(&self) -> &StepView {
        &self.why.view.steps[self.step.place]
    }

    /// Returns the state of the step, as a sentence.
    pub(super) fn head(&self) -> String {
        let step = self.view();
        let name = plain(&step.name);
        match step.state {
            StepState::Running => self.running(&name, step),
            StepState::Interrupted => format!("{name} was interrupted"),
            StepState::Paused => format!("{name} is paused"),
            StepState::Success => format!("{name} succeeded {}", self.ended(step)),
            StepState::Skipped => format!("{name} was skipped{}", self.skipped()),
            StepState::Failed => format!("{name} failed {}", self.ended(step)),
            StepState::Blocked => format!("{name} is blocked"),
            StepState::Cancelled => format!("{name} was cancelled {}", self.ended(step)),
            _ => format!("{name} waits"),
        }
    }

    /// Returns the reasons.
    pub(super) fn lines(&self) -> Vec<String> {
        let reasons = self.step.reasons.iter().map(|reason| self.reason(reason));
        let causes = self.step.causes.iter().map(|cause| {
            let step = &self.why.view.steps[cause.place];
            let through: Vec<_> = cause
                .through
                .iter()
                .rev()
                .map(|at| plain(&self.why.view.steps[*at].name))
                .collect();
            format!("{}{}", self.cause(step), blocking(&through))
        });
        reasons.chain(causes).collect()
    }

    /// Returns the expected start, and where the output is.
    pub(super) fn tail(&self) -> Vec<String> {
        let mut tail: Vec<String> = self.estimate().into_iter().collect();
        let run = self.why.view.target();
        let step = self.view();
        if step.state == StepState::Failed && !step.attempts.is_empty() {
            tail.push(format!("output: windlass log {}", argument(run, step)));
        }
        tail
    }

    /// Returns how to retry the step, if that is possible.
    pub(super) fn retry(&self) -> Option<String> {
        let bad = matches!(
            self.view().state,
            StepState::Failed | StepState::Blocked | StepState::Cancelled
        );
        let view = &self.why.view;
        let (run, step) = (view.target(), &self.view().name);
        match view.queue {
            // One that is blocked starts again with the step that has blocked it.
            Some(_) if bad && self.view().state != StepState::Blocked => {
                Some(format!("to retry: windlass retry {run} --step {step}"))
            }
            None if bad && view.state.end().is_some() => {
                Some(format!("to retry: windlass retry {run}"))
            }
            _ => None,
        }
    }

    pub(super) fn reason(&self, reason: &WaitReason) -> String {
        let run = self.why.view.target();
        match reason {
            WaitReason::NoScheduler => {
                "no scheduler is running; start one with: windlass serve".to_owned()
            }
            WaitReason::Scheduler { pid } => not_taken(*pid),
            WaitReason::Workers { slots: 0, .. } => {
                "no worker is running; start one with: windlass worker".to_owned()
            }
            WaitReason::Workers { slots, others, holders } => workers(*slots, *others, holders),
            WaitReason::NoWorker { kinds, beside } => no_worker(kinds, beside.as_deref()),
            WaitReason::Interrupted => {
                format!("the run is interrupted; to resume: windlass resume {run}")
            }
            WaitReason::RunPaused => {
                format!("the run is paused; to continue: windlass unpause {run}")
            }
            WaitReason::Paused => {
                let step = argument(run, self.view());
                format!("the step is paused; to continue: windlass unpause {step}")
            }
            WaitReason::Step { place, kind } => self.dependency(*place, *kind),
            WaitReason::Guard { .. } => self.guard(reason),
            WaitReason::Time { at_ms } => format!("it may start {}", self.times.ahead(*at_ms)),
            WaitReason::Gate { guards } => match guards.as_slice() {
                [] => "its `when` has to be checked first".to_owned(),
                [guard] => format!("guard {} has to pass first", plain(guard)),
                guards => format!("guards {} have to pass first", plain(&guards.join(", "))),
            },
            WaitReason::Retry { at_ms, attempt } => {
                let attempt = attempt_of(*attempt, self.view().most_attempts);
                format!("{attempt} starts {}", self.times.ahead(*at_ms))
            }
            WaitReason::Resource { .. } => resource(reason),
            WaitReason::Rate { name, at_ms, .. } => {
                let when = match at_ms {
                    Some(at_ms) => format!("free again {}", self.times.ahead(*at_ms)),
                    None => "steps ahead of it in the queue come first".to_owned(),
                };
                format!("rate limit {:?} is used up; {when}", plain(name))
            }
            WaitReason::Queue { ahead: 1, first } => {
                format!("{} is ahead of it in the queue", plain(first))
            }
            WaitReason::Queue { ahead, first } => {
                format!("{ahead} steps are ahead of it in the queue; the first is {}", plain(first))
            }
            WaitReason::Name { name, holders, ahead, since_ms } => {
                self.name(name, holders, ahead, *since_ms)
            }
            WaitReason::Limit { .. } => self.limit(reason),
            _ => "it is about to start".to_owned(),
        }
    }

    fn running(&self, name: &str, step: &StepView) -> String {
        let Some(attempt) = step.attempts.last() else { return format!("{name} is running") };
        let elapsed = span(self.times.since(attempt.started_ms));
        let usual = self.step.expected.map(|usual| span(between(0, usual.median_ms)));
        let usual = usual.map(|usual| format!("; it usually takes {usual}"));
        let (tried, usual) = (tried(step), usual.unwrap_or_default());
        let finally = if step.is_finishing() { "; its finally runs" } else { "" };
        format!("{name} has been running for {elapsed}{tried}{finally}{usual}")
    }

    fn skipped(&self) -> String {
        match self.step.skipped {
            Some(Skipped::When) => ": its `when` did not hold".to_owned(),
            Some(Skipped::NoFailure { place }) => {
                format!(": {} did not fail", plain(&self.why.view.steps[place].name))
            }
            _ => String::new(),
        }
    }

    /// Returns `3 min ago after 12 s (attempt 2 of 3): exit code 1`.
    fn ended(&self, step: &StepView) -> String {
        let (last, began) = match (&step.unbegun, step.attempts.last()) {
            (Some(unbegun), _) => (unbegun, false),
            (None, Some(last)) => (last, true),
            (None, None) => return "before it started".to_owned(),
        };
        let ago = last.ended_ms.map(|at| self.times.ago(at)).unwrap_or_default();
        let how = how(last);
        if !began {
            return format!("{ago}, before it started{how}");
        }
        if step.state != StepState::Success && last.end == Some(AttemptEnd::Retry) {
            let attempt = attempt_of(last.number, step.most_attempts);
            return format!("before its next attempt; {attempt} ended {ago}{how}");
        }
        let took = span(between(0, last.duration_ms(self.times.now_ms)));
        format!("{ago} after {took}{}{how}", tried(step))
    }

    fn cause(&self, step: &StepView) -> String {
        let name = plain(&step.name);
        match step.state {
            StepState::Failed => format!("{name} failed {}", self.ended(step)),
            StepState::Cancelled => format!("{name} was cancelled {}", self.ended(step)),
            _ => format!("{name} did not end as required"),
        }
    }

    fn dependency(&self, place: usize, kind: EdgeKind) -> String {
        let step = &self.why.view.steps[place];
        let name = plain(&step.name);
        let must = match kind {
            EdgeKind::Success => "succeed",
            EdgeKind::Done => "end",
            EdgeKind::Failed => "fail",
        };
        let now = match step.state {
            StepState::Running => {
                let since =
                    step.attempts.last().map(|attempt| self.times.since(attempt.started_ms));
                format!(
                    "it has been running for {}{}",
                    span(since.unwrap_or_default()),
                    tried(step)
                )
            }
            StepState::Retrying { at_ms } => {
                format!("its next attempt starts {}", self.times.ahead(at_ms))
            }
            StepState::Interrupted => "it was interrupted".to_owned(),
            _ => {
                let step = argument(self.why.view.target(), step);
                format!("it is waiting, too (windlass why {step})")
            }
        };
        format!("{name} has to {must} first: {now}")
    }

    fn guard(&self, reason: &WaitReason) -> String {
        let WaitReason::Guard { guard, since_ms, checks, said, escalated, .. } = reason else {
            unreachable!("it is asked of guards only")
        };
        let waited = span(self.times.since(*since_ms));
        if guard == WHEN {
            return format!("its `when` has been checked for {waited}");
        }
        let times = if *checks == 1 { "once".to_owned() } else { format!("{checks} times") };
        let mut text =
            format!("guard {} has not passed for {waited}, checked {times}", plain(guard));
        if let Some(said) = said.as_deref().map(str::trim).filter(|said| !said.is_empty()) {
            text += &format!("; last check: {}", plain(said));
        }
        // `resume` checks the guard again, so there is nothing to decide now.
        if self.why.view.state == RunState::Interrupted {
            return text;
        }
        let target = argument(self.why.view.target(), self.view());
        let who = if *escalated { "needs a decision" } else { "to decide it now" };
        text += &format!("; {who}: windlass approve {target}, or windlass reject {target}");
        text
    }

    fn name(
        &self,
        name: &Name,
        holders: &[HolderView],
        ahead: &[HolderView],
        since_ms: i64,
    ) -> String {
        let what = format!("{} {:?}", name.kind(), plain(name.text()));
        let slots = matches!(name, Name::Semaphore(_));
        let held: Vec<_> = holders.iter().map(|holder| self.holder(holder, slots)).collect();
        let held: Vec<_> = held.iter().map(String::as_str).collect();
        let mut text = match held.as_slice() {
            [] => format!("{what} is reserved for those ahead of it in the queue"),
            held => format!("{what} is held by {}", names(held)),
        };
        let waits = span(self.times.since(since_ms));
        let before: Vec<_> = ahead.iter().map(title).collect();
        let before: Vec<_> = before.iter().map(String::as_str).collect();
        text += &match before.as_slice() {
            [] => format!("; first in the queue, waiting for {waits}"),
            before => {
                let place = ordinal(before.len() + 1);
                format!("; {place} in the queue behind {}, waiting for {waits}", names(before))
            }
        };
        text
    }

    fn limit(&self, reason: &WaitReason) -> String {
        let WaitReason::Limit { name, wanted, limit, free, holders, ahead } = reason else {
            unreachable!("it is asked of limits only")
        };
        let (name, wanted_text) = (plain(name), amount_text(*wanted));
        let Some(limit) = limit else {
            return format!(
                "the store has no limit {name:?} any more; set it with: windlass limits set \
                 {name}={wanted_text}"
            );
        };
        let limit_text = amount_text(*limit);
        if limit < wanted {
            return format!(
                "it needs {wanted_text} of limit {name:?}, which is {limit_text} now; raise it with: \
                 windlass limits set {name}={wanted_text}"
            );
        }
        let free = amount_text(*free);
        let mut text = format!(
            "it needs {wanted_text} of limit {name:?}, and {free} of {limit_text} is free for it"
        );
        let part = |holder: &HolderView| {
            let amount = amount_text(Amount::from_steps(holder.weight));
            format!("{amount} by {}", self.holder(holder, false))
        };
        let held: Vec<_> = holders.iter().map(part).collect();
        let held: Vec<_> = held.iter().map(String::as_str).collect();
        if !held.is_empty() {
            text += &format!("; held: {}", names(&held));
        }
        let before: Vec<_> = ahead.iter().map(title).collect();
        let before: Vec<_> = before.iter().map(String::as_str).collect();
        if !before.is_empty() {
            text += &format!(
                "; its run is {} in the queue behind {}",
                ordinal(before.len() + 1),
                names(&before)
            );
        }
        text
    }

    fn holder(&self, holder: &HolderView, slots: bool) -> String {
        let HolderView { since_ms, host, weight, gone, usually_ms, .. } = holder;
        let holder = label(holder);
        let mut more = Vec::new();
        if slots {
            more.push(if *weight == 1 { "1 slot".to_owned() } else { format!("{weight} slots") });
        }
        more.extend(holder.other_pid().map(|pid| format!("pid {pid}")));
        more.extend(host.iter().map(|host| format!("on {}", plain(host))));
        more.push(format!("for {}", span(self.times.since(*since_ms))));
        more.extend(usually_ms.map(|ms| format!("usually {}", span(between(0, ms)))));
        if *gone {
            more.push("its process has ended, the next in the queue takes over".to_owned());
        }
        format!("{} ({})", holder.title(), more.join(", "))
    }

    fn estimate(&self) -> Option<String> {
        let estimate = self.why.estimate(self.step)?;
        let sure = self
            .step
            .reasons
            .iter()
            .all(|reason| matches!(reason, WaitReason::Step { .. } | WaitReason::Retry { .. }));
        let may = if sure { "expected to start" } else { "expected to start no earlier than" };
        let when = match estimate.in_ms {
            0 => "now".to_owned(),
            in_ms => format!("in about {}", span(between(0, in_ms))),
        };
        let path: Vec<_> = estimate
            .path
            .iter()
            .map(|(step, ms)| format!("{} ({})", plain(step), span(between(0, *ms))))
            .collect();
        Some(format!("{may} {when}, according to earlier runs: {}", path.join(", then ")))
    }
}

/// Returns the label of a holder or waiter.
fn title(holder: &HolderView) -> String {
    label(holder).to_string()
}

pub(super) fn label(holder: &HolderView) -> HolderLabel<'_> {
    let HolderView { name, pid, command, host, .. } = holder;
    HolderLabel { name, pid: *pid, command: command.as_deref(), host: host.as_deref() }
}

/// Returns a step as a quoted argument for a command line.
fn argument(run: &str, step: &StepView) -> String {
    plain(&step_argument(run, &step.name))
}

/// Returns ` (attempt 2 of 3)`, if there may be several.
fn tried(step: &StepView) -> String {
    match (step.attempts.last(), step.most_attempts) {
        (Some(last), most) if most > 1 || last.number > 1 => {
            format!(" ({})", attempt_of(last.number, most))
        }
        _ => String::new(),
    }
}

fn how(attempt: &AttemptView) -> String {
    let how = plain(&ending(attempt));
    if how.is_empty() { how } else { format!(": {how}") }
}

/// Returns which steps have the slots of the workers.
fn workers(slots: u64, others: u64, holders: &[String]) -> String {
    let all = if slots == 1 {
        "the slot of the workers is".to_owned()
    } else {
        format!("all {slots} slots of the workers are")
    };
    let own = (!holders.is_empty()).then(|| plain(&holders.join(", ")));
    let others = (others > 0).then(|| match others {
        1 => "a step of another run".to_owned(),
        others => format!("{others} steps of other runs"),
    });
    let by: Vec<_> = own.into_iter().chain(others).collect();
    format!("{all} in use by {}", by.join(" and "))
}

/// Says why no worker takes a step: what each kind of worker lacks.
fn no_worker(kinds: &[WorkerKind], beside: Option<&str>) -> String {
    let beside = beside.map(|step| format!(" that has executed {}", plain(step)));
    let head = format!("no worker{} has room", beside.unwrap_or_default());
    let kinds: Vec<_> = kinds.iter().map(|kind| plain(&kind.to_string())).collect();
    format!("{head}: {}", kinds.join("; "))
}

fn resource(reason: &WaitReason) -> String {
    let WaitReason::Resource { name, wanted, free, holders, reserved_for, .. } = reason else {
        unreachable!("it is asked of resources only")
    };
    let holders: Vec<_> = holders.iter().map(|holder| plain(holder)).collect();
    let holders: Vec<_> = holders.iter().map(String::as_str).collect();
    let mut text = match (name.as_str(), holders.as_slice()) {
        (SLOTS, []) => "no slot is free".to_owned(),
        (SLOTS, holders) => format!("no slot is free: in use by {}", names(holders)),
        (name, holders) => {
            let (wanted, free) = (amount(*wanted), amount(*free));
            let text = format!("needs {wanted} of {:?}, but {free} is free", plain(name));
            if holders.is_empty() { text } else { format!("{text}; in use by {}", names(holders)) }
        }
    };
    if let Some(owner) = reserved_for {
        text += &format!("; some of it is reserved for {}", plain(owner));
    }
    text
}

/// Returns an amount; a large whole number as a size.
fn amount(amount: Amount) -> String {
    let text = amount.to_string();
    match text.parse::<u64>() {
        Ok(bytes) if bytes >= LARGE => size(bytes),
        _ => text,
    }
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Returns the chain from a cause to the explained step; of a long chain only its ends.
fn blocking(through: &[String]) -> String {
    let link = |step: &String| format!(", which blocks {step}");
    match through {
        [first, middle @ .., last] if middle.len() > 3 => {
            format!("{}, and through {} more {}", link(first), middle.len(), last)
        }
        short => short.iter().map(link).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_ordinals() {
        let said = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal);
        let expected =
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"];
        assert_eq!(said, expected);
    }

    #[test]
    fn large_numbers_are_formatted_as_sizes() {
        let of = |units: u64| amount(Amount::try_from(units).expect("it is small enough"));
        assert_eq!((of(4), of(4 << 30)), ("4".to_owned(), "4 GiB".to_owned()));
    }

    #[test]
    fn a_long_chain_is_named_by_its_ends() {
        let steps = |count: usize| (0..count).map(|n| format!("s{n}")).collect::<Vec<_>>();
        assert_eq!(blocking(&[]), "");
        assert_eq!(blocking(&steps(2)), ", which blocks s0, which blocks s1");
        let long = blocking(&steps(100_000));
        assert_eq!(long, ", which blocks s0, and through 99998 more s99999");
    }
}
