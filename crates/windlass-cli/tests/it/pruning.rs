//! What `prune` gives back.

use std::fs;

use crate::bench::{Bench, eventually, stderr, stdout};

#[test]
fn the_file_of_the_store_becomes_smaller_with_its_runs_while_others_use_it() {
    let bench = Bench::new();
    let line = format!("# {}\n", "x".repeat(998));
    bench.write("flow.toml", &format!("[step.a]\nrun = 'true'\n{}", line.repeat(1000)));
    for _ in 0..4 {
        assert!(bench.call(&["run", "flow.toml"]).status.success());
    }
    bench.write(
        "other.toml",
        "[step.a]\nrun = 'touch begun; until test -e go; do sleep 0.01; done'\n[step.b]\nafter = ['a']\nrun = 'true'\n",
    );
    let other = bench.start(&["run", "other.toml"]);
    bench.await_file("begun");
    let size = || {
        let files = ["state/store.db", "state/store.db-wal"].map(|file| bench.path(file));
        files.iter().map(|file| fs::metadata(file).expect("it is there").len()).sum::<u64>()
    };
    let full = size();
    assert!(full > 4_000_000, "{full}");
    let dry = bench.call(&["prune", "--keep", "0", "--dry-run"]);
    assert!(dry.status.success() && size() >= full, "{}", stderr(&dry));
    let pruned = bench.call(&["prune", "--keep", "0"]);
    assert!(pruned.status.success(), "{}", stderr(&pruned));
    eventually("it is smaller", || {
        bench.call(&["emit", "more"]);
        size() < full / 10
    });
    bench.write("go", "");
    let output = other.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&bench.call(&["history"])).contains("other"));
}
