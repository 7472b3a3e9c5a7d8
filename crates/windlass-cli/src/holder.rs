//! Names the holder of which a message has only the id.

use windlass_server::{
    HolderId, HolderLabel, HolderNames, Process, Store, StoreError, StoreOpener, command_line,
    other_host,
};

/// Returns the label of the holder with this id.
pub(crate) fn called(store: &StoreOpener, id: &HolderId) -> String {
    let found = store.open().and_then(|mut store| {
        let names = HolderNames::among(&mut store, [id])?;
        Ok((names, process_of(&mut store, id)?))
    });
    let (names, (process, host)) = found.unwrap_or_default();
    let command = process.as_ref().and_then(command_line);
    let pid = process.map(|process| process.pid);
    let host = other_host(host.as_deref());
    let (name, command) = (names.name(id), command.as_deref());
    HolderLabel { name: &name, pid, command, host: host.as_deref() }.to_string()
}

/// Returns the process of a holder or waiter, and its machine.
fn process_of(
    store: &mut Store,
    id: &HolderId,
) -> Result<(Option<Process>, Option<String>), StoreError> {
    let views = store.overview()?;
    let leases = views.iter().flat_map(|view| &view.leases);
    let held = leases.filter(|stored| stored.lease.holder == *id);
    let waiters = views.iter().flat_map(|view| &view.waiters);
    let wanted = waiters.filter(|stored| stored.waiter.holder == *id);
    let held = held.map(|stored| (stored.owner.process.clone(), stored.owner.host.clone()));
    let wanted = wanted.map(|stored| (stored.process.clone(), stored.host.clone()));
    Ok(held.chain(wanted).find(|(process, _)| process.is_some()).unwrap_or_default())
}
