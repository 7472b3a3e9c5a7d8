//! An attempt that computes on the CPU pool. A closure cannot be dropped under way, as a future can: it is
//! asked to stop, and has what its work has taken until it returns.
//!
//! So no timeout ends the wait for it, and if its future is dropped all the same, with its run, the end of the
//! attempt is left to the closure.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::attempt::give_up;
use crate::context::WorkContext;

/// The attempt computes for as long as this lives: the closure has it.
pub(crate) struct Computing(WorkContext);

impl Computing {
    pub(crate) fn begin(ctx: &WorkContext) -> Self {
        *ctx.inner.on_pool().stage() = Stage::Computes;
        Self(ctx.clone())
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        let Self(ctx) = self;
        let before = std::mem::take(&mut *ctx.inner.on_pool().stage());
        if before == Stage::Left {
            ctx.shared().session(|session| give_up(session, ctx.grant()));
        }
    }
}

/// Whether an attempt computes.
#[derive(Default)]
pub(crate) struct OnPool(Mutex<Stage>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Computes,
    /// Nobody else is left to report the attempt's end.
    Left,
}

impl OnPool {
    pub(crate) fn is_busy(&self) -> bool {
        *self.stage() != Stage::Idle
    }

    /// Leaves the end of the attempt to the closure; false if that has returned.
    pub(crate) fn leave(&self) -> bool {
        let mut stage = self.stage();
        let is_busy = *stage != Stage::Idle;
        if is_busy {
            *stage = Stage::Left;
        }
        is_busy
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
