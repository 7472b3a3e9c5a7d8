//! Through real shells: whatever a value contains, a command receives exactly that.

#![cfg(unix)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use windlass_workflow::{ShellText, Variable};

/// Every place prints the value, and a zero byte behind it.
const PLACES: [&str; 8] = [
    r"printf '%s\0' {v}",
    r#"printf '%s\0' "{v}""#,
    r"printf '%s\0' '{v}'",
    r#"x=$(printf '%s.' {v}); printf '%s\0' "${x%.}""#,
    r#"x="$(printf '%s.' "{v}")"; printf '%s\0' "${x%.}""#,
    r#"x=$(printf '%s.' '{v}'); printf '%s\0' "${x%.}""#,
    r#"f() { printf '%s\0' "$1"; }; f {v} # it's {v}"#,
    "x=$(cat <<END\n{v}.\nEND\n); printf '%s\\0' \"${x%.}\"",
];

fn shells() -> Vec<&'static str> {
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
    let script = ShellText::parse(&PLACES.join("\n"), known).expect("every place is safe");
    let expected = [value, b"\0"].concat().repeat(PLACES.len());
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
}
