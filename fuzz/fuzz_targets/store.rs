//! A store with damage anywhere: what can be read is read, the rest is refused with a reason.

#![no_main]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use windlass_server::{Coordinator, RunRecord, RunView, Store, emit, history, open_runs};

/// What happened to the files of a store: the database, and the log that SQLite keeps beside it.
#[derive(Arbitrary, Debug)]
struct Damage {
    database: Wounds,
    log: Wounds,
}

/// What happened to a file.
#[derive(Arbitrary, Debug)]
struct Wounds {
    /// Where it was cut off.
    length: Option<u32>,
    /// What was written over.
    bytes: Vec<(u32, u8)>,
}

/// The files of a store, and what they hold while nothing has happened to them.
struct Intact {
    dir: TempDir,
    database: Vec<u8>,
    log: Vec<u8>,
}

const FLOW: &str = "[step.a]\nrun = 'true'\n[step.b]\nafter = ['a']\nlock = 'x'\nrun = 'exit 3'\n";

fuzz_target!(|damage: Damage| {
    let intact = intact();
    damage.apply(intact);
    // Some refuse what others can still use.
    let uses: [fn(&mut Store) -> bool; 5] = [
        |store| RunView::find(store, "last").is_ok(),
        |store| open_runs(store).is_ok(),
        |store| history(store, None, 10).is_ok(),
        |store| store.overview().is_ok(),
        |store| emit(store, "a:b").is_ok(),
    ];
    match Store::open(intact.dir.path()) {
        Ok(mut store) => {
            let used = uses.map(|act| act(&mut store));
            assert!(!damage.is_none() || used == [true; 5], "{used:?}");
        }
        Err(error) => assert!(!damage.is_none() && !error.to_string().is_empty(), "{error}"),
    }
});

impl Damage {
    fn is_none(&self) -> bool {
        self.database.is_none() && self.log.is_none()
    }

    fn apply(&self, intact: &Intact) {
        let path = |name: &str| intact.dir.path().join(name);
        let _ = fs::remove_file(path("store.db-shm"));
        self.database.write(&path("store.db"), &intact.database);
        self.log.write(&path("store.db-wal"), &intact.log);
    }
}

impl Wounds {
    fn is_none(&self) -> bool {
        self.length.is_none() && self.bytes.is_empty()
    }

    fn write(&self, path: &Path, intact: &[u8]) {
        let mut file = intact.to_vec();
        let length = file.len().max(1);
        for (at, byte) in &self.bytes {
            if let Some(place) = file.get_mut(*at as usize % length) {
                *place = *byte;
            }
        }
        if let Some(cut) = self.length {
            file.truncate(cut as usize % length);
        }
        // A store that is another file than before would be refused for that alone.
        fs::write(path, file).expect("it can be written");
    }
}

/// A store in which a run has failed.
fn intact() -> &'static Intact {
    static INTACT: OnceLock<Intact> = OnceLock::new();
    INTACT.get_or_init(|| {
        let dir = TempDir::new().expect("a directory");
        let store = Store::open(dir.path()).expect("a new store");
        let (file, text) = ("flow.toml".to_owned(), FLOW.to_owned());
        let run = RunRecord { file, text, dir: "/".into(), ..RunRecord::default() };
        let coordinator = Coordinator::submit(store, run).expect("it can be run");
        coordinator.lead(|_| ()).expect("it ends");
        let read = |name| fs::read(dir.path().join(name)).unwrap_or_default();
        let (database, log) = (read("store.db"), read("store.db-wal"));
        Intact { dir, database, log }
    })
}
