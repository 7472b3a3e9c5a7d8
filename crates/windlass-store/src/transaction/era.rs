//! A new era of a database: a standby or a backup has taken its place, or it was copied.
//!
//! What was acknowledged a moment before may be missing, and nobody can tell what. So no one leads any more:
//! whoever did reads everything again. And nothing new is started until each worker has either heard of the
//! new era, and ended what the store does not know, or ended everything because it could not: for a whole
//! lease, the right to schedule is held for the orders of the past.

use std::time::Duration;

use windlass_core::{HolderId, Lease, LeaseTerms, Name, Token};

use crate::clock::ClockReading;
use crate::error::StoreError;
use crate::lease::{Owner, StoredLease, StoredName};
use crate::tables::{LeaseChanges, Tables};

/// Who holds the right to schedule at first.
const PAST: &str = "what ran before the database failed over or was restored";

/// Begins an era, if the store has not seen it yet.
pub(super) fn settle(tables: &dyn Tables, now: &ClockReading) -> Result<(), StoreError> {
    let known = tables.meta()?;
    let meta = known.in_era(now)?;
    if meta == known {
        return Ok(());
    }
    tables.begin_era(&meta, meta.floor())?;
    if known.era.is_empty() {
        return Ok(());
    }
    let leases = tables.leases(None)?;
    let workers = leases.iter().filter(|stored| matches!(stored.name, Name::Worker(_)));
    let longest = workers.map(|stored| stored.lease.terms.heartbeat_timeout).max();
    let leads = leases.iter().filter(|s| matches!(s.name, Name::Run(_) | Name::Scheduler));
    let ended_leases = leads.map(|s| (s.name.clone(), s.lease.holder.clone())).collect();
    let lease = longest.unwrap_or(LeaseTerms::default().heartbeat_timeout);
    let name = tables.name(&Name::Scheduler)?.unwrap_or_default();
    let token = name.token.next_above(Token(meta.floor()));
    let names = vec![(Name::Scheduler, StoredName { token, ..name })];
    let leases = vec![past(now, token, lease)];
    tables.refresh_all(now.frame.id(), now.at)?;
    tables.save(&LeaseChanges { ended_leases, leases, names, ..LeaseChanges::default() })
}

/// Returns the hold of the right to schedule that lasts as long as orders of the past may go on.
fn past(now: &ClockReading, token: Token, lease: Duration) -> StoredLease {
    let terms = LeaseTerms { heartbeat_timeout: lease, max_hold: Some(lease) };
    let frame = now.frame.id().to_owned();
    let owner =
        Owner { frame, host: None, process: None, tree: None, uid: None, since_ms: now.wall_ms };
    StoredLease {
        name: Name::Scheduler,
        lease: Lease::new(HolderId::new(PAST), token, terms, now.at),
        owner,
        items: Vec::new(),
        doubted: false,
    }
}
