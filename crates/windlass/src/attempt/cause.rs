//! Why an attempt did not succeed, in words.

use std::sync::Arc;

use windlass_core::{Ending, Phase, StopReason};

use crate::context::WorkContext;
use crate::entry::Cause;
use crate::state::State;
use crate::work::WorkOutcome;

/// Returns why the attempt did not succeed; none if it did, or was cancelled.
pub(super) fn of(
    ctx: &WorkContext,
    state: &State,
    outcome: &WorkOutcome,
    ending: Ending,
) -> Option<Cause> {
    if !matches!(ending, Ending::Failed | Ending::Retry { .. }) {
        return None;
    }
    let why = match state.engine.phase(ctx.id.local()) {
        Some(Phase::Cancelling { why, .. }) => Some(why),
        _ => None,
    };
    let extras = state.entry(ctx.id.local()).and_then(|entry| entry.extras());
    let (mut origin, mut source) = (None, None);
    let has_no_retries = state.engine.retries(ctx.id.local()).unwrap_or(0) == 0;
    let (text, is_final) = match (why, outcome) {
        (Some(StopReason::Deadline), _) => ("its deadline passed".to_owned(), true),
        (Some(_), _) => {
            let timeout = extras.and_then(|extras| extras.timeout).unwrap_or_default();
            (format!("timed out after {timeout:?}"), has_no_retries)
        }
        (None, WorkOutcome::Failed(error)) => {
            (source, origin) = ctx.inner.error(error);
            (error.clone(), true)
        }
        (None, WorkOutcome::Retry { .. }) => {
            let reason = ctx.inner.take_retry_reason();
            if let Some(reason) = &reason {
                (source, origin) = ctx.inner.error(reason);
            }
            match reason {
                Some(reason) => (reason, has_no_retries),
                None => ("it asked to be tried again".to_owned(), false),
            }
        }
        (None, _) => {
            let failed = extras.and_then(|extras| extras.failed_child.as_ref());
            origin = failed.map(|failed| Arc::clone(&failed.origin));
            source = failed.and_then(|failed| failed.origin.source.clone());
            let failed = failed.map(|failed| failed.text.clone());
            let failed = failed.unwrap_or_else(|| "a child of it did not succeed".to_owned());
            (failed, has_no_retries)
        }
    };
    // Retries are mentioned only for a work that had some, or asked for one itself.
    let text = match ending {
        Ending::Failed if !is_final => {
            format!("{text}; no retries left after attempt {}", ctx.attempt)
        }
        _ => text,
    };
    Some(Cause { text, source, origin })
}
