//! Checks that every `{step.key}` refers to a step that is upstream.
//!
//! Most refer to a direct dependency. The others are checked 64 sources at a time: one bit per source is
//! propagated along the edges in topological order, so a batch costs one look at every edge.

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
    let references = texts.outputs.borrow();
    let is_direct = |output: &&OutputReference| {
        let source = declared.steps[output.source].first;
        declared.steps[output.user].indices().all(|index| sources[index].contains(&source))
    };
    let mut indirect: HashMap<usize, Vec<&OutputReference>> = HashMap::new();
    for output in references.iter().filter(|output| !is_direct(output)) {
        indirect.entry(output.source).or_default().push(output);
    }
    let indirect: Vec<_> = indirect.into_iter().collect();
    for batch in indirect.chunks(64) {
        let firsts: Vec<_> =
            batch.iter().map(|(source, _)| declared.steps[*source].first).collect();
        let upstream = upstream_bits(&firsts, sources, order);
        for (bit, (_, references)) in batch.iter().enumerate() {
            for output in references {
                let mut indices = declared.steps[output.user].indices();
                if !indices.all(|index| upstream[index] >> bit & 1 == 1) {
                    texts.diagnostics.error(not_upstream(output, declared));
                }
            }
        }
    }
}

/// Returns, for each step, a bit for each of at most 64 `candidates` that is upstream of it.
fn upstream_bits(candidates: &[usize], sources: &[Vec<usize>], order: &[usize]) -> Vec<u64> {
    let own = candidates.iter().enumerate().map(|(bit, &index)| (index, 1_u64 << bit));
    let own: HashMap<usize, u64> = own.collect();
    let mut upstream = vec![0_u64; sources.len()];
    for &index in order {
        let bits = |&source: &usize| upstream[source] | own.get(&source).copied().unwrap_or(0);
        upstream[index] = sources[index].iter().map(bits).fold(0, |all, bits| all | bits);
    }
    upstream
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
    Diagnostic::new(output.span.clone(), message, "not available yet").help(help)
}
