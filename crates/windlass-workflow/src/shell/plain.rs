//! Finds shell text that is only a program and its arguments, which can run without a shell.
//!
//! Accepts only what every POSIX shell reads in the same way.

/// Keywords and builtins of shells, sorted. Not here are `true`, `false` and `sleep`, which behave like
/// the programs of these names.
const SHELL_WORDS: &[&str] = &[
    ".",
    ":",
    "[",
    "[[",
    "alias",
    "autoload",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "end",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "float",
    "for",
    "foreach",
    "function",
    "functions",
    "getopts",
    "hash",
    "help",
    "hist",
    "history",
    "if",
    "in",
    "integer",
    "jobs",
    "kill",
    "let",
    "local",
    "login",
    "logout",
    "mapfile",
    "nameref",
    "namespace",
    "newgrp",
    "nocorrect",
    "noglob",
    "popd",
    "print",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "repeat",
    "return",
    "select",
    "set",
    "setopt",
    "shift",
    "shopt",
    "source",
    "stop",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unfunction",
    "unset",
    "unsetopt",
    "until",
    "wait",
    "whence",
    "where",
    "which",
    "while",
];

/// Returns the program and its arguments if `text` is a command of plain words: no expansion, no
/// redirection, no assignment, no builtin.
///
/// ```
/// use windlass_workflow::plain_words;
///
/// let words = plain_words("cargo test --message-format='a b'").expect("only words");
/// assert_eq!(words, ["cargo", "test", "--message-format=a b"]);
/// assert_eq!(plain_words("cargo test > log"), None);
/// assert_eq!(plain_words("cd /"), None);
/// ```
#[must_use]
pub fn plain_words(text: &str) -> Option<Vec<String>> {
    let mut rest = text.trim_matches([' ', '\t', '\n']);
    let mut words = Vec::new();
    while !rest.is_empty() {
        let mut word = String::new();
        rest = take_word(rest, &mut word)?.trim_start_matches([' ', '\t']);
        words.push(word);
    }
    let program = words.first()?;
    // A first word with `=` is an assignment.
    let plain = !program.is_empty() && !program.contains('=') && !is_shell_word(program);
    plain.then_some(words)
}

/// Moves one word into `word`, without its quotes, and returns the rest.
fn take_word<'t>(mut rest: &'t str, word: &mut String) -> Option<&'t str> {
    while let Some(first) = rest.chars().next() {
        match first {
            ' ' | '\t' => break,
            '\'' | '"' => rest = take_quoted(rest, first, word)?,
            _ if is_plain(first) => {
                word.push(first);
                rest = &rest[first.len_utf8()..];
            }
            _ => return None,
        }
    }
    Some(rest)
}

/// Moves the text between two `quote`s into `word`, and returns the rest.
fn take_quoted<'t>(text: &'t str, quote: char, word: &mut String) -> Option<&'t str> {
    let (inside, rest) = text[1..].split_once(quote)?;
    // These are special in double quotes.
    if quote == '"' && inside.contains(['$', '`', '\\', '!']) {
        return None;
    }
    word.push_str(inside);
    Some(rest)
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-./:,+@%=".contains(character)
}

fn is_shell_word(word: &str) -> bool {
    SHELL_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let words = plain_words(text).unwrap_or_else(|| panic!("{text:?} is plain"));
        assert_eq!(words, expected, "{text:?}");
    }

    #[test]
    fn words_are_split_at_blanks_and_lose_their_quotes() {
        check("true", &["true"]);
        check("sleep 1", &["sleep", "1"]);
        check("  ./build.sh\t-j2  a=b\n", &["./build.sh", "-j2", "a=b"]);
        check("cp 'a b' \"c  d\" e'f'\"g\"h ''", &["cp", "a b", "c  d", "efgh", ""]);
        check("grep '$x `y` \\z' \"it's\"", &["grep", "$x `y` \\z", "it's"]);
        check("/bin/echo 'a\nb'", &["/bin/echo", "a\nb"]);
    }

    #[test]
    fn whatever_a_shell_could_read_otherwise_is_left_to_it() {
        let texts = [
            "",
            " ",
            "a; b",
            "a & b",
            "a && b",
            "a | b",
            "a > b",
            "a < b",
            "(a)",
            "{ a; }",
            "a\nb",
            "! a",
            "a $b",
            "a \"$b\"",
            "a `b`",
            "a \"`b`\"",
            "a \\b",
            "a \"\\b\"",
            "a *",
            "a ?",
            "a [b]",
            "a ~",
            "a ~/b",
            "a {b,c}",
            "a #b",
            "# a",
            "x=1 a",
            "x=1",
            "a 'b",
            "a \"b",
            "''",
            "a\r",
            "é",
        ];
        for text in texts {
            assert_eq!(plain_words(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_a_shell_does_itself_is_left_to_it_also_in_quotes() {
        for word in SHELL_WORDS {
            assert_eq!(plain_words(word), None, "{word}");
            assert_eq!(plain_words(&format!("'{word}' a")), None, "{word}");
        }
        check("a cd", &["a", "cd"]);
    }

    #[test]
    fn the_words_of_shells_are_in_order() {
        assert!(SHELL_WORDS.is_sorted());
    }
}
