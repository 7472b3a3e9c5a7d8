//! `windlass lock` and `windlass sem` around a command.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::Path;

use windlass_server::{
    Hold, HoldError, HolderId, LeaseTerms, Need, People, Refused, StoreOpener, hold,
    waits_for_its_own,
};

use crate::arguments::{Form, Holding, LockArguments, SemArguments};
use crate::exit::Exit;
use crate::primitive;
use crate::state;
use crate::style::plain;

pub(crate) fn lock(
    state: Option<&Path>,
    arguments: &LockArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    if let Some(primitive) = &arguments.primitive {
        return primitive::lock(state, primitive, form);
    }
    let needs = arguments.names.iter().cloned().map(Need::one).collect();
    run(state, needs, None, &arguments.holding)
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
    let weight = arguments.slots.weight;
    let declared = arguments.slots.capacity.map(|capacity| (name.text().to_owned(), capacity));
    run(state, vec![Need { name, weight }], declared, &arguments.holding)
}

fn run(
    state: Option<&Path>,
    needs: Vec<Need>,
    declared: Option<(String, u32)>,
    holding: &Holding,
) -> Result<Exit, Box<dyn Error>> {
    let Holding { wait, terms, command } = holding;
    let (terms, command) = (LeaseTerms::from(terms), command.clone());
    let order = Hold { needs, declared, wait: *wait, terms, command };
    let store = state::open(state)?;
    let people = store.opener();
    match hold(store, &order, |refused| tell(&people, &order.needs, refused)) {
        Err(HoldError::NotHad { name, by }) => {
            let by = called(&people, &by);
            eprintln!("windlass: {name} was not had in time: {by} has it or stands before us");
            Ok(Exit::NotHad)
        }
        ended => Ok(Exit::Command(ended?)),
    }
}

/// Tells a person for what the command waits; scripts would only log it. One that may wait for itself says
/// so in any case.
pub(crate) fn tell(store: &StoreOpener, needs: &[Need], refused: &Refused) {
    let own = store.open().and_then(|mut store| waits_for_its_own(&mut store, needs, refused));
    if let Ok(Some((name, by))) = own {
        let by = called(store, &by);
        eprintln!(
            "windlass: waiting for {name}: {by} has it, and has started this command; if it waits \
             for this one, both wait for ever"
        );
    } else if io::stderr().is_terminal() {
        let (name, by) = refused.first();
        let by = called(store, by);
        eprintln!("windlass: waiting for {name}: {by} has it or stands before us");
    }
}

/// What people call a holder: a step by its run and its name.
fn called(store: &StoreOpener, holder: &HolderId) -> String {
    let people = store.open().ok().and_then(|mut store| People::among(&mut store, [holder]).ok());
    plain(&people.unwrap_or_default().name(holder))
}
