//! The processes of a run's attempts, from their start until nothing is left of them.
//!
//! One wait serves all of them. An attempt is over when its process has ended and everything that it
//! has started has, too. What it left behind is known from the orphans that this process is given, so
//! an attempt that leaves nothing costs no search; one that has to be ended, or has left something,
//! is handed to the thread that ends trees. What an attempt has left may end by itself for a while
//! before it is asked to. Knows nothing of steps, stores or decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{Access as Permission, access};
use rustix::io::Errno;
use rustix::param::clock_ticks_per_second;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use windlass_core::WorkId;
use windlass_store::ProcessTree;

use crate::attempt::{Ready, pid};
use crate::channel::{Receiver, Sender, channel};
use crate::command::CommandSpec;
use crate::ended::{Ended, Exit};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::files;
use crate::launch::{Launched, Launcher};
use crate::limit_tag::{LimitTag, TagPattern};
use crate::log_file::LogFile;
use crate::log_pipe::{self, LogPipe};
use crate::log_pipes::{self, LogPipes};
use crate::orphans::{Orphan, Orphans};
use crate::outputs;
use crate::poll::{poll, timespec};
use crate::proc_fs::{self, Process};
use crate::process_tag::{self, TAG_VARIABLE};
use crate::reaper::{Gone, KillPlan, KillRequest, Reaper};
use crate::size;
use crate::spawn::reap;
use crate::tree::{self, KILL_TIMEOUT, Reach};

/// What a shell says of a command that cannot be executed.
pub(crate) const CANNOT_START: i32 = 126;
/// How often orphans are looked for while nothing else happens.
const SWEEP: Duration = Duration::from_secs(1);
/// How many ends one wait can tell of.
const AT_ONCE: usize = 256;
/// What the table calls what is no process's end: news from outside, from our own threads, and bells.
const NEWS: u64 = 0;
const WORDS: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

/// Whose process it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    /// A step's; it has one at a time.
    Work(WorkId),
    /// A hook's, by a number of its own.
    Hook(u32),
}

/// Everything that runs for one run.
pub(crate) struct Processes {
    table: OwnedFd,
    running: BTreeMap<Job, Running>,
    /// By the numbers of their processes.
    jobs: BTreeMap<u32, Job>,
    /// Those whose own process has ended.
    exited: BTreeSet<Job>,
    orphans: Orphans,
    launcher: Launcher,
    pipes: LogPipes,
    /// When orphans were looked for last.
    looked: Instant,
    reaper: Option<Reaper>,
    /// The word that marks all of them.
    tag: String,
    /// What our own threads have to say.
    words: Receiver<Word>,
    tell: Sender<Word>,
}

struct Running {
    process: Launched,
    /// When it was started at the earliest, in ticks since boot.
    born: u64,
    traces: Traces,
    tree: TreeState,
    /// When what belongs to it has to end, if it has to.
    plan: Option<KillPlan>,
    /// What it left running that had to be ended, for people to read.
    left: Vec<String>,
}

impl Running {
    /// Returns whether a process with this tag is one of its own.
    fn is_tagged(&self, tag: Option<LimitTag>) -> bool {
        tag.is_some_and(|tag| TagPattern::of(&self.traces.tag).matches(tag))
    }
}

/// What has happened.
#[derive(Default)]
struct Happened {
    news: bool,
    rang: bool,
    /// One of our own threads has something to say.
    words: bool,
    /// A process has ended.
    exits: bool,
}

/// What has ended a wait.
pub(crate) struct Woken {
    /// The attempts that are over; nothing of them is left.
    pub(crate) over: Vec<(Job, Ended)>,
    /// There are news.
    pub(crate) news: bool,
    /// A bell rings.
    pub(crate) rang: bool,
    /// A log cannot be written.
    pub(crate) log_error: Option<io::Error>,
}

/// What is known of the processes that an attempt has started.
enum TreeState {
    /// They are left alone, or whoever was found of them has ended.
    Free,
    /// They are being ended.
    Ending(Scope),
    /// These cannot be ended.
    Stuck { left: Vec<u32> },
}

/// What of an attempt is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Its own process, too.
    Everything,
    /// What its own process has left running.
    Rest,
}

/// What an attempt can be recognised by, and leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    /// The word that marks its processes.
    pub(crate) tag: String,
    /// Where it writes what it hands on, if it may.
    pub(crate) output: Option<PathBuf>,
    /// What may become of the processes that outlive its own.
    pub(crate) leave: Leave,
}

/// What may become of the processes that an attempt leaves running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave {
    /// How long they may take to end by themselves.
    pub(crate) linger: Duration,
    /// How long they may take to end once they were asked to.
    pub(crate) grace: Duration,
}

/// An attempt for whose process everything is ready.
pub(crate) struct Prepared {
    job: Job,
    ready: Ready,
    traces: Traces,
    log: LogFile,
}

impl Prepared {
    /// Makes everything ready for the process of an attempt, so that nothing is left to do but to start
    /// it.
    pub(crate) fn new(job: Job, order: CommandSpec, traces: Traces, log: LogFile) -> Self {
        Self { job, ready: Ready::new(order, &traces.tag), traces, log }
    }

    pub(crate) fn job(&self) -> Job {
        self.job
    }

    pub(crate) fn order(&self) -> &CommandSpec {
        &self.ready.order
    }

    /// Where what it prints goes.
    pub(crate) fn log(&self) -> &Path {
        self.log.path()
    }
}

/// A process that could not be started.
pub(crate) struct NotStarted {
    pub(crate) prepared: Prepared,
    pub(crate) error: io::Error,
}

enum Word {
    Gone(Gone),
    /// What follows the end of an attempt is done.
    Over(Job, Ended, io::Result<()>),
}

/// Whose orphan a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Job(Job),
    /// It carries nothing that would tell.
    Unknown,
    /// Somebody else's, in this process.
    Stranger,
}

impl Processes {
    /// `mark` is a word that all attempts carry, `at_once` how many there may be at a time; `news`
    /// ends a wait, too.
    pub(crate) fn new(tag: &str, at_once: usize, news: &impl AsFd) -> io::Result<Self> {
        files::allow(at_once);
        let table = epoll::create(CreateFlags::CLOEXEC)?;
        let (tell, words) = channel()?;
        epoll::add(&table, news, EventData::new_u64(NEWS), EventFlags::IN)?;
        epoll::add(&table, &words, EventData::new_u64(WORDS), EventFlags::IN)?;
        Ok(Self {
            table,
            running: BTreeMap::new(),
            jobs: BTreeMap::new(),
            exited: BTreeSet::new(),
            orphans: Orphans::receive()?,
            launcher: Launcher::new()?,
            pipes: LogPipes::new(),
            looked: Instant::now(),
            reaper: None,
            tag: tag.to_owned(),
            words,
            tell,
        })
    }

    /// Starts the process of an attempt.
    pub(crate) fn start(&mut self, prepared: Prepared) -> Result<(), Box<NotStarted>> {
        let born = ticks();
        #[cfg(windlass_faults)]
        Point::BeforeSpawn.reached();
        let (process, reader) = match self.launch(&prepared.ready) {
            Ok(launched) => launched,
            Err(error) => {
                let error = size::explain(error, prepared.order());
                return Err(Box::new(NotStarted { prepared, error }));
            }
        };
        let Prepared { job, traces, log, .. } = prepared;
        self.pipes.add(process.id(), LogPipe::new(reader, log));
        self.jobs.insert(process.id(), job);
        let (tree, plan, left) = (TreeState::Free, None, Vec::new());
        self.running.insert(job, Running { process, born, traces, tree, plan, left });
        Ok(())
    }

    /// Launches a process that prints to a pipe, and watches both.
    fn launch(&mut self, ready: &Ready) -> io::Result<(Launched, PipeReader)> {
        let (reader, writer) = log_pipe::pipe()?;
        files::room(&self.table)?;
        let process = ready.start(&mut self.launcher, writer.as_fd())?;
        #[cfg(windlass_faults)]
        Point::AfterSpawn.reached();
        self.watch(&process, &reader)?;
        Ok((process, reader))
    }

    fn watch(&self, process: &Launched, output: &PipeReader) -> io::Result<()> {
        let name = EventData::new_u64(process.id().into());
        let once = EventFlags::IN | EventFlags::ONESHOT;
        let watched = epoll::add(&self.table, process, name, once).map_err(io::Error::from);
        let watched = watched.and_then(|()| log_pipes::watch(process.id(), output, &self.table));
        watched.map_err(|error| {
            // One that cannot be waited for with the others must not go on.
            process.abandon().err().unwrap_or(error)
        })
    }

    /// Whether no process is left whose end could give room.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Asks everything that belongs to an attempt to end, and kills what has not within its grace.
    pub(crate) fn ask_to_end(&mut self, job: Job, grace: Duration) -> io::Result<()> {
        self.request_kill(job, KillPlan::ask(grace), Vec::new())
    }

    /// Asks what an attempt has left running to end; does nothing while its own process runs.
    pub(crate) fn ask_rest_to_end(&mut self, job: Job, grace: Duration) -> io::Result<()> {
        if self.exited.contains(&job) { self.ask_to_end(job, grace) } else { Ok(()) }
    }

    /// Kills everything that belongs to a process.
    pub(crate) fn kill(&mut self, job: Job) -> io::Result<()> {
        self.request_kill(job, KillPlan::kill(), Vec::new())
    }

    /// Kills everything that runs.
    pub(crate) fn kill_all(&mut self) -> io::Result<()> {
        self.running
            .keys()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|job| self.kill(job))
    }

    /// Has a bell end a wait, too.
    pub(crate) fn hear(&self, bell: &impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.table, bell, EventData::new_u64(BELL), EventFlags::IN)?)
    }

    /// Waits until an attempt is over, or there are news, or a bell rings, or `patience` is over.
    pub(crate) fn wait(&mut self, patience: Option<Duration>) -> io::Result<Woken> {
        let until = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let sweep = (!self.running.is_empty()).then_some(SWEEP);
            let rested = self.pipes.until_rested();
            let happened = self.sleep([left, sweep, rested].into_iter().flatten().min())?;
            self.pipes.drain_rested(&self.table)?;
            let Happened { news, rang, words, exits } = happened;
            let due = left.is_some_and(|left| left.is_zero());
            // That something was printed says nothing about orphans.
            let looks = news || rang || words || exits || due || self.looked.elapsed() >= SWEEP;
            let over = if looks { self.look(&happened)? } else { Vec::new() };
            let log_error = self.pipes.take_error();
            if news || rang || due || !over.is_empty() || log_error.is_some() {
                return Ok(Woken { over, news, rang, log_error });
            }
        }
    }

    /// Ends whatever is left of the run: its attempts, and what those before have left.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.kill_all()?;
        let began = Instant::now();
        loop {
            let orphans = self.orphans()?;
            let orphans = orphans.iter().filter(|(_, owner)| *owner != Owner::Stranger);
            let dying: Vec<_> =
                orphans.map(|(orphan, _)| tree::signal(orphan, &[Signal::KILL])).collect();
            if self.running.is_empty() && dying.is_empty() {
                return Ok(());
            }
            if began.elapsed() > KILL_TIMEOUT * 2 {
                let message = "processes of the run do not end";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            for Reach::In(process) | Reach::Out(process) in dying.into_iter().flatten() {
                poll(&[&process], Some(KILL_TIMEOUT))?;
            }
            self.wait(Some(Duration::from_millis(10)))?;
        }
    }

    /// Sleeps until something happens.
    fn sleep(&mut self, patience: Option<Duration>) -> io::Result<Happened> {
        let mut room = [MaybeUninit::uninit(); AT_ONCE];
        let timeout = patience.map(timespec);
        let events = match epoll::wait(&self.table, &mut room, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &mut [],
            Err(error) => return Err(error.into()),
        };
        let mut happened = Happened::default();
        for name in events.iter().map(|event| event.data.u64()) {
            happened.news |= name == NEWS;
            happened.words |= name == WORDS;
            happened.rang |= name == BELL;
            if let Some(process) = LogPipes::named(name) {
                self.pipes.drain(process, &self.table)?;
            } else if let Ok(number) = u32::try_from(name) {
                happened.exits = true;
                self.exited.extend(self.jobs.get(&number));
            }
        }
        Ok(happened)
    }

    /// Sees what has become of the attempts. Those that are over.
    fn look(&mut self, happened: &Happened) -> io::Result<Vec<(Job, Ended)>> {
        self.looked = Instant::now();
        let mut over = Vec::new();
        let words = if happened.words { self.words.take() } else { Vec::new() };
        for word in words {
            match word {
                Word::Over(job, ended, logged) => {
                    self.pipes.note(logged);
                    over.push((job, ended));
                }
                Word::Gone(Gone { job, left, signalled }) => {
                    if let Some(running) = self.running.get_mut(&job) {
                        if matches!(running.tree, TreeState::Ending(Scope::Rest)) {
                            running.left.extend(signalled);
                        }
                        running.tree = match left.is_empty() {
                            true => TreeState::Free,
                            false => TreeState::Stuck { left },
                        };
                    }
                }
            }
        }
        // What an attempt leaves is given to us before its own end can be seen.
        let orphans = self.orphans()?;
        for job in self.exited.iter().copied().collect::<Vec<_>>() {
            match &self.running[&job].tree {
                // Also after a search, which can miss those that others start meanwhile.
                TreeState::Free => {
                    let left = self.left_by(job, &orphans);
                    match left.is_empty() {
                        true => over.extend(self.conclude(job, &[])),
                        false => self.wait_for(job, left)?,
                    }
                }
                TreeState::Ending(_) => {}
                TreeState::Stuck { left } => {
                    let left = left.clone();
                    over.extend(self.conclude(job, &left));
                }
            }
        }
        Ok(over)
    }

    /// The orphans that live, and whose they are.
    fn orphans(&mut self) -> io::Result<Vec<(Process, Owner)>> {
        let living = self.orphans.look()?;
        Ok(living.into_iter().map(|orphan| (orphan.process, self.owner(&orphan))).collect())
    }

    fn owner(&self, orphan: &Orphan) -> Owner {
        let carries = |mark: &str| orphan.tags.iter().any(|word| word == mark.as_bytes());
        let marked = self.running.iter().find(|(_, running)| carries(&running.traces.tag));
        let tagged =
            || self.running.iter().find(|(_, running)| running.is_tagged(orphan.limit_tag));
        let marked = marked.or_else(tagged).map(|(job, _)| *job);
        match marked.or_else(|| self.jobs.get(&orphan.process.group).copied()) {
            Some(job) => Owner::Job(job),
            None if carries(&self.tag) => Owner::Unknown,
            None => {
                let ours = std::env::var(TAG_VARIABLE).unwrap_or_default();
                let inherited = |word: &Vec<u8>| ours.split(' ').any(|w| w.as_bytes() == word);
                if orphan.tags.iter().all(inherited) { Owner::Unknown } else { Owner::Stranger }
            }
        }
    }

    /// The orphans that an attempt whose process has ended has left behind: its own, and those that
    /// nobody can have started who still runs.
    fn left_by(&self, job: Job, orphans: &[(Process, Owner)]) -> Vec<Process> {
        let is_left = |orphan: &Process, owner: Owner| match owner {
            Owner::Job(owner) => owner == job,
            Owner::Stranger => false,
            Owner::Unknown => !self.running.iter().any(|(other, running)| {
                !self.exited.contains(other) && running.born <= orphan.started
            }),
        };
        let left = orphans.iter().filter(|(orphan, owner)| is_left(orphan, *owner));
        left.map(|(orphan, _)| *orphan).collect()
    }

    /// Waits for what an attempt has left running. However often some of it is found, its time begins
    /// when its own process has ended.
    fn wait_for(&mut self, job: Job, left: Vec<Process>) -> io::Result<()> {
        let Leave { linger, grace } = self.running[&job].traces.leave;
        let plan = self.running[&job].plan.unwrap_or_else(|| KillPlan::after(linger, grace));
        self.request_kill(job, plan, left)
    }

    /// Has everything that belongs to an attempt ended, no later than `plan` says.
    fn request_kill(
        &mut self,
        job: Job,
        plan: KillPlan,
        mut roots: Vec<Process>,
    ) -> io::Result<()> {
        let Some(running) = self.running.get_mut(&job) else { return Ok(()) };
        let plan = running.plan.map_or(plan, |before| before.or_earlier(plan));
        running.plan = Some(plan);
        match (&running.tree, &self.reaper) {
            (TreeState::Free, _) => {}
            (TreeState::Ending(_), Some(reaper)) => {
                reaper.hasten(job, plan);
                return Ok(());
            }
            _ => return Ok(()),
        }
        let reaper = match &self.reaper {
            Some(reaper) => reaper,
            None => {
                let tell = self.tell.clone();
                // Nobody listens any more once the run has ended.
                let reaper = Reaper::start(move |gone| drop(tell.send(Word::Gone(gone))))?;
                self.reaper.insert(reaper)
            }
        };
        let main = proc_fs::stat(running.process.id())?.map(|(process, _)| process);
        let rest = self.exited.contains(&job);
        running.tree = TreeState::Ending(if rest { Scope::Rest } else { Scope::Everything });
        roots.extend(main);
        let group = main.and_then(Process::leads);
        let tree = ProcessTree { group, ..process_tag::tree_of(&running.traces.tag) };
        reaper.end(KillRequest { job, tree, roots, plan });
        Ok(())
    }

    /// Reaps an attempt of which nothing else is left. How it ended, unless that is told later.
    fn conclude(&mut self, job: Job, left: &[u32]) -> Option<(Job, Ended)> {
        self.exited.remove(&job);
        let Running { process, traces, left: signalled, .. } = self.running.remove(&job)?;
        self.jobs.remove(&process.id());
        #[cfg(windlass_faults)]
        Point::AfterExit.reached();
        let reaped = pid(process.id()).and_then(|number| reap(number).ok().flatten());
        let mut ended = reaped.unwrap_or(Ended::from(Exit::Code(CANNOT_START)));
        ended.left = signalled;
        let log = self.pipes.finish(process.id()).expect("each process has one");
        if !left.is_empty() {
            ended.flaw = Some(format!("processes {left:?} that it has started cannot be ended"));
        }
        if !ended.is_success() {
            // People look for the log of what went wrong.
            self.pipes.note(log.create());
        }
        let wrote =
            |output: &PathBuf| ended.is_success() && access(output, Permission::EXISTS).is_ok();
        let output = traces.output.filter(wrote);
        let closing = Closing { ended, log, output };
        match closing.takes_time() {
            true => self.close_aside(job, closing),
            false => Some((job, closing.close().0)),
        }
    }

    /// Does the rest of what follows an end on a thread of its own, or on the leader's if no thread can
    /// be had.
    fn close_aside(&mut self, job: Job, closing: Closing) -> Option<(Job, Ended)> {
        let (tell, there) = (self.tell.clone(), closing.clone());
        let aside = thread::Builder::new().spawn(move || {
            let (ended, logged) = there.close();
            // There is no receiver any more if the run has failed meanwhile.
            let _ = tell.send(Word::Over(job, ended, logged));
        });
        aside.is_err().then(|| {
            let (ended, logged) = closing.close();
            self.pipes.note(logged);
            (job, ended)
        })
    }
}

/// What follows the end of an attempt before it is told.
#[derive(Clone)]
struct Closing {
    ended: Ended,
    log: LogFile,
    /// What it has written, and hands on.
    output: Option<PathBuf>,
}

impl Closing {
    /// Whether files have to be synced or copied.
    fn takes_time(&self) -> bool {
        self.output.is_some() || self.log.has_tail()
    }

    /// Completes the log, and reads what the attempt has written.
    fn close(self) -> (Ended, io::Result<()>) {
        let Self { mut ended, log, output } = self;
        let logged = if log.has_tail() { log.complete() } else { Ok(()) };
        if let Some(error) = output.and_then(|output| outputs::read(&output).err()) {
            ended.flaw = Some(format!("what it wrote to $WINDLASS_OUTPUT: {error}"));
        }
        if let Some(flaw) = &ended.flaw {
            outputs::complain(log.path(), flaw);
        }
        (ended, logged)
    }
}

impl Drop for Processes {
    /// A run that cannot go on leaves nothing running; one that has ended has nothing.
    fn drop(&mut self) {
        if self.finish().is_err() {
            // Not even a thread to end them may be had. There is nobody left to tell.
            let _ = tree::kill(&process_tag::tree_of(&self.tag));
        }
    }
}

/// Now, in ticks since boot, as the kernel counts the starts of processes.
fn ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    let per_second = clock_ticks_per_second();
    seconds * per_second + nanos * per_second / 1_000_000_000
}
