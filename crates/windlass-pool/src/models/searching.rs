//! A model of the pending search of a graph: a thread that adds an item against one that stops
//! searching.

use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::model;
use crate::pending_search::PendingSearch;

#[test]
fn an_item_added_while_a_search_finishes_starts_exactly_one_new_search() {
    model(|| {
        let shared = Arc::new((PendingSearch::started(), AtomicUsize::new(0)));
        let searcher = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (search, items) = &*shared;
                search.finish();
                items.load(Relaxed) > 0 && search.request()
            })
        };
        let (search, items) = &*shared;
        items.fetch_add(1, Relaxed);
        let adder_starts = search.request();
        let searcher_starts = searcher.join().unwrap();
        assert_ne!(adder_starts, searcher_starts, "exactly one of the two starts a search");
    });
}
