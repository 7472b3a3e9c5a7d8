//! Names the holder of which a message has only the id.

use windlass_server::{
    HolderId, HolderLabel, HolderNames, Process, Store, StoreError, StoreOpener, command_line,
};

/// Returns the label of the holder with this id.
pub(crate) fn called(store: &StoreOpener, id: &HolderId) -> String {
    let found = store.open().and_then(|mut store| {
        let names = HolderNames::among(&mut store, [id])?;
        Ok((names, process_of(&mut store, id)?))
    });
    let (names, process) = found.unwrap_or_default();
    let command = process.as_ref().and_then(command_line);
    let pid = process.map(|process| process.pid);
    HolderLabel { name: &names.name(id), pid, command: command.as_deref() }.to_string()
}

fn process_of(store: &mut Store, id: &HolderId) -> Result<Option<Process>, StoreError> {
    let views = store.overview()?;
    let leases = views.iter().flat_map(|view| &view.leases);
    let held = leases.filter(|stored| stored.lease.holder == *id);
    let waiters = views.iter().flat_map(|view| &view.waiters);
    let wanted = waiters.filter(|stored| stored.waiter.holder == *id);
    let held = held.filter_map(|stored| stored.owner.process.clone());
    Ok(held.chain(wanted.filter_map(|stored| stored.process.clone())).next())
}
