//! The cost of bare processes: each is started with `posix_spawn` and waited for. With records, also the
//! minimum cost of storing each end durably before the next process starts.

use std::collections::VecDeque;
use std::env;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::works::{Shape, Work};

/// The size of a record: about what has to be stored of a small step.
const NOTE: usize = 400;
/// The number of records that fit: overwriting blocks syncs faster than appending.
const NOTES: usize = 256;

/// A file in which every end is recorded before the next step.
pub(crate) struct Notes {
    file: File,
    written: usize,
}

impl Notes {
    pub(crate) fn new(path: &Path) -> Self {
        let file = File::create(path).expect("it can be made");
        file.write_all_at(&[0; NOTE * NOTES], 0).expect("there is room");
        file.sync_all().expect("it can be synced");
        Self { file, written: 0 }
    }

    fn write(&mut self) {
        let place = self.written % NOTES * NOTE;
        self.file.write_all_at(&[b'.'; NOTE], place as u64).expect("there is room");
        self.file.sync_data().expect("it can be synced");
        self.written += 1;
    }
}

pub(crate) fn run(work: Work, mut notes: Option<Notes>) {
    let program = program();
    let width = if work.shape == Shape::Chain { 1 } else { work.jobs };
    let mut running: VecDeque<Child> = VecDeque::new();
    for _ in 0..work.steps {
        if running.len() == width {
            wait(running.pop_front());
            notes.iter_mut().for_each(Notes::write);
        }
        let mut command = Command::new(&program);
        running.push_back(command.stdin(Stdio::null()).spawn().expect("it can be started"));
    }
    running.into_iter().for_each(|child| wait(Some(child)));
}

fn wait(child: Option<Child>) {
    let status = child.expect("one runs").wait().expect("it can be waited for");
    assert!(status.success(), "{status}");
}

/// The path of `true`, looked up once, so that the search does not count.
fn program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).map(|dir| dir.join("true"));
    places.find(|place| place.is_file()).expect("there is a `true`")
}
