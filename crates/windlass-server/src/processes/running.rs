//! The jobs that run, and which of them an orphan belongs to.
//!
//! An orphan is known by the tag in its environment, by the tag in its resource limit, or by its process
//! group. One that carries nothing is attributed to a job that has ended once no running job is old enough
//! to have started it. Does not signal anything.

use std::collections::{BTreeMap, BTreeSet};

use super::job::{Job, JobSettings};
use crate::launch::Launched;
use crate::limit_tag::TagPattern;
use crate::orphans::Orphan;
use crate::proc_fs::{LifeStage, Process};
use crate::process_tag::TAG_VARIABLE;
use crate::reaper::KillPlan;

/// A job whose process was started and not reaped.
pub(super) struct RunningJob {
    pub(super) process: Launched,
    /// No process of the job is older, in clock ticks since boot.
    pub(super) born: u64,
    pub(super) settings: JobSettings,
    pub(super) tree: TreeState,
    /// When its processes have to end, if they have to.
    pub(super) plan: Option<KillPlan>,
    /// The processes that it left running and that were signalled, as messages name them.
    pub(super) signalled: Vec<String>,
}

impl RunningJob {
    /// Returns whether the resource limit of a process carries the tag of this job.
    fn has_limit_tag_of(&self, orphan: &Orphan) -> bool {
        orphan.limit_tag.is_some_and(|tag| TagPattern::of(&self.settings.tag).matches(tag))
    }
}

/// What is known of the processes that a job has started.
pub(super) enum TreeState {
    /// They are not being killed, or those that were found have ended.
    Free,
    /// The reaper ends them.
    Ending(Scope),
    /// The reaper could not end these.
    Stuck { left: Vec<Process> },
}

/// Which processes of a job the reaper ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All, including its own process.
    Everything,
    /// Those that its own process has left running.
    Rest,
}

/// The owner of an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Job(Job),
    /// The orphan carries no mark of a job.
    Unknown,
    /// The orphan is ending, and what it carried cannot be read any more, so it may be any job's.
    Ending,
    /// Another run in this process, or a library that this process uses.
    Stranger,
}

/// The jobs that run, by their ids and by the pids of their processes.
#[derive(Default)]
pub(super) struct RunningJobs {
    jobs: BTreeMap<Job, RunningJob>,
    by_pid: BTreeMap<u32, Job>,
    /// The jobs whose own process has ended.
    exited: BTreeSet<Job>,
}

impl RunningJobs {
    pub(super) fn insert(&mut self, job: Job, running: RunningJob) {
        self.by_pid.insert(running.process.id(), job);
        self.jobs.insert(job, running);
    }

    pub(super) fn remove(&mut self, job: Job) -> Option<RunningJob> {
        self.exited.remove(&job);
        let running = self.jobs.remove(&job)?;
        self.by_pid.remove(&running.process.id());
        Some(running)
    }

    pub(super) fn get(&self, job: Job) -> Option<&RunningJob> {
        self.jobs.get(&job)
    }

    pub(super) fn get_mut(&mut self, job: Job) -> Option<&mut RunningJob> {
        self.jobs.get_mut(&job)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn ids(&self) -> Vec<Job> {
        self.jobs.keys().copied().collect()
    }

    /// Notes that processes have ended.
    pub(super) fn note_exits(&mut self, pids: &[u32]) {
        self.exited.extend(pids.iter().filter_map(|pid| self.by_pid.get(pid)));
    }

    pub(super) fn has_exited(&self, job: Job) -> bool {
        self.exited.contains(&job)
    }

    /// Returns the jobs whose own process has ended.
    pub(super) fn exited(&self) -> Vec<Job> {
        self.exited.iter().copied().collect()
    }

    /// Returns the owner of an orphan; `run_tag` is carried by all processes of the run.
    pub(super) fn owner(&self, orphan: &Orphan, run_tag: &str) -> Owner {
        let by_tag = self.find(|running| carries(orphan, &running.settings.tag));
        let by_limit = || self.find(|running| running.has_limit_tag_of(orphan));
        match by_tag.or_else(by_limit).or_else(|| self.by_pid.get(&orphan.process.group).copied()) {
            Some(job) => Owner::Job(job),
            None if orphan.stage == LifeStage::Exiting => Owner::Ending,
            None if carries(orphan, run_tag) || has_only_inherited_tags(orphan) => Owner::Unknown,
            None => Owner::Stranger,
        }
    }

    fn find(&self, is_owner: impl Fn(&RunningJob) -> bool) -> Option<Job> {
        self.jobs.iter().find(|(_, running)| is_owner(running)).map(|(job, _)| *job)
    }

    /// Returns the orphans that a job whose process has ended has left: its own, those that are ending, and
    /// those that no job can have started whose process still runs.
    pub(super) fn left_by(&self, job: Job, orphans: &[(Process, Owner)]) -> Vec<Process> {
        let is_left = |orphan: &Process, owner: Owner| match owner {
            Owner::Job(owner) => owner == job,
            Owner::Stranger => false,
            Owner::Ending => true,
            Owner::Unknown => !self.jobs.iter().any(|(other, running)| {
                !self.exited.contains(other) && running.born <= orphan.started
            }),
        };
        let left = orphans.iter().filter(|(orphan, owner)| is_left(orphan, *owner));
        left.map(|(orphan, _)| *orphan).collect()
    }
}

fn carries(orphan: &Orphan, tag: &str) -> bool {
    orphan.tags.iter().any(|carried| carried == tag.as_bytes())
}

/// Returns whether an orphan has no tag besides those of this process.
fn has_only_inherited_tags(orphan: &Orphan) -> bool {
    let own = std::env::var(TAG_VARIABLE).unwrap_or_default();
    let is_inherited = |tag: &Vec<u8>| own.split(' ').any(|own| own.as_bytes() == tag);
    orphan.tags.iter().all(is_inherited)
}
