//! Kills the coordinator of a run again and again, at named fault points and at random times, and
//! resumes the run.
//!
//! After each kill and at the end, the records of the steps and the journal must agree.
//! `WINDLASS_STORM=1` kills at least 200 times at every fault point; `WINDLASS_SEED` repeats the choices
//! of a failed test.

mod chains;
mod flow;
mod journal;
mod killed_run;
mod moments;
mod points;
mod queue;
mod random;
mod record;
mod served;
mod served_points;
mod served_run;
#[path = "../../../windlass-cli/tests/it/surroundings.rs"]
mod surroundings;
mod suspended;
