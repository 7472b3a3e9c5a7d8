//! The labels of workers, as numbers.

use std::collections::BTreeMap;

/// Which workers a work may go to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// The labels that its worker has.
    pub labels: BTreeMap<String, String>,
    /// The name of its worker.
    pub worker: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LabelId(u32);

/// Each label and each name of a worker has a number.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    numbers: BTreeMap<Label, LabelId>,
    labels: Vec<Label>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Name(String),
    Pair(String, String),
}

impl Labels {
    pub(super) fn number(&mut self, key: &str, value: &str) -> LabelId {
        self.number_of(Label::Pair(key.to_owned(), value.to_owned()))
    }

    pub(super) fn number_of_name(&mut self, name: &str) -> LabelId {
        self.number_of(Label::Name(name.to_owned()))
    }

    /// Returns the numbers of all labels that a selector asks for, in order.
    pub(super) fn of(&mut self, selector: &Selector) -> Vec<LabelId> {
        let pairs = selector.labels.iter().map(|(key, value)| self.number(key, value));
        let mut labels: Vec<_> = pairs.collect();
        labels.extend(selector.worker.iter().map(|name| self.number_of_name(name)));
        labels.sort_unstable();
        labels
    }

    pub(super) fn label(&self, id: LabelId) -> &Label {
        &self.labels[id.0 as usize]
    }

    fn number_of(&mut self, label: Label) -> LabelId {
        if let Some(&known) = self.numbers.get(&label) {
            return known;
        }
        let id = LabelId(u32::try_from(self.labels.len()).expect("fewer than 2^32 labels"));
        self.labels.push(label.clone());
        self.numbers.insert(label, id);
        id
    }
}
