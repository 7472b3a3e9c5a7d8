//! Many takes and returns put down at once, for one who counts them elsewhere while nobody else
//! could notice.

use super::cell::Cell;
use super::level::grown;
use super::{CapacityTree, in_order};
use crate::{Amount, ClientId, Demand, ResourceId, Timestamp};

impl CapacityTree {
    /// How often `client` could take `demand` from now on, one after the other, while it makes no
    /// difference to anybody when that is put down, and neither when something of it is given back.
    /// None where a rate or a quota counts, where a limit is exceeded, where someone stands or
    /// watches, or if `client` stands anywhere itself.
    #[must_use]
    pub fn takes_at_ease(&self, client: ClientId, demand: &Demand) -> Option<u64> {
        if self.client(client).standing.is_some() {
            return None;
        }
        let mut least = u64::MAX;
        for level in self.chain(self.level_of(client)) {
            for (resource, wanted) in demand.iter() {
                if let Some(cell) = self.cell(level, resource) {
                    least = least.min(cell.times_at_ease(wanted)?);
                }
            }
        }
        Some(least)
    }

    /// Puts down that `client` has taken `demand` so many times, and given it back so many times,
    /// in whatever order, since [`CapacityTree::takes_at_ease`] allowed it and nothing has changed.
    ///
    /// # Panics
    ///
    /// If the client does not hold what was given back.
    pub fn put_down(&mut self, client: ClientId, demand: &Demand, taken: u64, given_back: u64) {
        let after = |count: u64| (count + taken).checked_sub(given_back);
        let steps = i128::from(taken) - i128::from(given_back);
        let holder = self.client_mut(client);
        holder.in_flight = after(holder.in_flight).expect("only what was taken is given back");
        for (resource, amount) in demand.iter() {
            *grown(&mut holder.held, resource.index()) += steps * i128::from(amount.steps());
        }
        let level = holder.level;
        self.climb(level, |level| {
            level.accepted += taken;
            level.in_flight = after(level.in_flight).expect("a level counts all below it");
            for (resource, amount) in demand.iter() {
                level.cell_mut(resource).in_use += steps * i128::from(amount.steps());
            }
        });
    }
}

impl CapacityTree {
    /// Gives back as [`CapacityTree::give_back`] does, so many times.
    ///
    /// # Panics
    ///
    /// If the client does not hold that much.
    pub fn give_back_often(
        &mut self,
        client: ClientId,
        demand: &Demand,
        times: u64,
    ) -> Vec<ClientId> {
        let steps = |amount: Amount| i128::from(times) * i128::from(amount.steps());
        let held = |r: ResourceId| self.held(client).get(r.index()).copied().unwrap_or(0);
        let enough = demand.iter().all(|(r, amount)| held(r) >= steps(amount));
        assert!(enough, "a client gives back at most what it holds");
        let holder = self.client_mut(client);
        let gone = holder.in_flight.min(times);
        holder.in_flight -= gone;
        for (resource, amount) in demand.iter() {
            holder.held[resource.index()] -= steps(amount);
        }
        let level = holder.level;
        let mut wakes = Vec::new();
        self.climb(level, |level| {
            level.in_flight -= gone;
            for (resource, amount) in demand.iter() {
                level.cells[resource.index()].give_back(steps(amount), &mut wakes);
            }
        });
        in_order(wakes)
    }
}

impl Cell {
    /// How often `wanted` fits, where nobody stands or watches and time does not matter.
    fn times_at_ease(&self, wanted: Amount) -> Option<u64> {
        if !self.is_at_ease() {
            return None;
        }
        // At ease: a limit that is not exceeded, or none.
        let times = self.free(Timestamp::ZERO) / i128::from(wanted.steps()).max(1);
        Some(u64::try_from(times).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Place, Rate, ResourceCost};

    const NOW: Timestamp = Timestamp::ZERO;

    fn of(amounts: &[(&str, u32)]) -> ResourceCost {
        ResourceCost::of(amounts.iter().copied()).expect("each name once")
    }

    #[test]
    fn it_is_the_tightest_limit_of_the_chain_that_counts() {
        let mut tree = CapacityTree::new(&of(&[("cpu", 10), ("gpu", 7)]));
        let team = tree.add_level(CapacityTree::ROOT, &of(&[("cpu", 8)]));
        let [client, other] = [team, CapacityTree::ROOT].map(|level| tree.add_client(level));
        let demand = tree.demand(team, &of(&[("cpu", 2), ("gpu", 1)])).expect("it fits");
        assert_eq!(tree.takes_at_ease(client, &demand), Some(4));
        let held = tree.demand(CapacityTree::ROOT, &of(&[("gpu", 5)])).expect("it fits");
        tree.take(other, &held, NOW);
        assert_eq!(tree.takes_at_ease(client, &demand), Some(2));
        tree.put_down(client, &demand, 2, 0);
        assert_eq!(tree.takes_at_ease(client, &demand), Some(0), "all is taken");
        assert_eq!(
            tree.takes_at_ease(client, &Demand::default()),
            Some(u64::MAX),
            "nothing can be taken for ever"
        );
        tree.set_limits(CapacityTree::ROOT, &of(&[("gpu", 4)]));
        assert_eq!(tree.takes_at_ease(client, &demand), None, "in debt");
    }

    #[test]
    fn nothing_is_at_ease_where_time_counts_or_somebody_waits() {
        let mut tree = CapacityTree::new(&of(&[("cpu", 2)]));
        let [client, other] = [(); 2].map(|()| tree.add_client(CapacityTree::ROOT));
        let one = tree.demand(CapacityTree::ROOT, &of(&[("cpu", 1)])).expect("it fits");
        let both = tree.demand(CapacityTree::ROOT, &of(&[("cpu", 2)])).expect("it fits");
        tree.take(client, &one, NOW);
        let refusal = tree.try_take(other, &both, Place::First, NOW).expect_err("one is left");
        tree.stand(other, 0, &refusal);
        assert_eq!(tree.takes_at_ease(client, &one), None, "it is set aside");
        assert_eq!(tree.takes_at_ease(other, &one), None, "who stands is not at ease");
        tree.withdraw(other);
        assert_eq!(tree.takes_at_ease(client, &one), Some(1));
        tree.watch_everything(other);
        assert_eq!(tree.takes_at_ease(client, &one), None, "giving back has to be told");
        tree.remove_client(other);
        let rate = Rate {
            amount: Amount::from(1),
            per: std::time::Duration::from_secs(1),
            burst: Amount::from(5),
        };
        tree.set_rate(CapacityTree::ROOT, "calls", rate, NOW).expect("it makes sense");
        assert_eq!(
            tree.takes_at_ease(client, &one),
            Some(1),
            "what it does not name does not matter"
        );
        let call = tree.demand(CapacityTree::ROOT, &of(&[("calls", 1)])).expect("it fits");
        assert_eq!(tree.takes_at_ease(client, &call), None);
    }

    #[test]
    fn what_is_put_down_is_as_if_it_had_been_taken_and_given_back_one_by_one() {
        let limits = of(&[("cpu", 9), ("gpu", 9)]);
        let mut trees = [(); 2].map(|()| CapacityTree::new(&limits));
        let [one_by_one, at_once] = trees.each_mut().map(|tree| {
            let team = tree.add_level(CapacityTree::ROOT, &limits);
            let client = tree.add_client(team);
            let demand = tree.demand(team, &of(&[("cpu", 2), ("gpu", 1)])).expect("it fits");
            tree.take(client, &demand, NOW);
            (client, demand, tree)
        });
        let (client, demand, tree) = one_by_one;
        (0..3).for_each(|_| tree.take(client, &demand, NOW));
        (0..2).for_each(|_| _ = tree.give_back(client, &demand));
        let (client, demand, tree) = at_once;
        tree.put_down(client, &demand, 3, 2);
        tree.check();
        let [one_by_one, at_once] = trees;
        assert_eq!(format!("{one_by_one:?}"), format!("{at_once:?}"));
    }
}
