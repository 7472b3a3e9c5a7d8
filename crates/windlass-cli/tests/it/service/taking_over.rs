//! Schedulers that take over from one that lives.

use super::*;

#[test]
fn a_scheduler_that_stands_by_has_nothing_to_do() {
    let mut service = Service::new("[step.a]\nrun = 'true'\n");
    service.start(&["serve", "--no-worker"]);
    eventually("it leads", || service.said().contains("schedules the submitted runs"));
    let other = service.start(&["serve", "--no-worker", "--idle", "1s"]);
    assert!(service.processes[other].wait().expect("it ends").success(), "{}", service.said());
    let said = service.bench.read(&format!("said-{other}"));
    assert!(said.contains("stands by") && !said.contains("schedules the submitted"), "{said}");
    let run = service.submit(&[]);
    service.start(&["worker", "--name", "one", "--slots", "1"]);
    service.wait(&run, 0);
}

/// The heartbeats of a suspended scheduler stop, but its process can be seen.
#[test]
fn a_suspended_scheduler_is_replaced_and_stands_by_when_it_continues() {
    let flow = "[step.a]\nrun = 'echo $$ >> tries; until test -e go; do sleep 0.01; done'\n\
        [step.b]\nafter = ['a']\nrun = 'touch ran'\n";
    let mut service = Service::new(flow);
    let serve = ["serve", "--no-worker", "--lease", "1s"];
    let suspended = service.start(&serve);
    let said = |service: &Service, place: usize| service.bench.read(&format!("said-{place}"));
    eventually("it leads", || said(&service, suspended).contains("schedules the submitted runs"));
    service.start(&["worker", "--name", "one", "--slots", "1"]);
    let run = service.submit(&[]);
    service.bench.await_file("tries");
    service.suspend(suspended);
    let next = service.start(&serve);
    let leads = format!("leads run {run} of flow");
    eventually("the next one leads the run", || said(&service, next).contains(&leads));
    signal(&service.processes[suspended], Signal::CONT);
    eventually("it stands by", || said(&service, suspended).contains("stands by"));
    service.bench.write("go", "");
    service.wait(&run, 0);
    assert_eq!(service.bench.read("tries").lines().count(), 1, "no step was interrupted");
    assert!(service.bench.path("ran").exists());
}
