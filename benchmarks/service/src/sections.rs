//! The sections of a benchmark, which the arguments of the program choose.

use std::env;

use windlass_bench_report::Table;

use crate::Windlass;

/// Measures a section, with fewer samples if that is asked for.
pub type Section = fn(&Windlass, Extent, &mut Table);

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// As little as shows that everything works.
    Quick,
    /// Everything.
    Whole,
}

impl Extent {
    /// Returns the value for this extent.
    pub fn of<T>(self, quick: T, whole: T) -> T {
        if self == Extent::Quick { quick } else { whole }
    }
}

/// Measures the sections that the arguments name, or all, and writes the table to the directory `dir`.
///
/// # Panics
///
/// If an argument is unknown, or a result is wrong.
pub fn measure(sections: &[(&str, Section)], dir: &str) {
    let (flags, names): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let known: Vec<_> = sections.iter().map(|(name, _)| *name).collect();
    let unknown = names.iter().find(|name| !known.contains(&name.as_str()));
    assert!(unknown.is_none(), "unknown section {unknown:?}: use one of {}", known.join(", "));
    let is_quick = flags.iter().any(|flag| flag == "--quick");
    let is_written = flags.iter().any(|flag| flag.starts_with("--json="));
    assert!(is_quick || is_written || names.is_empty(), "--json=FILE says where sections go");
    let extent = if is_quick { Extent::Quick } else { Extent::Whole };
    let windlass = Windlass::beside_this_program();
    let mut table = Table::default();
    for (name, measure) in sections {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            measure(&windlass, extent, &mut table);
        }
    }
    table.finish(dir);
}
