//! Limits: amounts that all runs and commands of a store share.
//!
//! A limit is a name like a semaphore, whose capacity is set by a user and not by those that claim it. It may
//! have items, of which each holder gets as many as its weight counts. Changing a limit takes nothing from
//! holders.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use thiserror::Error;
use windlass_core::{Amount, ClaimError, HolderId, Name, NameRefusal, Need, SLOTS, Token};

use super::leases::Leases;
use crate::error::StoreError;
use crate::lease::{LimitItems, StoredName};
use crate::lease_group::LeaseGroup;
use crate::tables::{LeaseChanges, QueuePart};

/// What a limit consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// An amount, such as a number of bytes.
    Amount(Amount),
    /// Named items.
    Items(LimitItems),
}

impl LimitKind {
    /// Returns the most that one holder can have.
    #[must_use]
    pub fn amount(&self) -> Amount {
        match self {
            LimitKind::Amount(amount) => *amount,
            LimitKind::Items(LimitItems { names, .. }) => {
                Amount::from(u32::try_from(names.len()).unwrap_or(u32::MAX))
            }
        }
    }
}

/// A limit, and what a participant may take of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRoom {
    /// The limit.
    pub limit: Amount,
    /// How much more of it the participant may take now.
    pub free: Amount,
}

/// Who takes from limits with many works, under one place in their queues.
#[derive(Clone, Copy)]
pub struct LimitShare<'a> {
    /// The holder of its place.
    pub place: &'a HolderId,
    /// The priority of a work that comes first; larger is more urgent.
    pub priority: i64,
    /// Returns whether a waiter is one of its works, for which nothing has to be kept free.
    pub is_own: &'a dyn Fn(&HolderId) -> bool,
    /// Stale holds of which no process is left.
    pub ended: &'a [(Name, Token)],
}

/// Why a limit cannot be set, removed or used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Its name is not one of a limit.
    #[error(
        "{name:?} cannot be the name of a limit: use letters, digits, dots, dashes and underscores"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Slots belong to workers.
    #[error(
        "`slots` cannot be the name of a limit: how many steps a worker executes at a time is its --slots"
    )]
    Slots,
    /// The amount is 0.
    #[error("limit {name:?} needs an amount above 0")]
    Nothing {
        /// The limit.
        name: String,
    },
    /// The amount is larger than a store can count.
    #[error("limit {name:?}: {amount} is too large")]
    TooLarge {
        /// The limit.
        name: String,
        /// The amount.
        amount: Amount,
    },
    /// An item is not a name.
    #[error("limit {name:?}: {item:?} cannot be an item: an item is a word without commas")]
    Item {
        /// The limit.
        name: String,
        /// The item.
        item: String,
    },
    /// An item is named twice.
    #[error("limit {name:?} has the item {item:?} twice")]
    Twice {
        /// The limit.
        name: String,
        /// The item.
        item: String,
    },
    /// There is no such limit.
    #[error("the store has no limit {name:?}; `windlass limits` lists those that it has")]
    Unknown {
        /// The limit.
        name: String,
    },
    /// The limit cannot get or lose items while it is used.
    #[error(
        "limit {name:?} is in use by {by}; it can get or lose items while no process uses or awaits it"
    )]
    KindInUse {
        /// The limit.
        name: String,
        /// A holder or waiter.
        by: HolderId,
    },
    /// The limit is used.
    #[error(
        "limit {name:?} is in use by {by}; it can be removed while no process uses or awaits it"
    )]
    InUse {
        /// The limit.
        name: String,
        /// A holder or waiter.
        by: HolderId,
    },
    /// A part of an item is asked for.
    #[error("requires {wanted} of limit {name:?}, which has items: use a whole number")]
    Part {
        /// The limit.
        name: String,
        /// How much is asked for.
        wanted: Amount,
    },
}

/// The limits of a store, within a [`Transaction`](super::Transaction).
pub struct Limits<'a> {
    leases: Leases<'a>,
}

impl<'a> Limits<'a> {
    pub(super) fn new(leases: Leases<'a>) -> Self {
        Self { leases }
    }

    /// Returns all limits, by name.
    pub fn all(&self) -> Result<BTreeMap<String, LimitKind>, StoreError> {
        let limits = self.leases.tables.limits()?.into_iter();
        let kind = |(name, stored): (Name, StoredName)| {
            Ok((name.text().to_owned(), self.kind_of(name.text(), stored)?))
        };
        limits.map(kind).collect()
    }

    /// Returns a limit, if it is set.
    pub fn find(&self, name: &str) -> Result<Option<LimitKind>, StoreError> {
        let stored = self.leases.tables.name(&Name::Limit(name.to_owned()))?;
        let stored = stored.filter(|stored| stored.capacity.is_some());
        stored.map(|stored| self.kind_of(name, stored)).transpose()
    }

    /// Sets a limit. Holders keep what they have; waiters that need more than it leave the queue, are woken,
    /// and are returned.
    pub fn set(&self, name: &str, kind: &LimitKind) -> Result<Vec<HolderId>, StoreError> {
        check(name, kind)?;
        let key = Name::Limit(name.to_owned());
        let Leases { tables, notices, .. } = &self.leases;
        let stored = tables.name(&key)?.unwrap_or_default();
        let known = stored.capacity.map(|_| self.kind_of(name, stored)).transpose()?;
        let is_alike = |known: &LimitKind| {
            matches!(known, LimitKind::Items(_)) == matches!(kind, LimitKind::Items(_))
        };
        if known.is_some_and(|known| !is_alike(&known))
            && let Some(by) = self.user(&key)?
        {
            return Err(LimitError::KindInUse { name: name.to_owned(), by }.into());
        }
        let capacity = Some(kind.amount().steps());
        let names = vec![(key.clone(), StoredName { capacity, ..stored })];
        tables.save(&LeaseChanges { names, ..LeaseChanges::default() })?;
        let items = match kind {
            LimitKind::Amount(_) => None,
            LimitKind::Items(items) => Some(items),
        };
        tables.put_limit_items(name, items)?;
        self.leases.decide(slice::from_ref(&key), &[], QueuePart::Whole, |group| {
            let impossible = group.state.set_limit(name, kind.amount(), group.now().at);
            notices.add_turns(group.wakeups_of(&impossible));
            Ok(impossible)
        })
    }

    /// Removes a limit that no process uses.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let key = Name::Limit(name.to_owned());
        if self.find(name)?.is_none() {
            return Err(LimitError::Unknown { name: name.to_owned() }.into());
        }
        if let Some(by) = self.user(&key)? {
            return Err(LimitError::InUse { name: name.to_owned(), by }.into());
        }
        // The row stays, because tokens only grow.
        let tables = self.leases.tables;
        let stored = tables.name(&key)?.unwrap_or_default();
        let names = vec![(key, StoredName { capacity: None, ..stored })];
        tables.save(&LeaseChanges { names, ..LeaseChanges::default() })?;
        tables.put_limit_items(name, None)
    }

    /// Checks that the store has a limit and that `wanted` of it can be had.
    pub fn expect(&self, name: &str, wanted: Amount) -> Result<(), StoreError> {
        let Some(kind) = self.find(name)? else {
            return Err(ClaimError::NoLimit { name: name.to_owned() }.into());
        };
        let (name, limit) = (name.to_owned(), kind.amount());
        if matches!(kind, LimitKind::Items(_)) && !is_whole(wanted) {
            return Err(LimitError::Part { name, wanted }.into());
        }
        match wanted > limit {
            true => Err(ClaimError::AboveLimit { name, wanted, limit }.into()),
            false => Ok(()),
        }
    }

    /// Returns the limits among `names` that are set, and how much a participant may take of them.
    pub fn rooms(
        &self,
        names: &BTreeSet<String>,
        participant: &LimitShare<'_>,
    ) -> Result<BTreeMap<String, LimitRoom>, StoreError> {
        let LimitShare { place, priority, is_own, ended } = *participant;
        let keys: Vec<_> = names.iter().cloned().map(Name::Limit).collect();
        let room = |group: &mut LeaseGroup<'_>, name: &Name| {
            let limit = group.capacity(name)?;
            let free = group.state.room_at(name, place, priority, is_own, group.now().at);
            let (limit, free) = (Amount::from_steps(limit), Amount::from_steps(free));
            Some((name.text().to_owned(), LimitRoom { limit, free }))
        };
        self.leases.decide(&keys, &[place], QueuePart::Head, |group| {
            for (name, token) in ended {
                group.state.clear_remains(name, *token);
            }
            Ok(keys.iter().filter_map(|name| room(group, name)).collect())
        })
    }

    /// Returns the items that the holder under `token` has, and the variable in which it finds them.
    pub fn items(&self, name: &str, token: Token) -> Result<Option<LimitItems>, StoreError> {
        let Some(LimitItems { variable_name, .. }) = self.leases.tables.limit_items(name)? else {
            return Ok(None);
        };
        let held = self.leases.on(&Name::Limit(name.to_owned()))?.into_iter();
        let own = held.into_iter().find(|stored| stored.lease.token == token);
        Ok(own.map(|own| LimitItems { names: own.items, variable_name }))
    }

    fn kind_of(&self, name: &str, stored: StoredName) -> Result<LimitKind, StoreError> {
        Ok(match self.leases.tables.limit_items(name)? {
            Some(items) => LimitKind::Items(items),
            None => LimitKind::Amount(Amount::from_steps(stored.capacity.unwrap_or_default())),
        })
    }

    /// Returns a process that uses a limit or waits for it.
    fn user(&self, key: &Name) -> Result<Option<HolderId>, StoreError> {
        self.leases.decide(slice::from_ref(key), &[], QueuePart::Whole, |group| {
            let holders: Vec<_> = group.state.leases(key).map(|l| l.holder.clone()).collect();
            let ahead: Vec<_> = group.state.waiters(key).map(|w| w.holder.clone()).collect();
            let all = NameRefusal { name: key.clone(), available: 0, holders, ahead };
            group.remove_dead(&[all]);
            group.state.reclaim_stale(key, group.now().at);
            let holder = group.state.leases(key).map(|lease| lease.holder.clone()).next();
            Ok(holder.or_else(|| group.state.waiters(key).map(|w| w.holder.clone()).next()))
        })
    }
}

/// Checks that a claim asks for whole items.
pub(super) fn check_items(need: &Need) -> Result<(), LimitError> {
    let wanted = Amount::from_steps(need.weight);
    match is_whole(wanted) {
        true => Ok(()),
        false => Err(LimitError::Part { name: need.name.text().to_owned(), wanted }),
    }
}

fn is_whole(amount: Amount) -> bool {
    amount.steps().is_multiple_of(Amount::ONE.steps())
}

/// Checks the name and the amount or items of a limit.
fn check(name: &str, kind: &LimitKind) -> Result<(), LimitError> {
    check_limit_name(name)?;
    let (name, amount) = (name.to_owned(), kind.amount());
    if amount == Amount::ZERO {
        return Err(LimitError::Nothing { name });
    }
    if i64::try_from(amount.steps()).is_err() {
        return Err(LimitError::TooLarge { name, amount });
    }
    let LimitKind::Items(LimitItems { names, .. }) = kind else { return Ok(()) };
    let mut seen = BTreeSet::new();
    for item in names {
        let is_word = |c: char| !c.is_whitespace() && !c.is_control() && c != ',';
        if item.is_empty() || !item.chars().all(is_word) {
            return Err(LimitError::Item { name, item: item.clone() });
        }
        if !seen.insert(item) {
            return Err(LimitError::Twice { name, item: item.clone() });
        }
    }
    Ok(())
}

/// Checks that a text can be the name of a limit.
pub fn check_limit_name(name: &str) -> Result<(), LimitError> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name == SLOTS {
        return Err(LimitError::Slots);
    }
    let is_name = name.starts_with(char::is_alphanumeric) && name.chars().all(plain);
    match is_name && name.len() <= 200 {
        true => Ok(()),
        false => Err(LimitError::Name { name: name.to_owned() }),
    }
}
