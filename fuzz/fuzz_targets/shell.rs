//! Any text as shell text: what is not a known name comes out as it went in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_workflow::{ShellText, Variable};

fuzz_target!(|text: &str| {
    let plain = ShellText::parse(text, |_| None).expect("there is nothing to refuse");
    assert_eq!(plain.text(), text);
    let _ = ShellText::parse(text, |name| Some(Variable::Param(name.to_owned())));
});
