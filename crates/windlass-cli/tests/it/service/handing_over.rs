//! Runs that begin in the foreground and continue under a scheduler.

use super::*;

/// `a` waits for the file `go` with a lock; `b` follows it, and needs the file `good`.
const FLOW: &str = "[params]\nwho = ''\n\
    [step.a]\nlock = 'l'\nrun = 'echo $WINDLASS_ATTEMPT >> tries{who}; until test -e go; do sleep 0.02; done'\n\
    finally = 'echo cleaned >> tries{who}'\n\
    [step.b]\nafter = ['a']\nrun = 'test -e good; echo b >> seen'\n";

impl Service {
    /// Runs the workflow in the foreground until `a` has begun, and ends it by this signal.
    fn interrupted(&self, who: &str, by: Signal) -> String {
        let before = self.ids();
        let mut run = self.bench.start(&["run", "flow.toml", "-p", &format!("who={who}")]);
        self.bench.await_file(&format!("tries{who}"));
        signal(&run, by);
        run.wait().expect("it ends");
        let new = self.ids().into_iter().find(|id| !before.contains(id));
        new.expect("the run is stored")
    }

    fn ids(&self) -> Vec<String> {
        let runs = fs::read_dir(self.bench.path("state/runs")).into_iter().flatten();
        runs.map(|run| run.expect("it can be listed").file_name().into_string().expect("text"))
            .collect()
    }

    /// Ends the service that a verb has started in the background.
    fn end_background(&self) {
        for pid in pids_of(&self.bench.read("state/serve.log")) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn resume_all_hands_every_interrupted_run_to_a_scheduler() {
    let service = Service::new(FLOW);
    let runs = [("killed", Signal::KILL), ("stopped", Signal::INT)]
        .map(|(who, by)| service.interrupted(who, by));
    service.bench.write("go", "");
    service.bench.write("good", "");
    let output = service.bench.ends_with(0, &["resume", "--all"]);
    let mut handed: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
    handed.sort();
    let mut expected = runs.to_vec();
    expected.sort();
    assert_eq!(handed, expected);
    runs.iter().for_each(|run| service.wait(run, 0));
    assert_eq!(service.bench.read("trieskilled"), "1\n2\ncleaned\n", "what was lost is repeated");
    assert_eq!(service.bench.read("triesstopped"), "1\ncleaned\n2\ncleaned\n");
    let none = service.bench.ends_with(0, &["resume", "--all"]);
    assert_eq!(
        (stdout(&none), stderr(&none)),
        (String::new(), "no run is interrupted\n".to_owned())
    );
    service.end_background();
}

#[test]
fn resume_detach_hands_one_run_over_and_a_running_one_is_refused() {
    let mut service = Service::new(FLOW);
    let mut led = service.bench.start(&["run", "flow.toml"]);
    service.bench.await_file("tries");
    let run = service.bench.run_id();
    let refused = service.bench.ends_with(2, &["resume", "--detach", &run]);
    assert!(stderr(&refused).contains("is still running, led by process"), "{}", stderr(&refused));
    led.kill().expect("it can be killed");
    led.wait().expect("it was killed");
    service.start(&["serve", "--no-worker"]);
    eventually("it leads", || service.said().contains("schedules the submitted runs"));
    let output = service.bench.ends_with(0, &["resume", "--detach", "--json"]);
    assert!(stdout(&output).contains(&format!(r#""run":"{run}","scheduled":true"#)));
    check_line(&stdout(&output));
    service.start(&["worker", "--name", "one"]);
    service.bench.write("go", "");
    service.bench.write("good", "");
    service.wait(&run, 0);
    let over = service.bench.ends_with(0, &["resume", "--detach", &run]);
    assert!(stderr(&over).contains("has ended: succeeded"), "{}", stderr(&over));
}

#[test]
fn retry_detach_hands_an_ended_run_over() {
    let service = Service::with(FLOW, "1");
    service.bench.write("go", "");
    service.bench.ends_with(1, &["run", "flow.toml"]);
    let run = service.bench.run_id();
    service.bench.write("good", "");
    let none = service.bench.ends_with(2, &["retry", &run, "--detach", "--step", "a"]);
    assert!(stderr(&none).contains("has neither failed nor was it cancelled"), "{}", stderr(&none));
    let output = service.bench.ends_with(0, &["retry", &run, "--detach"]);
    assert_eq!(stdout(&output), format!("{run}\n"));
    service.wait(&run, 0);
    assert_eq!(service.bench.read("tries"), "1\ncleaned\n", "what had succeeded did not run again");
    assert_eq!(service.bench.read("seen").lines().count(), 1);
    let open = service.bench.ends_with(2, &["retry", &run, "--detach"]);
    assert!(stderr(&open).contains("nothing in run"), "{}", stderr(&open));
}

#[test]
fn a_submitted_run_is_resumed_and_retried_by_its_scheduler_which_is_started_if_there_is_none() {
    let mut service = Service::with("[step.a]\nrun = 'test -e good'\n", "1");
    let run = service.submit(&[]);
    service.wait(&run, 1);
    service.kill(0);
    service.bench.write("good", "");
    let shown = service.bench.ends_with(0, &["retry", &run]);
    assert!(stderr(&shown).contains("1 succeeded"), "it is shown: {}", stderr(&shown));
    service.end_background();
    let open = service.submit(&[]);
    let shown = service.bench.ends_with(0, &["resume", &open]);
    assert!(stderr(&shown).contains("1 succeeded"), "it is shown: {}", stderr(&shown));
    service.end_background();
}
