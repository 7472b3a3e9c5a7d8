//! Joins, races, and the functions over slices and ranges.

use windlass_pool::{Scheduler, for_each};

#[test]
fn for_each_reaches_every_item_once() {
    let scheduler = Scheduler::new(2);
    for len in (0..2000).chain([100_000]) {
        let mut items = vec![0_u32; len];
        scheduler.run(|| for_each(&mut items[..], |item| *item += 1));
        assert!(items.iter().all(|&item| item == 1), "{len}: {items:?}");
    }
}
