//! Submitted steps that destroy their own logs.

use super::*;

/// The step `other` runs on the same worker, and may be interrupted by no step but its own.
#[test]
fn a_step_that_destroys_its_log_fails_alone() {
    for (replace, why) in [
        ("rm -f $WINDLASS_LOG; mkfifo $WINDLASS_LOG", "not a regular file"),
        ("rm -f $WINDLASS_LOG; mkdir $WINDLASS_LOG", "directory"),
        ("rm -rf $(dirname $WINDLASS_LOG)", "No such file"),
    ] {
        let flow = format!(
            "[step.other]\nrun = 'echo other >> record; until test -e go; do sleep 0.02; done'\n\
             [step.bad]\nrun = '''echo said >> record; {replace}; echo lost; exit 0'''\n"
        );
        let service = Service::with(&flow, "2");
        let run = service.submit(&[]);
        eventually("the step has failed", || {
            let shown = service.shown(&["show", &format!("{run}/bad")]);
            shown.contains("its log cannot be written") && shown.contains(why)
        });
        service.bench.write("go", "");
        service.wait(&run, 1);
        let record = service.bench.read("record");
        let mut ran: Vec<_> = record.lines().collect();
        ran.sort_unstable();
        assert_eq!(ran, ["other", "said"], "{replace}: {}", service.said());
    }
}
