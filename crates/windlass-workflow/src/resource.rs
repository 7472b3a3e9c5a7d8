//! Resources, which the steps of a run share, and semaphores, which all users of a store share.

use std::time::Duration;

use windlass_core::Amount;

use crate::rate::StartRate;

/// A countable thing that the steps of a run share, or a name for a limit of the store.
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
    /// The resource's name.
    pub name: String,
    /// Its amount, items, rate or limit.
    pub kind: ResourceKind,
}

impl Resource {
    /// Returns the name under which steps count it: that of a limit of the store begins with [`SHARED`].
    #[must_use]
    pub fn counted_as(&self) -> String {
        match &self.kind {
            ResourceKind::Shared { limit } => format!("{SHARED}{limit}"),
            _ => self.name.clone(),
        }
    }

    /// Returns the environment variable in which a step finds its items: the value of `env`, or else
    /// `WINDLASS_RESOURCE_` and the resource's name in capitals. Returns none for a resource without
    /// items.
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
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let name = || self.name.chars().map(upper).collect::<String>();
        Some(env.clone().unwrap_or_else(|| format!("WINDLASS_RESOURCE_{}", name())))
    }
}

/// What a resource consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceKind {
    /// An amount, such as a number of bytes.
    Count(Amount),
    /// Named items; a step gets as many as it uses.
    Items {
        /// The items' names.
        items: Vec<String>,
        /// The environment variable in which a step finds its items.
        env: Option<String>,
    },
    /// A rate of starts.
    Rate {
        /// The rate.
        rate: StartRate,
        /// How many starts are possible at once.
        burst: u32,
    },
    /// A limit that all users of the store share.
    Shared {
        /// The limit's name.
        limit: String,
    },
}

impl ResourceKind {
    /// Returns the most that one step can use.
    #[must_use]
    pub fn capacity(&self) -> Amount {
        match self {
            ResourceKind::Count(amount) => *amount,
            ResourceKind::Items { items, .. } => {
                Amount::from(u32::try_from(items.len()).unwrap_or(u32::MAX))
            }
            ResourceKind::Rate { burst, .. } => Amount::from(*burst),
            // Only the store knows.
            ResourceKind::Shared { .. } => Amount::MAX,
        }
    }
}

/// What the name of a resource begins with that is a limit of the store.
///
/// ```
/// let text = "[step.a]\nrun = 'true'\nuse = { 'shared.gpu' = 2 }";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// let limits: Vec<_> = plan.steps[0].needs.limits().map(|(name, _)| name.to_owned()).collect();
/// assert_eq!(limits, ["gpu"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const SHARED: &str = "shared.";

/// The minimum heartbeat timeout. A busy machine could not keep a shorter one.
pub const SHORTEST_HEARTBEAT_TIMEOUT: Duration = Duration::from_millis(100);

/// Slots that all runs and scripts on the same store share.
///
/// ```
/// let text = "[semaphore.pool]\ncapacity = 4\n[step.a]\nrun = 'true'\nsemaphore = { pool = 2 }";
/// let plan = windlass_workflow::parse("flow.toml", text)?.bind([])?;
/// assert_eq!(plan.semaphores[0].capacity, 4);
/// assert_eq!(plan.steps[0].needs.semaphores[0].weight, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreSpec {
    /// The semaphore's name.
    pub name: String,
    /// The number of slots.
    pub capacity: u32,
    /// How long a holder may go without a heartbeat before it loses its slots.
    pub heartbeat_timeout: Option<Duration>,
}
