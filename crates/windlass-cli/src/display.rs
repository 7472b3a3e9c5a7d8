//! What is shown of a run while it goes on.
//!
//! The thread that leads a run hands changes over and goes on; another one shows them. Nothing that
//! a terminal or a reader does, or fails to do, holds up a run or ends it.

mod annotation;
mod board;
mod change;
mod estimate;
mod failure;
mod feed;
mod frame;
mod json;
mod line;
mod live;
mod outline;
mod plain;
mod recap;
mod render;
mod stream;
mod tail;
mod terminal;
mod view;
mod words;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::ValueEnum;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use windlass_server::{End, StoreOpener, Update, is_heeded};

use self::annotation::Service;
use self::board::Board;
use self::change::{Ending, News};
use self::feed::Feed;
use self::json::Json;
use self::live::Live;
use self::plain::{Output, Plain};
use self::stream::Stream;
use self::view::{Clock, View};
use crate::arguments::Form;
use crate::clean::Keep;
use crate::style::{Style, moves_cursor, variable};

pub(crate) use self::outline::Outline;
pub(crate) use self::tail::LineWriter;

/// How long a reader may take to read the rest, once a signal has asked us to end.
const GRACE: Duration = Duration::from_secs(10);

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputMode {
    /// Live on a terminal, prefix elsewhere
    Auto,
    /// Finished steps scroll by with what they print, running steps stay in sight
    Live,
    /// Output line by line as it comes, with the step's name before it
    Prefix,
    /// The output of a step in one piece when it has ended
    Group,
    /// Output as it comes, and nothing else but failures
    Raw,
    /// Nothing but what goes wrong
    Quiet,
}

/// Why a run is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Run,
    Resume,
    Retry,
    Cancel,
    Attach,
}

impl Verb {
    fn words(self) -> &'static str {
        match self {
            Verb::Run => "run",
            Verb::Resume => "resumed run",
            Verb::Retry => "retried run",
            Verb::Cancel => "cancelling run",
            Verb::Attach => "attached to run",
        }
    }
}

/// What was asked for.
pub(crate) struct Options {
    pub(crate) verb: Verb,
    pub(crate) mode: OutputMode,
    pub(crate) form: Form,
    /// Where to look up how long steps took before.
    pub(crate) past: StoreOpener,
}

/// The signals that ask a run to end.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Shows a run, from a thread of its own.
pub(crate) struct Display {
    feed: Arc<Feed>,
    thread: Option<JoinHandle<()>>,
    /// Hung up when the thread has shown everything.
    shown: Receiver<()>,
    /// The run is over: a signal has nothing left to wait for.
    over: Arc<AtomicBool>,
    /// A signal has come at some time.
    signalled: Arc<AtomicBool>,
}

impl Display {
    /// Begins to show a run.
    pub(crate) fn start(outline: Outline, options: Options) -> io::Result<Self> {
        let feed = Arc::new(Feed::new());
        let over = Arc::new(AtomicBool::new(false));
        let signalled = Arc::default();
        for signal in ENDING.into_iter().filter(|signal| is_heeded(*signal)) {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&over))?;
            flag::register(signal, Arc::clone(&signalled))?;
        }
        let (showing, shown) = mpsc::channel();
        let (heard, board) = (Arc::clone(&feed), Board::new(outline));
        let show = move || {
            let _showing = showing;
            show(&heard, board, &mut *view(options));
        };
        let thread = thread::Builder::new().name("display".to_owned()).spawn(show);
        let thread = thread.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot show the run: {error}"))
        })?;
        Ok(Self { feed, thread: Some(thread), shown, over, signalled })
    }

    /// Tells what has happened, without waiting for it to be shown.
    pub(crate) fn tell(&self, update: &Update<'_>) {
        if let Some(news) = News::of(update) {
            self.feed.tell(news);
        }
    }

    /// The run has ended: shows what is left to show, and waits for that.
    pub(crate) fn end(mut self, end: End) {
        self.close(end.into());
    }

    /// The run goes on, and is shown no more.
    pub(crate) fn end_detached(mut self) {
        self.close(Ending::Detached);
    }

    /// The run could not go on, and cannot be resumed: its store is lost.
    pub(crate) fn end_lost(mut self) {
        self.close(Ending::Lost);
    }

    fn close(&mut self, ending: Ending) {
        self.feed.end(ending);
        // A reader that takes nothing may keep us waiting for ever; the run does not mind any more,
        // so the next signal ends the process. Both flags pair with their handlers, and order nothing
        // else.
        self.over.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return };
        if self.signalled.load(Ordering::SeqCst)
            && self.shown.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout)
        {
            return;
        }
        // If it has panicked, that was told, and the run has ended as it has.
        let _ = thread.join();
    }
}

impl Drop for Display {
    /// One that was not told the end: the run could not go on.
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.close(Ending::Stopped);
        }
    }
}

/// Shows what comes until the end comes.
fn show(feed: &Feed, mut board: Board, view: &mut dyn View) {
    view.begin(&board);
    loop {
        let patience = view.tick(&board);
        let batch = feed.take(patience);
        if batch.left_out > 0 {
            view.left_out(&board, batch.left_out);
        }
        for news in batch.news {
            let event = match news {
                News::Changed(change) => board.apply(change),
                News::Waits { step, why, at_ms } => board.wait(&step, &why, at_ms),
                News::Stopping => {
                    if board.counts().running > 0 {
                        view.stopping(&board);
                    }
                    continue;
                }
                News::Notice(said) => {
                    view.notice(&board, &said);
                    continue;
                }
            };
            view.event(&board, &event);
        }
        if let Some(ending) = batch.ending {
            return view.end(&board, ending);
        }
    }
}

fn view(options: Options) -> Box<dyn View> {
    let Options { verb, mode, form, past } = options;
    let (style, clock) = (Style::of_stderr(), Clock::start());
    let (out, err) = (Stream::stdout(), Stream::stderr());
    if form == Form::Json {
        return Box::new(Json { verb, out, err, style, clock });
    }
    let capable = io::stderr().is_terminal() && moves_cursor(variable);
    let output = match mode {
        OutputMode::Live if capable => return Box::new(Live::new(verb, style, past)),
        OutputMode::Auto if capable && io::stdout().is_terminal() => {
            return Box::new(Live::new(verb, style, past));
        }
        OutputMode::Auto | OutputMode::Live | OutputMode::Prefix => Output::Prefix,
        OutputMode::Group => Output::Group,
        OutputMode::Raw => Output::Raw,
        OutputMode::Quiet => Output::Quiet,
    };
    let service = Service::detect(variable);
    let no_colours = variable("NO_COLOR").is_some();
    let keep = if no_colours { Keep::Nothing } else { Keep::Colours };
    let (tails, next_look) = (BTreeMap::new(), Duration::ZERO);
    Box::new(Plain { verb, output, out, err, style, keep, service, clock, tails, next_look })
}
