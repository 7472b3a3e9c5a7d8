//! `windlass doctor`: looks for what is wrong with a store.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use windlass_server::{Finding, Note, diagnose};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;
use crate::style::{Ink, Style, plain};

pub(crate) fn doctor(state: Option<&Path>, form: Form) -> Result<Exit, Box<dyn Error>> {
    let diagnosis = diagnose(&mut state::existing(state)?)?;
    let style = Style::of_stdout();
    for Note { about, text } in &diagnosis.notes {
        print(&match form {
            Form::Json => json("note", &NoteJson { about, text }),
            Form::Text => format!("{about}: {}\n", plain(text)),
        });
    }
    for Finding { about, text, advice } in &diagnosis.findings {
        print(&match form {
            Form::Json => json("finding", &FindingJson { about, text, advice }),
            Form::Text => {
                let what = style.paint(Ink::Red, &format!("{about}: {}", plain(text)));
                format!("{what}\n  = help: {}\n", plain(advice))
            }
        });
    }
    if form == Form::Text {
        eprintln!(
            "{}",
            match diagnosis.findings.len() {
                0 => "nothing is wrong".to_owned(),
                1 => "1 finding".to_owned(),
                many => format!("{many} findings"),
            }
        );
    }
    Ok(if diagnosis.findings.is_empty() { Exit::Success } else { Exit::Failed })
}

#[derive(Serialize)]
struct NoteJson<'a> {
    about: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    about: &'a str,
    text: &'a str,
    advice: &'a str,
}
