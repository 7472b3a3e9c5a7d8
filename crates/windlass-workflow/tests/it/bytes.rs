//! Any text is parsed into a workflow or into errors that can be rendered.

use proptest::prelude::*;
use windlass_workflow::{GraphFormat, graph, parse};

const SEED: &str = include_str!("../../../../docs/nightly.toml");

fn check(text: &str) {
    match parse("any.toml", text) {
        Ok(workflow) => {
            let _ = workflow.warnings().to_string();
            let _ = workflow.bind([]);
            let _ = graph(workflow.plan(), GraphFormat::Text);
        }
        Err(errors) => {
            assert!(!errors.errors.is_empty());
            assert!(!errors.to_string().is_empty());
            let _ = errors.warnings.to_string();
            for error in &errors.errors {
                let (line, column) = errors.position(error);
                assert!(line >= 1 && column >= 1);
            }
        }
    }
}

/// Pieces of workflow files, so that random texts get past the first error.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\n]{0,8}",
        "\\PC{0,4}",
        prop::sample::select(vec![
            "[step.a]\n",
            "[step.b]\n",
            "run = ",
            "after = ",
            "each = ",
            "\"",
            "'",
            "'''",
            "[",
            "]",
            "{",
            "}",
            "{v}",
            "{a.k}",
            "=",
            ",",
            "\n",
            "true",
            "1",
            "-1",
            "1e9",
            "nan",
            "1979-05-27",
            "[params]\nv = 1\n",
            "[guard.g]\n",
            "condition = ",
            "wake_on = ",
            "$(",
            "<<E",
            "\\",
            "\u{0}",
            "use = { x = 1 }\n",
            "[resource]\nx = ",
            "retry = ",
            "a.b.c.d = 1\n",
            "é",
            "[[step]]\n",
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn text_made_of_familiar_pieces_is_answered(pieces in prop::collection::vec(piece(), 0..24)) {
        check(&pieces.concat());
    }

    #[test]
    fn a_good_file_with_damage_is_answered(
        at in 0..SEED.len(),
        cut in 0_usize..40,
        put in piece(),
    ) {
        let at = (0..=at).rev().find(|&at| SEED.is_char_boundary(at)).unwrap_or(0);
        let end = (at + cut).min(SEED.len());
        let end = (end..=SEED.len()).find(|&end| SEED.is_char_boundary(end)).unwrap_or(SEED.len());
        check(&format!("{}{put}{}", &SEED[..at], &SEED[end..]));
    }

    #[test]
    fn a_good_file_with_two_lines_swapped_is_answered(a in 0_usize..60, b in 0_usize..60) {
        let mut lines: Vec<_> = SEED.lines().collect();
        let (a, b) = (a % lines.len(), b % lines.len());
        lines.swap(a, b);
        check(&lines.join("\n"));
    }
}
