//! The benchmarks, and the arguments that select some of them.

use std::path::{Path, PathBuf};

/// A benchmark program.
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    /// The package `windlass-bench-PACKAGE` in `benchmarks/PACKAGE`.
    pub(crate) package: &'static str,
    /// The prefix of its files, where a package has several benchmarks.
    prefix: &'static str,
    /// Whether it prints its JSON, instead of writing it to the file that `--json` names.
    pub(crate) prints: bool,
    /// Whether it calls the command `windlass`.
    pub(crate) commands: bool,
    /// Its arguments for all of its figures.
    pub(crate) whole: &'static [&'static str],
    /// Its arguments for a short run.
    pub(crate) quick: &'static [&'static str],
}

impl Benchmark {
    /// Returns the file in which its figures are kept, below `dir`.
    pub(crate) fn results(&self, dir: &Path) -> PathBuf {
        self.file(dir, "results.json")
    }

    /// Returns the file that says when and where it ran, below `dir`.
    pub(crate) fn when(&self, dir: &Path) -> PathBuf {
        self.file(dir, "when.json")
    }

    fn file(&self, dir: &Path, name: &str) -> PathBuf {
        dir.join(self.package).join(format!("{}{name}", self.prefix))
    }
}

/// Returns a benchmark that prints its JSON.
const fn printing(name: &'static str) -> Benchmark {
    let quick = &["--quick"];
    Benchmark { name, package: name, prefix: "", prints: true, commands: false, whole: &[], quick }
}

/// Returns a benchmark that writes its JSON to a file.
const fn writing(name: &'static str) -> Benchmark {
    Benchmark { prints: false, ..printing(name) }
}

pub(crate) const BENCHMARKS: &[Benchmark] = &[
    printing("dag"),
    Benchmark {
        package: "dag",
        prefix: "counts-",
        whole: &["--instructions", "--bytes"],
        quick: &["--instructions", "--bytes", "--quick", "--shape=independent"],
        ..printing("dag-counts")
    },
    Benchmark {
        package: "dag",
        prefix: "futex-",
        whole: &["--futex"],
        quick: &["--futex", "--quick", "--shape=independent"],
        ..printing("dag-futex")
    },
    printing("engine"),
    writing("pool"),
    writing("capacity"),
    Benchmark { commands: true, ..writing("coordination") },
    Benchmark { commands: true, ..writing("commands") },
    Benchmark { commands: true, ..writing("service") },
    Benchmark { commands: true, ..writing("cluster") },
];

/// The benchmarks to run.
pub(crate) struct Plan {
    pub(crate) benchmarks: Vec<&'static Benchmark>,
    pub(crate) quick: bool,
}

impl Plan {
    /// Parses the arguments; none for `--help`. The error names the invalid one.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut plan = Self { benchmarks: Vec::new(), quick: false };
        let mut page = false;
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match &argument[..] {
                "--quick" => plan.quick = true,
                "--page" => page = true,
                "--only" => plan.benchmarks.push(named(arguments.next().as_deref())?),
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("unknown argument `{argument}`")),
            }
        }
        if page && !plan.benchmarks.is_empty() {
            return Err("--page runs no benchmark, so it cannot be combined with --only".to_owned());
        }
        if !page && plan.benchmarks.is_empty() {
            plan.benchmarks = BENCHMARKS.iter().collect();
        }
        Ok(Some(plan))
    }
}

fn named(name: Option<&str>) -> Result<&'static Benchmark, String> {
    let name = name.ok_or("--only needs the name of a benchmark")?;
    let found = BENCHMARKS.iter().find(|benchmark| benchmark.name == name);
    found.ok_or_else(|| format!("unknown benchmark `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Result<Option<Plan>, String> {
        Plan::parse(arguments.iter().map(|&argument| argument.to_owned()))
    }

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        let plan = plan(arguments).expect("it makes sense").expect("it is not about help");
        plan.benchmarks.iter().map(|benchmark| benchmark.name).collect()
    }

    #[test]
    fn all_are_run_unless_some_are_named() {
        assert_eq!(names(&[]).len(), BENCHMARKS.len());
        assert_eq!(names(&["--only", "pool", "--quick", "--only", "dag"]), ["pool", "dag"]);
        assert!(names(&["--page"]).is_empty());
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for arguments in [
            &["--only"][..],
            &["--only", "nothing"],
            &["--fast"],
            &["pool"],
            &["--page", "--only", "dag"],
        ] {
            assert!(plan(arguments).is_err(), "{arguments:?}");
        }
        assert!(plan(&["--help"]).is_ok_and(|plan| plan.is_none()));
    }

    #[test]
    fn no_two_benchmarks_share_a_file() {
        let files = BENCHMARKS.iter().flat_map(|benchmark| {
            [benchmark.results(Path::new("")), benchmark.when(Path::new(""))]
        });
        let files: std::collections::BTreeSet<_> = files.collect();
        assert_eq!(files.len(), 2 * BENCHMARKS.len());
    }

    #[test]
    fn every_benchmark_is_a_package_beside_this_one() {
        for benchmark in BENCHMARKS {
            let manifest =
                crate::root().join("benchmarks").join(benchmark.package).join("Cargo.toml");
            assert!(manifest.exists(), "{}", benchmark.name);
        }
    }
}
