//! Compares every query of a tree with the model.

use super::*;

/// Long enough for every debt of these runs to be paid off.
const AGES: u64 = 1_000_000;

impl World {
    pub(super) fn compare(&self) {
        self.tree.check();
        for level in 0..PARENTS.len() {
            self.compare_level(level);
        }
        for &client in &self.clients {
            for spot in self.chain(self.model.clients[&client]) {
                self.compare_room(client, spot);
                self.compare_when(client, spot);
            }
        }
    }

    pub(super) fn compare_refusal(
        &self,
        client: ClientId,
        amounts: Amounts,
        place: Place,
        refusal: &Refusal,
    ) {
        let short = self.model.short(client, amounts, place, self.now);
        assert_eq!(refusal.shortages.len(), short.len(), "{refusal:?}");
        for (shortage, spot) in refusal.shortages.iter().zip(short) {
            assert_eq!(shortage.level, self.levels[spot.0]);
            assert_eq!(self.tree.name(shortage.resource), NAMES[spot.1]);
            assert_eq!(shortage.wanted.steps(), amounts[spot.1]);
            let Short::Limit { free, reserved } = shortage.why else { continue };
            assert_eq!(Some(free), self.model.free(spot, self.now));
            assert_eq!(reserved, self.model.reserved(client, spot, place));
        }
    }

    fn chain(&self, level: usize) -> impl Iterator<Item = Spot> + use<> {
        Model::chain(level).flat_map(|level| (0..NAMES.len()).map(move |r| (level, r)))
    }

    fn compare_level(&self, level: usize) {
        let shown = |(name, free): (&str, i128)| {
            let free = u64::try_from(free.max(0)).expect("few steps");
            (name.to_owned(), Amount::from_steps(free))
        };
        let free = |spot: Spot| Some((NAMES[spot.1], self.model.free(spot, self.now)?));
        let own = (0..NAMES.len()).filter_map(|resource| free((level, resource)));
        let available: ResourceCost = own.map(shown).collect();
        assert_eq!(self.tree.available(self.levels[level], self.now()), available);

        let mut least = BTreeMap::new();
        for (name, free) in self.chain(level).filter_map(free) {
            let least = least.entry(name).or_insert(free);
            *least = free.min(*least);
        }
        let exhausted = least.values().any(|free| *free <= 0);
        let peek = (!exhausted).then(|| least.into_iter().map(shown).collect());
        assert_eq!(self.tree.peek(self.levels[level], self.now()), peek);
        self.compare_limits(level);
    }

    fn compare_limits(&self, level: usize) {
        let limited = (0..NAMES.len()).filter_map(|resource| {
            let Kind::Limit(limit) = self.model.kinds.get(&(level, resource))? else { return None };
            Some((resource, *limit))
        });
        let limited: Vec<_> = limited.collect();
        let utilization = self.tree.utilization(self.levels[level]);
        assert_eq!(utilization.len(), limited.len());
        for ((resource, limit), (name, used)) in limited.into_iter().zip(utilization) {
            let in_use = self.model.in_use((level, resource));
            assert_eq!(self.tree.free(self.levels[level], name), Some(i128::from(limit) - in_use));
            let in_use = u64::try_from(in_use).expect("few steps").min(limit);
            #[expect(clippy::cast_precision_loss, reason = "few steps")]
            let expected = if limit == 0 { 0.0 } else { in_use as f64 / limit as f64 };
            assert_eq!((name, used.to_bits()), (NAMES[resource], expected.to_bits()));
        }
    }

    fn compare_room(&self, client: ClientId, spot: Spot) {
        let resource = self.tree.resource(NAMES[spot.1]).expect("every name is declared");
        for place in [Place::Resuming, Place::ResumingLater, Place::First, Place::Later] {
            let room = self.tree.room(client, self.levels[spot.0], resource, place, self.now());
            let expected = self.model.room(client, spot, place, self.now);
            assert_eq!(room, expected, "room at {spot:?} for {client:?}, {place:?}");
        }
    }

    /// The returned time is the first at which the model has room.
    fn compare_when(&self, client: ClientId, spot: Spot) {
        let (level, place) = (self.levels[spot.0], Place::First);
        let resource = self.tree.resource(NAMES[spot.1]).expect("every name is declared");
        let timed = matches!(self.model.kinds.get(&spot), Some(Kind::Rate(_) | Kind::Quota(_)));
        for steps in [1, 3] {
            let wanted = Amount::from_steps(steps);
            let when = self.tree.when(client, level, resource, wanted, place, self.now());
            assert_eq!(when.is_some(), timed, "only time can tell");
            let Some(at) = when.map(Timestamp::as_nanos) else { continue };
            let has = |now| self.model.room(client, spot, place, now) >= i128::from(steps);
            match at {
                u64::MAX => assert!(!has(self.now + AGES), "never, at {spot:?}"),
                at => assert!(has(at) && (at <= self.now || !has(at - 1)), "{at} at {spot:?}"),
            }
        }
    }
}
