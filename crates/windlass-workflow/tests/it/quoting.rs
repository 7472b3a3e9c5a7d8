//! Real shells pass every value on to a command unchanged.

#![cfg(unix)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use windlass_workflow::{ShellText, Variable};

/// Every context prints the value and a zero byte.
const CONTEXTS: [&str; 8] = [
    r"printf '%s\0' {v}",
    r#"printf '%s\0' "{v}""#,
    r"printf '%s\0' '{v}'",
    r#"x=$(printf '%s.' {v}); printf '%s\0' "${x%.}""#,
    r#"x="$(printf '%s.' "{v}")"; printf '%s\0' "${x%.}""#,
    r#"x=$(printf '%s.' '{v}'); printf '%s\0' "${x%.}""#,
    r#"f() { printf '%s\0' "$1"; }; f {v} # it's {v}"#,
    "x=$(cat <<END\n{v}.\nEND\n); printf '%s\\0' \"${x%.}\"",
];

pub(crate) fn shells() -> Vec<&'static str> {
    let there = |shell: &&str| {
        let status = Command::new(shell).args(["-c", "exit 0"]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    ["sh", "dash", "bash"].into_iter().filter(there).collect()
}

fn received(shell: &str, script: &str, value: &OsStr) -> Vec<u8> {
    let name = Variable::Param("v".to_owned()).environment_name();
    let mut command = Command::new(shell);
    command.args(["-eu", "-c", script]).env(name, value).env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output().expect("the shell runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn check(value: &[u8]) {
    let known = |name: &str| (name == "v").then(|| Variable::Param("v".to_owned()));
    let script = ShellText::parse(&CONTEXTS.join("\n"), known).expect("every context is safe");
    let expected = [value, b"\0"].concat().repeat(CONTEXTS.len());
    for shell in shells() {
        let got = received(shell, script.text(), OsStr::from_bytes(value));
        assert_eq!(got, expected, "{shell}: {}", OsString::from_vec(value.to_vec()).display());
    }
}

#[test]
fn values_that_look_like_shell_text_are_just_values() {
    for value in [
        "",
        " ",
        "a b",
        "*",
        "~",
        "$HOME",
        "$(touch owned)",
        "`touch owned`",
        "';touch owned;'",
        "\";touch owned;\"",
        "\\",
        "\\\\",
        "'",
        "\"",
        "\n",
        "\n\n",
        "END",
        "\nEND\ntouch owned\n",
        "-n",
        "%s",
        "{v}",
        "${v}",
        "a\tb",
        "é",
        "#",
        "!",
        "&",
        ";",
        "|",
        ">",
        "$((1+1))",
        "]",
        "[a]",
    ] {
        check(value.as_bytes());
    }
}

#[test]
fn a_name_after_a_backslash_is_text() {
    let cases = [
        (r"printf %s x\{v}y", "x{v}y"),
        (r#"printf %s "x\{v}y""#, "x{v}y"),
        (r#"printf %s "$(printf %s "\{v}" \{v})""#, "{v}{v}"),
        (r#"printf %s "${none:-\{v}}""#, "{v}"),
        (r#"printf %s "$\{v}" $\{v}"#, "${v}${v}"),
        (r#"printf %s "\\\{v}" "\\{v}""#, "\\{v}\\VALUE"),
        (r"printf %s '\{v}'", "\\VALUE"),
        ("cat <<END\n\\{v}$\\{v}{v}\nEND", "{v}${v}VALUE\n"),
        ("cat <<'END'\n\\{v}$\\{v}\nEND", "{v}${v}\n"),
        ("cat <<-END\n\t\\{v}\n\tEND", "{v}\n"),
    ];
    let known = |name: &str| (name == "v").then(|| Variable::Param("v".to_owned()));
    for (text, expected) in cases {
        let script = ShellText::parse(text, known).expect("every context is safe");
        for shell in shells() {
            let got = received(shell, script.text(), OsStr::new("VALUE"));
            assert_eq!(String::from_utf8_lossy(&got), expected, "{shell}: {text}");
        }
    }
}

#[test]
fn a_value_after_a_double_dollar_stays_in_its_quotes() {
    let known = |name: &str| (name == "v").then(|| Variable::Param("v".to_owned()));
    let text = r#"x="$$({v})"; printf %s "${x#$$}""#;
    let script = ShellText::parse(text, known).expect("it is safe");
    for shell in shells() {
        let got = received(shell, script.text(), OsStr::new("a  * b"));
        assert_eq!(String::from_utf8_lossy(&got), "(a  * b)", "{shell}");
    }
}

/// Shell text that is part of a word, and its value.
#[derive(Clone, Debug)]
struct Piece {
    text: String,
    value: String,
}

const VALUE: &str = "a'b\"c $d `e` \\f * {v} $(g) \n)h";

fn joined(pieces: &[Piece], around: [&str; 2]) -> Piece {
    let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
    let value = pieces.iter().map(|piece| piece.value.as_str()).collect();
    Piece { text: format!("{}{text}{}", around[0], around[1]), value }
}

fn leaf() -> impl Strategy<Value = Piece> {
    prop_oneof![
        "[a-z]{1,3}".prop_map(|text| Piece { value: text.clone(), text }),
        Just(Piece { text: "{v}".to_owned(), value: VALUE.to_owned() }),
        Just(Piece { text: "{v}".to_owned(), value: VALUE.to_owned() }),
    ]
}

fn leaves(around: [&'static str; 2]) -> impl Strategy<Value = Piece> {
    prop::collection::vec(leaf(), 1..4).prop_map(move |pieces| joined(&pieces, around))
}

/// Nested words: bare, single quotes, double quotes, substitutions, and combinations of these.
fn word() -> impl Strategy<Value = Piece> {
    let simple = prop_oneof![leaf(), leaves(["'", "'"]), leaves(["\"", "\""])];
    simple.prop_recursive(4, 24, 4, |inner| {
        let words = prop::collection::vec(inner, 1..4);
        let substitution = ["$(printf %s ", " # it's )\"\n)"];
        prop_oneof![
            words.clone().prop_map(|words| joined(&words, ["", ""])),
            (words, leaves(["", ""])).prop_map(move |(words, rest)| {
                joined(&[joined(&words, substitution), rest], ["\"", "\""])
            }),
        ]
    })
}

fn check_word(word: &Piece) {
    let known = |name: &str| (name == "v").then(|| Variable::Param("v".to_owned()));
    let text = format!("x={}; printf %s \"$x\"", word.text);
    let script = ShellText::parse(&text, known).expect("every context is safe");
    for shell in shells() {
        let got = received(shell, script.text(), OsStr::new(VALUE));
        assert_eq!(String::from_utf8_lossy(&got), word.value, "{shell}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_but_zero_reach_the_command_as_they_are(
        value in prop::collection::vec(1_u8..=255, 0..40)
    ) {
        check(&value);
    }

    #[test]
    fn any_row_of_special_characters_does_too(
        value in r#"[ '"$`\\\n(){}\[\]*?~#;&|<>!=%a-]{0,24}"#
    ) {
        check(value.as_bytes());
    }

    #[test]
    fn no_name_behind_a_dollar_is_a_value(text in r#"[ '"$`\\\n(){}\[\]<#a]{0,40}"#) {
        let text = text.replace('{', "${");
        let known = |name: &str| Some(Variable::Param(name.to_owned()));
        let script = ShellText::parse(&text, known).expect("there is no value to reject");
        prop_assert_eq!(script.text(), &text);
    }

    #[test]
    fn quotes_within_substitutions_within_quotes_are_followed(word in word()) {
        check_word(&word);
    }
}
