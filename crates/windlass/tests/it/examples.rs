//! The examples do what they say: each asserts what it prints.

macro_rules! examples {
    ($($test:ident: $name:ident, $path:literal;)*) => {$(
        #[path = $path]
        mod $name;

        #[test]
        fn $test() {
            $name::main().expect("it ends well");
        }
    )*};
}

examples! {
    media_jobs_run: media_jobs, "../../examples/media_jobs.rs";
    etl_runs: etl, "../../examples/etl.rs";
    llm_tiers_run: llm_tiers, "../../examples/llm_tiers.rs";
    api_quota_runs: api_quota, "../../examples/api_quota.rs";
    balancer_runs: balancer, "../../examples/balancer.rs";
}
