//! Suggestions for mistyped words.

/// Words longer than this are not compared: they take long, and are seldom mistyped names.
const LONGEST: usize = 256;

/// Returns the word of `known` that `word` was probably meant to be: at most a third of its letters
/// differ.
///
/// ```
/// assert_eq!(windlass_core::nearest("reprot", ["fetch", "report"]), Some("report"));
/// assert_eq!(windlass_core::nearest("deploy", ["fetch", "report"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let most = (length / 3).max(1);
    let near = |name: &&str| name.chars().take(length + most + 1).count().abs_diff(length) <= most;
    let candidates = known.into_iter().filter(near).map(|name| (distance(word, name), name));
    candidates.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

/// Returns the first few of these names and the number of the others: "a, b and 3 more".
///
/// ```
/// let names = ["fetch", "build", "test"];
/// assert_eq!(windlass_core::some_of(names, 3), "fetch, build, test");
/// assert_eq!(windlass_core::some_of(names, 2), "fetch, build and 1 more");
/// ```
pub fn some_of<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let mut names = names.into_iter();
    let named = names.by_ref().take(most).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Returns the number of letters to insert, remove, replace or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
