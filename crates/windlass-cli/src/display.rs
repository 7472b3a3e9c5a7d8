//! Shows a run while it runs.
//!
//! The thread that leads a run queues updates, and the display thread shows them. No terminal and no
//! reader delays a run or ends it.

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

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::ValueEnum;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use windlass_server::{End, ShownLogs, StoreOpener, Update, is_heeded};

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

/// How long a reader may take for the rest of the output after a signal.
const GRACE: Duration = Duration::from_secs(10);

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputMode {
    /// Live on a terminal, prefix elsewhere
    Auto,
    /// Finished steps with their output scroll by above the running steps
    Live,
    /// Output line by line as it is written, with the name of the step
    Prefix,
    /// The output of each step in one piece when it has ended
    Group,
    /// Output as it is written, and failures
    Raw,
    /// Only failures
    Quiet,
}

/// The verb that leads or shows a run.
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

/// How to show a run.
pub(crate) struct Options {
    pub(crate) verb: Verb,
    pub(crate) mode: OutputMode,
    pub(crate) form: Form,
    /// The store with earlier runs, for expected times.
    pub(crate) past: StoreOpener,
    pub(crate) logs: ShownLogs,
}

/// The signals that ask a run to end.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// A display of a run, with a thread of its own.
pub(crate) struct Display {
    feed: Arc<Feed>,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the thread has shown everything.
    shown: Receiver<()>,
    /// Whether the run has ended, so that the next signal ends the process.
    over: Arc<AtomicBool>,
    /// Whether a signal has come.
    signalled: Arc<AtomicBool>,
}

impl Display {
    /// Starts to show a run.
    pub(crate) fn start(outline: Outline, options: Options) -> io::Result<Self> {
        let feed = Arc::new(Feed::new());
        let over = Arc::new(AtomicBool::new(false));
        let signalled = Arc::default();
        for signal in ENDING.into_iter().filter(|signal| is_heeded(*signal)) {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&over))?;
            flag::register(signal, Arc::clone(&signalled))?;
        }
        let (showing, shown) = mpsc::channel();
        let (queue, board) = (Arc::clone(&feed), Board::new(outline));
        let show = move || {
            let _showing = showing;
            show(&queue, board, &mut *view(options));
        };
        let thread = thread::Builder::new().name("display".to_owned()).spawn(show);
        let thread = thread.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot show the run: {error}"))
        })?;
        Ok(Self { feed, thread: Some(thread), shown, over, signalled })
    }

    /// Passes an update to the display thread, and does not wait for it.
    pub(crate) fn update(&self, update: &Update<'_>) {
        if let Some(news) = News::of(update) {
            self.feed.push(news);
        }
    }

    /// Shows the end of the run, and waits for the display thread.
    pub(crate) fn end(mut self, end: End) {
        self.close(end.into());
    }

    /// Ends the display of a run that continues.
    pub(crate) fn end_detached(mut self) {
        self.close(Ending::Detached);
    }

    /// Ends the display of a run that cannot be resumed because its store is lost.
    pub(crate) fn end_lost(mut self) {
        self.close(Ending::Lost);
    }

    fn close(&mut self, ending: Ending) {
        self.feed.end(ending);
        // A reader may never take the rest. The run has ended, so the next signal may end the process.
        // Both flags pair with their handlers, and order nothing else.
        self.over.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return };
        if self.signalled.load(Ordering::SeqCst)
            && self.shown.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout)
        {
            return;
        }
        // A panic has printed its message, and does not change how the run ended.
        let _ = thread.join();
    }
}

impl Drop for Display {
    /// Ends the display of a run that an error has stopped.
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.close(Ending::Stopped);
        }
    }
}

/// Shows updates until the end of the run.
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
    let Options { verb, mode, form, past, logs } = options;
    let (style, clock) = (Style::of_stderr(), Clock::start());
    let (out, err) = (Stream::stdout(), Stream::stderr());
    if form == Form::Json {
        return Box::new(Json { verb, out, err, style, clock, logs });
    }
    let capable = io::stderr().is_terminal() && moves_cursor(variable);
    let output = match mode {
        OutputMode::Live if capable => return Box::new(Live::new(verb, style, past, logs)),
        OutputMode::Auto if capable && io::stdout().is_terminal() => {
            return Box::new(Live::new(verb, style, past, logs));
        }
        OutputMode::Auto | OutputMode::Live | OutputMode::Prefix => Output::Prefix,
        OutputMode::Group => Output::Group,
        OutputMode::Raw => Output::Raw,
        OutputMode::Quiet => Output::Quiet,
    };
    let service = Service::detect(variable);
    let no_colours = variable("NO_COLOR").is_some();
    let keep = if no_colours { Keep::Nothing } else { Keep::Colours };
    let (tails, late, next_look) = (BTreeMap::new(), VecDeque::new(), Duration::ZERO);
    Box::new(Plain {
        verb,
        output,
        out,
        err,
        style,
        keep,
        service,
        clock,
        logs,
        tails,
        late,
        next_look,
    })
}
