//! The methods of a handle, for the owner of the scheduler.

use std::sync::Arc;

use windlass_core::{ResourceCost, WorkState};

use super::WorkScheduler;
use crate::event::Subscription;
use crate::explain::Explanation;
use crate::handle::{DependencyError, ReopenError};
use crate::id::WorkId;
use crate::metrics::WorkSchedulerMetrics;
use crate::reference::{ExecuteError, WorkRef};
use crate::snapshot::WorkSnapshot;
use crate::spec::{Dependency, SubmitError, WorkSpec};
use crate::work::Work;

impl WorkScheduler {
    /// See [`WorkHandle::add_work`](crate::WorkHandle::add_work).
    ///
    /// # Panics
    ///
    /// As [`WorkHandle::add_work`](crate::WorkHandle::add_work) does.
    pub fn add_work(&self, work: Box<dyn Work>, deps: Vec<WorkId>, retries: u32) -> WorkId {
        self.handle.add_work(work, deps, retries)
    }

    /// See [`WorkHandle::submit`](crate::WorkHandle::submit).
    pub fn submit<T>(&self, spec: WorkSpec<T>) -> Result<WorkId, SubmitError> {
        self.handle.submit(spec)
    }

    /// See [`WorkHandle::spawn`](crate::WorkHandle::spawn).
    pub fn spawn<T>(&self, spec: WorkSpec<T>) -> Result<WorkRef<T>, SubmitError> {
        self.handle.spawn(spec)
    }

    /// See [`WorkHandle::execute`](crate::WorkHandle::execute).
    pub async fn execute<T>(&self, spec: WorkSpec<T>) -> Result<Arc<T>, ExecuteError> {
        self.handle.execute(spec).await
    }

    /// See [`WorkHandle::add_dependency`](crate::WorkHandle::add_dependency).
    pub fn add_dependency(
        &self,
        work: WorkId,
        on: impl Into<Dependency>,
    ) -> Result<(), DependencyError> {
        self.handle.add_dependency(work, on)
    }

    /// See [`WorkHandle::cancel`](crate::WorkHandle::cancel).
    pub fn cancel(&self, id: WorkId) -> bool {
        self.handle.cancel(id)
    }

    /// See [`WorkHandle::cancel_all`](crate::WorkHandle::cancel_all).
    pub fn cancel_all(&self) {
        self.handle.cancel_all();
    }

    /// See [`WorkHandle::state`](crate::WorkHandle::state).
    #[must_use]
    pub fn state(&self, id: WorkId) -> Option<WorkState> {
        self.handle.state(id)
    }

    /// See [`WorkHandle::snapshot`](crate::WorkHandle::snapshot).
    #[must_use]
    pub fn snapshot(&self) -> Vec<WorkSnapshot> {
        self.handle.snapshot()
    }

    /// See [`WorkHandle::snapshot_of`](crate::WorkHandle::snapshot_of).
    #[must_use]
    pub fn snapshot_of(&self, id: WorkId) -> Option<WorkSnapshot> {
        self.handle.snapshot_of(id)
    }

    /// See [`WorkHandle::metrics`](crate::WorkHandle::metrics).
    #[must_use]
    pub fn metrics(&self) -> WorkSchedulerMetrics {
        self.handle.metrics()
    }

    /// See [`WorkHandle::explain`](crate::WorkHandle::explain).
    #[must_use]
    pub fn explain(&self, id: WorkId) -> Option<Explanation> {
        self.handle.explain(id)
    }

    /// See [`WorkHandle::subscribe`](crate::WorkHandle::subscribe).
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.handle.subscribe()
    }

    /// See [`WorkHandle::forget`](crate::WorkHandle::forget).
    pub fn forget(&self, id: WorkId) -> bool {
        self.handle.forget(id)
    }

    /// See [`WorkHandle::take_work`](crate::WorkHandle::take_work).
    pub fn take_work(&self, id: WorkId) -> Option<Box<dyn Work>> {
        self.handle.take_work(id)
    }

    /// See [`WorkHandle::reopen`](crate::WorkHandle::reopen).
    pub fn reopen(&self, id: WorkId) -> Result<(), ReopenError> {
        self.handle.reopen(id)
    }

    /// See [`WorkHandle::wake`](crate::WorkHandle::wake).
    pub fn wake(&self, id: WorkId) -> bool {
        self.handle.wake(id)
    }

    /// See [`WorkHandle::open_gate`](crate::WorkHandle::open_gate).
    pub fn open_gate(&self, id: WorkId) -> bool {
        self.handle.open_gate(id)
    }

    /// See [`WorkHandle::set_limits`](crate::WorkHandle::set_limits).
    pub fn set_limits(&self, limits: impl Into<ResourceCost>) {
        self.handle.set_limits(limits);
    }

    /// See [`WorkHandle::set_max_concurrency`](crate::WorkHandle::set_max_concurrency).
    pub fn set_max_concurrency(&self, works: usize) {
        self.handle.set_max_concurrency(works);
    }

    /// See [`WorkHandle::shutdown`](crate::WorkHandle::shutdown).
    pub async fn shutdown(&self) {
        self.handle.shutdown().await;
    }
}
