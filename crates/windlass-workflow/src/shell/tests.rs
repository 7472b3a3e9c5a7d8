use super::*;

fn known(name: &str) -> Option<Variable> {
    (name == "v").then(|| Variable::Param("v".to_owned()))
}

/// `V` in `expected` is the environment variable's name.
fn check(text: &str, expected: &str) {
    let rewritten = ShellText::parse(text, known).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(rewritten.text(), expected.replace("${V}", "${WINDLASS_V_v}"), "{text}");
    assert_eq!(rewritten.source(), text);
    assert_eq!(rewritten.variables().len(), usize::from(expected.contains("${V}")), "{text}");
}

fn rejected(text: &str, context: ShellContext) {
    let misplaced = ShellText::parse(text, known).expect_err(text);
    assert_eq!(misplaced.context, context, "{text}");
    assert_eq!(&text[misplaced.range], "{v}", "{text}");
}

#[test]
fn a_bare_value_is_put_in_double_quotes() {
    check("echo {v}", r#"echo "${V}""#);
    check("x={v}y", r#"x="${V}"y"#);
    check("{v}", r#""${V}""#);
    check("{v}{v}", r#""${V}""${V}""#);
    check("a|b;c&d>{v}", r#"a|b;c&d>"${V}""#);
    check("case {v} in {v}) true;; esac", r#"case "${V}" in "${V}") true;; esac"#);
}

#[test]
fn in_double_quotes_a_value_needs_no_further_quotes() {
    check(r#"echo "a {v} b""#, r#"echo "a ${V} b""#);
    check(r#"echo "\"{v}\"""#, r#"echo "\"${V}\"""#);
    check(r#"echo "\\{v}""#, r#"echo "\\${V}""#);
    check(r#"echo "it's {v}" {v}"#, r#"echo "it's ${V}" "${V}""#);
    check(r#"echo "list[{v}]""#, r#"echo "list[${V}]""#);
    check(r#"echo $"{v}""#, r#"echo $"${V}""#);
}

#[test]
fn text_similar_to_a_subscript_or_a_duplication_is_safe() {
    check(r#"a["x"]={v}"#, r#"a["x"]="${V}""#);
    check(r#"x="a[{v}]""#, r#"x="a[${V}]""#);
    check("make > {v} 2>&1 {v}", r#"make > "${V}" 2>&1 "${V}""#);
    check("make &> {v} >&2; {v}", r#"make &> "${V}" >&2; "${V}""#);
    check("a=({v} x)", r#"a=("${V}" x)"#);
    check("test a = b || [ {v} = c ]", r#"test a = b || [ "${V}" = c ]"#);
    check("(test a || [ {v} = c ])", r#"(test a || [ "${V}" = c ])"#);
}

#[test]
fn single_quotes_are_closed_and_opened_again() {
    check("echo 'a {v} b'", r#"echo 'a '"${V}"' b'"#);
    check("echo '\\' {v}", r#"echo '\' "${V}""#);
    check("echo 'say \"{v}\"'", r#"echo 'say "'"${V}"'"'"#);
}

#[test]
fn a_substitution_has_its_own_quotes() {
    check(r#"echo "$(echo {v})""#, r#"echo "$(echo "${V}")""#);
    check(r#"echo "$(echo "{v}" '{v}')""#, r#"echo "$(echo "${V}" ''"${V}"'')""#);
    check(r#"echo $( (echo {v}) ) {v}"#, r#"echo $( (echo "${V}") ) "${V}""#);
    check(r#"echo "$(f $(g {v})) {v}""#, r#"echo "$(f $(g "${V}")) ${V}""#);
    check(
        "x=$(case a in (a) echo {v};; esac) {v}",
        r#"x=$(case a in (a) echo "${V}";; esac) "${V}""#,
    );
}

#[test]
fn here_documents_are_like_double_quotes() {
    check(
        "cat <<EOF\n\"{v}\" '{v}'\nEOF\necho {v}",
        "cat <<EOF\n\"${V}\" '${V}'\nEOF\necho \"${V}\"",
    );
    check("cat <<-E\n\t{v}\n\tE\n'{v}'", "cat <<-E\n\t${V}\n\tE\n''\"${V}\"''");
    check("cat <<A <<B\n{v}\nA\n{v}\nB\n{v}", "cat <<A <<B\n${V}\nA\n${V}\nB\n\"${V}\"");
    check("cat <<'EOF'\n\"'\nEOF\n{v}", "cat <<'EOF'\n\"'\nEOF\n\"${V}\"");
    check("cat <<< {v}", r#"cat <<< "${V}""#);
    check("cat <<'A B'\n'\nA B\n{v}", "cat <<'A B'\n'\nA B\n\"${V}\"");
}

#[test]
fn the_shell_keeps_what_is_its_own() {
    check("echo ${v} \\{v} {other} {a,b} { v; }", "echo ${v} \\{v} {other} {a,b} { v; }");
    check("awk '{print $1}' # don't touch {v}", "awk '{print $1}' # don't touch {v}");
    check("echo a#b {v} $# ${#x}", r#"echo a#b "${V}" $# ${#x}"#);
    check("# it's\necho {v}", "# it's\necho \"${V}\"");
    check("make a\\\nb >\\\nlog {v}", "make a\\\nb >\\\nlog \"${V}\"");
    check("echo \\\n# it's\necho {v}", "echo \\\n# it's\necho \"${V}\"");
    check("echo ${x:-'}'} {v}", r#"echo ${x:-'}'} "${V}""#);
    check(r#"echo "${x:-'}" {v}"#, r#"echo "${x:-'}" "${V}""#);
    check("echo $((1<<2)) {v}", r#"echo $((1<<2)) "${V}""#);
    check("IFS=$'\\n' {v}", "IFS=$'\\n' \"${V}\"");
    check("echo é'{v}'", "echo é''\"${V}\"''");
}

#[test]
fn a_backslash_keeps_a_name_from_being_a_value() {
    check(r#"echo "x\{v}y" {v}"#, r#"echo "x{v}y" "${V}""#);
    check(r#"echo "\\{v} \\\{v}""#, r#"echo "\\${V} \\{v}""#);
    check(r#"echo "\{other} \{v,w}""#, r#"echo "\{other} \{v,w}""#);
    check(r#"echo "${x:-\{v}}""#, r#"echo "${x:-{v}}""#);
    check("cat <<E\n\\{v} {v}\nE", "cat <<E\n{v} ${V}\nE");
    check("cat <<'E'\n\\{v} \\{w}\nE", "cat <<'E'\n{v} \\{w}\nE");
    check(r"echo '\{v}'", r#"echo '\'"${V}"''"#);
}

#[test]
fn removing_a_backslash_after_a_dollar_begins_no_expansion() {
    check(r#"echo "$\{v} \$\{v}""#, r#"echo "\${v} \${v}""#);
    check(r#"echo "$$\{v} $$$\{v}""#, r#"echo "$${v} $$\${v}""#);
    check("cat <<E\n$\\{v}\nE", "cat <<E\n\\${v}\nE");
}

#[test]
fn a_double_dollar_begins_no_expansion() {
    check(r#"echo "$$({v})" $${v}"#, r#"echo "$$(${V})" $${v}"#);
}

#[test]
fn after_a_dollar_a_name_is_the_shells_own_in_every_context() {
    for text in [
        "sh -c 'echo ${v}'",
        r"echo \${v}",
        r#"echo "\${v}""#,
        "echo `echo ${v}`",
        "cat <<'E'\n${v}\nE",
        "cat <<E\n\\${v}\nE",
        "echo $'${v}'",
        "echo $((${v}))",
        "a[${v}]=1",
        "echo ${x:-${v}}",
        "cat <<${v}\n${v}\n",
    ] {
        check(text, text);
    }
}

#[test]
fn doubled_braces_escape_a_name() {
    check("echo {{v}} '{{v}}' \"{{v}}\"", "echo {v} '{v}' \"{v}\"");
    check("echo `echo {{v}}` $'{{v}}'", "echo `echo {v}` $'{v}'");
    check("cat <<E\n{{v}}\nE\n{v}", "cat <<E\n{v}\nE\n\"${V}\"");
    check("cat <<'E'\n{{v}} ${{v}}\nE", "cat <<'E'\n{v} ${v}\nE");
    check("python3 -c '{{{v}}}'", "python3 -c '{{v}}'");
    check("docker ps --format '{{.Resolver}}'", "docker ps --format '{{.Resolver}}'");
    check("awk '{a[{w}]}' {{w}} {{ v }}", "awk '{a[{w}]}' {{w}} {{ v }}");
    check("# {{v}}", "# {{v}}");
    rejected("echo ${{v}}", ShellContext::Parameter);
    rejected("echo \"${x:-{{v}}}\"", ShellContext::Parameter);
    rejected("echo \"${x:-\"{{v}}\"}\"", ShellContext::Parameter);
    rejected("cat <<{{v}}\n{{v}}", ShellContext::Delimiter);
}

#[test]
fn where_no_quoting_is_safe_a_value_is_rejected() {
    rejected("echo ${x:-{v}}", ShellContext::Parameter);
    rejected("echo \"${x:-$(echo {v})}\"", ShellContext::Parameter);
    rejected("echo $(( {v} ))", ShellContext::Arithmetic);
    rejected("(( i = {v} ))", ShellContext::Arithmetic);
    rejected("echo $[{v}]", ShellContext::Brackets);
    rejected("echo \"$[1] {v}\"", ShellContext::Brackets);
    rejected("for((i={v};;))do :; done", ShellContext::Arithmetic);
    rejected("echo `echo {v}`", ShellContext::Backquotes);
    rejected("echo \"`echo {v}`\"", ShellContext::Backquotes);
    rejected("a[{v}]=1", ShellContext::Subscript);
    rejected("a[\"{v}\"]=1", ShellContext::Subscript);
    rejected("a['{v}']=1", ShellContext::Subscript);
    rejected("a[\"x\"{v}]=1", ShellContext::Subscript);
    rejected("a[$(echo {v})]=1", ShellContext::Subscript);
    rejected("a=(x [{v}]=y)", ShellContext::Subscript);
    rejected("a=([\"{v}\"]=y)", ShellContext::Subscript);
    rejected("a\\\n[{v}]=1", ShellContext::Subscript);
    rejected("(\\\n( {v} ))", ShellContext::SplitOperator);
    rejected("echo \"$\\\n\\\n({v})\"", ShellContext::SplitOperator);
    rejected("x=$(ca\\\nse a in a) :;; esac) {v}", ShellContext::SplitOperator);
    rejected("make >&{v}", ShellContext::Duplication);
    rejected("make 1>& x\"{v}\"", ShellContext::Duplication);
    rejected("make >&\\\n \\\n{v}", ShellContext::Duplication);
    rejected("cat <<'E'\n{v}\nE", ShellContext::QuotedHereDocument);
    rejected("cat <<{v}", ShellContext::Delimiter);
    rejected("echo $'{v}'", ShellContext::AnsiQuotes);
    rejected("echo $'\\'' {v}", ShellContext::AnsiQuotes);
    rejected("x=$(case a in a) echo;; esac) {v}", ShellContext::CaseInSubstitution);
    rejected("x=\"$( (case a in a) :;; esac); echo {v})\"", ShellContext::CaseInSubstitution);
}

#[test]
fn where_shells_end_a_here_document_differently_a_value_is_rejected() {
    for text in [
        "cat <<EOF\n\\\nEOF\n{v}\nEOF",
        "cat <<EOF\nEO\\\nF\n{v}\nEOF",
        "cat <<EOF\na\\\nEOF\n{v}",
        "cat <<-EOF\n\t\\\n\tEOF\n{v}\nEOF",
        "cat <<\\\nEOF\n{v}\nEOF",
        "cat <<EOF\"$(echo \"x\")\"\n{v}",
        "cat <<E\"O\"F\nEOF\n{v}",
        "echo $(cat <<EOF)\n{v}\nEOF",
        "cat <<EOF $(echo\n{v}\nEOF\n)",
        "echo $(cat <<EOF) $(echo\n{v}\nEOF\n)",
        "x=$(cat <<EOF\nx\nEOF)\n{v}\nEOF\n)",
        "cat <<EOF\n$(echo \"\nEOF\n{v}\n\")",
        "cat <<A\n$(cat <<B\nA\n{v}\nB\n)\nA",
    ] {
        rejected(text, ShellContext::HereDocumentEnd);
    }
    check("cat <<E\na \\\n {v}\nE\n{v}", "cat <<E\na \\\n ${V}\nE\n\"${V}\"");
    check("cat <<E\n\\\\\nE\n{v}", "cat <<E\n\\\\\nE\n\"${V}\"");
    check("cat <<\\E | f {v}\n\\\nE\n{v}", "cat <<\\E | f \"${V}\"\n\\\nE\n\"${V}\"");
    check("x=$(cat <<E\n{v}\nE\n) {v}", "x=$(cat <<E\n${V}\nE\n) \"${V}\"");
}

#[test]
fn after_parentheses_that_may_be_subshells_a_value_is_rejected() {
    rejected("((cat <<E))\n\"\nE\n{v}\"", ShellContext::DoubleParentheses);
    rejected("echo $((cat <<E); echo)\n\"\nE\n{v}\"", ShellContext::DoubleParentheses);
    check("((i += 1)) || echo {v}", "((i += 1)) || echo \"${V}\"");
}

#[test]
fn incomplete_text_is_left_to_the_shell() {
    for text in
        ["'", "\"", "$(", "${", "`", "$((", "\\", "<<", "<<E", "<<E\n", "$'", "{", "{v", "$"]
    {
        let rewritten = ShellText::parse(text, known).expect(text);
        assert_eq!(rewritten.text(), text);
    }
}
