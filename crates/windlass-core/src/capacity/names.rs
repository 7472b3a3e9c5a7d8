//! The names of the resources of a tree, each with a number. Numbers are never used again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{ResourceId, SLOTS};

#[derive(Clone, Debug)]
pub(super) struct ResourceNames {
    by_number: Vec<Arc<str>>,
    by_name: BTreeMap<Arc<str>, ResourceId>,
}

impl ResourceNames {
    /// Returns the names of a new tree: only slots, which have the first number.
    pub(super) fn new() -> Self {
        let mut names = Self { by_number: Vec::new(), by_name: BTreeMap::new() };
        names.add(SLOTS);
        names
    }

    /// Adds a name that is not known, and returns its number.
    pub(super) fn add(&mut self, name: &str) -> ResourceId {
        let (name, id): (Arc<str>, _) = (name.into(), ResourceId::at(self.by_number.len()));
        self.by_number.push(Arc::clone(&name));
        self.by_name.insert(name, id);
        id
    }

    pub(super) fn find(&self, name: &str) -> Option<ResourceId> {
        self.by_name.get(name).copied()
    }

    pub(super) fn name(&self, resource: ResourceId) -> &str {
        &self.by_number[resource.index()]
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Returns all names in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.by_number.iter().map(|name| &**name)
    }
}
