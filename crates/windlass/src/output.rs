//! The output of a work: drafted by an attempt, published when the work has succeeded.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::work::Work;

/// Returns the output of a body.
pub(crate) type OutputOf<T> = fn(&mut dyn Work) -> Output<T>;

/// The value of a work, once it has succeeded.
pub(crate) enum Output<T> {
    /// Always the same value, which is made on demand.
    Fixed(fn() -> Arc<T>),
    /// The value that its body publishes here.
    Slot(Arc<OutputSlot<T>>),
}

/// Where a body publishes its value.
pub(crate) struct OutputSlot<T>(Mutex<Option<Arc<T>>>);

impl<T> OutputSlot<T> {
    fn empty() -> Arc<Self> {
        Arc::new(Self(Mutex::new(None)))
    }

    fn put(&self, value: T) {
        self.set(Some(Arc::new(value)));
    }

    /// Replaces the value. The previous one is dropped after the lock is released.
    fn set(&self, value: Option<Arc<T>>) {
        let before = {
            let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, value)
        };
        drop(before);
    }
}

impl<T> Output<T> {
    /// Returns the value, if one is published.
    pub(crate) fn value(&self) -> Option<Arc<T>> {
        match self {
            Self::Fixed(make) => Some(make()),
            Self::Slot(value) => value.0.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Returns the value itself if nothing else refers to it.
    pub(crate) fn into_value(self) -> Option<T> {
        match self {
            Self::Fixed(make) => Arc::into_inner(make()),
            Self::Slot(value) => {
                let value = Arc::into_inner(value)?.0.into_inner();
                Arc::into_inner(value.unwrap_or_else(PoisonError::into_inner)?)
            }
        }
    }
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Fixed(make) => Self::Fixed(*make),
            Self::Slot(value) => Self::Slot(Arc::clone(value)),
        }
    }
}

/// The value of a body. It is published only when its work has succeeded: an attempt that returns may still
/// be cancelled, or have a child that fails.
pub(crate) struct OutputDraft<T> {
    draft: Option<T>,
    /// Where the value is published; gone with the last [`WorkRef`](crate::WorkRef) of the work.
    value: Weak<OutputSlot<T>>,
}

impl<T> OutputDraft<T> {
    pub(crate) fn empty() -> Self {
        Self { draft: None, value: Weak::new() }
    }

    /// Returns the slot in which the value will be published.
    pub(crate) fn output(&mut self) -> Output<T> {
        let value = self.value.upgrade().unwrap_or_else(OutputSlot::empty);
        self.value = Arc::downgrade(&value);
        Output::Slot(value)
    }

    pub(crate) fn keep(&mut self, value: T) {
        self.draft = Some(value);
    }

    /// Publishes the value, or drops it if no reference to it is left.
    pub(crate) fn publish(&mut self) {
        if let (Some(draft), Some(value)) = (self.draft.take(), self.value.upgrade()) {
            value.put(draft);
        }
    }

    pub(crate) fn withdraw(&mut self) {
        self.draft = None;
        if let Some(value) = self.value.upgrade() {
            value.set(None);
        }
    }
}

/// Returns the output of a body of this type, which the spec was made with.
pub(crate) fn output_of<W: Work, T>(
    body: &mut dyn Work,
    draft: impl FnOnce(&mut W) -> &mut OutputDraft<T>,
) -> Output<T> {
    let body: &mut dyn Any = body;
    draft(body.downcast_mut().expect("a spec keeps the body it was made with")).output()
}

/// The hooks of a body with an output: `publish_on_success!(this => this.output)`.
macro_rules! publish_on_success {
    ($this:ident => $output:expr) => {
        fn on_success(&mut self) {
            let $this = self;
            $output.publish();
        }

        fn on_failure_raise(&mut self) {
            let $this = self;
            $output.withdraw();
        }

        fn on_abort(&mut self) {
            let $this = self;
            $output.withdraw();
        }
    };
}
pub(crate) use publish_on_success;
