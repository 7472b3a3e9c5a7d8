//! Submitting a run to the scheduler of a store.

use windlass_store::{RunRecord, Store};
use windlass_workflow::Workflow;

use crate::coordinator::{RunError, expect_limits, plan_as_asked, require_text_path};
use crate::inherited::expect_no_password;
use crate::nesting;
use crate::service::placement::Placement;
use crate::service::submitted_env;

/// Whether a run is refused that has a step which no worker could ever execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkersNeeded {
    /// It is, if there are workers.
    Now,
    /// It is not: the step waits.
    Later,
}

/// Stores a run that the scheduler of the store leads, now or once there is one. The record's id, user
/// and workflow are filled in. `workflow` is the record's text, parsed. Its commands are given the usual
/// variables of this process, those that its file names, and the `named` ones. Returns the run's id.
pub fn submit(
    store: &mut Store,
    run: RunRecord,
    workflow: Workflow,
    named: &[String],
    workers: WorkersNeeded,
) -> Result<String, RunError> {
    workflow.require_steps()?;
    require_text_path(store)?;
    let plan = plan_as_asked(workflow, &run)?;
    let env = submitted_env(std::env::vars_os(), &plan.pass_env, named)?;
    expect_no_password(store, &env)?;
    let uid = Some(store.access().creator());
    let mut run = RunRecord { workflow: plan.name.clone(), uid, env: Some(env), ..run };
    let stored = store.transact(|transaction| {
        if workers == WorkersNeeded::Now
            && let Some((step, kinds)) = Placement::never(transaction, &plan)?
        {
            return Ok(Err(RunError::NeverPlaced { step, kinds }));
        }
        let parent = nesting::parent(transaction)?;
        expect_limits(transaction, &plan)?;
        run.id = transaction.runs().new_id()?;
        transaction.runs().insert(&run)?;
        transaction.orders().announce();
        Ok(Ok(parent))
    })?;
    let parent = stored?;
    parent.iter().for_each(|parent| nesting::note(store.dir(), &run.id, parent));
    Ok(run.id)
}
