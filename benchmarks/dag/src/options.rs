//! The arguments of the program.

use crate::sections::Section;

pub(crate) const HELP: &str = "\
Measures graphs of works: Windlass, hand-written code, and other crates.

usage: windlass-bench-dag [ROUNDS] [SECTION]... [OPTION]...
       windlass-bench-dag --table FILE

Without an option it prints times: nanoseconds per node to build, run and drop a graph.

  SECTION         waits, all-wait, no-op, 1us, 10us, 20ms or million; all but million by default
  --counts        print counts instead of times: --instructions, --bytes and --futex together
  --instructions  print instructions per node, counted by valgrind on one and on two threads
  --bytes         print bytes per node at the peak: of nodes that rest, and of nodes that all wait
  --futex         print futex calls per node on two threads, counted by perf or strace
  --quick         one round with a tenth of the nodes, to see that everything works
  --who=NAME      only contenders whose name contains NAME; --who==NAME for exactly that one
  --shape=SHAPE   independent, chain, tree, layered or wavefront
  --threads=N     worker threads when times are measured; by default one per processor
  --table FILE    print the figures in FILE, which this program has written, as Markdown
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Instructions,
    Bytes,
    Futex,
}

/// What to measure.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// What to count; times are measured if this is empty.
    pub(crate) counts: Vec<Count>,
    quick: bool,
    rounds: Option<usize>,
    threads: Option<usize>,
    /// Parts of the names of contenders, or whole names after `=`; empty for all.
    who: Vec<String>,
    /// The names of the shapes; empty for all.
    shapes: Vec<String>,
    sections: Vec<String>,
}

impl Options {
    /// Parses the arguments. The error names the invalid one.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        for argument in arguments {
            options.add(argument)?;
        }
        Ok(options)
    }

    fn add(&mut self, argument: &str) -> Result<(), String> {
        let positive = |text: &str| text.parse().ok().filter(|&number| number > 0);
        match argument.split_once('=').unwrap_or((argument, "")) {
            ("--counts", _) => {
                self.counts.extend([Count::Instructions, Count::Bytes, Count::Futex]);
            }
            ("--instructions", _) => self.counts.push(Count::Instructions),
            ("--bytes", _) => self.counts.push(Count::Bytes),
            ("--futex", _) => self.counts.push(Count::Futex),
            ("--quick", _) => self.quick = true,
            ("--who", name) => self.who.push(name.to_owned()),
            ("--shape", shape) => self.shapes.push(shape.to_owned()),
            ("--threads", threads) if positive(threads).is_some() => {
                self.threads = positive(threads);
            }
            (rounds, _) if positive(rounds).is_some() => self.rounds = positive(rounds),
            (section, _) if Section::named(section).is_some() => {
                self.sections.push(section.to_owned());
            }
            _ => return Err(format!("unknown argument `{argument}`")),
        }
        Ok(())
    }

    pub(crate) fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { usual })
    }

    pub(crate) fn threads(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(processors)
    }

    /// Returns how many nodes to use instead of `usual`.
    pub(crate) fn size(&self, usual: usize) -> usize {
        if self.quick && usual > 1000 { usual / 10 } else { usual }
    }

    pub(crate) fn wants(&self, section: &Section) -> bool {
        match self.sections.as_slice() {
            [] => !section.on_demand,
            names => names.iter().any(|name| name == section.name),
        }
    }

    pub(crate) fn wants_shape(&self, shape: &str) -> bool {
        self.shapes.is_empty() || self.shapes.iter().any(|name| name == shape)
    }

    pub(crate) fn wants_row(&self, row: &str) -> bool {
        let is_meant = |options: &String| match options.strip_prefix('=') {
            Some(name) => row == name,
            None => row.contains(options),
        };
        self.who.is_empty() || self.who.iter().any(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        Options::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_select_what_is_measured() {
        let options =
            parse(&["7", "waits", "--futex", "--who==windlass", "--shape=chain"]).unwrap();
        assert_eq!((options.rounds(5), options.counts.as_slice()), (7, &[Count::Futex][..]));
        let wanted = |name| options.wants(Section::named(name).unwrap());
        assert!(wanted("waits") && !wanted("no-op"));
        assert!(options.wants_row("windlass") && !options.wants_row("windlass, 2 at a time"));
        assert!(options.wants_shape("chain") && !options.wants_shape("tree"));
    }

    #[test]
    fn unknown_arguments_are_refused() {
        for argument in ["wait", "--fast", "0", "--threads=0", "--threads"] {
            assert!(parse(&[argument]).is_err_and(|error| error.contains(argument)), "{argument}");
        }
    }
}
