//! Steps whose workers are killed again and again.

use super::*;

#[test]
fn a_step_fails_once_its_workers_were_killed_as_often_as_its_limit_says() {
    let flow = "[defaults]\ncrash_limit = 3\n\
        [step.bomb]\nretry = { count = 9, delay = '1ms' }\nrun = 'echo x >> tries; sleep 600'\n\
        finally = 'echo cleaned >> tries'\n\
        [step.after]\nafter = ['bomb']\nrun = 'true'\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    let tries = |service: &Service| service.bench.read("tries").lines().count();
    for lost in 1..=3 {
        eventually("it runs", || tries(&service) == lost);
        service.kill(service.processes.len() - 1);
        if lost == 2 {
            // Another scheduler goes on counting.
            service.kill(0);
            let mut serve = service.bench.command(&["serve", "--no-worker"]);
            let serve = serve.stderr(Stdio::null()).spawn();
            service.processes[0] = serve.expect("it runs");
        }
        service.start(&["worker", "--name", "one", "--slots", "1"]);
    }
    service.wait(&run, 1);
    assert_eq!(service.bench.read("tries"), "x\nx\nx\ncleaned\n", "the retries were not used");
    let why = service.shown(&["why", &format!("{run}/bomb")]);
    let said = "its worker was killed; 3 attempts in a row were lost (crash_limit)";
    assert!(why.contains(said), "{why}");
}

#[test]
fn an_attempt_that_ends_by_itself_begins_the_count_anew() {
    let flow = "[step.a]\ncrash_limit = 2\nretry = { count = 1, delay = '1ms' }\n\
        run = 'echo x >> tries; test $WINDLASS_ATTEMPT = 4 && exit 0; test $WINDLASS_ATTEMPT = 2 && exit 1; sleep 600'\n";
    let mut service = Service::with(flow, "1");
    let run = service.submit(&[]);
    for begun in [1, 3] {
        eventually("it runs", || service.bench.read("tries").lines().count() == begun);
        service.kill(service.processes.len() - 1);
        service.start(&["worker", "--name", "one", "--slots", "1"]);
    }
    service.wait(&run, 0);
}
