//! A service whose store is deleted.

use super::*;
use crate::bench::runs;

#[test]
fn a_deleted_store_ends_the_service_and_its_steps() {
    let flow = "[step.a]\nrun = 'echo $$ > pid; touch began; exec sleep 600'\n";
    for busy in [true, false] {
        let mut service = Service::with(flow, "1");
        if busy {
            service.submit(&[]);
            service.bench.await_file("began");
        } else {
            eventually("ready", || service.shown(&["workers"]).contains("up"));
        }
        fs::remove_dir_all(service.bench.path("state")).expect("it can be deleted");
        for process in &mut service.processes {
            let ended = process.wait().expect("it ends");
            assert_eq!(ended.code(), Some(69), "{}", service.bench.read("said-0"));
        }
        assert!(service.said().contains("removed or replaced"), "{}", service.said());
        assert!(!service.bench.path("state").exists(), "nothing is written to what is gone");
        if busy {
            let pid = service.bench.read("pid");
            assert!(!runs(&pid), "the step has ended");
        }
    }
}
