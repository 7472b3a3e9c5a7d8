//! Steps of queues are edited and moved before they begin.

use super::*;
use crate::looking::json::check_line as is_in_the_schema;

/// A queue with one slot, whose first step runs until the file `go` is there.
fn busy() -> Service {
    busy_at("1")
}

/// The same, at a worker with so many slots.
fn busy_at(slots: &str) -> Service {
    let service = Service::for_queues(slots);
    service.add(&["--", "touch begun; until test -e go; do sleep 0.01; done"]);
    service.bench.ends_with(0, &["queue", "default", "--slots", "1"]);
    service.bench.await_file("begun");
    service
}

impl Service {
    /// Adds commands that write their numbers to the file `order`.
    fn add_writers(&self, number: usize) {
        (0..number).for_each(|_| drop(self.add(&["--", "echo $WINDLASS_STEP >> order"])));
    }

    /// Lets the queue go on, and returns the numbers of its steps in the order in which they ran.
    fn order(&self) -> String {
        self.bench.write("go", "");
        self.bench.ends_with(0, &["wait", "default"]);
        self.bench.read("order").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the numbers of the steps of the queue, as `queue` lists them.
    fn listed(&self) -> String {
        let rows = self.queue("default");
        let ids = rows.iter().map(|row| row.split_whitespace().next().expect("a number"));
        ids.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn moved_steps_run_in_the_order_that_queue_shows_also_after_a_kill_of_the_scheduler() {
    let mut service = busy();
    service.add_writers(5);
    service.bench.ends_with(0, &["move", "default/5", "--first"]);
    service.bench.ends_with(0, &["move", "default/2", "--last"]);
    service.bench.ends_with(0, &["move", "default/6", "--before", "4"]);
    service.bench.ends_with(0, &["move", "default/5", "--first"]);
    assert_eq!(service.listed(), "1 5 3 6 4 2");
    service.kill(0);
    assert_eq!(service.listed(), "1 5 3 6 4 2");
    // Without a scheduler, it is taken later.
    service.start(&["serve", "--no-worker"]);
    service.bench.ends_with(0, &["move", "default/4", "--before", "default/3"]);
    assert_eq!(service.order(), "5 4 3 6 2");
}

#[test]
fn a_step_that_waits_for_another_goes_where_it_was_moved_to() {
    let service = busy();
    service.add_writers(2);
    service.add(&["--after", "1", "--", "echo $WINDLASS_STEP >> order"]);
    service.bench.ends_with(0, &["move", "default/4", "--first"]);
    service.bench.ends_with(0, &["edit", "default/3", "--priority", "1"]);
    assert_eq!(service.listed(), "1 3 4 2");
    assert_eq!(service.order(), "3 4 2");
}

#[test]
fn an_edited_step_runs_as_it_was_edited_also_after_a_kill_of_the_scheduler() {
    let mut service = busy();
    service.add(&["--name", "old", "--in", "1h", "--", "touch early"]);
    service.add(&["--retry", "3", "--", "exit 1"]);
    let edit = ["edit", "default/2", "--in", "0s", "--name", "new", "--lock", "l"];
    let command = ["--", "sh", "-c", "echo \"$0\" $WINDLASS_FENCE > edited", "a  b"];
    service.bench.ends_with(0, &[&edit[..], &command].concat());
    service.bench.ends_with(0, &["edit", "default/3", "--retry", "1"]);
    service.kill(0);
    service.start(&["serve", "--no-worker"]);
    // One edit does not undo another.
    service.bench.ends_with(0, &["edit", "default/2", "--timeout", "1m"]);
    let rows = service.queue("default");
    assert!(
        rows.iter().any(|row| row.starts_with("2 new") && row.contains("WINDLASS_FENCE")),
        "{rows:?}"
    );
    service.bench.write("go", "");
    service.bench.ends_with(0, &["wait", "default"]);
    assert_eq!(service.bench.read("edited"), "a  b 1\n");
    assert!(!service.bench.path("early").exists());
    assert!(service.shown(&["show", "default/3"]).contains("2/2"), "it is tried twice");
}

#[test]
fn an_edited_step_gives_up_its_place_in_the_queue_of_a_lock_that_it_needs_no_more() {
    let service = Service::for_queues("4");
    let acquire = ["lock", "acquire", "l", "--holder", "other"];
    service.bench.ends_with(0, &acquire);
    service.add(&["--lock", "l", "--", "true"]);
    eventually("it waits", || service.queue("default")[0].contains("lock l"));
    service.bench.ends_with(0, &["edit", "default/1", "--lock", "m"]);
    service.bench.ends_with(0, &["wait", "default/1"]);
    let holders = service.shown(&["holders"]);
    assert!(holders.contains("other") && !holders.contains("wanted"), "{holders}");
}

#[test]
fn what_cannot_be_changed_is_refused_with_the_reason() {
    let service = busy();
    service.add_writers(2);
    service.add(&["--name", "twins", "--", "true"]);
    service.add(&["--name", "twins", "--", "true"]);
    service.bench.ends_with(0, &["cancel", "default/3"]);
    eventually("it has ended", || service.shown(&["queue", "default"]).contains("cancelled"));
    for (arguments, words) in [
        (
            &["edit", "default/1", "--", "true"][..],
            "step 1 of queue default has begun, so it cannot be",
        ),
        (&["move", "default/1", "--last"], "has begun, so it cannot be moved"),
        (&["edit", "default/3", "--", "true"], "step 3 of queue default has ended"),
        (&["edit", "default/2"], "nothing to change"),
        (&["edit", "default/2", "--after", "4"], "--after 4"),
        (&["edit", "default/2", "--after", "2"], "cannot follow step 2"),
        (&["edit", "default/2", "--after", "77"], "no step 77"),
        (&["edit", "default/2", "--after", "other/1"], "both have to be in one queue"),
        (&["edit", "default/2", "--clear", "at", "--in", "1h"], "both set and clear `at`"),
        (&["edit", "default/2", "--clear", "retry"], "invalid value"),
        (&["edit", "default/9", "--", "true"], "no step \"9\""),
        (&["edit", "other/1", "--", "true"], "no queue \"other\""),
        (&["edit", "default/2", "--use", "gpu=1"], "gpu"),
        (&["edit", "default/2", "--name", "7"], "invalid name of a step"),
        (&["edit", "default/twins", "--", "true"], "names several steps"),
        (
            &["move", "default/2", "--before", "1"],
            "has begun, so nothing can be moved in front of it",
        ),
        (&["move", "default/2", "--before", "2"], "in front of itself"),
        (&["move", "default/2", "--before", "other/4"], "both have to be in one queue"),
        (&["move", "default/2"], "--first"),
        (&["move", "default", "--first"], "QUEUE/ID"),
    ] {
        service.refuses(arguments, words);
    }
    assert_eq!(service.order(), "2");
}

#[test]
fn what_a_step_has_can_be_taken_away() {
    let mut service = busy();
    service.add(&["--in", "1h", "--", "true"]);
    let has = ["--after", "2", "--lock", "l", "--name", "old", "--timeout", "1ms"];
    let fence = ["--", "echo ${WINDLASS_FENCE:-none} >> order; sleep 0.1"];
    service.add(&[&has[..], &fence].concat());
    let taken = ["--clear", "after,lock,name", "--clear", "timeout"];
    service.bench.ends_with(0, &[&["edit", "default/3"][..], &taken].concat());
    service.bench.ends_with(0, &["edit", "default/2", "--clear", "at"]);
    service.kill(0);
    service.start(&["serve", "--no-worker"]);
    assert!(!service.shown(&["queue", "default"]).contains("old"));
    assert_eq!(service.order(), "none");
    service.bench.ends_with(0, &["wait", "default/2"]);
    service.bench.ends_with(0, &["wait", "default/3"]);
}

#[test]
fn an_edited_step_follows_other_steps_also_after_a_kill_of_the_scheduler() {
    let mut service = busy_at("9");
    service.add(&["--", "echo $WINDLASS_STEP >> order; exit 1"]);
    service.add_writers(2);
    service.add(&["--after", "2", "--", "echo $WINDLASS_STEP >> order"]);
    service.bench.ends_with(0, &["edit", "default/3", "--after", "1"]);
    service.bench.ends_with(0, &["edit", "default/5", "--after", "3", "--after", "default/4"]);
    service.bench.ends_with(0, &["edit", "default/4", "--after", "3"]);
    assert!(service.shown(&["why", "default/5"]).contains("4"), "it waits for 4, too");
    service.kill(0);
    service.start(&["serve", "--no-worker"]);
    service.bench.ends_with(0, &["queue", "default", "--slots", "9"]);
    service.bench.ends_with(1, &["wait", "default/2"]);
    service.bench.write("go", "");
    service.bench.ends_with(0, &["wait", "default/5"]);
    assert_eq!(service.bench.read("order"), "2\n3\n4\n5\n");
    // It does not follow 2 any more.
    service.bench.ends_with(0, &["retry", "default", "--step", "2"]);
    eventually("2 alone runs again", || service.bench.read("order") == "2\n3\n4\n5\n2\n");
    service.bench.ends_with(0, &["wait", "default/5"]);
}

#[test]
fn a_step_that_is_made_to_follow_a_failed_one_is_blocked() {
    let service = busy_at("2");
    service.add(&["--priority", "1", "--", "false"]);
    service.add_writers(1);
    service.bench.ends_with(0, &["queue", "default", "--slots", "2"]);
    service.add(&["--in", "1h", "--", "echo late >> order"]);
    service.bench.ends_with(1, &["wait", "default/2"]);
    service.bench.ends_with(0, &["wait", "default/3"]);
    service.bench.ends_with(0, &["edit", "default/4", "--clear", "at", "--after", "2"]);
    service.bench.ends_with(1, &["wait", "default/4"]);
    assert_eq!(service.order(), "3");
}

#[test]
fn a_step_that_was_edited_in_time_is_not_blocked_by_what_is_reported_meanwhile() {
    let mut service = Service::for_queues("1");
    service.add(&["--", "touch begun; until test -e go; do sleep 0.01; done; exit 1"]);
    service.add(&["--after", "1", "--", "echo $WINDLASS_STEP >> order"]);
    service.bench.await_file("begun");
    eventually("it is taken", || service.shown(&["why", "default/2"]).contains("has to succeed"));
    service.suspend(0);
    service.bench.write("go", "");
    signal(&service.processes[1], Signal::TERM);
    // It leaves once it has reported the end of the step, of which no scheduler knows.
    assert!(service.processes[1].wait().expect("it can be waited for").success());
    service.bench.ends_with(0, &["edit", "default/2", "--clear", "after"]);
    signal(&service.processes[0], Signal::CONT);
    service.start(&["worker", "--name", "one", "--slots", "1"]);
    service.bench.ends_with(0, &["wait", "default/2"]);
    assert_eq!(service.bench.read("order"), "2\n");
}

#[test]
fn a_paused_step_can_be_edited_moved_and_removed() {
    let service = busy();
    service.add_writers(3);
    for step in ["default/2", "default/3", "default/4"] {
        service.bench.ends_with(0, &["pause", step]);
    }
    let paused = || service.shown(&["--json", "queue", "default"]);
    eventually("they are paused", || paused().matches(r#""state":"paused""#).count() == 3);
    paused().lines().for_each(is_in_the_schema);
    service.bench.ends_with(0, &["remove", "default/2"]);
    service.bench.ends_with(0, &["edit", "default/3", "--", "echo edited >> order"]);
    service.bench.ends_with(0, &["move", "default/4", "--first"]);
    for step in ["default/3", "default/4"] {
        service.bench.ends_with(0, &["unpause", step]);
    }
    assert_eq!(service.order(), "4 edited");
}
