//! `windlass lock` and `windlass sem` around a command.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use windlass_server::{
    Hold, HoldError, LeaseTerms, Leftover, Need, Refused, StoreOpener, hold, other_users_leftover,
    user_name, waits_for_its_own,
};

use crate::arguments::{Form, Holding, LockArguments, SemArguments};
use crate::exit::Exit;
use crate::holder::called;
use crate::primitive;
use crate::state;
use crate::times::span;

pub(crate) fn lock(
    state: Option<&Path>,
    arguments: &LockArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    if let Some(primitive) = &arguments.primitive {
        return primitive::lock(state, primitive, form);
    }
    let needs = arguments.names.iter().cloned().map(Need::one).collect();
    run(state, needs, None, arguments.wait(), &arguments.holding)
}

pub(crate) fn sem(
    state: Option<&Path>,
    arguments: &SemArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    if let Some(primitive) = &arguments.primitive {
        return primitive::sem(state, primitive, form);
    }
    let name = arguments.name.clone().expect("it is required without a primitive");
    let (need, capacity) = match arguments.slots.need(&name) {
        Ok(need) => need,
        Err(why) => return Ok(usage(&why)),
    };
    let declared = capacity.map(|capacity| (name.text().to_owned(), capacity));
    let holding = &arguments.holding;
    run(state, vec![need], declared, holding.wait, holding)
}

/// Reports a mistake in the arguments.
pub(crate) fn usage(why: &str) -> Exit {
    eprintln!("windlass: {why}");
    Exit::Usage
}

fn run(
    state: Option<&Path>,
    needs: Vec<Need>,
    declared: Option<(String, u32)>,
    wait: Option<Duration>,
    holding: &Holding,
) -> Result<Exit, Box<dyn Error>> {
    let Holding { terms, command, conflict_exit_code, .. } = holding;
    let (terms, command) = (LeaseTerms::from(terms), command.clone());
    let order = Hold { needs, declared, wait, terms, command };
    let store = state::open(state)?;
    let opener = store.opener();
    match hold(store, &order, |refused| report_wait(&opener, &order.needs, refused)) {
        Err(HoldError::NotAcquired { name, by }) => {
            let by = called(&opener, &by);
            let failed = match order.wait.filter(|wait| !wait.is_zero()) {
                Some(wait) => format!("timed out after {} waiting for {name}", span(wait)),
                None => format!("{name} is not free"),
            };
            eprintln!("windlass: {failed}: held by, or queued behind, {by}");
            eprintln!("  store: {}", state::dir(state)?.display());
            Ok(Exit::Command(i32::from(*conflict_exit_code)))
        }
        ended => Ok(Exit::Command(ended?)),
    }
}

/// Prints what the command waits for, if standard error is a terminal. A command that may wait for itself
/// is reported in any case.
pub(crate) fn report_wait(store: &StoreOpener, needs: &[Need], refused: &Refused) {
    if let Some(leftover) = other_users_leftover(refused) {
        return report_leftover(leftover);
    }
    let own = store.open().and_then(|mut store| waits_for_its_own(&mut store, needs, refused));
    if let Ok(Some((name, by))) = own {
        let by = called(store, &by);
        eprintln!(
            "windlass: waiting for {name}, held by {by}, which has started this command; if it \
             waits for this command to end, neither can go on"
        );
    } else if io::stderr().is_terminal() {
        let (name, by) = refused.first();
        let by = called(store, by);
        eprintln!("windlass: waiting for {name}: held by, or queued behind, {by}");
    }
}

/// Prints that processes which another user has left running keep a name.
fn report_leftover(leftover: &Leftover) {
    let Leftover { name, uid, left, .. } = leftover;
    let may = match uid.map(|uid| (uid, user_name(uid))) {
        Some((0, root)) => root,
        Some((_, user)) => format!("{user} or root"),
        None => "another user or root".to_owned(),
    };
    eprintln!(
        "windlass: {name}: the holder has ended or hangs, and only {may} may end the \
         processes it left running; the lease expires in {} at most",
        span(*left)
    );
}
