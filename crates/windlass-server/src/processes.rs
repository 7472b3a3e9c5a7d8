//! The processes of a run, from their start until nothing is left of them.
//!
//! A command of a run (an attempt, a `finally`, a hook) is a process in a group of its own, without a
//! terminal, with nothing of the leader's open but the pipe for its output. Output and error output share
//! one pipe, because a step that opens `/dev/stderr` would truncate a regular file. One `epoll` on the thread
//! that leads the run waits for all of them; there is no thread per attempt. A command costs two open files.
//!
//! A job has ended when its process has ended and everything that the process has started. The leader is a
//! child subreaper, so a process that loses its parent becomes its child (`orphans`): a job that leaves
//! nothing costs no search of `/proc`. A job that has to end, or has left processes, is handed to the
//! `reaper`. The job's own process is reaped last, so that its pid and its group are not used again before.
//! The end is reported after that, when the log is complete and the outputs are read.
//!
//! No process gets a parent-death signal: setting it needs code between fork and exec, which costs a copy of
//! the page tables at every start, and `resume` ends what a killed leader has left.
//!
//! Knows nothing of steps, stores or decisions.

mod closing;
mod job;
mod poller;
mod running;

use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Access as Permission, access};
use rustix::process::Signal;
use windlass_store::ProcessTree;

use self::closing::Closing;
pub(crate) use self::job::{Job, JobSettings, LeftoverPolicy, NotStarted, Prepared};
use self::poller::{Events, Poller};
use self::running::{Owner, RunningJob, RunningJobs, Scope, TreeState};
use crate::attempt::{Ready, pid};
use crate::channel::{Receiver, Sender, channel};
use crate::ended::{Ended, Exit};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::files;
use crate::inherited::Inherited;
use crate::launch::{Launched, Launcher};
use crate::log_file::LogFile;
use crate::log_pipe::{self, LogPipe, WhenUnwritable};
use crate::log_pipes::{self, LogPipes};
use crate::orphans::Orphans;
use crate::poll::poll;
use crate::proc_fs::{self, Found, Process};
use crate::process_tag;
use crate::reaper::{Gone, KillPlan, KillRequest, Reaper};
use crate::search::Sight;
use crate::size;
use crate::spawn::reap;
use crate::tree::{self, KILL_TIMEOUT, Reach};

/// The exit code by which a shell reports a command that it cannot execute.
pub(crate) const CANNOT_START: i32 = 126;
/// How often to look for orphans while nothing else happens.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How soon to look again when orphans may have been overlooked.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// What all processes of a run have in common.
pub(crate) struct ProcessSettings {
    /// The tag that they carry.
    pub(crate) tag: String,
    /// How many run at a time, at most.
    pub(crate) at_once: usize,
    pub(crate) inherited: Inherited,
}

/// All processes of one run.
pub(crate) struct Processes {
    poller: Poller,
    running: RunningJobs,
    orphans: Orphans,
    /// When to look for orphans next.
    sweep_at: Instant,
    launcher: Launcher,
    pipes: LogPipes,
    /// Started with the first process that has to be killed.
    reaper: Option<Reaper>,
    /// The tag that all processes of the run carry.
    tag: String,
    messages: Receiver<Message>,
    sender: Sender<Message>,
}

/// The orphans that are alive, with their owners.
struct Orphaned {
    orphans: Vec<(Process, Owner)>,
    sight: Sight,
}

/// A message from a thread that works for the processes of the run.
enum Message {
    /// The reaper has ended the processes of a job, or has given up.
    Gone(Gone),
    /// A job has been closed.
    Closed(Job, Ended, io::Result<()>),
}

/// Why a wait has returned.
pub(crate) struct Woken {
    /// The jobs that have ended; none of their processes is left.
    pub(crate) over: Vec<(Job, Ended)>,
    /// There is news for the caller.
    pub(crate) news: bool,
    /// A wake-up was notified.
    pub(crate) wakeup: bool,
    /// A log cannot be written, which is an error of the run.
    pub(crate) log_error: Option<io::Error>,
    /// Output has begun to wait for room on the disk.
    pub(crate) log_full: bool,
}

impl Processes {
    /// Prepares to start processes. A wait also returns when `news` is readable.
    pub(crate) fn new(settings: ProcessSettings, news: &impl AsFd) -> io::Result<Self> {
        let ProcessSettings { tag, at_once, inherited } = settings;
        files::allow(at_once);
        let (sender, messages) = channel()?;
        Ok(Self {
            poller: Poller::new(news, &messages)?,
            running: RunningJobs::default(),
            orphans: Orphans::receive()?,
            sweep_at: Instant::now() + SWEEP_INTERVAL,
            launcher: Launcher::new(inherited)?,
            pipes: LogPipes::new(),
            reaper: None,
            tag,
            messages,
            sender,
        })
    }

    /// Starts the process of a job.
    pub(crate) fn start(&mut self, prepared: Prepared) -> Result<(), Box<NotStarted>> {
        let born = proc_fs::now_in_ticks();
        #[cfg(windlass_faults)]
        Point::BeforeSpawn.reached();
        let (process, reader) = match self.launch(&prepared.ready) {
            Ok(launched) => launched,
            Err(error) => {
                let error = size::explain(error, prepared.order());
                return Err(Box::new(NotStarted { prepared, error }));
            }
        };
        let Prepared { job, settings, log, .. } = prepared;
        self.pipes.add(process.id(), LogPipe::new(reader, log));
        let (tree, plan, signalled) = (TreeState::Free, None, Vec::new());
        self.running.insert(job, RunningJob { process, born, settings, tree, plan, signalled });
        Ok(())
    }

    /// Launches a process that prints to a pipe, and watches both.
    fn launch(&mut self, ready: &Ready) -> io::Result<(Launched, PipeReader)> {
        let (reader, writer) = log_pipe::pipe()?;
        files::room(&self.poller)?;
        let process = ready.start(&mut self.launcher, writer.as_fd())?;
        #[cfg(windlass_faults)]
        Point::AfterSpawn.reached();
        self.watch(&process, &reader)?;
        Ok((process, reader))
    }

    fn watch(&self, process: &Launched, output: &PipeReader) -> io::Result<()> {
        let watched = self.poller.add_process(process, process.id());
        let watched = watched.and_then(|()| log_pipes::watch(process.id(), output, &self.poller));
        watched.map_err(|error| {
            // A process whose end would not be noticed must not run.
            process.abandon().err().unwrap_or(error)
        })
    }

    /// Has a log that cannot be written fail its job alone. Output waits while the disk has no room for it,
    /// and with it the end of its job.
    pub(crate) fn isolate_logs(&mut self) {
        self.pipes.set_when_unwritable(WhenUnwritable::FailAttempt);
    }

    /// Creates the log of a silent process. An error counts only where it is one of the run.
    pub(crate) fn create_log(&self, log: &LogFile) -> io::Result<()> {
        self.pipes.or_ignore(log.create())
    }

    /// Returns whether no process is left whose end would free an open file.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Sends SIGTERM to all processes of a job, and kills those that have not ended within `grace`.
    pub(crate) fn ask_to_end(&mut self, job: Job, grace: Duration) -> io::Result<()> {
        self.request_kill(job, KillPlan::ask(grace), Vec::new())
    }

    /// Does the same for what a job has left running; does nothing while its own process runs.
    pub(crate) fn ask_rest_to_end(&mut self, job: Job, grace: Duration) -> io::Result<()> {
        if self.running.has_exited(job) { self.ask_to_end(job, grace) } else { Ok(()) }
    }

    /// Kills all processes of a job.
    pub(crate) fn kill(&mut self, job: Job) -> io::Result<()> {
        self.request_kill(job, KillPlan::kill(), Vec::new())
    }

    /// Stops all processes of a job, unless they are to end.
    pub(crate) fn stop(&mut self, job: Job) -> io::Result<()> {
        match self.tree_of(job)? {
            Some((tree, roots)) => tree::stop(&tree, &roots),
            None => Ok(()),
        }
    }

    /// Lets the processes of a job continue.
    pub(crate) fn resume(&mut self, job: Job) -> io::Result<()> {
        match self.tree_of(job)? {
            Some((tree, roots)) => tree::resume(&tree, &roots),
            None => Ok(()),
        }
    }

    /// Returns what the processes of a job are found by; none if it has ended, or its processes are to end.
    fn tree_of(&self, job: Job) -> io::Result<Option<(ProcessTree, Vec<Process>)>> {
        let running = self.running.get(job).filter(|job| matches!(job.tree, TreeState::Free));
        let Some(running) = running else { return Ok(None) };
        let main = match proc_fs::stat(running.process.id())? {
            Found::Process(process, _) => Some(process),
            Found::Hidden | Found::Nothing => None,
        };
        let group = main.and_then(Process::leads);
        let tree = ProcessTree { group, ..process_tag::tree_of(&running.settings.tag) };
        Ok(Some((tree, main.into_iter().collect())))
    }

    /// Has waits also return when a wake-up is notified.
    pub(crate) fn add_wakeup(&self, wakeup: &impl AsFd) -> io::Result<()> {
        self.poller.add_wakeup(wakeup)
    }

    /// Waits until a job has ended, there is news, a wake-up is notified, or `timeout` has passed.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Woken> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let now = Instant::now();
            let left = until.map(|until| until.saturating_duration_since(now));
            let until_sweep = || self.sweep_at.saturating_duration_since(now);
            let sweep = (!self.running.is_empty()).then(until_sweep);
            let rested = self.pipes.until_rested();
            let events = self.poller.wait([left, sweep, rested].into_iter().flatten().min())?;
            self.pipes.drain_rested(&self.poller)?;
            events.printed.iter().try_for_each(|pid| self.pipes.drain(*pid, &self.poller))?;
            self.running.note_exits(&events.exited);
            let due = left.is_some_and(|left| left.is_zero());
            let over =
                if due || self.is_sweep_due(&events) { self.sweep(&events)? } else { Vec::new() };
            let (log_error, log_full) = (self.pipes.take_error(), self.pipes.take_full());
            let Events { news, wakeup, .. } = events;
            if news || wakeup || due || !over.is_empty() || log_error.is_some() || log_full {
                return Ok(Woken { over, news, wakeup, log_error, log_full });
            }
        }
    }

    /// Returns whether to look for orphans. Output alone is no reason to.
    fn is_sweep_due(&self, events: &Events) -> bool {
        let Events { news, messages, wakeup, exited, .. } = events;
        *news || *messages || *wakeup || !exited.is_empty() || Instant::now() >= self.sweep_at
    }

    /// Kills whatever is left of the run: its jobs, and what earlier ones have left. Processes of other users
    /// cannot be killed; the jobs that have left them were reported as failed.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.pipes.set_when_unwritable(WhenUnwritable::FailRun);
        self.running.ids().into_iter().try_for_each(|job| self.kill(job))?;
        let began = Instant::now();
        loop {
            let Orphaned { orphans, sight } = self.orphans()?;
            let orphans = orphans.iter().filter(|(_, owner)| *owner != Owner::Stranger);
            let killed = orphans.map(|(orphan, _)| tree::signal(orphan, &[Signal::KILL]));
            let dying: Vec<_> =
                killed.filter(|killed| !matches!(killed, Ok(Reach::Out(_)))).collect();
            if self.running.is_empty() && dying.is_empty() && sight == Sight::Complete {
                return Ok(());
            }
            if began.elapsed() > KILL_TIMEOUT * 2 {
                let message = "processes of the run were killed, but have not ended after 20 s";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            for reached in dying {
                if let Ok(Reach::In(process)) = reached {
                    poll(&[&process], Some(KILL_TIMEOUT))?;
                }
            }
            self.wait(Some(Duration::from_millis(10)))?;
        }
    }

    /// Takes in messages, looks for orphans, and returns the jobs that have ended.
    fn sweep(&mut self, events: &Events) -> io::Result<Vec<(Job, Ended)>> {
        let mut over = Vec::new();
        if events.messages {
            for message in self.messages.take() {
                over.extend(self.on_message(message));
            }
        }
        // The kernel reparents the orphans of a process to this one before the end of that process can be
        // seen.
        let orphaned = self.orphans()?;
        self.sweep_at = Instant::now()
            + match orphaned.sight {
                Sight::Complete => SWEEP_INTERVAL,
                Sight::Partial => RETRY_INTERVAL,
            };
        for job in self.running.exited() {
            over.extend(self.on_exited(job, &orphaned)?);
        }
        Ok(over)
    }

    fn on_message(&mut self, message: Message) -> Option<(Job, Ended)> {
        match message {
            Message::Closed(job, ended, logged) => {
                self.pipes.note(logged);
                Some((job, ended))
            }
            Message::Gone(Gone { job, left, signalled }) => {
                let running = self.running.get_mut(job)?;
                if matches!(running.tree, TreeState::Ending(Scope::Rest)) {
                    running.signalled.extend(signalled);
                }
                running.tree = match left.is_empty() {
                    true => TreeState::Free,
                    false => TreeState::Stuck { left },
                };
                None
            }
        }
    }

    /// Concludes a job whose own process has ended, if nothing else is left of it. Otherwise waits for the
    /// rest, also after the reaper has searched: it can miss processes that others start meanwhile.
    fn on_exited(&mut self, job: Job, orphaned: &Orphaned) -> io::Result<Option<(Job, Ended)>> {
        let running = self.running.get_mut(job).expect("a job that has exited is running");
        if let TreeState::Stuck { left } = &mut running.tree {
            left.retain(proc_fs::is_alive);
            if left.is_empty() {
                running.tree = TreeState::Free;
            }
        }
        match &running.tree {
            TreeState::Free => {
                let left = self.running.left_by(job, &orphaned.orphans);
                match (left.is_empty(), orphaned.sight) {
                    (true, Sight::Complete) if self.is_logged(job) => Ok(self.conclude(job, &[])),
                    (true, Sight::Complete) => Ok(None),
                    (true, Sight::Partial) => Ok(None),
                    (false, _) => self.wait_for(job, left).map(|()| None),
                }
            }
            TreeState::Ending(_) => Ok(None),
            TreeState::Stuck { left } => {
                let left = proc_fs::pids_of(left);
                Ok(if self.is_logged(job) { self.conclude(job, &left) } else { None })
            }
        }
    }

    /// Writes the last output of a job that has exited. Returns false if that waits for room; the next search
    /// for orphans tries it again.
    fn is_logged(&mut self, job: Job) -> bool {
        self.running.get(job).is_none_or(|running| self.pipes.complete(running.process.id()))
    }

    fn orphans(&mut self) -> io::Result<Orphaned> {
        let (found, sight) = self.orphans.look()?;
        let orphans = found.iter().map(|o| (o.process, self.running.owner(o, &self.tag))).collect();
        Ok(Orphaned { orphans, sight })
    }

    /// Waits for what a job has left running. However often some of it is found, the time it may take
    /// begins at the end of the job's own process.
    fn wait_for(&mut self, job: Job, left: Vec<Process>) -> io::Result<()> {
        let running = self.running.get(job).expect("its process has ended, and was not reaped");
        let LeftoverPolicy { linger, grace } = running.settings.leftovers;
        let plan = running.plan.unwrap_or_else(|| KillPlan::after(linger, grace));
        if plan.kills_now() {
            // By the time that the reaper has searched, they may have started others and ended.
            for process in &left {
                // One that cannot be signalled is left to the reaper.
                let _ = tree::signal(process, &[Signal::KILL]);
            }
        }
        self.request_kill(job, plan, left)
    }

    /// Has the reaper end all processes of a job, no later than `plan` says. `roots` are known to belong to
    /// the job.
    fn request_kill(
        &mut self,
        job: Job,
        plan: KillPlan,
        mut roots: Vec<Process>,
    ) -> io::Result<()> {
        let exited = self.running.has_exited(job);
        let Some(running) = self.running.get_mut(job) else { return Ok(()) };
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
                let sender = self.sender.clone();
                // There is no receiver any more once the run has ended.
                let reaper = Reaper::start(move |gone| drop(sender.send(Message::Gone(gone))))?;
                self.reaper.insert(reaper)
            }
        };
        let main = match proc_fs::stat(running.process.id())? {
            Found::Process(process, _) => Some(process),
            Found::Hidden | Found::Nothing => None,
        };
        running.tree = TreeState::Ending(if exited { Scope::Rest } else { Scope::Everything });
        roots.extend(main);
        let group = main.and_then(Process::leads);
        let tree = ProcessTree { group, ..process_tag::tree_of(&running.settings.tag) };
        reaper.end(KillRequest { job, tree, roots, plan });
        Ok(())
    }

    /// Reaps the process of a job of which nothing else is left, except the processes `left`, which cannot be
    /// ended. Returns how it ended, unless its log or its outputs take time.
    fn conclude(&mut self, job: Job, left: &[u32]) -> Option<(Job, Ended)> {
        let RunningJob { process, settings, signalled, .. } = self.running.remove(job)?;
        #[cfg(windlass_faults)]
        Point::AfterExit.reached();
        let reaped = pid(process.id()).and_then(|number| reap(number).ok().flatten());
        let mut ended = reaped.unwrap_or(Ended::from(Exit::Code(CANNOT_START)));
        ended.left = signalled;
        let log = self.pipes.remove(process.id()).expect("each process has a log");
        if let Some(why) = log.failure().filter(|_| ended.is_success()) {
            ended.flaw = Some(format!("its log cannot be written: {why}"));
        }
        if !left.is_empty() {
            ended.flaw = Some(format!("processes {left:?} that it has started cannot be ended"));
            ended.unended = left.to_vec();
        }
        if !ended.is_success() {
            // A failure has a log, even an empty one.
            self.pipes.note(log.create());
        }
        let is_written =
            |output: &PathBuf| ended.is_success() && access(output, Permission::EXISTS).is_ok();
        let output = settings.output.filter(is_written);
        let closing = Closing { ended, log, output };
        match closing.takes_time() {
            true => self.close_on_thread(job, closing),
            false => Some((job, closing.close().0)),
        }
    }

    /// Closes a job on a thread of its own, or on this one if no thread can be started.
    fn close_on_thread(&mut self, job: Job, closing: Closing) -> Option<(Job, Ended)> {
        let (sender, moved) = (self.sender.clone(), closing.clone());
        let thread = thread::Builder::new().spawn(move || {
            let (ended, logged) = moved.close();
            // There is no receiver any more if the run has failed meanwhile.
            let _ = sender.send(Message::Closed(job, ended, logged));
        });
        thread.is_err().then(|| {
            let (ended, logged) = closing.close();
            self.pipes.note(logged);
            (job, ended)
        })
    }
}

impl Drop for Processes {
    /// Kills what is left, so that a run that cannot continue leaves nothing running.
    fn drop(&mut self) {
        if self.finish().is_err() {
            // Perhaps the reaper's thread cannot be started. An error cannot be reported from here.
            let _ = tree::kill(&process_tag::tree_of(&self.tag));
        }
    }
}
