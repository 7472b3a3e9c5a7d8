//! Takes the base of a state, and restores a state from one.

use super::clock::Times;
use super::pauses::Pauses;
use super::work::Gate;
use super::{State, Work, edge_outcome};
use crate::WorkId;
use crate::base::{EdgeBase, EngineBase, WorkBase};
use crate::dag::Edge;
use crate::engine::effects::Effects;
use crate::input::Submission;
use crate::queue::Seq;

impl State {
    /// See [`Engine::base`](crate::Engine::base).
    pub(in crate::engine) fn base(&self) -> Option<EngineBase> {
        let works = self.works().map(|(work, entry)| self.base_of(work, entry));
        Some(EngineBase {
            now: self.now,
            submitted: self.works.pushed() as u64,
            next_seq: self.next_seq.get(),
            pauses: self.pauses.base(),
            works: works.collect::<Option<_>>()?,
        })
    }

    fn base_of(&self, work: WorkId, entry: &Work) -> Option<WorkBase> {
        let mut outcomes = self.dag.outcomes_of_forgotten(work.index());
        let edges = self.dag.sources(work.index()).map(|edge| EdgeBase {
            from: WorkId::from_index(edge.node),
            kind: edge.kind,
            outcome: match self.works.get(edge.node) {
                Some(_) => None,
                None => outcomes.next(),
            },
        });
        let after: Vec<_> = edges.collect();
        // A work may have got an edge from one that was submitted later.
        if entry.is_related() || after.iter().any(|edge| edge.from > work) {
            return None;
        }
        Some(WorkBase {
            work,
            phase: entry.phase().journaled(),
            attempts: entry.attempts,
            retries_left: entry.retries_left,
            retries_spent: self.retries.spent(work),
            seq: entry.seq.get(),
            ready_since: entry.ready_since,
            gate_open: entry.gate == Gate::Open,
            unneeded: entry.unneeded,
            after,
            times: self.clock.base_of(work),
            worker: self.places.latest(work),
        })
    }

    /// See [`Engine::restore`](crate::Engine::restore).
    pub(in crate::engine) fn restore(&mut self, effects: &mut Effects<'_, '_>, base: &EngineBase) {
        assert_eq!(self.works.pushed(), 0, "only a new engine is restored");
        self.now = base.now;
        self.next_seq = Seq::new(base.next_seq).expect("numbers in the queue begin with 1");
        self.pauses = Pauses::restored(&base.pauses);
        for entry in &base.works {
            self.skip_to(entry.work.index());
            self.restore_work(effects, entry);
        }
        self.skip_to(usize::try_from(base.submitted).expect("works are counted in memory"));
        self.number_old(effects);
    }

    /// Leaves out forgotten works.
    fn skip_to(&mut self, index: usize) {
        while self.works.pushed() < index {
            self.works.push_absent();
            self.dag.skip_node();
        }
    }

    fn restore_work(&mut self, effects: &mut Effects<'_, '_>, base: &WorkBase) {
        let (work, staged) = (base.work, self.take_staged());
        let extras = staged.extras.as_deref();
        let (cost, priority, retries) = (staged.cost, staged.priority, base.retries_left);
        let mut entry = Work::new(Submission { after: &[], cost, priority, retries, extras });
        let works = &self.works;
        let edges = base.after.iter().map(|edge| {
            let index = edge.from.index();
            let known = || edge_outcome(edge.kind, works.get(index)?.phase());
            (Edge { node: index, kind: edge.kind }, edge.outcome.or_else(known))
        });
        entry.restore(base);
        entry.set_timed(base.times.is_some());
        self.dag.add_node(edges);
        self.counts.enter(entry.phase().state(), entry.retries_left);
        self.places.start(work, base.worker);
        if let Some(other) = extras.and_then(|extras| extras.beside) {
            self.places.goes_beside(work, other);
        }
        effects.restored(self.now, work, &entry, self.places.at(work, entry.phase()));
        self.works.push(entry);
        if let Some(policy) = extras.and_then(|extras| extras.retry) {
            self.retries.set_policy(work, policy);
        }
        self.retries.restore(work, base.retries_spent);
        if let Some(times) = base.times {
            let timeout = extras.and_then(|extras| extras.timeout);
            self.clock.restore(work, Times::restored(timeout, times));
        }
        let dues: Vec<_> = self.dues(work).collect();
        dues.into_iter().for_each(|due| self.clock.arm(due, work));
    }
}
