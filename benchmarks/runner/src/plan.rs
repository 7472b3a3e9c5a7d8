//! What there is to run, and what somebody wants of it.

/// A program that measures something.
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    /// Whether it prints its JSON, instead of writing it to a file that it is told.
    pub(crate) prints: bool,
    /// Whether it calls the command `windlass`.
    pub(crate) commands: bool,
    /// What it is told for all of its figures.
    pub(crate) whole: &'static [&'static str],
    /// What it is told for a short look.
    pub(crate) quick: &'static [&'static str],
}

/// One that prints its JSON and needs nothing else.
const PRINTING: Benchmark =
    Benchmark { name: "", prints: true, commands: false, whole: &[], quick: &["--quick"] };
/// One that writes its JSON to a file.
const WRITING: Benchmark = Benchmark { prints: false, ..PRINTING };

pub(crate) const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "dag", quick: &["1", "no-op"], ..PRINTING },
    Benchmark { name: "engine", ..PRINTING },
    Benchmark { name: "pool", ..WRITING },
    Benchmark { name: "capacity", ..WRITING },
    Benchmark { name: "coordination", commands: true, ..WRITING },
    Benchmark { name: "commands", commands: true, ..WRITING },
];

/// What is wanted.
pub(crate) struct Plan {
    pub(crate) benchmarks: Vec<&'static Benchmark>,
    pub(crate) quick: bool,
}

impl Plan {
    /// None if only help is wanted; an error says what makes no sense.
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
                _ => return Err(format!("`{argument}` is no flag of this command")),
            }
        }
        if page && !plan.benchmarks.is_empty() {
            return Err("--page runs nothing, so there is nothing to choose".to_owned());
        }
        if !page && plan.benchmarks.is_empty() {
            plan.benchmarks = BENCHMARKS.iter().collect();
        }
        Ok(Some(plan))
    }
}

fn named(name: Option<&str>) -> Result<&'static Benchmark, String> {
    let name = name.ok_or("--only wants a name")?;
    let found = BENCHMARKS.iter().find(|benchmark| benchmark.name == name);
    found.ok_or_else(|| format!("there is no benchmark `{name}`"))
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
    fn what_makes_no_sense_is_refused() {
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
    fn every_benchmark_is_a_package_beside_this_one() {
        for benchmark in BENCHMARKS {
            let manifest = crate::root().join("benchmarks").join(benchmark.name).join("Cargo.toml");
            assert!(manifest.exists(), "{}", benchmark.name);
        }
    }
}
