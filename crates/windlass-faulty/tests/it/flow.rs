//! A workflow of a hundred steps, in every shape that a kill could disturb.
//!
//! It has a chain, a fan, independent steps that share a resource, steps that fail at first, steps that pass
//! on outputs, steps that leave processes behind, steps behind conditions and guards, and steps with a
//! `finally`. Some of its steps hold a lock, two locks, slots or items of a limit of the store; or none does,
//! so that the run can use a write-ahead log.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use windlass_store::{LimitItems, LimitKind, Store};

use crate::random::Random;

/// A step, as the checks know it.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) after: Vec<String>,
    /// The other keys of its table.
    keys: String,
    /// The arguments of its program.
    acts: Vec<String>,
    /// Whether it has a `finally`.
    pub(crate) cleans: bool,
}

/// Whether steps hold names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    With,
    Without,
}

impl Names {
    pub(crate) fn random(random: &mut Random) -> Self {
        [Self::With, Self::Without][usize::from(random.below(2) == 0)]
    }
}

/// The file before the steps. The guard `opened` passes only after the first step of the fan has begun.
const HEAD: &str = r#"
concurrency = 6
[defaults]
linger = "20ms"
crash_limit = 1000000
[resource]
memory = 3
[semaphore.slots]
capacity = 3
[guard.fine]
condition = "true"
on_timeout = "fail"
[guard.opened]
condition = "test -e held/step-open.0"
retry = { max = 1000, interval = "20ms" }
timeout = "10m"
on_timeout = "fail"
[on]
success = "echo $WINDLASS_OUTCOME >> hooked"
"#;

/// Sets the limit that steps use, in the store of a run that has not begun.
pub(crate) fn set_limit(state: &Path) {
    let names = ["p", "q", "r"].map(str::to_owned).to_vec();
    let variable_name = "WINDLASS_SHARED_PART".to_owned();
    let items = LimitKind::Items(LimitItems { names, variable_name });
    let mut store = Store::open(state).expect("the store can be made");
    store.transact(|transaction| transaction.limits().set("part", &items)).expect("it is set");
}

/// The steps of a workflow, by name.
pub(crate) struct Flow {
    pub(crate) steps: BTreeMap<String, Step>,
    /// In the order of the file.
    order: Vec<String>,
}

impl Flow {
    pub(crate) fn of_a_hundred(names: Names) -> Self {
        let mut flow = Self { steps: BTreeMap::new(), order: Vec::new() };
        flow.chain();
        flow.fan();
        flow.alone();
        flow.failing();
        match names {
            Names::With => flow.names(),
            Names::Without => flow.brief(),
        }
        assert_eq!(flow.steps.len(), 100);
        flow
    }

    /// Returns the workflow file; its steps run `program`.
    pub(crate) fn text(&self, program: &str) -> String {
        let mut text = HEAD.to_owned();
        for (number, name) in self.order.iter().enumerate() {
            let Step { after, keys, acts, cleans } = &self.steps[name];
            let quoted = |words: &[String]| {
                words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
            };
            let _ = write!(text, "[step.{name}]\nafter = [{}]\n{keys}", quoted(after));
            if *cleans {
                let _ = writeln!(text, "finally = '{program} finally'");
            }
            let _ = match number % 3 {
                // Through a shell, which is a further process.
                0 => writeln!(text, "run = '{program} {}; exit $?'", acts.join(" ")),
                _ => writeln!(text, "run = [{program:?}, {}]", quoted(acts)),
            };
        }
        text
    }

    fn add(&mut self, name: String, after: &[&str], keys: &str, acts: &[&str]) {
        let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let cleans = self.order.len().is_multiple_of(7);
        let step = Step { after: own(after), keys: keys.to_owned(), acts: own(acts), cleans };
        self.order.push(name.clone());
        assert!(self.steps.insert(name, step).is_none(), "names of steps are unique");
    }

    /// Adds keys to the table of a step, and arguments of its program.
    fn extend(&mut self, name: &str, keys: &str, acts: &[&str]) {
        let step = self.steps.get_mut(name).expect("it was added");
        step.keys += keys;
        step.acts.extend(acts.iter().map(|&act| act.to_owned()));
    }

    /// Steps that each pass an output to the next.
    fn chain(&mut self) {
        for number in 0..20 {
            let word = format!("write=word{number}");
            let name = format!("chain{number}");
            match number {
                0 => self.add(name, &[], "", &[&word]),
                _ => {
                    let before = format!("chain{}", number - 1);
                    let expected = format!("expect={{{before}.word}}:word{}", number - 1);
                    self.add(name, &[&before], "", &[&expected, &word]);
                }
            }
        }
    }

    fn fan(&mut self) {
        self.add("open".to_owned(), &[], "", &["child=group"]);
        let leaves: Vec<_> = (0..20).map(|number| format!("leaf{number}")).collect();
        for leaf in &leaves {
            self.add(leaf.clone(), &["open"], "", &["millis=2"]);
        }
        let leaves: Vec<_> = leaves.iter().map(String::as_str).collect();
        self.add("shut".to_owned(), &leaves, "", &["millis=1"]);
    }

    fn alone(&mut self) {
        for number in 0..18 {
            let condition = [
                "when = 'test -d held'",
                "guard = ['fine', 'opened']",
                "ensure = ['fine']",
                "when = 'true'\nguard = ['opened']\nensure = ['opened']",
                "",
            ][number % 5];
            let keys = format!("use = {{ memory = {} }}\n{condition}\n", 1 + number % 3);
            let child = ["child=group", "child=chain", "child=session", "millis=1"][number % 4];
            self.add(format!("alone{number}"), &[], &keys, &[child, "millis=3"]);
        }
    }

    fn failing(&mut self) {
        let retry = "retry = { count = 2, delay = \"5ms\" }\n";
        for number in 0..10 {
            let name = format!("failing{number}");
            let fails = format!("fails={}", 1 + number % 2);
            let before = format!("failing{}", number / 3);
            let after: &[&str] = if number < 3 { &[] } else { &[&before] };
            self.add(name, after, retry, &[&fails, "millis=1"]);
        }
    }

    /// Ten chains, each of which crosses the next.
    fn brief(&mut self) {
        for number in 0..30_usize {
            let (before, beside) = (number.wrapping_sub(10), number.wrapping_sub(9));
            let (before, beside) = (format!("brief{before}"), format!("brief{beside}"));
            let after: &[&str] = if number < 10 { &[] } else { &[&before, &beside] };
            self.add(format!("brief{number}"), after, "", &["millis=0"]);
        }
    }

    fn names(&mut self) {
        for number in 0..10 {
            let both = number % 4 == 3;
            let lock = if both { "lock = [\"a\", \"b\"]\n" } else { "lock = \"a\"\n" };
            let acts: &[&str] = if both { &["lock=a", "lock=b"] } else { &["lock=a", "millis=1"] };
            self.add(format!("locked{number}"), &[], lock, acts);
        }
        for number in 0..10 {
            let weight = 1 + number % 2;
            let keys = format!("semaphore = {{ slots = {weight} }}\n");
            let slots = format!("slots={weight}/3");
            self.add(format!("counted{number}"), &[], &keys, &[&slots, "millis=2"]);
        }
        for number in 0..3_usize {
            // These also let go of their items before their ends are checked.
            let keys =
                format!("use = {{ 'shared.part' = {} }}\nensure = ['fine']\n", 1 + number % 2);
            let leaf = format!("leaf{number}");
            self.extend(&leaf, &keys, &["items=WINDLASS_SHARED_PART", "child=session"]);
        }
        for number in 0..10 {
            let (locked, counted) = (format!("locked{number}"), format!("counted{number}"));
            let keys = "lock = \"b\"\nsemaphore = { slots = 1 }\nuse = { 'shared.part' = 1 }\n";
            let acts = ["lock=b", "slots=1/3", "items=WINDLASS_SHARED_PART"];
            self.add(format!("both{number}"), &[&locked, &counted], keys, &acts);
        }
    }
}
