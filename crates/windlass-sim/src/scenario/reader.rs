//! Parses the lines of a scenario file.

use std::time::Duration;

use windlass_core::{Amount, EdgeKind, ResourceCost, Timestamp};

use super::words::Words;
use super::{Action, Body, End, Grants, Retries, Scenario, WorkPlan};

impl Scenario {
    pub(super) fn take(&mut self, line: &str) -> Result<(), String> {
        let mut words = Words::new(line);
        let Some(verb) = words.more() else { return Ok(()) };
        match verb {
            "slots" => self.limits.slots = words.number()?,
            "limit" => {
                let root = std::mem::take(&mut self.limits.root);
                self.limits.root = root.with(words.word()?, words.number::<Amount>()?);
            }
            "team" => {
                let team = std::mem::take(&mut self.limits.team);
                self.limits.team = team.with(words.word()?, words.number::<Amount>()?);
            }
            "rate" => self.limits.rates.push((words.word()?.to_owned(), words.rate()?)),
            "quota" => self.limits.quotas.push((words.word()?.to_owned(), words.quota()?)),
            "ageing" => self.ageing = words.ageing()?,
            "order" => self.order = words.order()?,
            "work" => {
                let work = self.work(&mut words)?;
                self.works.push(work);
            }
            "at" => {
                let at = Timestamp::ZERO.after(words.duration()?);
                let action = self.action(&mut words)?;
                self.actions.push((at, action));
            }
            "not-on" => {
                let driver = words.word()?.to_owned();
                self.not_on.insert(driver, words.rest());
            }
            other => return Err(format!("unknown line {other:?}")),
        }
        words.end()
    }

    fn action(&self, words: &mut Words<'_>) -> Result<Action, String> {
        Ok(match words.word()? {
            "cancel" => Action::Cancel(self.known(words.word()?)?),
            "forget" => Action::Forget(self.known(words.word()?)?),
            "open" => Action::Open(self.known(words.word()?)?),
            "reject" => Action::Reject(self.known(words.word()?)?),
            "skip" => Action::Skip(self.known(words.word()?)?),
            "pause" => Action::Pause(self.known(words.word()?)?),
            "unpause" => Action::Unpause(self.known(words.word()?)?),
            "pause-all" => Action::PauseAll,
            "unpause-all" => Action::UnpauseAll,
            "wake" => Action::Wake(self.known(words.word()?)?),
            "stop-children" => Action::StopChildren(self.known(words.word()?)?),
            "reopen" => Action::Reopen(self.known(words.word()?)?),
            "late" => Action::Late(self.known(words.word()?)?, words.number()?),
            "team" => Action::Team(words.word()?.to_owned(), words.number()?),
            "limit" => Action::Limit(words.word()?.to_owned(), words.number()?),
            "depend" => {
                let work = self.known(words.word()?)?;
                words.expect("on")?;
                let (on, kind) = self.dependency(words)?;
                Action::Depend(work, on, kind)
            }
            other => return Err(format!("unknown action {other:?}")),
        })
    }

    fn work(&self, words: &mut Words<'_>) -> Result<WorkPlan, String> {
        let mut work = WorkPlan {
            name: words.word()?.to_owned(),
            after: Vec::new(),
            needs: ResourceCost::new(),
            priority: 0,
            retry: Retries::default(),
            timeout: None,
            deadline: None,
            gated: false,
            parent: None,
            from: Timestamp::ZERO,
            grants: Grants::default(),
            body: Body { takes: Duration::from_millis(10), waits: None, ends: vec![End::Ok] },
        };
        while let Some(key) = words.more() {
            match key {
                "after" => work.after = words.list(|words| self.dependency(words))?,
                "from" => work.from = Timestamp::ZERO.after(words.duration()?),
                "outside" => work.grants.outside = Timestamp::ZERO.after(words.duration()?),
                "handed-back" => work.grants.handed_back = words.number()?,
                "needs" => work.needs = words.list(Words::cost)?.into_iter().collect(),
                "priority" => work.priority = words.number()?,
                "retries" => work.retry.count = words.number()?,
                "retry" => work.retry.policy = Some(words.policy()?),
                "timeout" => work.timeout = Some(words.duration()?),
                "deadline" => work.deadline = Some(Timestamp::ZERO.after(words.duration()?)),
                "gated" => work.gated = true,
                "child" => {
                    words.expect("of")?;
                    work.parent = Some(self.known(words.word()?)?);
                }
                "takes" => work.body.takes = words.duration()?,
                "waits" => work.body.waits = Some(words.wait()?),
                "ends" => work.body.ends = words.list(Words::end_of_attempt)?,
                other => return Err(format!("unknown property {other:?} of a work")),
            }
        }
        Ok(work)
    }

    fn dependency(&self, words: &mut Words<'_>) -> Result<(usize, EdgeKind), String> {
        let work = self.known(words.word()?)?;
        let kind = match words.peek_in_list() {
            Some("done") => EdgeKind::Done,
            Some("failed") => EdgeKind::Failed,
            _ => return Ok((work, EdgeKind::Success)),
        };
        words.word()?;
        Ok((work, kind))
    }

    pub(super) fn known(&self, name: &str) -> Result<usize, String> {
        self.place(name).ok_or_else(|| format!("no work before this line is called {name:?}"))
    }
}
