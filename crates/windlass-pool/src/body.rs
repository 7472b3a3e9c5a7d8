//! Bodies in recycled memory: what a driver keeps of a closure that it begins, perhaps several times.
//!
//! A [`Body`] is a [`Routine`] whose type is forgotten, together with a place for the future that it
//! begins. Both lie in one recycled block if they are small; a larger future gets a block of its own
//! when it begins, so what only waits takes no more memory than its closure. A driver that makes and
//! ends bodies all the time allocates nothing for them.
//!
//! A body is *idle* or *begun*. Idle, it can be looked at and begun; begun, there is a future in
//! place, which borrows the routine and is polled until it is ready or stopped. Which of the two it
//! is stands in the block's first word: each has a table of functions of its own.
//!
//! ```
//! use std::task::{Context, Poll, Waker};
//! use windlass_pool::body::{Body, Routine};
//!
//! struct Greeting {
//!     name: String,
//!     times: u32,
//! }
//!
//! impl Routine<&'static str> for Greeting {
//!     type Output = String;
//!     type View = str;
//!
//!     fn begin(&mut self, word: &'static str) -> impl Future<Output = String> + Send {
//!         self.times += 1;
//!         async move { format!("{word}, {}, for the {}. time", self.name, self.times) }
//!     }
//!
//!     fn view(&self) -> &str {
//!         &self.name
//!     }
//!
//!     fn view_mut(&mut self) -> &mut str {
//!         &mut self.name
//!     }
//!
//!     fn into_view(self) -> Box<str> {
//!         self.name.into()
//!     }
//! }
//!
//! let mut body = Body::new(Greeting { name: "Ada".to_owned(), times: 0 });
//! let mut cx = Context::from_waker(Waker::noop());
//! body.begin("Hello");
//! assert_eq!(body.poll(&mut cx), Poll::Ready("Hello, Ada, for the 1. time".to_owned()));
//! body.begin("Hello again");
//! body.stop(); // before it was polled
//! assert_eq!(body.view(), "Ada");
//! ```
//!
//! Knows nothing of works, attempts or who polls.

#![allow(unsafe_code)]

use std::{
    alloc::Layout,
    fmt,
    mem::{ManuallyDrop, MaybeUninit},
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};

use crate::depot::{Block, Huge, Large, Medium, Small, Tiny};

/// A slot with its future in it is at most this large; else the future gets memory of its own.
const INLINE: usize = size_of::<Medium>();

/// Something that can be begun, one time after the other, and looked at in between.
pub trait Routine<A>: Send + Sized + 'static {
    /// What it comes to.
    type Output: 'static;
    /// As what it is seen while it is idle, such as `dyn Trait`.
    type View: ?Sized + 'static;

    /// Begins it. What happens here already belongs to the attempt; what can wait belongs into the
    /// future.
    fn begin(&mut self, arguments: A) -> impl Future<Output = Self::Output> + Send;

    /// As those see it who only look.
    fn view(&self) -> &Self::View;

    /// As those see it who may change it.
    fn view_mut(&mut self) -> &mut Self::View;

    /// As those see it who take it out of its body.
    fn into_view(self) -> Box<Self::View>;
}

/// A [`Routine`] of any type that takes `A`, comes to `O` and is seen as `V`. One word.
pub struct Body<A: 'static, O: 'static, V: ?Sized + 'static> {
    head: Raw<A, O, V>,
}

// SAFETY: the routine and its future may go to other threads, which `Routine` demands of both. The
// arguments and the output are never kept.
unsafe impl<A, O, V: ?Sized> Send for Body<A, O, V> {}

/// Whether a future is in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Begun,
}

/// A slot whose types are forgotten.
type Raw<A, O, V> = NonNull<Head<A, O, V>>;

/// What can be done with a slot whose types are forgotten. All of them demand that the head is that
/// of a slot of the types the table was made for, and that nobody else uses the slot meanwhile.
struct Table<A: 'static, O: 'static, V: ?Sized + 'static> {
    phase: Phase,
    /// Demands [`Phase::Idle`], and that the result is used as a shared reference, no longer than
    /// the phase lasts.
    view: unsafe fn(Raw<A, O, V>) -> NonNull<V>,
    /// Demands [`Phase::Idle`], and that the result is used no longer than the phase lasts.
    view_mut: unsafe fn(Raw<A, O, V>) -> NonNull<V>,
    /// Demands [`Phase::Idle`].
    begin: unsafe fn(Raw<A, O, V>, A),
    /// Demands [`Phase::Begun`]; leaves [`Phase::Idle`] when it is ready.
    poll: unsafe fn(Raw<A, O, V>, &mut Context<'_>) -> Poll<O>,
    /// Demands [`Phase::Begun`].
    stop: unsafe fn(Raw<A, O, V>),
    /// Demands [`Phase::Idle`]; the slot is gone afterwards.
    take: unsafe fn(Raw<A, O, V>) -> Box<V>,
    /// The slot is gone afterwards.
    free: unsafe fn(Raw<A, O, V>),
}

/// The part of a slot that does not depend on the routine.
struct Head<A: 'static, O: 'static, V: ?Sized + 'static> {
    table: &'static Table<A, O, V>,
}

/// A routine, how it is begun, and the place for its future.
///
/// `B` is the very function `R::begin`, as a value without size: through its type the future's type
/// has a name.
#[repr(C)]
struct Slot<A: 'static, R: Routine<A>, B, F> {
    head: Head<A, R::Output, R::View>,
    begin: B,
    routine: R,
    future: MaybeUninit<F>,
}

impl<A, O, V: ?Sized> Body<A, O, V> {
    /// Keeps a routine.
    #[inline]
    pub fn new<R: Routine<A, Output = O, View = V>>(routine: R) -> Self {
        Self::keep(routine, R::begin)
    }

    #[inline(always)]
    fn keep<R, B, F>(routine: R, begin: B) -> Self
    where
        R: Routine<A, Output = O, View = V>,
        B: Fn(&'static mut R, A) -> F + Copy + Send,
        F: Future<Output = O> + Send,
    {
        if size_of::<Slot<A, R, B, F>>() <= INLINE {
            return Self { head: Slot::place(routine, begin) };
        }
        let apart = move |routine: &'static mut R, arguments| Apart::new(begin(routine, arguments));
        Self { head: Slot::place(routine, apart) }
    }

    /// Whether there is a future in place: it was begun, has not been ready and was not stopped.
    pub fn is_begun(&self) -> bool {
        self.table().phase == Phase::Begun
    }

    /// The routine.
    ///
    /// # Panics
    /// If it is begun: its future has it.
    pub fn view(&self) -> &V {
        let view = self.idle().view;
        // SAFETY: the body is idle and stays so while it is borrowed.
        unsafe { view(self.head).as_ref() }
    }

    /// The routine, to be changed.
    ///
    /// # Panics
    /// If it is begun: its future has it.
    pub fn view_mut(&mut self) -> &mut V {
        let view_mut = self.idle().view_mut;
        // SAFETY: the body is idle, and is ours alone while it is borrowed.
        unsafe { view_mut(self.head).as_mut() }
    }

    /// Begins the routine and puts its future into its place. If the routine panics, the body stays
    /// idle.
    ///
    /// # Panics
    /// If it is begun already.
    #[inline]
    pub fn begin(&mut self, arguments: A) {
        let begin = self.idle().begin;
        // SAFETY: the body is idle, and is ours alone.
        unsafe { begin(self.head, arguments) };
    }

    /// Polls the future, and drops it when it is ready: then the body is idle.
    ///
    /// If the future panics it stays where it is, to be stopped. If it panics when it is dropped, the
    /// body is idle, and the output is lost.
    ///
    /// # Panics
    /// If it is not begun.
    #[inline]
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<O> {
        let table = self.table();
        assert!(table.phase == Phase::Begun, "a body is polled after it was begun");
        // SAFETY: the body is begun, and is ours alone.
        unsafe { (table.poll)(self.head, cx) }
    }

    /// Drops the future, if there is one, and nothing else. Afterwards the body is idle, also if the
    /// drop panics.
    #[inline]
    pub fn stop(&mut self) {
        let table = self.table();
        if table.phase == Phase::Begun {
            // SAFETY: the body is begun, and is ours alone.
            unsafe { (table.stop)(self.head) };
        }
    }

    /// Takes the routine out.
    ///
    /// # Panics
    /// If it is begun: its future has it.
    pub fn into_view(self) -> Box<V> {
        let take = self.idle().take;
        // SAFETY: the body is idle and ours alone, and is not dropped any more.
        unsafe { take(ManuallyDrop::new(self).head) }
    }

    #[inline(always)]
    fn table(&self) -> &'static Table<A, O, V> {
        // SAFETY: the slot is there as long as its body, and only what borrows the body exclusively
        // writes there.
        unsafe { self.head.as_ref() }.table
    }

    #[inline(always)]
    fn idle(&self) -> &'static Table<A, O, V> {
        let table = self.table();
        assert!(table.phase == Phase::Idle, "a routine cannot be reached while it is begun");
        table
    }
}

impl<A, O, V: ?Sized> Drop for Body<A, O, V> {
    fn drop(&mut self) {
        let free = self.table().free;
        // SAFETY: the slot is ours, and this is its last use.
        unsafe { free(self.head) };
    }
}

impl<A, O, V: ?Sized> fmt::Debug for Body<A, O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("phase", &self.table().phase).finish_non_exhaustive()
    }
}

/// A slot as its functions get it. Its fields are reached one by one: a reference to all of it would
/// claim the routine from the future that has borrowed it.
type Place<A, R> = Raw<A, <R as Routine<A>>::Output, <R as Routine<A>>::View>;

impl<A, R, B, F> Slot<A, R, B, F>
where
    R: Routine<A>,
    B: Fn(&'static mut R, A) -> F + Copy,
    F: Future<Output = R::Output>,
{
    const IDLE: &'static Table<A, R::Output, R::View> = &Self::table(Phase::Idle);
    const BEGUN: &'static Table<A, R::Output, R::View> = &Self::table(Phase::Begun);

    const fn table(phase: Phase) -> Table<A, R::Output, R::View> {
        Table {
            phase,
            view: Self::view,
            view_mut: Self::view_mut,
            begin: Self::begin,
            poll: Self::poll,
            stop: Self::stop,
            take: Self::take,
            free: Self::free,
        }
    }

    #[inline(always)]
    fn place(routine: R, begin: B) -> Place<A, R> {
        let head = Head { table: Self::IDLE };
        let slot = Memory::<Self>::take().into_raw();
        // SAFETY: the memory is ours, and holds nothing yet. The future's place stays empty.
        unsafe {
            (&raw mut (*slot.as_ptr()).head).write(head);
            (&raw mut (*slot.as_ptr()).begin).write(begin);
            (&raw mut (*slot.as_ptr()).routine).write(routine);
        }
        slot.cast()
    }

    unsafe fn view(place: Place<A, R>) -> NonNull<R::View> {
        let slot = place.cast::<Self>().as_ptr();
        // SAFETY: by the contract the routine is there, and nobody changes it.
        NonNull::from(unsafe { &(*slot).routine }.view())
    }

    unsafe fn view_mut(place: Place<A, R>) -> NonNull<R::View> {
        let slot = place.cast::<Self>().as_ptr();
        // SAFETY: by the contract the routine is there, and the caller's alone.
        NonNull::from(unsafe { &mut (*slot).routine }.view_mut())
    }

    unsafe fn begin(place: Place<A, R>, arguments: A) {
        let slot = place.cast::<Self>().as_ptr();
        // SAFETY: by the contract the routine is there, and nobody else reaches it in this phase,
        // nor in the next: only the future does, which is dropped before that ends. It does not hold
        // on to the routine for longer, although the reference would let it: `Routine::begin` is
        // written for every lifetime, and neither arguments nor output know the one it is called with.
        let routine: &'static mut R = unsafe { &mut (*slot).routine };
        // SAFETY: as above; it is a copy of a function.
        let future = unsafe { (*slot).begin }(routine, arguments);
        // SAFETY: in this phase the future's place is empty.
        unsafe { (&raw mut (*slot).future).write(MaybeUninit::new(future)) };
        // SAFETY: there is a future now.
        unsafe { Self::enter(place, Phase::Begun) };
    }

    unsafe fn poll(place: Place<A, R>, cx: &mut Context<'_>) -> Poll<R::Output> {
        let slot = place.cast::<Self>().as_ptr();
        // SAFETY: by the contract there is a future. It is pinned: it stays where it is until `stop`
        // drops it there, and `stop` comes before its memory is used for anything else.
        let polled = unsafe { Pin::new_unchecked((*slot).future.assume_init_mut()) }.poll(cx);
        if polled.is_ready() {
            // SAFETY: as above.
            unsafe { Self::stop(place) };
        }
        polled
    }

    unsafe fn stop(place: Place<A, R>) {
        // SAFETY: the future is dropped below, even if that panics, and not looked at any more.
        unsafe { Self::enter(place, Phase::Idle) };
        let slot = place.cast::<Self>().as_ptr();
        // SAFETY: by the contract there is a future.
        unsafe { (*slot).future.assume_init_drop() };
    }

    unsafe fn take(place: Place<A, R>) -> Box<R::View> {
        let slot = place.cast::<Self>();
        // SAFETY: by the contract the routine is there; it is read once, since the slot goes.
        let routine = unsafe { (&raw const (*slot.as_ptr()).routine).read() };
        // SAFETY: it came from there, and is not used again.
        drop(unsafe { Memory::from_raw(slot) });
        routine.into_view()
    }

    /// Drops what is there, each also if the drop of another panics, the future before what it
    /// borrows.
    unsafe fn free(place: Place<A, R>) {
        let slot = place.cast::<Self>();
        // SAFETY: it came from there, and is not used again after this call.
        let _memory = unsafe { Memory::from_raw(slot) };
        // SAFETY: the routine is there, and is dropped once, since the slot goes.
        let _routine = unsafe { InPlace::new(&raw mut (*slot.as_ptr()).routine) };
        // SAFETY: by the contract the head is there.
        if unsafe { place.as_ref() }.table.phase == Phase::Begun {
            // SAFETY: in this phase there is a future.
            unsafe { Self::stop(place) };
        }
    }

    /// The only place where a phase changes.
    ///
    /// # Safety
    /// The head is of a slot of these types, the caller's alone, and the future's place is as the
    /// phase says or will be when the caller is done.
    #[inline(always)]
    unsafe fn enter(mut place: Place<A, R>, phase: Phase) {
        let table = match phase {
            Phase::Idle => Self::IDLE,
            Phase::Begun => Self::BEGUN,
        };
        // SAFETY: by the contract.
        unsafe { place.as_mut() }.table = table;
    }
}

/// A value that is dropped where it is.
struct InPlace<T>(*mut T);

impl<T> InPlace<T> {
    /// # Safety
    /// The value is there, and nobody else uses or drops it any more.
    unsafe fn new(value: *mut T) -> Self {
        Self(value)
    }
}

impl<T> Drop for InPlace<T> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`.
        unsafe { self.0.drop_in_place() };
    }
}

/// A future in memory of its own.
struct Apart<F> {
    future: NonNull<F>,
}

// SAFETY: the future belongs to this value alone.
unsafe impl<F: Send> Send for Apart<F> {}

impl<F> Apart<F> {
    #[inline]
    fn new(future: F) -> Self {
        let memory = Memory::<F>::take().into_raw();
        // SAFETY: the memory is ours, and holds nothing yet.
        unsafe { memory.write(future) };
        Self { future: memory }
    }
}

impl<F: Future> Future for Apart<F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is ours, and stays where it is until it is dropped there.
        unsafe { Pin::new_unchecked(self.future.as_mut()) }.poll(cx)
    }
}

impl<F> Drop for Apart<F> {
    fn drop(&mut self) {
        // SAFETY: it came from there, and is not used again after this call.
        let _memory = unsafe { Memory::from_raw(self.future) };
        // SAFETY: the future is there, and is ours.
        unsafe { self.future.drop_in_place() };
    }
}

/// Memory for a `T`, with nothing in it: a recycled block, or a box of its own if none is large or
/// aligned enough. Dropping it gives it back.
struct Memory<T>(NonNull<T>);

impl<T> Memory<T> {
    #[inline(always)]
    fn take() -> Self {
        let layout = Layout::new::<T>();
        if Tiny::fits(layout) {
            Self::in_block::<Tiny>()
        } else if Small::fits(layout) {
            Self::in_block::<Small>()
        } else if Medium::fits(layout) {
            Self::in_block::<Medium>()
        } else if Large::fits(layout) {
            Self::in_block::<Large>()
        } else if Huge::fits(layout) {
            Self::in_block::<Huge>()
        } else {
            Self(NonNull::from(Box::leak(Box::<T>::new_uninit())).cast())
        }
    }

    #[inline(always)]
    fn in_block<B: Block>() -> Self {
        Self(NonNull::from(Box::leak(B::take())).cast())
    }

    fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    /// It came from [`Memory::into_raw`], and what it held is gone or will be before this is dropped.
    unsafe fn from_raw(memory: NonNull<T>) -> Self {
        Self(memory)
    }

    #[inline(always)]
    fn give_block<B: Block>(&mut self) {
        // SAFETY: `take` chooses by the layout alone, so it was such a block, which is ours.
        B::give(unsafe { Box::from_raw(self.0.cast().as_ptr()) });
    }
}

impl<T> Drop for Memory<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let layout = Layout::new::<T>();
        if Tiny::fits(layout) {
            self.give_block::<Tiny>();
        } else if Small::fits(layout) {
            self.give_block::<Small>();
        } else if Medium::fits(layout) {
            self.give_block::<Medium>();
        } else if Large::fits(layout) {
            self.give_block::<Large>();
        } else if Huge::fits(layout) {
            self.give_block::<Huge>();
        } else {
            // SAFETY: as for a block, in a box of its own.
            drop(unsafe { Box::from_raw(self.0.cast::<MaybeUninit<T>>().as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests;
