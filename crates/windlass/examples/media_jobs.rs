//! Jobs of a media service on one machine: two GPUs, four CPUs, and progress as it comes.
//!
//! The upscaling needs both GPUs. While it waits for them, thumbnails pass it, because nothing that
//! they take has refused it. Time is virtual, so the example is quick and always prints the same.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, sleep};
use windlass::streams::{OnError, PrioritySource, ScheduledTask, TaskPoolRunner, TaskProgressKind};
use windlass::{ResourceCapacity, ResourceCost};

type Job = ScheduledTask<u32, String, std::io::Error>;

/// A job that reports how many percent are done.
fn job(name: &'static str, gpus: u32, cpus: u32, takes: Duration) -> Job {
    let job = Job::streaming(name, move |progress| async move {
        for percent in [25, 50, 75] {
            sleep(takes / 4).await;
            progress.send(percent).await;
        }
        sleep(takes / 4).await;
        Ok(format!("{name}.mp4"))
    });
    let cost = [("gpu", gpus), ("cpu", cpus)].into_iter().filter(|(_, n)| *n > 0);
    job.cost(ResourceCost::of(cost).expect("each name once"))
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = ResourceCapacity::new([("gpu", 2), ("cpu", 4)]);
    let jobs = PrioritySource::new();
    jobs.enqueue(job("transcode", 1, 2, Duration::from_secs(40)), 5)?;
    jobs.enqueue(job("upscale", 2, 1, Duration::from_secs(20)), 4)?;
    jobs.enqueue(job("thumbnails", 0, 1, Duration::from_secs(8)), 1)?;
    jobs.enqueue(job("waveform", 0, 1, Duration::from_secs(4)), 1)?;
    jobs.close();

    let began = Instant::now();
    let mut finished = Vec::new();
    let mut run = TaskPoolRunner::new("media", &jobs, &machine).run_tasks(OnError::Stop);
    while let Some(progress) = run.next().await {
        let (at, key) = (began.elapsed().as_secs(), &progress.key);
        match progress.kind {
            TaskProgressKind::Intermediate(percent) => println!("{at:>3} s  {key}: {percent} %"),
            TaskProgressKind::Final(file) => {
                println!("{at:>3} s  {key}: {file}; free now: {}", machine.available());
                finished.push((at, key.to_string()));
            }
            TaskProgressKind::Error(error) => println!("{at:>3} s  {key} failed: {error}"),
        }
    }
    let finished: Vec<_> = finished.iter().map(|(at, key)| (*at, key.as_str())).collect();
    assert_eq!(finished, [(4, "waveform"), (8, "thumbnails"), (40, "transcode"), (60, "upscale")]);
    assert_eq!(machine.available().to_string(), "cpu=4 gpu=2", "everything was given back");
    Ok(())
}
