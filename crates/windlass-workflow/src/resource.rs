//! What the steps of a run share, and what they share with the rest of the machine.

use std::time::Duration;

use windlass_core::Amount;

use crate::rate::Rate;

/// Something countable that the steps of a run share.
///
/// ```
/// use windlass_workflow::ResourceKind;
///
/// let text = "[resource]\ngpu = { items = ['0', '1'] }\n[step.a]\nrun = 'true'\nuse = { gpu = 1 }";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let ResourceKind::Items { items, .. } = &plan.resources[0].kind else { panic!("items") };
/// assert_eq!(items, &["0", "1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What it is called.
    pub name: String,
    /// What there is of it.
    pub kind: ResourceKind,
}

impl Resource {
    /// Returns the environment variable that tells a step which items it was given: the one that
    /// `env` names, or else `WINDLASS_RESOURCE_` and the resource's name in capitals. None if there
    /// are no items.
    ///
    /// ```
    /// let text = "[resource]\ntest-port = { items = [80] }\n[step.a]\nrun = 'true'";
    /// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
    /// assert_eq!(plan.resources[0].variable().as_deref(), Some("WINDLASS_RESOURCE_TEST_PORT"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn variable(&self) -> Option<String> {
        let ResourceKind::Items { env, .. } = &self.kind else { return None };
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let usual = || self.name.chars().map(plain).collect::<String>();
        Some(env.clone().unwrap_or_else(|| format!("WINDLASS_RESOURCE_{}", usual())))
    }
}

/// What there is of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceKind {
    /// So much, or so many bytes.
    Count(Amount),
    /// These items, of which a step is given some.
    Items {
        /// The items.
        items: Vec<String>,
        /// The environment variable that tells a step which it was given.
        env: Option<String>,
    },
    /// So many starts in a time.
    Rate {
        /// How many, and in how long.
        rate: Rate,
        /// How many may come at once.
        burst: u32,
    },
}

impl ResourceKind {
    /// The most that one step may ask for.
    #[must_use]
    pub fn most(&self) -> Amount {
        match self {
            ResourceKind::Count(amount) => *amount,
            ResourceKind::Items { items, .. } => {
                Amount::from(u32::try_from(items.len()).unwrap_or(u32::MAX))
            }
            ResourceKind::Rate { burst, .. } => Amount::from(*burst),
        }
    }
}

/// The shortest time without a sign of life after which a holder may count as gone: less makes no sense on
/// a busy machine.
pub const SHORTEST_HEARTBEAT_TIMEOUT: Duration = Duration::from_millis(100);

/// SemaphoreSlots that are shared with everything else on the machine.
///
/// ```
/// let text = "[semaphore.pool]\ncapacity = 4\n[step.a]\nrun = 'true'\nsemaphore = { pool = 2 }";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// assert_eq!(plan.semaphores[0].capacity, 4);
/// assert_eq!(plan.steps[0].semaphores[0].weight, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Semaphore {
    /// What it is called.
    pub name: String,
    /// How many slots there are.
    pub capacity: u32,
    /// After how long without a sign of life a holder counts as gone.
    pub heartbeat_timeout: Option<Duration>,
}
