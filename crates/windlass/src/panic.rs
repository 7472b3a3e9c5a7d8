//! What a panic of the user's code leaves: a message, and a payload that has to be dropped with care.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("no message")
}

/// Returns the message of a panic and drops its payload. A payload is the user's, so its destructor may
/// panic, too; that panic changes nothing about how the work ends.
pub(crate) fn into_message(payload: Box<dyn Any + Send>) -> String {
    let message = message(&*payload).to_owned();
    drop_payload(payload);
    message
}

/// Drops a value of the user's. The panic hook has reported a panic of its destructor, which concerns no other
/// value.
pub(crate) fn drop_quietly<T>(value: T) {
    quietly(|| drop(value));
}

/// Calls a waker of the user's, or drops a value. The panic hook has reported a panic, which concerns neither
/// the caller nor any other work.
pub(crate) fn quietly(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        drop_payload(payload);
    }
}

fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        forget(another);
    }
}
