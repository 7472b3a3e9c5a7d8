//! Times for users: `1 h 20 min`, `3 min ago`, `today 14:05`.
//!
//! Times are milliseconds since 1970; days and hours are those of the user's time zone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The current time and the user's time zone.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) now_ms: i64,
    zone: TimeZone,
}

impl Times {
    /// Returns the current time in the user's time zone.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Self { now_ms, zone: TimeZone::system() }
    }

    /// Returns the time since `at_ms`.
    pub(crate) fn since(&self, at_ms: i64) -> Duration {
        Duration::from_millis(u64::try_from(self.now_ms.saturating_sub(at_ms)).unwrap_or(0))
    }

    /// Returns `3 min ago`, or the day and the time if that is long ago.
    pub(crate) fn ago(&self, at_ms: i64) -> String {
        match self.since(at_ms) {
            past if past < Duration::from_secs(1) => "just now".to_owned(),
            past if past < Duration::from_secs(6 * 3600) => format!("{} ago", span(past)),
            _ => self.when(at_ms),
        }
    }

    /// Returns `in 3 min`, or the day and the time if that is far ahead.
    pub(crate) fn ahead(&self, at_ms: i64) -> String {
        let future = at_ms.saturating_sub(self.now_ms);
        match Duration::from_millis(u64::try_from(future).unwrap_or(0)) {
            Duration::ZERO => "now".to_owned(),
            future if future < Duration::from_secs(6 * 3600) => format!("in {}", span(future)),
            _ => self.when(at_ms),
        }
    }

    /// Returns the day and the time: `today 14:05`, `yesterday 09:30`, `12 Nov 08:00`, `3 Jan 2024
    /// 17:45`.
    pub(crate) fn when(&self, at_ms: i64) -> String {
        let (Some(at), Some(now)) = (self.zoned(at_ms), self.zoned(self.now_ms)) else {
            return format!("{at_ms} ms since 1970");
        };
        format!("{} {}", day(at.date(), now.date()), at.strftime("%H:%M"))
    }

    /// Returns the day and the time with seconds.
    pub(crate) fn exactly(&self, at_ms: i64) -> String {
        let second = self.zoned(at_ms).map(|at| at.strftime(":%S").to_string());
        self.when(at_ms) + &second.unwrap_or_default()
    }

    /// Returns `2024-01-03 17:45:00`, which does not depend on the current day.
    pub(crate) fn stamp(&self, at_ms: i64) -> String {
        let stamp = self.zoned(at_ms).map(|at| at.strftime("%Y-%m-%d %H:%M:%S").to_string());
        stamp.unwrap_or_else(|| format!("{at_ms} ms since 1970"))
    }

    fn zoned(&self, at_ms: i64) -> Option<Zoned> {
        Some(Timestamp::from_millisecond(at_ms).ok()?.to_zoned(self.zone.clone()))
    }
}

/// Reads a time: `03:00` is the next time that a clock shows this, a day and a time are those of the user's
/// time zone. Returns milliseconds since 1970.
pub(crate) fn at(text: &str) -> Result<i64, String> {
    let now = Zoned::now();
    read_at(text, &now).ok_or_else(|| {
        "write 03:00, 2027-01-31 03:00, or a time with its zone, as in 2027-01-31T03:00:00Z"
            .to_owned()
    })
}

fn read_at(text: &str, now: &Zoned) -> Option<i64> {
    let zone = now.time_zone().clone();
    let at = if let Ok(time) = text.parse::<Time>().and(Time::strptime("%H:%M", text)) {
        let today = now.date().to_datetime(time).to_zoned(zone.clone()).ok()?;
        match today > *now {
            true => today,
            false => now.date().tomorrow().ok()?.to_datetime(time).to_zoned(zone).ok()?,
        }
    } else if let Ok(at) = text.parse::<Timestamp>() {
        at.to_zoned(zone)
    } else {
        text.parse::<DateTime>().ok()?.to_zoned(zone).ok()?
    };
    Some(at.timestamp().as_millisecond()).filter(|at| *at >= 0)
}

fn day(day: Date, today: Date) -> String {
    if day == today {
        "today".to_owned()
    } else if today.yesterday().is_ok_and(|yesterday| yesterday == day) {
        "yesterday".to_owned()
    } else if today.tomorrow().is_ok_and(|tomorrow| tomorrow == day) {
        "tomorrow".to_owned()
    } else if day.year() == today.year() {
        day.strftime("%-d %b").to_string()
    } else {
        day.strftime("%-d %b %Y").to_string()
    }
}

/// Returns a duration in two units at most: `250 ms`, `4.2 s`, `40 s`, `3 min 20 s`, `1 h 20 min`, `2 d 3
/// h`.
pub(crate) fn span(time: Duration) -> String {
    let (millis, seconds) = (time.as_millis(), time.as_secs());
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => {
            let tenths = millis / 100;
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        10..60 => format!("{seconds} s"),
        60..3600 => two((seconds / 60, "min"), (seconds % 60, "s")),
        3600..86_400 => two((seconds / 3600, "h"), (seconds / 60 % 60, "min")),
        _ => two((seconds / 86_400, "d"), (seconds / 3600 % 24, "h")),
    }
}

/// Returns the time between two times; zero if they are in the wrong order.
pub(crate) fn between(from_ms: i64, to_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(to_ms.saturating_sub(from_ms)).unwrap_or(0))
}

fn two(large: (u64, &str), small: (u64, &str)) -> String {
    match small.0 {
        0 => format!("{} {}", large.0, large.1),
        _ => format!("{} {} {} {}", large.0, large.1, small.0, small.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_next_one_and_others_are_read_as_they_are() {
        let now: Zoned = "2027-03-27T12:00:00+01:00[Europe/Berlin]".parse().expect("a time");
        let check = |text: &str, expected: &str| {
            let expected: Timestamp = expected.parse().expect("a time");
            assert_eq!(read_at(text, &now), Some(expected.as_millisecond()), "{text}");
        };
        check("12:01", "2027-03-27T11:01:00Z");
        check("12:00", "2027-03-28T10:00:00Z");
        // The clocks skip this hour: the first moment after it.
        check("02:30", "2027-03-28T01:30:00Z");
        check("2027-04-01 08:15", "2027-04-01T06:15:00Z");
        check("2027-04-01T08:15:30", "2027-04-01T06:15:30Z");
        check("2027-04-01T08:15:00Z", "2027-04-01T08:15:00Z");
        check("2027-04-01T08:15:00-05:00", "2027-04-01T13:15:00Z");
        for wrong in ["", "3", "25:00", "12:00:00 x", "tomorrow", "1969-01-01T00:00:00Z"] {
            assert_eq!(read_at(wrong, &now), None, "{wrong}");
        }
    }

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;

    /// Noon of 15 November 2026, an hour east of Greenwich.
    fn noon() -> Times {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        Times { now_ms: 1_794_740_400_000, zone }
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (millis, said) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1.0 s"),
            (4_290, "4.2 s"),
            (10_000, "10 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (200_000, "3 min 20 s"),
            (3_600_000, "1 h"),
            (4_800_000, "1 h 20 min"),
            (86_400_000, "1 d"),
            (183_600_000, "2 d 3 h"),
            (u64::MAX, "213503982334 d 14 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), said, "{millis} ms");
        }
    }

    #[test]
    fn the_past_is_near_or_has_a_date() {
        let times = noon();
        for (past, said) in [
            (0, "just now"),
            (-5 * MINUTE, "just now"),
            (1_500, "1.5 s ago"),
            (3 * MINUTE, "3 min ago"),
            (80 * MINUTE, "1 h 20 min ago"),
            (7 * HOUR, "today 05:00"),
            (13 * HOUR, "yesterday 23:00"),
            (3 * DAY, "12 Nov 12:00"),
            (365 * DAY, "15 Nov 2025 12:00"),
        ] {
            assert_eq!(times.ago(times.now_ms - past), said, "{past} ms ago");
        }
    }

    #[test]
    fn so_has_the_future() {
        let times = noon();
        for (future, said) in [
            (-1, "now"),
            (0, "now"),
            (40_000, "in 40 s"),
            (7 * HOUR, "today 19:00"),
            (13 * HOUR, "tomorrow 01:00"),
            (2 * DAY, "17 Nov 12:00"),
        ] {
            assert_eq!(times.ahead(times.now_ms + future), said, "in {future} ms");
        }
    }

    #[test]
    fn impossible_times_are_formatted_as_numbers() {
        let times = noon();
        assert_eq!(times.when(i64::MAX), "9223372036854775807 ms since 1970");
        assert_eq!(times.exactly(times.now_ms - 61_000), "today 11:58:59");
        assert_eq!(times.since(i64::MIN), Duration::from_millis(i64::MAX.cast_unsigned()));
        assert_eq!(between(5, 3), Duration::ZERO);
    }
}
