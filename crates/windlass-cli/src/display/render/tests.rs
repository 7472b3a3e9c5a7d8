use windlass_server::WorkState::{Blocked, Failed, Pending, Running, Success};

use super::super::board::tests::{because, board, change};
use super::super::change::StepChange;
use super::*;
use crate::style::Colours;

fn layout(columns: usize, rows: usize) -> Layout {
    let style = Style { colours: Colours::Plain, width: None, letters: Letters::Unicode };
    Layout { style, columns, rows, names: 6 }
}

/// The block of the board at 12 s, as it stands on a terminal of this size.
fn shown(board: &Board, columns: usize, rows: usize) -> String {
    let expected = |step: &str| (step == "build").then_some(Duration::from_secs(45));
    let scene = Scene {
        board,
        expected: &expected,
        last_lines: &HashMap::from([(1, "Compiling 日本語 v0.1".to_owned())]),
        left: Left::About(Duration::from_secs(80)),
        stopping: false,
        elapsed: Duration::from_secs(12),
        now_ms: 12_000,
        layout: &layout(columns, rows),
    };
    let lines = block(&scene);
    assert!(lines.len() <= (rows / 2).max(1));
    let lines = lines.iter().map(|line| {
        let line = line.within(columns - 1, &scene.layout.style);
        assert!(columns_of(&line) < columns, "{line:?}");
        line + "\n"
    });
    lines.collect()
}

/// `build` and `test` run, `deploy` waits for a lock.
fn busy() -> Board {
    let mut board = board();
    board.apply(change("fetch", Success, 1, 1_000));
    board.apply(change("build", Running, 1, 1_000));
    board.apply(change("test", Running, 1, 11_700));
    board.wait("deploy", "waits for lock deploy", 0);
    board
}

#[test]
fn a_wide_terminal_shows_everything() {
    let expected = "\
⠋ build        11 s of ~45 s  Compiling 日本語 v0.1
⠋ test        0.3 s
· deploy             waits for lock deploy
1 of 4 done, 2 running, 1 waiting │ slots 2/4, gpu 2/2 │ 12 s, about 1 min 20 s left
";
    assert_eq!(shown(&busy(), 100, 24), expected);
}

#[test]
fn a_narrower_terminal_leaves_out_what_matters_least() {
    let expected = "\
⠋ build        11 s of ~45 s  Compiling 日本語 v0.1
⠋ test        0.3 s
· deploy             waits for lock deploy
1 of 4 done, 2 running, 1 waiting │ 12 s, about 1 min 20 s left
";
    assert_eq!(shown(&busy(), 70, 24), expected);
    let expected = "\
⠋ build  11 s of ~45 s  Compiling 日本…
⠋ test   0.3 s
· deploy   waits for lock deploy
1/4 12 s
";
    assert_eq!(shown(&busy(), 40, 24), expected);
    let expected = "\
⠋ build  11 s of ~…
⠋ test   0.3 s
· deploy   waits f…
1/4 12 s
";
    assert_eq!(shown(&busy(), 20, 24), expected);
    assert_eq!(shown(&busy(), 5, 24), "⠋ b…\n⠋ t…\n· d…\n1/4…\n");
    assert_eq!(shown(&busy(), 1, 24), "\n\n\n\n");
}

#[test]
fn a_low_terminal_shows_how_many_more_there_are() {
    let footer = "1 of 4 done, 2 running, 1 waiting │ 12 s, about 1 min 20 s left\n";
    assert_eq!(shown(&busy(), 70, 1), footer);
    assert_eq!(shown(&busy(), 70, 3), footer);
    assert_eq!(shown(&busy(), 70, 4), format!("  and 2 more running\n{footer}"));
    let two = "⠋ build        11 s of ~45 s  Compiling 日本語 v0.1\n⠋ test        0.3 s\n";
    assert_eq!(shown(&busy(), 70, 6), format!("{two}{footer}"));
    assert_eq!(
        shown(&busy(), 70, 8),
        format!("{two}· deploy             waits for lock deploy\n{footer}")
    );
}

#[test]
fn a_finished_step_is_one_line() {
    let mut board = board();
    let mut check = |change: StepChange, columns: usize, expected: &str| {
        let event = board.apply(change);
        let layout = layout(columns, 24);
        let line = finished(&board, &event, &layout).within(columns - 1, &layout.style);
        assert_eq!(line, expected);
    };
    check(change("fetch", Running, 1, 0), 80, "› fetch            ");
    check(
        because("exit code 6", change("fetch", Pending, 1, 1_200)),
        80,
        "↻ fetch       1.2 s  attempt 1 of 3: exit code 6; will run again",
    );
    check(change("fetch", Success, 2, 90_000), 80, "✓ fetch              attempt 2 of 3");
    check(change("build", Running, 1, 0), 80, "› build            ");
    check(
        because("exit code 3", change("build", Failed, 1, 90_000)),
        80,
        "✗ build  1 min 30 s  exit code 3",
    );
    check(change("deploy", Blocked, 0, 0), 80, "– deploy             blocked by build");
    check(change("test", Running, 1, 0), 80, "› test             ");
    check(because("killed by SIGKILL", change("test", Failed, 1, 10)), 20, "✗ test   0.0 s  ki…");
}

#[test]
fn a_stopping_run_is_shown_also_in_ascii() {
    let board = busy();
    let mut layout = layout(70, 24);
    layout.style.letters = Letters::Ascii;
    let scene = Scene {
        board: &board,
        expected: &|_| None,
        last_lines: &HashMap::new(),
        left: Left::AtLeast(Duration::from_secs(3)),
        stopping: true,
        elapsed: Duration::from_millis(12_100),
        now_ms: 12_000,
        layout: &layout,
    };
    let lines: Vec<_> = block(&scene).iter().map(|line| line.whole(&layout.style)).collect();
    assert_eq!(lines[0], "/ build        11 s");
    assert_eq!(lines[3], "stopping: waiting for 2 steps to end; Ctrl-C again kills them");
}
