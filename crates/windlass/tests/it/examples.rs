//! The examples assert their own results; here each runs as users run it, and its output is checked.

use std::path::PathBuf;
use std::process::Command;

/// Where cargo puts an example: beside the folder of the test binaries. It is built here only if
/// cargo was asked for this test binary alone.
fn binary(example: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("it lies in deps/, in the folder of its profile");
    let binary = profile.join("examples").join(example);
    if !binary.exists() {
        let target = profile.parent().expect("a profile's folder lies in the target's");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "windlass", "--example", example]);
        cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().expect("cargo is there").success(), "{example} does not build");
    }
    binary
}

#[track_caller]
fn check(example: &str, says: &[&str]) {
    let output = Command::new(binary(example)).output().expect("it was built");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{example} failed:\n{out}\n{err}");
    for text in says {
        assert!(out.contains(text), "{example} does not say {text:?}:\n{out}");
    }
}

#[test]
fn catchup_applies_all_checkpoints_although_an_archive_is_rotten() {
    let rotten = "from archive \"rotten\" is damaged; attempt 2 succeeded";
    check("catchup", &[rotten, "171 of 171 works succeeded", "40 checkpoints applied"]);
}

#[test]
fn backoff_prints_delays_and_ends() {
    let status = "Retrying in 500 ms (attempt 2 of 6)";
    check("backoff", &[status, "failed: no route; no retries left after attempt 2"]);
}

#[test]
fn downloads_keep_both_limits_and_give_up_only_on_fatal_errors() {
    let missing = "work \"alpha/404\" failed: there is no file 404";
    let hosts = ["alpha: 2 at once", "beta: 2 at once", "gamma: 2 at once"];
    let says = [&["3000 bytes", missing, "32 of 32 were seen to end"], hosts.as_slice()].concat();
    check("downloads", &says);
}

#[test]
fn adaptive_limits_follow_the_server() {
    check("adaptive_limits", &["5000 requests answered", "the server bears 5, the limit was 5"]);
}

#[test]
fn live_graph_grows_until_it_is_complete() {
    check("live_graph", &["children completed", "19 works in all"]);
}

#[test]
fn request_deadline_reports_late_and_waiting_requests() {
    let late = "work \"stock\" failed: its deadline passed before it began";
    let waits = "held by \"orders\", \"invoices\"";
    check("request_deadline", &[late, waits, "none left open"]);
}

#[test]
fn media_jobs_share_gpus_and_stream_their_progress() {
    check("media_jobs", &["transcode: 75 %", "upscale: upscale.mp4; free now: cpu=4 gpu=2"]);
}

#[test]
fn etl_keeps_the_limits_of_its_stages() {
    check("etl", &["30 tasks of 10 records", "transform: at most 2 of 2 at once"]);
}

#[test]
fn llm_tiers_serve_the_free_tier_as_it_ages() {
    check("llm_tiers", &["the free request was served as number 4 of 11"]);
}

#[test]
fn api_quota_waits_for_tokens_and_for_the_next_window() {
    check("api_quota", &["60000 ms  call 11", "would be refused"]);
}

#[test]
fn balancer_moves_capacity_to_the_team_that_works() {
    check("balancer", &["day gpu=15, night gpu=4", "day gpu=4, night gpu=15"]);
}
