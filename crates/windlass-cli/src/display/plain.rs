//! Shows a run line by line, for files, pipes and services, and on request.
//!
//! The output of steps goes to standard output, messages about them to standard error.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use windlass_server::{LogCursor, ShownLogs};

use super::Verb;
use super::annotation::{Fold, Service};
use super::board::{Board, Event, Kind};
use super::change::Ending;
use super::failure::Report;
use super::line::Line;
use super::stream::Stream;
use super::tail::{LineWriter, Tail, Until};
use super::view::{Clock, View};
use super::words::{beginning, ending, stopping, transition};
use crate::clean::Keep;
use crate::style::{Colours, Ink, Style, plain};

/// The interval between two looks at the logs of running steps.
const LOOK: Duration = Duration::from_millis(50);
/// The same if a server is asked for logs, to which workers send them a few times a second.
const LOOK_ELSEWHERE: Duration = Duration::from_millis(200);
/// For how long the log of an attempt that has ended is looked at on another machine: the store may be told of
/// the end before it has the log.
const LATE: Duration = Duration::from_secs(5);
/// The maximum number of error annotations; services show no more.
const ERRORS: usize = 10;

/// How the output of steps is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Line by line as it is written, with the name of the step.
    Prefix,
    /// In one piece when the step has ended.
    Group,
    /// As it is written, without changes.
    Raw,
    /// Only the output of failed steps, at the end; nothing if the run succeeds.
    Quiet,
}

/// A view that prints line by line.
pub(crate) struct Plain {
    pub(crate) verb: Verb,
    pub(crate) output: Output,
    pub(crate) out: Stream,
    pub(crate) err: Stream,
    /// The style of standard error.
    pub(crate) style: Style,
    /// The escape sequences of steps that are kept.
    pub(crate) keep: Keep,
    pub(crate) service: Service,
    pub(crate) clock: Clock,
    pub(crate) logs: ShownLogs,
    /// The logs of running attempts, by step.
    pub(crate) tails: BTreeMap<usize, Following>,
    /// Logs on other machines of attempts that have ended, each with the time on the display's own clock until
    /// which it is looked at, in this order.
    pub(crate) late: VecDeque<(Duration, Following)>,
    /// When to look at the logs again, on the display's own clock.
    pub(crate) next_look: Duration,
}

/// A log that is shown while it grows.
pub(crate) struct Following {
    tail: Tail,
    writer: LineWriter,
}

impl Plain {
    /// Starts to show the output of an attempt. Returns none if an earlier process has shown it.
    fn follow(&self, board: &Board, event: &Event) -> Option<Following> {
        if board.is_earlier(event) {
            return None;
        }
        let prefix = format!("{} | ", board.step(event.step).label);
        let writer = LineWriter::new(prefix, self.keep);
        Some(Following { tail: Tail::new(event.log.as_deref()?), writer })
    }

    /// Shows the new part of a log. Returns whether there may be more already.
    fn show(&mut self, following: &mut Following, until: Until) -> bool {
        if !self.out.is_open() {
            return false;
        }
        let Following { tail, writer } = following;
        let (out, mut text) = (&mut self.out, String::new());
        let more = match self.output {
            Output::Raw => tail.bytes(&mut self.logs, until, &mut |piece| out.write(piece)),
            _ => tail.lines(&mut self.logs, until, &mut |piece| {
                text.clear();
                writer.push(piece, &mut text);
                out.write(&text);
            }),
        };
        if until == Until::TheEnd && self.output != Output::Raw {
            text.clear();
            writer.finish(&mut text);
            self.out.write(&text);
        }
        self.out.flush();
        // A log that cannot be read now is read again at the next look.
        more.unwrap_or(false)
    }

    /// Shows the rest of the output of an attempt that has ended.
    fn drain(&mut self, board: &Board, event: &Event) {
        let following = self.tails.remove(&event.step).or_else(|| self.follow(board, event));
        if let Some(mut following) = following {
            self.look_at(following.tail.path());
            self.show(&mut following, Until::TheEnd);
            if !self.logs.is_here(following.tail.path()) {
                self.late.push_back((self.clock.elapsed() + LATE, following));
            }
        }
    }

    /// Shows what has come of logs after their attempts have ended.
    fn show_late(&mut self) {
        for (until, mut following) in std::mem::take(&mut self.late) {
            self.show(&mut following, Until::TheEnd);
            if self.clock.elapsed() < until {
                self.late.push_back((until, following));
            }
        }
    }

    /// Looks where a log ends.
    fn look_at(&mut self, log: &Path) {
        // What cannot be asked now is read no further.
        let _ = self.logs.look_at([log]);
    }

    fn has_output(&self, log: &Path) -> bool {
        self.logs.end(log).is_ok_and(|end| end != LogCursor::default())
    }

    /// Shows the whole output of an attempt that has ended, in one piece.
    fn show_group(&mut self, board: &Board, event: &Event) {
        let log = event.log.as_deref().filter(|_| !board.is_earlier(event));
        log.into_iter().for_each(|log| self.look_at(log));
        let log = log.filter(|log| self.has_output(log));
        let Some(log) = log else {
            return self.talk(board, event);
        };
        let title =
            transition(board, event).whole(&Style { colours: Colours::Plain, ..self.style });
        let ended = event.at_ms / 1000;
        let began = ended.saturating_sub(event.took.unwrap_or_default().as_secs());
        let name = format!("windlass_{}_{}", event.step + 1, event.attempt);
        let fold = Fold { title: &title, name, kind: event.kind, began, ended };
        if self.service == Service::None {
            self.talk(board, event);
        }
        self.out.write(self.service.open(&fold));
        let writer = LineWriter::new(String::new(), self.keep);
        self.show(&mut Following { tail: Tail::new(log), writer }, Until::TheEnd);
        self.out.write(self.service.close(&fold));
        self.out.flush();
    }

    fn talk(&mut self, board: &Board, event: &Event) {
        self.err.line(&transition(board, event).whole(&self.style));
    }
}

impl View for Plain {
    fn begin(&mut self, board: &Board) {
        if self.output != Output::Quiet {
            self.err.line(&beginning(board, self.verb.words()).whole(&self.style));
        }
    }

    fn event(&mut self, board: &Board, event: &Event) {
        let follows = matches!(self.output, Output::Prefix | Output::Raw);
        let ended = !matches!(event.kind, Kind::Started | Kind::Waits);
        match self.output {
            Output::Group if ended => return self.show_group(board, event),
            Output::Group | Output::Prefix | Output::Raw | Output::Quiet => {}
        }
        if follows && ended {
            self.drain(board, event);
        }
        if matches!(self.output, Output::Prefix | Output::Group) {
            self.talk(board, event);
        }
        if follows
            && event.kind == Kind::Started
            && let Some(following) = self.follow(board, event)
        {
            self.tails.insert(event.step, following);
        }
    }

    fn notice(&mut self, _board: &Board, said: &str) {
        self.err.line(&Line::new().ink(Ink::Yellow, plain(said)).whole(&self.style));
    }

    fn left_out(&mut self, _board: &Board, count: u64) {
        if matches!(self.output, Output::Prefix | Output::Group) {
            self.err.line(&format!(
                "{count} changes were not shown: they came faster than they could be"
            ));
        }
    }

    fn stopping(&mut self, board: &Board) {
        self.err.line(&stopping(board).whole(&self.style));
    }

    fn tick(&mut self, _board: &Board) -> Duration {
        if self.tails.is_empty() && self.late.is_empty() {
            return Duration::MAX;
        }
        let now = self.clock.elapsed();
        if now < self.next_look {
            return self.next_look - now;
        }
        let mut more = false;
        // A log that cannot be read now is read again at the next look.
        let late = self.late.iter().map(|(_, following)| following);
        let _ = self.logs.look_at(self.tails.values().chain(late).map(|of| of.tail.path()));
        self.show_late();
        for (place, mut following) in std::mem::take(&mut self.tails) {
            more |= self.show(&mut following, Until::Now);
            self.tails.insert(place, following);
        }
        let pause = match self.logs.may_be_elsewhere() {
            _ if more => Duration::ZERO,
            true => LOOK_ELSEWHERE,
            false => LOOK,
        };
        self.next_look = now + pause;
        pause
    }

    fn end(&mut self, board: &Board, how: Ending) {
        // What does not come by now is printed by `windlass log`.
        let _ = self.logs.look_at(self.late.iter().map(|(_, following)| following.tail.path()));
        self.show_late();
        let Self { logs, err, style, .. } = self;
        let mut report = Report { board, logs, err, style };
        match self.output {
            Output::Quiet => report.in_full(),
            _ => report.in_short(),
        }
        for failed in board.failures().iter().take(ERRORS) {
            let label = &board.step(failed.step).label;
            let why = failed.why.as_deref().unwrap_or("failed");
            self.out.write(self.service.error(label, why));
        }
        self.out.flush();
        if self.output == Output::Quiet && how == Ending::Succeeded {
            return;
        }
        for line in ending(board, how, self.clock.elapsed()) {
            self.err.line(&line.whole(&self.style));
        }
    }
}
