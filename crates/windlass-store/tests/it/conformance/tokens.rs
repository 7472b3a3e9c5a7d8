use super::*;

pub(super) fn tokens_only_grow(on: &mut Fixture) {
    on.declare("s", 2);
    for token in 1..20 {
        assert_eq!(on.tokens("a", "x s:1"), [token, token]);
        assert_eq!(on.release("a", "x", token), Answer::Released);
        assert_eq!(on.release("a", "s:1", token), Answer::Released);
    }
}

pub(super) fn a_boot_ends_every_lease_and_raises_every_token(on: &mut Fixture) {
    let here = here();
    let _ = held(on.claim_with("a", "x", |claim| claim.process = Some(&here)));
    let _ = refused(on.claim("b", "x"));
    on.clock.reboot("the next boot");
    let tokens = on.tokens("c", "x y");
    assert!(tokens.iter().all(|&token| token > 1 << 40), "{tokens:?}");
    assert_eq!(on.release("a", "x", 1), Answer::NotOwner);
    on.clock.reboot("and the one after it");
    assert!(on.tokens("d", "x")[0] > 2 << 40);
}

pub(super) fn old_tokens_change_nothing(on: &mut Fixture) {
    assert_eq!(on.tokens("a", "x"), [1]);
    assert_eq!(on.release("a", "x", 1), Answer::Released);
    assert_eq!(on.release("a", "x", 1), Answer::AlreadyFree);
    assert_eq!(on.tokens("a", "x"), [2]);
    assert_eq!(on.release("a", "x", 1), Answer::NotOwner, "its own old token");
    assert_eq!(on.release("b", "x", 2), Answer::NotOwner, "another's token");
    assert_eq!(on.tokens("a", "x"), [2], "it is held all the while");
}
