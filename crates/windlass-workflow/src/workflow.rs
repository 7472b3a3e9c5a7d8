//! A parsed workflow: a plan whose parameters are not set yet.

use crate::diagnostic::{ParseErrors, SourceFile, Warnings};
use crate::diagnostics::Diagnostics;
use crate::param::{self, Param, ParamErrors};
use crate::plan::Plan;
use crate::{planner, reader, syntax};

/// A workflow file that was parsed without errors.
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

/// Parses a workflow. `file` is the file's name in error messages, and the workflow's name if the text
/// sets none.
pub fn parse(file: &str, text: &str) -> Result<Workflow, ParseErrors> {
    let diagnostics = Diagnostics::default();
    // The TOML tables are as large as the text; they are dropped before planning.
    let tables =
        syntax::parse(text, &diagnostics).map(|tables| reader::read(&tables, &diagnostics));
    let planned = tables.map(|tables| planner::plan(file, text, &tables, &diagnostics));
    let warnings = diagnostics.finish(SourceFile::new(file, text))?;
    let (plan, params) = planned.expect("a file with broken syntax has errors");
    Ok(Workflow { plan, params, warnings })
}

impl Workflow {
    /// Returns the plan, in which no parameter has a value yet.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the parameters, in the order of the file.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Returns the warnings about the file.
    #[must_use]
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Returns an error if the workflow has no steps. A file may have guards alone, for `windlass
    /// guard`, but then it cannot run.
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

    /// Returns the plan with these values for its parameters, and the defaults for the others.
    pub fn bind<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Plan, ParamErrors> {
        let params = param::bind(&self.params, given)?;
        Ok(Plan { params, ..self.plan.clone() })
    }

    /// Sets the parameters as [`Workflow::bind`] does, without copying the plan.
    pub fn into_plan<'a>(
        self,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Plan, ParamErrors> {
        let params = param::bind(&self.params, given)?;
        Ok(Plan { params, ..self.plan })
    }
}
