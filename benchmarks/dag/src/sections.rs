//! The sections of the benchmark: bodies, shapes, sizes, settings and contenders.

use std::time::Duration;

use crate::case::{Body, Setting};
use crate::contenders::{CONTENDERS, Contender, Kind, Run};
use crate::graph::{SHAPES, Shape};
use crate::options::Options;

pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) body: Body,
    shapes: &'static [&'static str],
    settings: &'static [Setting],
    kinds: &'static [Kind],
    /// How many nodes a graph has when it is timed.
    pub(crate) nodes: usize,
    /// What is counted besides times; nothing where bodies compute.
    pub(crate) counted: Option<Counted>,
    /// Whether it is left out unless its name is given.
    pub(crate) on_demand: bool,
}

/// The sizes for counts: smaller than for times, because each figure takes seconds.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    shapes: &'static [&'static str],
    pub(crate) settings: &'static [Setting],
    pub(crate) nodes: usize,
}

const ALL: &[&str] = &["independent", "chain", "tree", "layered", "wavefront"];
/// The shapes that can keep several threads busy.
const WIDE: &[&str] = &["independent", "tree", "layered", "wavefront"];
const THREE: &[&str] = &["independent", "chain", "layered"];
const TWO: &[&str] = &["independent", "layered"];
const ONE: &[&str] = &["independent"];

const SETTINGS: &[Setting] =
    &[Setting::Plain, Setting::Everything, Setting::AtMost(64), Setting::AtMost(2)];

const NO_TWO: &[Setting] = &[Setting::Plain, Setting::Everything, Setting::AtMost(64)];

const ANY: &[Kind] = &[Kind::Shared, Kind::Floor, Kind::Futures, Kind::Slow];
const COMPUTING: &[Kind] = &[Kind::Shared, Kind::Futures];
const WAITING: &[Kind] = &[Kind::Futures, Kind::Slow];

/// The sections. Bodies that wait come first, because users have those.
pub(crate) const SECTIONS: [Section; 7] = [
    Section {
        name: "waits",
        body: Body::WaitOnce,
        shapes: TWO,
        settings: SETTINGS,
        kinds: WAITING,
        nodes: 100_000,
        counted: Some(Counted { shapes: TWO, settings: SETTINGS, nodes: 20_000 }),
        on_demand: false,
    },
    Section {
        name: "all-wait",
        body: Body::WaitForAll,
        shapes: ONE,
        settings: &[Setting::Plain],
        kinds: WAITING,
        nodes: 100_000,
        counted: Some(Counted { shapes: ONE, settings: SETTINGS, nodes: 100_000 }),
        on_demand: false,
    },
    Section {
        name: "no-op",
        body: Body::NoOp,
        shapes: ALL,
        settings: SETTINGS,
        kinds: ANY,
        nodes: 100_000,
        counted: Some(Counted { shapes: THREE, settings: NO_TWO, nodes: 20_000 }),
        on_demand: false,
    },
    Section {
        name: "1us",
        body: Body::Busy(Duration::from_micros(1)),
        shapes: WIDE,
        settings: SETTINGS,
        kinds: COMPUTING,
        nodes: 50_000,
        counted: None,
        on_demand: false,
    },
    Section {
        name: "10us",
        body: Body::Busy(Duration::from_micros(10)),
        shapes: WIDE,
        settings: SETTINGS,
        kinds: COMPUTING,
        nodes: 10_000,
        counted: None,
        on_demand: false,
    },
    // Bodies that block the runtime's threads: a scheduler that starts one while another thread is idle
    // loses a whole body's time.
    Section {
        name: "20ms",
        body: Body::Busy(Duration::from_millis(20)),
        shapes: ONE,
        settings: &[Setting::Plain, Setting::Everything],
        kinds: COMPUTING,
        nodes: 16,
        counted: None,
        on_demand: false,
    },
    Section {
        name: "million",
        body: Body::NoOp,
        shapes: TWO,
        settings: SETTINGS,
        kinds: COMPUTING,
        nodes: 1_000_000,
        counted: None,
        on_demand: true,
    },
];

/// A contender with a setting: one row of a table.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) contender: &'static Contender,
    pub(crate) setting: Setting,
    pub(crate) run: Run,
}

impl Row {
    pub(crate) fn name(&self) -> String {
        self.setting.name_of(self.contender.name)
    }
}

impl Counted {
    /// Returns the selected shapes among those that are counted.
    pub(crate) fn shapes(&self, options: &Options) -> Vec<&'static Shape> {
        wanted(self.shapes, options)
    }
}

fn wanted(names: &[&str], options: &Options) -> Vec<&'static Shape> {
    let wanted = |shape: &&Shape| names.contains(&shape.name) && options.wants_shape(shape.name);
    SHAPES.iter().filter(wanted).collect()
}

impl Section {
    /// Returns the section with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SECTIONS.iter().find(|section| section.name == name)
    }

    /// Returns the selected shapes among those that are timed.
    pub(crate) fn shapes(&self, options: &Options) -> Vec<&'static Shape> {
        wanted(self.shapes, options)
    }

    /// Returns the selected rows, grouped by setting.
    pub(crate) fn rows(&self, options: &Options) -> Vec<Row> {
        let mut rows = self.all_rows();
        rows.retain(|row| options.wants_row(&row.name()));
        rows
    }

    /// Returns the row with this name.
    pub(crate) fn row(&self, name: &str) -> Option<Row> {
        self.all_rows().into_iter().find(|row| row.name() == name)
    }

    fn all_rows(&self) -> Vec<Row> {
        let contenders = || CONTENDERS.iter().filter(|who| self.kinds.contains(&who.kind));
        let rows_with = |&setting: &Setting| {
            let row = move |contender: &'static Contender| {
                Some(Row { contender, setting, run: contender.run(setting)? })
            };
            contenders().filter_map(row)
        };
        self.settings.iter().flat_map(rows_with).collect()
    }
}
