//! Whether every `{step.key}` comes from a step that is upstream.
//!
//! Most are from a step that is waited for directly. The rest are answered many at a time: a bit
//! per source goes down the edges in order, so that 64 sources cost one look at every edge.

use std::collections::HashMap;

use super::declared::DeclaredSteps;
use super::texts::{OutputReference, TextReader};
use crate::diagnostic::Diagnostic;

pub(super) fn check(
    texts: &TextReader<'_>,
    declared: &DeclaredSteps<'_>,
    sources: &[Vec<usize>],
    order: &[usize],
) {
    let uses = texts.outputs.borrow();
    let direct = |output: &&OutputReference| {
        let source = declared.steps[output.source].first;
        declared.steps[output.user].places().all(|place| sources[place].contains(&source))
    };
    let mut far: HashMap<usize, Vec<&OutputReference>> = HashMap::new();
    for output in uses.iter().filter(|output| !direct(output)) {
        far.entry(output.source).or_default().push(output);
    }
    let far: Vec<_> = far.into_iter().collect();
    for batch in far.chunks(64) {
        let firsts: Vec<_> =
            batch.iter().map(|(source, _)| declared.steps[*source].first).collect();
        let below = below(&firsts, sources, order);
        for (bit, (_, uses)) in batch.iter().enumerate() {
            for output in uses {
                let mut places = declared.steps[output.user].places();
                if !places.all(|place| below[place] >> bit & 1 == 1) {
                    texts.diagnostics.error(not_upstream(output, declared));
                }
            }
        }
    }
}

/// For each place, which of at most 64 others it comes after.
fn below(firsts: &[usize], sources: &[Vec<usize>], order: &[usize]) -> Vec<u64> {
    let own = firsts.iter().enumerate().map(|(bit, &place)| (place, 1_u64 << bit));
    let own: HashMap<usize, u64> = own.collect();
    let mut below = vec![0_u64; sources.len()];
    for &place in order {
        let reached = |&source: &usize| below[source] | own.get(&source).copied().unwrap_or(0);
        below[place] = sources[place].iter().map(reached).fold(0, |all, bits| all | bits);
    }
    below
}

fn not_upstream(output: &OutputReference, declared: &DeclaredSteps<'_>) -> Diagnostic {
    let user = declared.steps[output.user].key.as_str();
    let source = declared.steps[output.source].key.as_str();
    let key = &output.key;
    let (message, help) = if user == source {
        (
            format!("step `{user}` uses `{{{source}.{key}}}`, which it writes itself"),
            "a value can be used by the steps that come after".to_owned(),
        )
    } else {
        (
            format!("step `{user}` uses `{{{source}.{key}}}` and does not come after `{source}`"),
            format!("add `{source}` to the `after` of `{user}`"),
        )
    };
    Diagnostic::new(output.span.clone(), message, "not there yet").help(help)
}
