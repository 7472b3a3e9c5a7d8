//! The processes of a run's attempts, from their start until nothing is left of them.
//!
//! One wait serves all of them. An attempt is over when its process has ended and everything that it
//! has started has, too. What it left behind is known from the orphans that this process is given, so
//! an attempt that leaves nothing costs no search; one that has to be ended, or has left something,
//! is handed to the thread that ends trees. Knows nothing of steps, stores or decisions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
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
use windlass_store::{Access, Tree};

use crate::attempt::{Ready, pid};
use crate::ended::{Ended, Exit};
use crate::ender::{Condemned, Ender, Gone, Mercy};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::files;
use crate::launch::{Launched, Launcher};
use crate::mailbox::{Mailbox, Sender, mailbox};
use crate::order::Order;
use crate::orphans::{Orphan, Orphans};
use crate::outputs;
use crate::poll::{poll, timespec};
use crate::spares::{Lent, Spares};
use crate::spawn::reap;
use crate::tree::{self, MARKS, PATIENCE, Process, Reach};

/// What a shell says of a command that cannot be executed.
pub(crate) const CANNOT_START: i32 = 126;
/// How often orphans are looked for while nothing else happens.
const SWEEP: Duration = Duration::from_secs(1);
/// How long an attempt runs before its log gets its name, though it may be empty: people look for it,
/// and most small steps are over by then.
const NAMELESS: Duration = Duration::from_millis(20);
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
    spares: Spares,
    /// When the logs of attempts get their names, and of which life of whose.
    nameless: VecDeque<(Instant, Job, u32)>,
    ender: Option<Ender>,
    /// The word that marks all of them.
    mark: String,
    /// What our own threads have to say.
    words: Mailbox<Word>,
    tell: Sender<Word>,
}

struct Running {
    process: Launched,
    /// When it was started at the earliest, in ticks since boot.
    born: u64,
    traces: Traces,
    /// What it prints to, as long as that is not called its log.
    spare: Option<Lent>,
    tree: TreeState,
}

/// What has happened besides the ends of processes.
#[derive(Default)]
struct Happened {
    news: bool,
    rang: bool,
    /// One of our own threads has something to say.
    words: bool,
}

/// What has ended a wait.
pub(crate) struct Woken {
    /// The attempts that are over; nothing of them is left.
    pub(crate) over: Vec<(Job, Ended)>,
    /// There are news.
    pub(crate) news: bool,
    /// A bell rings.
    pub(crate) rang: bool,
}

/// What is known of the processes that an attempt has started.
enum TreeState {
    /// They are left alone, or whoever was found of them has ended.
    Free,
    /// They are being ended.
    Ending,
    /// These cannot be ended.
    Stuck { left: Vec<u32> },
}

/// What an attempt can be recognised by, and leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    /// The word that marks its processes.
    pub(crate) mark: String,
    /// Where its output goes.
    pub(crate) log: Log,
    /// Where it writes what it hands on, if it may.
    pub(crate) output: Option<PathBuf>,
}

/// Where what a process prints goes.
#[derive(Clone, Debug)]
pub(crate) enum Log {
    /// There from the beginning: that it is there tells that there was a process.
    AtOnce(PathBuf),
    /// There a moment later, unless the process has ended well by then and printed nothing.
    Soon(PathBuf),
}

impl Log {
    pub(crate) fn path(&self) -> &Path {
        let (Log::AtOnce(path) | Log::Soon(path)) = self;
        path
    }
}

/// An attempt for whose process everything is ready.
pub(crate) struct Prepared {
    job: Job,
    ready: Ready,
    traces: Traces,
    /// What it will print to, as long as that is not called its log.
    spare: Option<Lent>,
}

impl Prepared {
    pub(crate) fn job(&self) -> Job {
        self.job
    }

    /// Where what it prints goes.
    pub(crate) fn log(&self) -> &Path {
        self.traces.log.path()
    }
}

/// A process that could not be started.
pub(crate) struct NotStarted {
    pub(crate) job: Job,
    pub(crate) program: String,
    /// Where it was to be.
    pub(crate) dir: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) error: io::Error,
}

impl NotStarted {
    fn new(job: Job, order: Order, log: Log, error: io::Error) -> Self {
        let (Log::AtOnce(log) | Log::Soon(log)) = log;
        Self { job, program: order.program, dir: order.dir, log, error }
    }
}

enum Word {
    Gone(Gone),
    /// What an attempt has written was read, after it had ended.
    Over(Job, Ended),
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
    /// ends a wait, too. Their logs are in `logs`.
    pub(crate) fn new(
        mark: &str,
        at_once: usize,
        news: &impl AsFd,
        logs: &Path,
    ) -> io::Result<Self> {
        files::allow(at_once);
        let table = epoll::create(CreateFlags::CLOEXEC)?;
        let (tell, words) = mailbox()?;
        epoll::add(&table, news, EventData::new_u64(NEWS), EventFlags::IN)?;
        epoll::add(&table, &words, EventData::new_u64(WORDS), EventFlags::IN)?;
        Ok(Self {
            table,
            running: BTreeMap::new(),
            jobs: BTreeMap::new(),
            exited: BTreeSet::new(),
            orphans: Orphans::receive()?,
            launcher: Launcher::new()?,
            spares: Spares::of(logs)?,
            nameless: VecDeque::new(),
            ender: None,
            mark: mark.to_owned(),
            words,
            tell,
        })
    }

    /// Makes everything ready for the process of an attempt, so that nothing is left to do but to start
    /// it. An error is that there can be no log of it, which is nobody's fault who would print there;
    /// that as many files are open as may be is the attempt's.
    pub(crate) fn prepare(
        &mut self,
        job: Job,
        order: Order,
        traces: Traces,
    ) -> io::Result<Result<Prepared, NotStarted>> {
        match self.open_log(&traces.log) {
            Ok((spare, log)) => {
                Ok(Ok(Prepared { job, ready: Ready::new(order, log), traces, spare }))
            }
            Err(error) if files::is_no_room(&error) => {
                Ok(Err(NotStarted::new(job, order, traces.log, error)))
            }
            Err(error) => Err(error),
        }
    }

    /// Starts the process of an attempt.
    pub(crate) fn start(&mut self, prepared: Prepared) -> Result<(), NotStarted> {
        let Prepared { job, ready, traces, spare } = prepared;
        let born = ticks();
        #[cfg(windlass_faults)]
        Point::BeforeSpawn.reached();
        let room = files::room(&self.table).map_err(io::Error::from);
        let started = room.and_then(|()| ready.start(&mut self.launcher)).and_then(|process| {
            #[cfg(windlass_faults)]
            Point::AfterSpawn.reached();
            self.watch(&process).map(|()| process)
        });
        let process = match started {
            Ok(process) => process,
            Err(error) => {
                spare.iter().for_each(|spare| self.spares.take_back(spare));
                return Err(NotStarted::new(job, ready.order, traces.log, error));
            }
        };
        let number = process.id();
        if spare.is_some() {
            self.nameless.push_back((Instant::now() + NAMELESS, job, number));
        }
        self.jobs.insert(number, job);
        let tree = TreeState::Free;
        self.running.insert(job, Running { process, born, traces, spare, tree });
        Ok(())
    }

    /// An attempt that was made ready does not begin.
    pub(crate) fn give_up(&mut self, prepared: Prepared) {
        let Prepared { spare, .. } = prepared;
        spare.iter().for_each(|spare| self.spares.take_back(spare));
    }

    fn open_log(&mut self, log: &Log) -> io::Result<(Option<Lent>, File)> {
        match log {
            Log::Soon(log) => {
                let (spare, file) = self.spares.lend(log)?;
                let file = files::to_keep(file).inspect_err(|_| self.spares.take_back(&spare))?;
                Ok((Some(spare), file))
            }
            // Whatever else opens it, nobody writes over others.
            Log::AtOnce(log) => {
                let file = Access::open(log, File::options().append(true))?;
                Ok((None, files::to_keep(file)?))
            }
        }
    }

    fn watch(&self, process: &Launched) -> io::Result<()> {
        let name = EventData::new_u64(process.id().into());
        let once = EventFlags::IN | EventFlags::ONESHOT;
        epoll::add(&self.table, process, name, once).map_err(|error| {
            // One that cannot be waited for with the others must not go on.
            process.abandon().err().unwrap_or_else(|| error.into())
        })
    }

    /// Asks everything that belongs to an attempt to end, and kills what has not within its grace.
    pub(crate) fn ask_to_end(&mut self, job: Job, grace: Duration) -> io::Result<()> {
        self.condemn(job, Mercy::Grace(grace), Vec::new())
    }

    /// Kills everything that belongs to a process.
    pub(crate) fn kill(&mut self, job: Job) -> io::Result<()> {
        self.condemn(job, Mercy::None, Vec::new())?;
        if let Some(ender) = &self.ender {
            ender.kill(job);
        }
        Ok(())
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
            let nameless = self.until_name();
            let happened = self.sleep([left, sweep, nameless].into_iter().flatten().min())?;
            let over = self.look(&happened)?;
            self.name_logs();
            let Happened { news, rang, .. } = happened;
            if news || rang || !over.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return Ok(Woken { over, news, rang });
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
            if began.elapsed() > PATIENCE * 2 {
                let message = "processes of the run do not end";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            for Reach::In(process) | Reach::Out(process) in dying.into_iter().flatten() {
                poll(&[&process], Some(PATIENCE))?;
            }
            self.wait(Some(Duration::from_millis(10)))?;
        }
    }

    /// How long until a log gets its name.
    fn until_name(&mut self) -> Option<Duration> {
        while let Some((_, job, number)) = self.nameless.front()
            && self.running.get(job).is_none_or(|running| running.process.id() != *number)
        {
            self.nameless.pop_front();
        }
        self.nameless.front().map(|(due, ..)| due.saturating_duration_since(Instant::now()))
    }

    /// Gives the logs of those their names who have run for a moment.
    fn name_logs(&mut self) {
        while self.until_name().is_some_and(|left| left.is_zero()) {
            let (_, job, _) = self.nameless.pop_front().expect("its time has come");
            let spare = self.running.get_mut(&job).and_then(|running| running.spare.take());
            spare.into_iter().for_each(|spare| self.spares.give_name(&spare));
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
            let job = u32::try_from(name).ok().and_then(|number| self.jobs.get(&number));
            self.exited.extend(job);
        }
        Ok(happened)
    }

    /// Sees what has become of the attempts. Those that are over.
    fn look(&mut self, happened: &Happened) -> io::Result<Vec<(Job, Ended)>> {
        let mut over = Vec::new();
        let words = if happened.words { self.words.take() } else { Vec::new() };
        for word in words {
            match word {
                Word::Over(job, ended) => over.push((job, ended)),
                Word::Gone(Gone { job, left }) => {
                    if let Some(running) = self.running.get_mut(&job) {
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
                        false => self.condemn(job, Mercy::None, left)?,
                    }
                }
                TreeState::Ending => {}
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
        let carries = |mark: &str| orphan.words.iter().any(|word| word == mark.as_bytes());
        let marked = self.running.iter().find(|(_, running)| carries(&running.traces.mark));
        let marked = marked.map(|(job, _)| *job);
        match marked.or_else(|| self.jobs.get(&orphan.process.group).copied()) {
            Some(job) => Owner::Job(job),
            None if carries(&self.mark) => Owner::Unknown,
            None => {
                let ours = std::env::var(MARKS).unwrap_or_default();
                let inherited = |word: &Vec<u8>| ours.split(' ').any(|w| w.as_bytes() == word);
                if orphan.words.iter().all(inherited) { Owner::Unknown } else { Owner::Stranger }
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

    /// Has everything that belongs to an attempt ended, unless that is under way.
    fn condemn(&mut self, job: Job, mercy: Mercy, mut roots: Vec<Process>) -> io::Result<()> {
        let Some(running) = self.running.get_mut(&job) else { return Ok(()) };
        if !matches!(running.tree, TreeState::Free) {
            return Ok(());
        }
        let ender = match &self.ender {
            Some(ender) => ender,
            None => {
                let tell = self.tell.clone();
                // Nobody listens any more once the run has ended.
                let ender = Ender::start(move |gone| drop(tell.send(Word::Gone(gone))))?;
                self.ender.insert(ender)
            }
        };
        let main = tree::stat(running.process.id())?.map(|(process, _)| process);
        running.tree = TreeState::Ending;
        roots.extend(main);
        let group = main.and_then(Process::leads);
        let tree = Tree { mark: tree::mark(&running.traces.mark), group };
        ender.end(Condemned { job, tree, roots, mercy });
        Ok(())
    }

    /// Reaps an attempt of which nothing else is left. How it ended, unless that is told later.
    fn conclude(&mut self, job: Job, left: &[u32]) -> Option<(Job, Ended)> {
        self.exited.remove(&job);
        let Running { process, traces, spare, .. } = self.running.remove(&job)?;
        self.jobs.remove(&process.id());
        #[cfg(windlass_faults)]
        Point::AfterExit.reached();
        let reaped = pid(process.id()).and_then(|number| reap(number).ok().flatten());
        let mut ended = reaped.unwrap_or(Ended::from(Exit::Code(CANNOT_START)));
        match &spare {
            // Whoever is left may go on printing, and people look for the log of what went wrong.
            Some(spare) if !left.is_empty() || !ended.exit.is_success() => {
                self.spares.give_name(spare);
            }
            Some(spare) => self.spares.take_back(spare),
            None => {}
        }
        if !left.is_empty() {
            let what = format!("processes {left:?} that it has started cannot be ended");
            outputs::complain(traces.log.path(), &what);
            ended.flaw = Some(what);
        }
        match traces
            .output
            .filter(|output| ended.is_success() && access(output, Permission::EXISTS).is_ok())
        {
            None => Some((job, ended)),
            Some(output) => self.read_output(job, ended, &traces.log, &output),
        }
    }

    /// Reads what an attempt has written, on a thread of its own: it is synced, which takes time. Where
    /// no thread can be had, everybody waits for that.
    fn read_output(
        &self,
        job: Job,
        ended: Ended,
        log: &Log,
        output: &Path,
    ) -> Option<(Job, Ended)> {
        let (tell, there) = (self.tell.clone(), (ended.clone(), log.clone(), output.to_owned()));
        let reading = thread::Builder::new().spawn(move || {
            let (ended, log, output) = there;
            // Nobody listens any more if the run has failed meanwhile.
            let _ = tell.send(Word::Over(job, with_output(ended, &log, &output)));
        });
        reading.is_err().then(|| (job, with_output(ended, log, output)))
    }
}

/// The end of an attempt that has written something, once that was read.
fn with_output(mut ended: Ended, log: &Log, output: &Path) -> Ended {
    if let Err(error) = outputs::read(output) {
        let what = format!("what it wrote to $WINDLASS_OUTPUT: {error}");
        outputs::complain(log.path(), &what);
        ended.flaw = Some(what);
    }
    ended
}

impl Drop for Processes {
    /// A run that cannot go on leaves nothing running; one that has ended has nothing.
    fn drop(&mut self) {
        if self.finish().is_err() {
            // Not even a thread to end them may be had. There is nobody left to tell.
            let _ = tree::end(&Tree { mark: tree::mark(&self.mark), group: None });
        }
        self.spares.clear();
    }
}

/// Now, in ticks since boot, as the kernel counts the starts of processes.
fn ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    let per_second = clock_ticks_per_second();
    seconds * per_second + nanos * per_second / 1_000_000_000
}
