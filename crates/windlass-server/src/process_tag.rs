//! The tag by which the processes of an attempt, a check or a command under a lock are found.
//!
//! A process carries its tags in an environment variable that its children inherit, so it is found even
//! if its parents have ended. The variable has one tag for each lease, run and check that the process
//! works for. The tags of a run begin with `run-ID`; those of its attempts add the epoch, the step and
//! the attempt. The store keeps a tag as `VARIABLE=tag`, so that a process of another version can search
//! for it. `limit_tag` derives a number from the tag, for processes that clear their environment.

use windlass_store::ProcessTree;

/// The variable with the tags of a process, separated by spaces.
pub(crate) const TAG_VARIABLE: &str = "WINDLASS_LEASES";
/// The prefix of the tags of a run, before its id.
pub(crate) const RUN_PREFIX: &str = "run-";

/// Returns the value of [`TAG_VARIABLE`] for a process that works for `tags` and for everything that this
/// process works for.
pub(crate) fn inherited_with(tags: &str) -> String {
    match std::env::var(TAG_VARIABLE) {
        Ok(inherited) if !inherited.is_empty() => format!("{inherited} {tags}"),
        _ => tags.to_owned(),
    }
}

/// Returns the processes that carry `tag`, without their process group.
pub(crate) fn tree_of(tag: &str) -> ProcessTree {
    ProcessTree { tag: format!("{TAG_VARIABLE}={tag}"), group: None }
}

/// Returns whether this process belongs to `tree`.
pub(crate) fn is_in(tree: &ProcessTree) -> bool {
    let inherited = std::env::var(TAG_VARIABLE).unwrap_or_default();
    tag_of(tree).is_some_and(|tag| inherited.split(' ').any(|own| own == tag))
}

/// Returns the run to one of whose attempts, hooks or checks a tree belongs.
pub(crate) fn run_of_tree(tree: &ProcessTree) -> Option<&str> {
    run_of(tag_of(tree)?)
}

/// Returns the id of the run that a tag names, or to one of whose attempts, hooks or checks it belongs.
pub(crate) fn run_of(tag: &str) -> Option<&str> {
    tag.strip_prefix(RUN_PREFIX)?.split('-').next()
}

fn tag_of(tree: &ProcessTree) -> Option<&str> {
    tree.tag.strip_prefix(TAG_VARIABLE)?.strip_prefix('=')
}
