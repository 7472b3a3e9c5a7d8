//! The primitives of `windlass lock` and `windlass sem`.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use windlass_server::{
    Acquire, Answer, HoldError, HolderId, LeaseTerms, Name, Need, Store, StoreError, Taken, Token,
    acquire, check_token, heartbeat, release,
};

use crate::arguments::{
    AcquireArguments, CheckArguments, Form, Kind, LockPrimitive, SemPrimitive, TokenArguments,
};
use crate::exit::Exit;
use crate::holder::called;
use crate::lock::{report_wait, usage};
use crate::output::{self, json};
use crate::state;

pub(crate) fn lock(
    state: Option<&Path>,
    primitive: &LockPrimitive,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    match primitive {
        LockPrimitive::Acquire(arguments) => {
            take(state, arguments, Need::one(arguments.name.clone()), None, form)
        }
        LockPrimitive::Release(arguments) => with_token(state, arguments, form, release),
        LockPrimitive::Heartbeat(arguments) => with_token(state, arguments, form, heartbeat),
        LockPrimitive::Check(arguments) => look(state, arguments, form),
    }
}

pub(crate) fn sem(
    state: Option<&Path>,
    primitive: &SemPrimitive,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    match primitive {
        SemPrimitive::Acquire { acquire, slots } => match slots.need(&acquire.name) {
            Ok((need, capacity)) => take(state, acquire, need, capacity, form),
            Err(why) => Ok(usage(&why)),
        },
        SemPrimitive::Release(arguments) => with_token(state, arguments, form, release),
        SemPrimitive::Heartbeat(arguments) => with_token(state, arguments, form, heartbeat),
        SemPrimitive::Check(arguments) => look(state, arguments, form),
    }
}

fn take<K: Kind>(
    state: Option<&Path>,
    arguments: &AcquireArguments<K>,
    need: Need,
    capacity: Option<u32>,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let name = &arguments.name;
    let order = Acquire {
        holder: HolderId::new(arguments.holder.as_str()),
        need,
        capacity,
        terms: LeaseTerms::from(&arguments.terms),
        pid: arguments.pid,
        wait: Some(arguments.wait),
    };
    let mut store = state::open(state)?;
    let opener = store.opener();
    let report = |refused: &_| report_wait(&opener, std::slice::from_ref(&order.need), refused);
    match acquire(&mut store, &order, report) {
        Ok(hold) => {
            let (result, from) = taken(&hold.taken);
            let answer = AnswerJson::new(name, result);
            AnswerJson { token: Some(hold.token.0), from, ..answer }.print(form);
            Ok(Exit::Success)
        }
        Err(HoldError::NotAcquired { by, .. }) => {
            let result = if matches!(name, Name::Lock(_)) { "Busy" } else { "Full" };
            let holder = match form {
                Form::Text => called(&opener, &by),
                Form::Json => by.to_string(),
            };
            AnswerJson { holder: Some(holder), ..AnswerJson::new(name, result) }.print(form);
            Ok(Exit::NotAcquired)
        }
        Err(error) => Err(error.into()),
    }
}

fn taken(taken: &Taken) -> (&'static str, Option<String>) {
    match taken {
        Taken::Acquired => ("Acquired", None),
        Taken::Extended => ("Extended", None),
        Taken::AlreadyHeld => ("AlreadyHeld", None),
        Taken::Upgraded => ("Upgraded", None),
        Taken::Reclaimed { from } => ("Reclaimed", Some(from.to_string())),
    }
}

/// Releases a hold, or sends a heartbeat.
fn with_token<K: Kind>(
    state: Option<&Path>,
    arguments: &TokenArguments<K>,
    form: Form,
    act: fn(&mut Store, &Name, &HolderId, Token) -> Result<Answer, StoreError>,
) -> Result<Exit, Box<dyn Error>> {
    let TokenArguments { name, holder, token, .. } = arguments;
    let holder = HolderId::new(holder.as_str());
    let answer = act(&mut state::open(state)?, name, &holder, Token(*token))?;
    Ok(answered(form, name, answer, *token))
}

fn look<K: Kind>(
    state: Option<&Path>,
    arguments: &CheckArguments<K>,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let CheckArguments { name, holder, token, .. } = arguments;
    let holder = holder.as_ref().map(|holder| HolderId::new(holder.as_str()));
    let answer = check_token(&mut state::open(state)?, name, holder.as_ref(), Token(*token))?;
    Ok(answered(form, name, answer, *token))
}

fn answered(form: Form, name: &Name, answer: Answer, token: u64) -> Exit {
    let result = format!("{answer:?}");
    AnswerJson { token: Some(token), ..AnswerJson::new(name, &result) }.print(form);
    if answer.is_yes() { Exit::Success } else { Exit::NotAcquired }
}

/// The answer to a primitive, for programs.
#[derive(Serialize)]
struct AnswerJson<'a> {
    kind: &'static str,
    name: &'a str,
    result: &'a str,
    token: Option<u64>,
    from: Option<String>,
    holder: Option<String>,
}

impl<'a> AnswerJson<'a> {
    fn new(name: &'a Name, result: &'a str) -> Self {
        let (kind, name) = (name.kind(), name.text());
        Self { kind, name, result, token: None, from: None, holder: None }
    }

    fn print(&self, form: Form) {
        let Self { result, token, holder, .. } = self;
        output::print(&match (form, token, holder) {
            (Form::Json, _, _) => json("answer", self),
            (Form::Text, Some(token), _) => format!("{result} {token}\n"),
            (Form::Text, None, Some(holder)) => format!("{result} {holder}\n"),
            (Form::Text, None, None) => format!("{result}\n"),
        });
    }
}
