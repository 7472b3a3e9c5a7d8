//! The file as it is written: every key, with the place where it stands.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

pub(crate) type Table<T> = BTreeMap<Spanned<String>, T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) name: Option<String>,
    pub(crate) concurrency: Option<Spanned<i64>>,
    #[serde(default)]
    pub(crate) resource: Table<Spanned<Value>>,
    #[serde(default)]
    pub(crate) step: Table<StepTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepTable {
    pub(crate) run: Spanned<String>,
    #[serde(default)]
    pub(crate) after: Vec<Spanned<String>>,
    #[serde(default, rename = "use")]
    pub(crate) uses: Table<Spanned<Value>>,
    #[serde(default)]
    pub(crate) priority: i64,
    #[serde(default)]
    pub(crate) retry: RetryTable,
    pub(crate) lock: Option<Spanned<Value>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryTable {
    #[serde(default)]
    pub(crate) count: u32,
    pub(crate) delay: Option<Spanned<String>>,
    pub(crate) on_exit: Option<Vec<i32>>,
}
