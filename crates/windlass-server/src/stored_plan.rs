//! The plan of a run, from what the store keeps of it.

use thiserror::Error;
use windlass_store::RunRecord;
use windlass_workflow::{Mistakes, NoSuchStep, ParamErrors, Plan};

/// Why a stored run has no plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoredPlanError {
    /// This version cannot read the workflow.
    #[error("the stored workflow cannot be read:\n{0}")]
    Mistakes(#[from] Mistakes),
    /// The values that were stored do not fit the workflow.
    #[error("the stored values do not fit the workflow: {0}")]
    Params(#[from] ParamErrors),
    /// The steps that were asked for are not in the workflow.
    #[error("the stored choice of steps does not fit the workflow: {0}")]
    Choice(#[from] NoSuchStep),
}

/// What a run was submitted to do.
pub(crate) fn plan_of(run: &RunRecord) -> Result<Plan, StoredPlanError> {
    let workflow = windlass_workflow::parse(&run.file, &run.text)?;
    let params = run.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut plan = workflow.bind(params)?.only(&run.steps)?;
    plan.concurrency = run.jobs.or(plan.concurrency);
    Ok(plan)
}
