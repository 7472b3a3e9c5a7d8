//! A workflow as it was read: a plan whose parameters have not been given yet.

use crate::diagnostic::{ParseErrors, SourceFile, Warnings};
use crate::diagnostics::Diagnostics;
use crate::param::{self, Param, ParamErrors};
use crate::plan::Plan;
use crate::{planner, reader, syntax};

/// A workflow without errors.
///
/// ```
/// let workflow = windlass_workflow::parse("flow.toml", "[step.a]\nrun = 'true'")?;
/// assert_eq!(workflow.plan().name, "flow");
/// assert!(workflow.warnings().is_empty());
/// let plan = workflow.bind([])?;
/// assert_eq!(plan.steps.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    plan: Plan,
    params: Vec<Param>,
    warnings: Warnings,
}

/// Reads a workflow from its text. `file` is how to call it in errors; without a `name` in the
/// text it names the workflow too.
pub fn parse(file: &str, text: &str) -> Result<Workflow, ParseErrors> {
    let diagnostics = Diagnostics::default();
    // The tables are as large as the text, and are gone before the plan is made.
    let written =
        syntax::read(text, &diagnostics).map(|tables| reader::read(&tables, &diagnostics));
    let planned = written.map(|written| planner::plan(file, text, &written, &diagnostics));
    let warnings = diagnostics.finish(SourceFile::new(file, text))?;
    let (plan, params) = planned.expect("what cannot be read is a diagnostic");
    Ok(Workflow { plan, params, warnings })
}

impl Workflow {
    /// The plan, in which no parameter has a value yet.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What it may be told, in the order of the file.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// What is probably not meant.
    #[must_use]
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Returns a diagnostic if there is nothing to run: a file may have guards alone, for `windlass
    /// guard`.
    ///
    /// ```
    /// let guards = windlass_workflow::parse("flow.toml", "[guard.up]\ncondition = 'true'")?;
    /// let errors = guards.require_steps().unwrap_err();
    /// assert_eq!(errors.errors[0].message, "this workflow has no steps");
    /// # Ok::<(), windlass_workflow::ParseErrors>(())
    /// ```
    pub fn require_steps(&self) -> Result<(), ParseErrors> {
        if !self.plan.steps.is_empty() {
            return Ok(());
        }
        let diagnostics = Diagnostics::default();
        diagnostics.error(planner::no_steps());
        diagnostics.finish(self.warnings.file.clone()).map(drop)
    }

    /// The plan with these values for its parameters, and defaults for the rest.
    pub fn bind<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Plan, ParamErrors> {
        let params = param::bind(&self.params, given)?;
        Ok(Plan { params, ..self.plan.clone() })
    }

    /// As [`Workflow::bind`], for those who need the workflow no more: nothing is copied.
    pub fn into_plan<'a>(
        self,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Plan, ParamErrors> {
        let params = param::bind(&self.params, given)?;
        Ok(Plan { params, ..self.plan })
    }
}
