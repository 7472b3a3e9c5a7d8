//! Splits a line of a scenario into words and parses them.

use std::str::FromStr;
use std::time::Duration;

use windlass_core::{Ageing, Amount, Order, Quota, Rate, RetryPolicy};

use super::{End, Wait};

/// The words of one line. A list continues while its items end with a comma.
pub(super) struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        let line = line.split('#').next().unwrap_or_default();
        Self { words: line.split_whitespace().collect(), next: 0 }
    }

    pub(super) fn more(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next)?;
        self.next += 1;
        Some(word.trim_end_matches(','))
    }

    pub(super) fn word(&mut self) -> Result<&'a str, String> {
        self.more().ok_or("a word is missing".to_owned())
    }

    /// Returns the next word, unless a comma ends the list item before it.
    pub(super) fn peek_in_list(&self) -> Option<&'a str> {
        let ended = self.words[self.next - 1].ends_with(',');
        let next = self.words.get(self.next).filter(|_| !ended)?;
        Some(next.trim_end_matches(','))
    }

    pub(super) fn rest(&mut self) -> String {
        self.words.drain(self.next..).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn end(&mut self) -> Result<(), String> {
        self.more().map_or(Ok(()), |word| Err(format!("unexpected {word:?} at the end")))
    }

    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = vec![item(self)?];
        while self.words[self.next - 1].ends_with(',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<(), String> {
        let got = self.word()?;
        if got == word { Ok(()) } else { Err(format!("expected {word:?}, found {got:?}")) }
    }

    pub(super) fn number<T: FromStr>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        word.parse().map_err(|_| format!("{word:?} is not a valid number"))
    }

    pub(super) fn duration(&mut self) -> Result<Duration, String> {
        duration(self.word()?)
    }

    pub(super) fn wait(&mut self) -> Result<Wait, String> {
        let word = self.word()?;
        let (from, to) =
            word.split_once("..").ok_or(format!("{word:?} is not a span: write 5ms..20ms"))?;
        Ok(Wait { from: duration(from)?, to: duration(to)? })
    }

    pub(super) fn policy(&mut self) -> Result<RetryPolicy, String> {
        let policy = match self.word()? {
            "fixed" => RetryPolicy::fixed,
            "linear" => RetryPolicy::linear,
            "exponential" => RetryPolicy::exponential,
            other => return Err(format!("unknown retry policy {other:?}")),
        };
        Ok(policy(self.duration()?))
    }

    pub(super) fn cost(&mut self) -> Result<(String, Amount), String> {
        let word = self.word()?;
        let (name, amount) =
            word.split_once('=').ok_or(format!("{word:?} is not a cost: write name=amount"))?;
        Ok((
            name.to_owned(),
            amount.parse().map_err(|_| format!("{word:?} has an invalid amount"))?,
        ))
    }

    pub(super) fn end_of_attempt(&mut self) -> Result<End, String> {
        match self.word()? {
            "ok" => Ok(End::Ok),
            "fail" => Ok(End::Fail),
            "retry" => Ok(End::Retry(self.duration()?)),
            "lost" => Ok(End::Lost),
            "stopped" => Ok(End::Stopped),
            other => Err(format!("unknown end of an attempt {other:?}")),
        }
    }

    pub(super) fn rate(&mut self) -> Result<Rate, String> {
        let amount = self.number()?;
        self.expect("per")?;
        let per = self.duration()?;
        self.expect("burst")?;
        Ok(Rate { amount, per, burst: self.number()? })
    }

    pub(super) fn quota(&mut self) -> Result<Quota, String> {
        let amount = self.number()?;
        self.expect("per")?;
        Ok(Quota { amount, window: self.duration()? })
    }

    pub(super) fn ageing(&mut self) -> Result<Ageing, String> {
        let levels = self.number()?;
        let (mut per, mut cap) = (Duration::from_millis(1), None);
        while let Some(word) = self.more() {
            match word {
                "per" => per = self.duration()?,
                "cap" => cap = Some(self.number()?),
                other => return Err(format!("unexpected {other:?}")),
            }
        }
        Ageing::per(levels, per, cap).map_err(|error| error.to_string())
    }

    pub(super) fn order(&mut self) -> Result<Order, String> {
        match self.word()? {
            "strict" => Ok(Order::Strict),
            other => Err(format!("unknown order {other:?}")),
        }
    }
}

fn duration(word: &str) -> Result<Duration, String> {
    let digit = |c: char| c.is_ascii_digit() || c == '.';
    let (number, unit) = word.split_at(word.find(|c| !digit(c)).unwrap_or(0));
    let decimals = match unit {
        _ if number.is_empty() => return Err(format!("{word:?} is not a duration")),
        "ns" => 0,
        "ms" => 6,
        "s" => 9,
        _ => return Err(format!("{word:?} is not a duration: write 5ms or 2s")),
    };
    let nanos = decimal(number, decimals).ok_or(format!("{word:?} is not a duration"))?;
    Ok(Duration::from_nanos(nanos))
}

/// Parses a decimal number with up to `decimals` decimal places, in units of the last of them.
fn decimal(number: &str, decimals: usize) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let missing = decimals.checked_sub(fraction.len())?;
    format!("{whole}{fraction}{}", "0".repeat(missing)).parse().ok()
}
