//! Works that take the values of other works.

use std::future::Future;
use std::sync::Arc;

use crate::closure::work_fn;
use crate::context::WorkContext;
use crate::error::{Fatal, WorkError};
use crate::reference::WorkRef;
use crate::spec::{Dependency, WorkSpec};

/// Creates a work from an async closure that takes the values of other works: it starts after all of them have
/// succeeded, and gets their values in every attempt.
///
/// Otherwise it is like [`work_fn`](crate::work_fn).
///
/// ```
/// use windlass::{WorkScheduler, work_after, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let six = scheduler.spawn(work_fn("six", |_ctx| async { Ok(6) }))?;
/// let word = scheduler.spawn(work_fn("word", |_ctx| async { Ok("seven".to_owned()) }))?;
/// let text = work_after("text", (&six, &word), |_ctx, (six, word)| async move {
///     Ok(format!("{six} and {word}"))
/// });
/// let text = scheduler.spawn(text)?;
/// scheduler.run_until_done().await;
/// assert_eq!(*text.await?, "6 and seven");
/// # Ok(())
/// # }
/// ```
pub fn work_after<I, T, F, Fut>(name: impl Into<String>, inputs: I, mut body: F) -> WorkSpec<T>
where
    I: Inputs,
    T: Send + Sync + 'static,
    F: FnMut(WorkContext, I::Values) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, WorkError>> + Send + 'static,
{
    let mut after = Vec::new();
    let inputs = inputs.prepare(&mut after);
    let work = work_fn(name, move |ctx| {
        let attempt = inputs().map(|values| body(ctx, values));
        async move {
            // A skipped work has no value, and a retry would not change that.
            attempt.map_err(Fatal)?.await
        }
    });
    work.after(after)
}

/// What can be given to [`work_after`]: a [`WorkRef`], several of the same type as an array, a slice
/// or a vector, and tuples of all of these. The body is given the values in the same shape.
///
/// ```
/// use windlass::{WorkScheduler, work_after, work_fn};
///
/// let scheduler = WorkScheduler::default();
/// let number = |n: u32| scheduler.spawn(work_fn("number", move |_ctx| async move { Ok(n) }));
/// let (first, others) = (number(1)?, vec![number(2)?, number(3)?]);
/// let sum = work_after("sum", (&first, &others), |_ctx, (first, others)| async move {
///     Ok(*first + others.iter().map(|n| **n).sum::<u32>())
/// });
/// scheduler.spawn(sum)?;
/// # Ok::<(), windlass::SubmitError>(())
/// ```
pub trait Inputs {
    /// What the body is given.
    type Values: Send + 'static;

    /// Names the works, and says how to have their values once they have ended.
    #[doc(hidden)]
    fn prepare(self, works: &mut Vec<Dependency>) -> Prepared<Self::Values>;
}

/// Returns the values of works that have ended, or which of them has none.
type Prepared<V> = Box<dyn Fn() -> Result<V, String> + Send + Sync>;

impl<T: Send + Sync + 'static> Inputs for &WorkRef<T> {
    type Values = Arc<T>;

    fn prepare(self, works: &mut Vec<Dependency>) -> Prepared<Arc<T>> {
        works.push(self.into());
        let work = self.clone();
        Box::new(move || {
            work.value().ok_or_else(|| format!("{:?}, which it needs, has no value", work.name()))
        })
    }
}

impl<T: Send + Sync + 'static> Inputs for &[WorkRef<T>] {
    type Values = Vec<Arc<T>>;

    fn prepare(self, works: &mut Vec<Dependency>) -> Prepared<Vec<Arc<T>>> {
        let each: Vec<_> = self.iter().map(|work| work.prepare(works)).collect();
        Box::new(move || each.iter().map(|value| value()).collect())
    }
}

impl<T: Send + Sync + 'static> Inputs for &Vec<WorkRef<T>> {
    type Values = Vec<Arc<T>>;

    fn prepare(self, works: &mut Vec<Dependency>) -> Prepared<Vec<Arc<T>>> {
        self.as_slice().prepare(works)
    }
}

impl<T: Send + Sync + 'static, const N: usize> Inputs for [&WorkRef<T>; N] {
    type Values = [Arc<T>; N];

    fn prepare(self, works: &mut Vec<Dependency>) -> Prepared<[Arc<T>; N]> {
        let each = self.map(|work| work.prepare(works));
        Box::new(move || {
            let values: Vec<_> = each.iter().map(|value| value()).collect::<Result<_, _>>()?;
            Ok(values.try_into().unwrap_or_else(|_| unreachable!("one value for each work")))
        })
    }
}

macro_rules! tuple_inputs {
    ($($input:ident $name:ident),+) => {
        impl<$($input: Inputs),+> Inputs for ($($input,)+) {
            type Values = ($($input::Values,)+);

            fn prepare(self, works: &mut Vec<Dependency>) -> Prepared<Self::Values> {
                let ($($name,)+) = self;
                $(let $name = $name.prepare(works);)+
                Box::new(move || Ok(($($name()?,)+)))
            }
        }
    };
}

tuple_inputs!(A a);
tuple_inputs!(A a, B b);
tuple_inputs!(A a, B b, C c);
tuple_inputs!(A a, B b, C c, D d);
tuple_inputs!(A a, B b, C c, D d, E e);
tuple_inputs!(A a, B b, C c, D d, E e, G g);
