//! Any text as shell text: what is not a known name comes out as it went in, and so does every name
//! behind a dollar.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_workflow::{ShellText, Variable};

fuzz_target!(|text: &str| {
    let plain = ShellText::parse(text, |_| None).expect("there is nothing to refuse");
    assert_eq!(plain.text(), text);
    let known = |name: &str| Some(Variable::Param(name.to_owned()));
    let _ = ShellText::parse(text, known);
    let dollars = text.replace('{', "${");
    let plain = ShellText::parse(&dollars, known).expect("there is no value to refuse");
    assert_eq!(plain.text(), dollars);
});
