//! A store with damage anywhere: what can be read is read, the rest is refused with a reason.

#![no_main]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use windlass_server::{Coordinator, RunRecord, RunView, Store, emit, history, open_runs};

/// What happened to the file of a store.
#[derive(Arbitrary, Debug)]
struct Damage {
    /// Where it was cut off.
    length: Option<u32>,
    /// What was written over.
    bytes: Vec<(u32, u8)>,
    /// What is in the log of SQLite beside it.
    log: Vec<u8>,
}

const FLOW: &str = "[step.a]\nrun = 'true'\n[step.b]\nafter = ['a']\nlock = 'x'\nrun = 'exit 3'\n";

fuzz_target!(|damage: Damage| {
    let (dir, image) = store();
    damage.apply(dir.path(), image);
    // Some refuse what others can still use.
    let uses: [fn(&mut Store) -> bool; 5] = [
        |store| RunView::find(store, "last").is_ok(),
        |store| open_runs(store).is_ok(),
        |store| history(store, None, 10).is_ok(),
        |store| store.overview().is_ok(),
        |store| emit(store, "a:b").is_ok(),
    ];
    match Store::open(dir.path()) {
        Ok(mut store) => uses.iter().for_each(|act| drop(act(&mut store))),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

impl Damage {
    fn apply(&self, dir: &Path, image: &[u8]) {
        let mut image = image.to_vec();
        for (at, byte) in &self.bytes {
            let at = *at as usize % image.len();
            image[at] = *byte;
        }
        if let Some(length) = self.length {
            image.truncate(length as usize % image.len());
        }
        fs::write(dir.join("store.db"), image).expect("it can be written");
        let _ = fs::remove_file(dir.join("store.db-shm"));
        fs::write(dir.join("store.db-wal"), &self.log).expect("it can be written");
    }
}

/// The directory of a store in which a run has failed, and its file as it was then. A store that is
/// another file than before would be refused for that alone, so this one is written over.
fn store() -> &'static (TempDir, Vec<u8>) {
    static STORE: OnceLock<(TempDir, Vec<u8>)> = OnceLock::new();
    STORE.get_or_init(|| {
        let dir = TempDir::new().expect("a directory");
        let store = Store::open(dir.path()).expect("a new store");
        let (file, text) = ("flow.toml".to_owned(), FLOW.to_owned());
        let run = RunRecord { file, text, dir: "/".into(), ..RunRecord::default() };
        let coordinator = Coordinator::submit(store, run).expect("it can be run");
        coordinator.lead(|_| ()).expect("it ends");
        let image = fs::read(dir.path().join("store.db")).expect("it is there");
        (dir, image)
    })
}
