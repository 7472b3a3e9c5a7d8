use std::path::Path;

use windlass_core::{NameRefusal, Token};
use windlass_store::Store;

use super::*;

#[test]
fn a_waiter_that_is_only_queued_holds_nothing_yet() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = Store::open(dir.path()).expect("the store opens");
    let identity = RunIdentity::new("3fa9c2d1", Path::new("/"), dir.path(), Token(1));
    let mut described = |holders: &[&str], ahead: &[&str]| {
        let all = |ids: &[&str]| ids.iter().map(|id| HolderId::new(*id)).collect();
        let name = Name::Lock("x".to_owned());
        let refusal = NameRefusal { name, available: 0, holders: all(holders), ahead: all(ahead) };
        let refusals = vec![refusal];
        let refused = Refused { refusals, leftovers: Vec::new(), blockers: Vec::new(), ahead: 0 };
        let described =
            store.read(|transaction| Refusals::new(transaction, &identity).describe(&refused));
        described.expect("the store works")
    };
    let (first, second) = ("build-17", "process 7 (boot)");
    assert_eq!(described(&[first], &[second]), "lock \"x\", held by build-17");
    assert_eq!(described(&[], &[second, first]), "lock \"x\", queued behind process 7");
}
