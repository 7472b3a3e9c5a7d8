//! Any text as a pattern of events, and any other as an event: matched as a plain reading says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_workflow::EventPattern;

fuzz_target!(|texts: (&str, &str)| {
    let (pattern, event) = texts;
    let Ok(parsed) = pattern.parse::<EventPattern>() else { return };
    assert_eq!(parsed.to_string(), pattern);
    let (pattern, event): (Vec<&str>, Vec<&str>) =
        (pattern.split(':').collect(), event.split(':').collect());
    assert_eq!(parsed.matches(texts.1), matches(&pattern, &event));
});

fn matches(pattern: &[&str], event: &[&str]) -> bool {
    match (pattern, event) {
        ([], []) | (["**"], _) => true,
        ([part, pattern @ ..], [name, event @ ..]) if *part == "*" || part == name => {
            matches(pattern, event)
        }
        _ => false,
    }
}
