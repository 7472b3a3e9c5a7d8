//! A request for names, and its answer.

use windlass_core::{
    Claim as CoreClaim, Hold, HolderId, LeaseTerms, Name, NameRefusal, Need, Remains, Token,
};

use crate::error::StoreError;
use crate::lease::ProcessTree;
use crate::lease_group::{Claimant, Leftover};
use crate::name::{check_name, check_text};
use crate::process::Process;

/// What a claim does when it is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefusal {
    /// The claim joins the queue, and the caller claims again when its turn has come.
    #[default]
    Wait,
    /// The claim does not join the queue.
    GiveUp,
}

/// A request for several names, all or none.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// The holder-to-be; unique for one life of one process or step.
    pub holder: &'a HolderId,
    /// The names, with the slots wanted of each.
    pub needs: &'a [Need],
    /// Larger is more urgent.
    pub priority: i64,
    /// How long the lease lasts without heartbeats, and at most.
    pub terms: LeaseTerms,
    /// The process that will hold the lease; the lease ends with it.
    pub process: Option<&'a Process>,
    /// The process that waits, if it is another one; the place in the queue ends with it.
    pub waiter: Option<&'a Process>,
    /// The processes that will work under the lease; the next holder has to end them first.
    pub tree: Option<&'a ProcessTree>,
    /// Whether the claim joins the queue if it is refused.
    pub on_refusal: OnRefusal,
    /// A waiter that lets the claim have its place in the queues of limits, and keeps it.
    pub in_place_of: Option<&'a HolderId>,
    /// The name of the [`Wakeup`](crate::Wakeup) to notify when its turn comes.
    pub wakeup: Option<&'a str>,
    /// Stale leases whose processes the caller has ended; see [`Refused::leftovers`].
    pub ended: &'a [(Name, Token)],
}

impl<'a> Claim<'a> {
    /// Creates a claim with default terms and no process behind it.
    #[must_use]
    pub fn new(holder: &'a HolderId, needs: &'a [Need]) -> Self {
        Self {
            holder,
            needs,
            priority: 0,
            terms: LeaseTerms::default(),
            process: None,
            waiter: None,
            tree: None,
            on_refusal: OnRefusal::Wait,
            in_place_of: None,
            wakeup: None,
            ended: &[],
        }
    }

    /// Returns the names, after checking that each is a valid one.
    pub(super) fn names(&self) -> Result<Vec<Name>, StoreError> {
        check_text(self.holder.as_str())?;
        let names: Vec<_> = self.needs.iter().map(|need| need.name.clone()).collect();
        names.iter().try_for_each(check_name)?;
        Ok(names)
    }

    pub(super) fn for_core(&self) -> CoreClaim {
        let mut claim = CoreClaim::new(self.holder.clone(), self.needs.to_vec());
        claim.priority = self.priority;
        claim.terms = self.terms;
        claim.in_place_of = self.in_place_of.cloned();
        claim.remains = if self.tree.is_some() { Remains::Possible } else { Remains::None };
        claim
    }

    pub(super) fn claimant(&self) -> Claimant {
        Claimant {
            process: self.process.cloned(),
            waiter: self.waiter.or(self.process).cloned(),
            tree: self.tree.cloned(),
            wakeup: self.wakeup.map(str::to_owned),
        }
    }
}

/// The answer to a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claimed {
    /// The holder has all names, in the order in which it asked for them.
    Held(Vec<Hold>),
    /// The holder has none of the names.
    Refused(Refused),
}

/// Why a claim was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The names that refused, each with its holders and the waiters ahead; never empty.
    pub refusals: Vec<NameRefusal>,
    /// Stale leases whose processes the caller has to end; then it claims again, with these as
    /// [`Claim::ended`].
    pub leftovers: Vec<Leftover>,
    /// The processes that hold what was refused.
    pub blockers: Vec<Process>,
    /// How many waiters are ahead in the queue for the first of the names.
    pub ahead: usize,
}

impl Refused {
    /// Returns the first name that refused, and its holder, or else the first waiter ahead.
    #[must_use]
    pub fn first(&self) -> (&Name, &HolderId) {
        let NameRefusal { name, holders, ahead, .. } = &self.refusals[0];
        (name, holders.iter().chain(ahead).next().expect("a refusal names a holder or a waiter"))
    }
}
