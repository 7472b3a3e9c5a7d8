//! Where a store may be, and who can make one for a group.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::bench::{Bench, stderr, stdout};
use crate::users::{ALICE, BOB, CAROL, GROUP, Users, open_to_all};

#[test]
fn a_directory_with_other_files_cannot_become_a_groups_store() {
    let bench = Bench::new();
    fs::create_dir(bench.path("project")).expect("a directory");
    bench.write("project/tool", "#!/bin/sh\n");
    let before = bench.path("project/tool").metadata().expect("a file").mode();
    let gid = fs::metadata(bench.path("project")).expect("a directory").gid().to_string();
    let project = bench.path("project").display().to_string();
    let output = bench.ends_with(69, &["store", "init", "--state", &project, "--group", &gid]);
    assert!(
        stderr(&output).contains("contains files that do not belong to a store"),
        "{}",
        stderr(&output)
    );
    assert_eq!(bench.path("project/tool").metadata().expect("a file").mode(), before);
}

#[test]
fn the_refusal_of_a_group_says_how_to_become_a_member() {
    let Some(users) = Users::new() else { return };
    let home = users.private_dir(ALICE, "home");
    let state = home.join("state").display().to_string();
    let init =
        |group: &str| users.call(ALICE, &["store", "init", "--state", &state, "--group", group]);
    let refused = init("root");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let said = "you are not a member of group \"root\"";
    assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("usermod -aG root"), "{}", stderr(&refused));
    assert!(!home.join("state").exists(), "nothing was made");
    let made = init(&GROUP.to_string());
    assert!(made.status.success(), "a member may: {}", stderr(&made));
    let refused = users.call(ALICE, &["store", "init", "--system"]);
    assert_eq!(refused.status.code(), Some(69), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("sudo windlass store init"), "{}", stderr(&refused));
}

#[test]
fn a_shared_store_can_be_made_in_any_directory() {
    let bench = Bench::new();
    let state = bench.path("shared");
    let output = bench.ends_with(0, &["store", "init", "--system", "--state", "shared"]);
    let said = format!("{}: shared by the members of group ", state.display());
    assert!(stdout(&output).starts_with(&said), "{}", stdout(&output));
    assert_eq!(state.metadata().expect("it is there").mode() & 0o7777, 0o2770);
    let help = stdout(&bench.call(&["store", "init", "--help"]));
    assert!(help.contains("Together with --state DIR it creates a shared store in DIR."), "{help}");
}

#[test]
fn a_directory_where_others_could_replace_files_is_refused() {
    let Some(users) = Users::new() else { return };
    let home = users.private_dir(ALICE, "home");
    open_to_all(&home);
    let set_up = |name: &str, mode: &str, owner: u32| {
        let dir = home.join(name);
        fs::create_dir(&dir).expect("a directory");
        std::os::unix::fs::chown(&dir, Some(owner), Some(GROUP)).expect("root may");
        let status = Command::new("chmod").arg(mode).arg(&dir).status();
        assert!(status.expect("chmod runs").success());
        dir.display().to_string()
    };
    for (name, mode, owner, said) in [
        ("world", "0777", ALICE, Some("is writable for every user")),
        ("group-world", "0773", ALICE, Some("is writable for every user")),
        ("foreign", "0770", BOB, Some("belongs to another user")),
        ("sticky", "1777", ALICE, Some("use a directory below it")),
        ("sticky-of-root", "1777", 0, Some("use a directory below it")),
        ("own", "0770", ALICE, None),
        ("shared", "2770", BOB, None),
    ] {
        let state = set_up(name, mode, owner);
        let call = |verb: &[&str]| users.call(ALICE, &[&["--state", &state], verb].concat());
        let output = call(&["lock", "x", "--", "touch", &format!("ran-{name}")]);
        let told = stderr(&output);
        let ran = home.join("..").join(format!("ran-{name}")).exists();
        match said {
            Some(said) => {
                assert_eq!(output.status.code(), Some(69), "{name}: {told}");
                assert!(told.contains(said) && told.contains("--state"), "{name}: {told}");
                assert!(!ran && fs::read_dir(&state).expect("it is there").next().is_none());
            }
            None => assert!(output.status.success() && ran, "{name}: {told}"),
        }
    }
    let world = home.join("world").display().to_string();
    let status = Command::new("chmod").args(["o-w", &world]).status();
    assert!(status.expect("chmod runs").success());
    let output = users.call(ALICE, &["--state", &world, "emit", "e"]);
    assert!(output.status.success(), "the advice helps: {}", stderr(&output));
}

#[test]
fn a_store_in_a_sticky_directory_stays_usable_for_its_owner_alone() {
    let Some(users) = Users::new() else { return };
    let dir = users.private_dir(ALICE, "dir");
    let state = dir.display().to_string();
    let emit = |uid| users.call(uid, &["--state", &state, "emit", "e"]);
    let made = emit(ALICE);
    assert!(made.status.success(), "{}", stderr(&made));
    open_to_all(&dir);
    let own = emit(ALICE);
    assert!(own.status.success(), "{}", stderr(&own));
    let others = emit(BOB);
    assert_eq!(others.status.code(), Some(69), "{}", stderr(&others));
    assert!(stderr(&others).contains("use a directory below it"), "{}", stderr(&others));
}

#[test]
fn the_refusal_of_a_shared_store_says_how_to_become_a_member() {
    let Some(users) = Users::sharing() else { return };
    for verb in [&["lock", "x", "--", "true"][..], &["ps"], &["holders"]] {
        let refused = users.call(CAROL, verb);
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(69), "{verb:?}: {told}");
        let state = users.bench.path("state").display().to_string();
        assert!(told.contains(&state) && !told.contains("gate"), "{verb:?}: {told}");
        assert!(told.contains(&format!("group \"{GROUP}\"")), "{verb:?}: {told}");
        assert!(told.contains(&format!("usermod -aG {GROUP} ")), "{verb:?}: {told}");
        assert!(!told.contains("os error"), "{verb:?}: {told}");
    }
}
