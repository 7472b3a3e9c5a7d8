//! Works as the driver keeps them: in the pool's recycled memory, each with its attempt's future.

use windlass_pool::body::{Body, Routine};

use crate::context::WorkContext;
use crate::work::{Work, WorkOutcome};

/// A work of any type. Begun, an attempt of it is under way; idle, it is seen as a [`Work`].
pub(crate) type Kept = Body<WorkContext, WorkOutcome, dyn Work>;

/// Keeps a work whose type is known.
pub(crate) fn keep(work: impl Work) -> Kept {
    Body::new(Whole(work))
}

/// Keeps a work whose type is not known any more.
pub(crate) fn keep_boxed(work: Box<dyn Work>) -> Kept {
    Body::new(Boxed(work))
}

struct Whole<W>(W);

impl<W: Work> Routine<WorkContext> for Whole<W> {
    type Output = WorkOutcome;
    type View = dyn Work;

    fn begin(&mut self, ctx: WorkContext) -> impl Future<Output = WorkOutcome> + Send {
        self.0.run(ctx)
    }

    fn view(&self) -> &Self::View {
        &self.0
    }

    fn view_mut(&mut self) -> &mut Self::View {
        &mut self.0
    }

    fn into_view(self) -> Box<Self::View> {
        Box::new(self.0)
    }
}

struct Boxed(Box<dyn Work>);

impl Routine<WorkContext> for Boxed {
    type Output = WorkOutcome;
    type View = dyn Work;

    fn begin(&mut self, ctx: WorkContext) -> impl Future<Output = WorkOutcome> + Send {
        self.0.run(ctx)
    }

    fn view(&self) -> &Self::View {
        &*self.0
    }

    fn view_mut(&mut self) -> &mut Self::View {
        &mut *self.0
    }

    fn into_view(self) -> Box<Self::View> {
        self.0
    }
}
