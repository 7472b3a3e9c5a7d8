//! Every form of a name in every context of shell text, run by real shells with hostile values.
//!
//! `{v}` is the value, `${v}` the shell's own, `{{v}}` and `\{v}` the text `{v}`; the table has
//! the result of each form in each context. No value is ever run.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use windlass_workflow::{ShellText, Variable};

use crate::quoting::shells;

/// The forms, in the order of the columns below.
const FORMS: [&str; 6] = ["{v}", "${v}", "{{v}}", r"\{v}", r"\${v}", "${v}{v}"];

/// The value of the shell's own variable `v`.
const OWN: &str = "7";

/// The output of each form; `V` is the value.
type Row = [Option<&'static str>; 6];

/// The form is an error in this context.
const REFUSED: Option<&str> = None;

const EXPANDED: Row = [Some("V"), Some(OWN), Some("{v}"), Some("{v}"), Some("${v}"), Some("7V")];
const SINGLE: Row =
    [Some("V"), Some("${v}"), Some("{v}"), Some(r"\V"), Some(r"\${v}"), Some("${v}V")];
const LITERAL: Row = [REFUSED, Some("${v}"), Some("{v}"), Some("{v}"), Some(r"\${v}"), REFUSED];
const BACKQUOTES: Row = [REFUSED, Some(OWN), Some("{v}"), Some("{v}"), Some(OWN), REFUSED];

/// Each context prints what replaces the `@`.
const CONTEXTS: &[(&str, Row)] = &[
    ("printf %s @", EXPANDED),
    ("printf %s \"@\"", EXPANDED),
    ("printf %s '@'", SINGLE),
    ("x=@; printf %s \"$x\"", EXPANDED),
    ("x=\"@\"; printf %s \"$x\"", EXPANDED),
    ("x='@'; printf %s \"$x\"", SINGLE),
    ("x=\"it's @\"; printf %s \"${x#*s }\"", EXPANDED),
    ("true \\\n# it's\nprintf %s @", EXPANDED),
    ("x=$(printf %s. @); printf %s \"${x%.}\"", EXPANDED),
    ("x=\"$(printf %s. \"@\")\"; printf %s \"${x%.}\"", EXPANDED),
    ("x=\"$(printf %s. '@')\"; printf %s \"${x%.}\"", SINGLE),
    ("(printf %s @)", EXPANDED),
    ("{ printf %s @; }", EXPANDED),
    ("if true; then printf %s @; fi", EXPANDED),
    ("f() { printf %s \"$1\"; }; f @", EXPANDED),
    ("for x in @; do printf %s \"$x\"; done", EXPANDED),
    ("case @ in *) printf %s @;; esac", EXPANDED),
    ("x=$(cat <<END\n@.\nEND\n); printf %s \"${x%.}\"", EXPANDED),
    ("x=$(cat <<-END\n\t@.\n\tEND\n); printf %s \"${x%.}\"", EXPANDED),
    ("x=$(cat <<'END'\n@.\nEND\n); printf %s \"${x%.}\"", LITERAL),
    ("x=$(cat <<\"END\"\n@.\nEND\n); printf %s \"${x%.}\"", LITERAL),
    ("x=$(cat <<\\END\n@.\nEND\n); printf %s \"${x%.}\"", LITERAL),
    ("printf %s `printf %s @`", BACKQUOTES),
    ("printf %s \"`printf %s @`\"", BACKQUOTES),
    ("printf %s \"${none:-@}\"", [REFUSED, Some(OWN), REFUSED, Some("{v}"), Some("${v}"), REFUSED]),
    (
        "sh -c 'printf %s \"@\"'",
        [
            // Users have to quote for the second shell themselves; only the forms without a value are checked.
            Some("?"),
            Some(OWN),
            Some("{v}"),
            Some("?"),
            Some("${v}"),
            Some("?"),
        ],
    ),
];

const HOSTILE: &[&str] = &[
    "",
    "$(touch canary)",
    "(touch canary)",
    "((touch canary))",
    "`touch canary`",
    "';touch canary;'",
    "\";touch canary;\"",
    "\ntouch canary\n",
    "\nEND\ntouch canary\ncat <<END\n",
    "it's \"a\" \\b *",
    "{v} ${v} {{v}}",
    "v}; touch canary; ${v",
];

fn known(name: &str) -> Option<Variable> {
    (name == "v").then(|| Variable::Param("v".to_owned()))
}

/// Returns the output of a shell with `value` for `{v}` and [`OWN`] for its own `v`.
fn printed(shell: &str, script: &str, value: &str, dir: &Path) -> String {
    let mut command = Command::new(shell);
    command.args(["-eu", "-c", script]).current_dir(dir).stdin(Stdio::null()).env("v", OWN);
    command.env(Variable::Param("v".to_owned()).environment_name(), value);
    let output = command.output().expect("the shell runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shell}: {stderr}\n{script}");
    String::from_utf8(output.stdout).expect("values and texts are UTF-8")
}

#[test]
fn every_form_means_the_same_for_every_shell_and_value() {
    let mut script = String::new();
    let mut cells = Vec::new();
    for (context, row) in CONTEXTS {
        for (form, expected) in FORMS.into_iter().zip(row) {
            let text = context.replace('@', form);
            match (ShellText::parse(&text, known), expected) {
                (Err(_), None) | (Ok(_), Some("?")) => continue,
                (Ok(read), Some(expected)) => {
                    script += &format!("{}\nprintf '\\0'\n", read.text());
                    cells.push((text, *expected));
                }
                (read, expected) => panic!("{text}: {read:?} and not {expected:?}"),
            }
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    for shell in shells() {
        for value in HOSTILE {
            let printed = printed(shell, &script, value, dir.path());
            let got: Vec<_> = printed.split_terminator('\0').collect();
            assert_eq!(got.len(), cells.len(), "{shell}, {value:?}");
            for ((text, expected), got) in cells.iter().zip(got) {
                let expected = expected.replace('V', value);
                assert_eq!(got, expected, "{shell}: {text} with {value:?}");
            }
            let left = fs::read_dir(dir.path()).expect("it is there").count();
            assert_eq!(left, 0, "{shell}: {value:?} was run");
        }
    }
}

/// Constructs in which some shell might evaluate a value.
const CONSTRUCTS: &[&str] = &[
    "echo > @",
    "echo >> @",
    "echo >| @",
    "echo &> @",
    "echo &>> @",
    "echo >& @",
    "echo 1>&@",
    "echo 2>&x@",
    "echo >& \"@\"",
    "cat < @",
    "cat <> @",
    "cat <& @",
    "cat 3<&@",
    "cat <<< @",
    "cat <(echo @)",
    "echo x > >(cat @)",
    "a[@]=1",
    "a[\"@\"]=1",
    "a['@']=1",
    "a[1+@]=1",
    "a[\"1\"@]=1",
    "a[$(echo @)]=1",
    "a[x]=@",
    "a=(@)",
    "a=([@]=1)",
    "a=(1 [\"@\"]=1)",
    "a=(\n['@']=1)",
    "a+=([@]=1)",
    "a[1]+=@",
    "echo ${a[@]}",
    "echo ${x:@}",
    "echo ${x#@}",
    "echo ${x/@/y}",
    "echo \"${x:-\"@\"}\"",
    "echo $((@))",
    "echo $(( 1 + \"@\" ))",
    "echo $[@]",
    "echo \"$[1 + @]\"",
    "(( @ ))",
    "((i=@))",
    "for((i=@;i<1;i++)); do :; done",
    "for (( i = @; i < 1; i++ )); do :; done",
    "while((@)); do break; done",
    "if((@)); then :; fi",
    "f()((@)); f",
    "for x in @; do echo $x; done",
    "select x in @; do break; done < /dev/null",
    "case @ in @) :;; esac",
    "x=$(case a in a) echo @;; esac)",
    "[ @ = x ]",
    "test @ = x || :",
    "[[ @ = x ]]",
    "[[ x = @ ]]",
    "[[ x =~ @ ]]",
    "export x=@; x=@ env",
    "f() { echo @ \"$@\"; }; f @",
    "echo $'@' @",
    "echo $\"@\"",
    "echo `echo @`",
    "echo `echo \\`echo @\\``",
    "echo \"`echo \\\"@\\\"`\"",
    "cat <<E\n@ `echo @` $(echo @) $((@))\nE",
    "cat <<E\n@\\\n@\nE",
    "cat <<'E'\n@\nE",
    "cat <<\"E\" <<F\nx\nE\n@\nF",
    "echo !@ !\"@\"",
    "echo ~@ {a,@} {@..3} *@? [@]",
    "time echo @",
    "! echo @",
    "echo @ & wait",
    "exec echo @",
    "set -- @; echo $1 \"$1\"",
    "IFS=@; echo $x",
    "command echo @ || :",
    "echo a\\\n@",
    "echo \"a\\\n@\"",
    "# @\necho @",
    "a\\\n[@]=1",
    "(\\\n( @ ))",
    "echo $\\\n((@))",
    "echo $(\\\n( @ ))",
    "echo $\\\n\\\n[@]",
    "echo >\\\n& @",
    "echo \"$\\\n((@))\"",
    "echo \"$\\\n[@]\"",
    "cat <<E\n$\\\n((@))\nE",
    "echo $(ca\\\nse a in a) :;; esac; echo $((@)))",
    "echo >\\\nout @",
    "echo a# @ #b @",
    "echo >&\\\n@",
    "echo >& \\\n \\\n@",
    "echo <&\\\n@",
    "echo &\\\n> @",
    "echo &>\\\n@",
    "echo >\\\n| @",
    "cat <\\\n<< @",
    "cat <<\\\n< @",
    "echo $\\\n{x:-@}",
    "cat <<EOF\n\\\nEOF\n@\nEOF",
    "cat <<EOF\nEO\\\nF\n@\nEOF",
    "cat <<EOF\nEOF\\\n\n@\nEOF",
    "cat <<-EOF\n\t\\\n\tEOF\n@\nEOF",
    "cat <<\\\nEOF\n@\nEOF",
    "cat <<EO\\\nF\n@\nEOF",
    "cat <<EOF\n$(echo \"\nEOF\n@\n\"\nEOF\n)\nEOF",
    "cat <<A\n$(cat <<B\nA\n@\nB\n)\nA",
    "echo $(cat <<EOF)\n@\nEOF",
    "echo `cat <<EOF`\n@\nEOF",
    "echo `cat <<EOF`\n\"\nEOF\n@\n\"",
    "echo $(cat <<EOF) $(echo\n@\nEOF\n)",
    "cat <<EOF $(echo\n@\nEOF\n)",
    "cat <<EOF $(echo\n\"\nEOF\n@\n\")",
    "x=$(cat <<EOF\nx\nEOF)\n@\nEOF\n)",
    "<<EOF\"$(echo \"@\")\"]] @# {",
    "cat <<E\"O\"F\n@\nEOF\n@",
    "cat <<$(x)\n@\n$(x)\n@",
    "((cat <<E))\n\"\nE\n@\n\"",
    "((cat <<E); echo)\n\"\nE\n@\n\"",
    "echo $((cat <<E); echo)\n\"\nE\n@\n\"",
    "((echo #\"\n))\n@\n#\"",
];

#[test]
fn in_every_construct_a_value_is_rejected_or_stays_a_value() {
    let name = Variable::Param("v".to_owned()).environment_name();
    let values = [
        "$(touch canary)",
        "`touch canary`",
        "';touch canary;'",
        "a[$(touch canary)]",
        "$x(touch canary)",
        "touch canary",
    ];
    let mut taken = 0;
    for construct in CONSTRUCTS {
        let text = construct.replace('@', "{v}");
        let Ok(script) = ShellText::parse(&text, known) else { continue };
        taken += 1;
        for (shell, value) in shells().into_iter().flat_map(|shell| values.map(|v| (shell, v))) {
            let dir = tempfile::tempdir().expect("a directory");
            let mut command = Command::new(shell);
            command.args(["-c", script.text()]).current_dir(dir.path()).env(&name, value);
            command.stdin(Stdio::null()).env("v", OWN).env("x", "").output().expect("it runs");
            let ran = dir.path().join("canary").exists();
            assert!(!ran, "{shell}: {value:?} was run by {text:?}, as {:?}", script.text());
        }
    }
    assert!(taken >= 30, "{taken} of {} are taken", CONSTRUCTS.len());
}

/// Pieces of shell text that open, close and escape one another, and every form between them.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "'",
        "\"",
        "`",
        "$(",
        ")",
        "(",
        "${x:-",
        "${",
        "}",
        "{",
        "$((",
        "))",
        "((",
        "$'",
        "$\"",
        "$",
        "$$",
        "\\",
        "\\\n",
        "#",
        " ",
        ";",
        "\n",
        "|",
        "&&",
        "<<E\n",
        "<<-E\n",
        "<<'E'\n",
        "<<\\E\n",
        "<<E",
        "<<E)",
        "E",
        "\nE\n",
        "<<<",
        "[",
        "]",
        "a",
        "x=",
        "a[",
        "]=",
        "=(",
        "for((",
        ">&",
        ">& ",
        ">",
        "$[",
        "echo ",
        "printf %s ",
        "case a in a) ",
        "(a) ",
        ";; esac",
        "{v}",
        "{v}",
        "{v}",
        "${v}",
        "{{v}}",
        "\\{v}",
        "\\${v}",
    ]);
    prop::collection::vec(piece, 1..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Most of these texts are invalid to a shell. In none of them does it run the value.
    #[test]
    fn no_text_that_is_taken_runs_a_value(text in pieces()) {
        let Ok(script) = ShellText::parse(&text, known) else { return Ok(()) };
        if script.variables().is_empty() {
            return Ok(());
        }
        let dir = tempfile::tempdir().expect("a directory");
        let name = Variable::Param("v".to_owned()).environment_name();
        for shell in shells() {
            for value in ["$(touch canary)", "`touch canary`", "(touch canary)", "');touch canary;('", "a[$(touch canary)]", "touch canary"] {
                let mut command = Command::new(shell);
                command.args(["-c", script.text()]).current_dir(dir.path()).env(&name, value);
                command.stdin(Stdio::null()).env("v", OWN).env("x", "").output().expect("it runs");
                let ran = dir.path().join("canary").exists();
                prop_assert!(!ran, "{shell}: {value:?} was run by {text:?}, as {:?}", script.text());
            }
        }
    }
}
