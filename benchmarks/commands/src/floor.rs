//! What starting processes costs alone: each is started with `posix_spawn` and waited for.

use std::collections::VecDeque;
use std::env;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::works::{Shape, Work};

pub(crate) fn run(work: Work) {
    let program = program();
    let width = if work.shape == Shape::Chain { 1 } else { work.jobs };
    let mut running: VecDeque<Child> = VecDeque::new();
    for _ in 0..work.steps {
        if running.len() == width {
            wait(running.pop_front());
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

/// Looked up once, so that the others' ways to find it do not count here.
fn program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).map(|dir| dir.join("true"));
    places.find(|place| place.is_file()).expect("there is a `true`")
}
