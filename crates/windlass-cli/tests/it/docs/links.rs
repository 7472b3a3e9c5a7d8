//! Links from page to page lead somewhere.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{pages, read, repository};

/// Returns the anchors of a page: its headings, as GitHub names them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Returns the lines outside of fences.
fn prose(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut outside = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    };
    text.lines().filter(|line| outside(line)).collect()
}

/// Returns the targets of the links of a page.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text).join("\n");
    let ends = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let pictures = prose.split("src=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    ends.chain(pictures).map(|(link, _)| link.to_owned()).collect()
}

/// Returns `docs/../README.md` as `README.md`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{path:?} leads out of the repository"),
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let mut checked = 0;
    for page in pages() {
        let text = read(&page);
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let there = match file {
                "" => PathBuf::from(&page),
                file => plain(&Path::new(&page).with_file_name("").join(file)),
            };
            assert!(repository().join(&there).exists(), "{page}: {link} leads nowhere");
            if !heading.is_empty() {
                let anchors = anchors(&read(there.to_str().expect("a plain path")));
                assert!(anchors.contains(heading), "{page}: {link}: not among {anchors:?}");
            }
            checked += 1;
        }
    }
    assert!(checked >= 40, "{checked}");
}
