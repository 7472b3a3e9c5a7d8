//! The arguments of `windlass limits`.

use clap::{Args, Subcommand};
use windlass_server::{Amount, LimitItems, LimitKind, check_limit_name};
use windlass_workflow::parse_size;

use crate::completions;

#[derive(Args)]
pub(crate) struct LimitsArguments {
    #[command(subcommand)]
    pub(crate) verb: Option<LimitsVerb>,
}

#[derive(Subcommand)]
pub(crate) enum LimitsVerb {
    /// List the limits, with what is in use, by whom, and who waits
    List,
    /// Set limits; what is in use stays with its holders
    #[command(
        after_help = "Examples:\n  windlass limits set gpu=2 memory=64G\n  windlass limits set gpu --items 0,1 --env CUDA_VISIBLE_DEVICES\n\nA step uses a limit with use = { \"shared.gpu\" = 1 }, a script with `windlass sem shared.gpu -- COMMAND`."
    )]
    Set(SetArguments),
    /// Remove limits that no process uses or waits for
    #[command(after_help = "Example:\n  windlass limits remove gpu")]
    Remove {
        /// The limits
        #[arg(required = true, value_name = "NAME", value_parser = limit, add = completions::limits())]
        names: Vec<String>,
    },
}

#[derive(Args)]
pub(crate) struct SetArguments {
    /// The limits: NAME=AMOUNT, where an amount is a number or a size such as 64G; only NAME with --items
    #[arg(required = true, value_name = "NAME=AMOUNT", value_parser = setting)]
    settings: Vec<(String, Option<Amount>)>,

    /// The items of the limit, separated by commas; each holder gets its own
    #[arg(long, value_name = "ITEM,…", value_delimiter = ',')]
    items: Vec<String>,

    /// The environment variable in which a holder finds its items [default: WINDLASS_SHARED_NAME]
    #[arg(long, value_name = "NAME", value_parser = variable, requires = "items")]
    env: Option<String>,
}

impl SetArguments {
    /// Returns the limits to set, or what is wrong with the arguments.
    pub(crate) fn limits(&self) -> Result<Vec<(String, LimitKind)>, String> {
        match (self.settings.as_slice(), self.items.as_slice()) {
            (settings, []) => settings.iter().map(amount).collect(),
            ([(name, None)], items) => Ok(vec![(name.clone(), self.with_items(name, items))]),
            ([(name, Some(_))], _) => Err(format!(
                "the amount of a limit with items is their number: windlass limits set {name} --items …"
            )),
            _ => {
                Err("--items belongs to one limit; set the others with a call of their own".into())
            }
        }
    }

    fn with_items(&self, name: &str, items: &[String]) -> LimitKind {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let own = || format!("WINDLASS_SHARED_{}", name.chars().map(upper).collect::<String>());
        let variable_name = self.env.clone().unwrap_or_else(own);
        LimitKind::Items(LimitItems { names: items.to_vec(), variable_name })
    }
}

fn amount((name, amount): &(String, Option<Amount>)) -> Result<(String, LimitKind), String> {
    let Some(amount) = amount else {
        return Err(format!(
            "limit {name} needs an amount, or items: {name}=2, or {name} --items 0,1"
        ));
    };
    Ok((name.clone(), LimitKind::Amount(*amount)))
}

fn setting(text: &str) -> Result<(String, Option<Amount>), String> {
    let (name, amount) = match text.split_once('=') {
        Some((name, amount)) => (name, Some(size(amount)?)),
        None => (text, None),
    };
    Ok((limit(name)?, amount))
}

/// Reads an amount: a number, or a size such as 64G.
pub(super) fn size(text: &str) -> Result<Amount, String> {
    parse_size(text)
        .map_err(|error| format!("{error}; write a number such as 2 or 0.5, or a size such as 64G"))
}

/// Reads the name of a limit, with or without `shared.`.
pub(super) fn limit(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("shared.").unwrap_or(text);
    check_limit_name(name).map_err(|error| error.to_string())?;
    Ok(name.to_owned())
}

fn variable(text: &str) -> Result<String, String> {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match begins && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        true => Ok(text.to_owned()),
        false => Err("use letters, digits and _, such as CUDA_VISIBLE_DEVICES".to_owned()),
    }
}
