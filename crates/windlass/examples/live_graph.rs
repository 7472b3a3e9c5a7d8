//! A graph that grows while it runs: a crawler.
//!
//! A page is a work. What it links to becomes its children, found under way; it ends after all of
//! them, and holds no slot while it waits for them, so that two slots are enough for any depth. For
//! every page a work to index it is submitted beside the family; the report, submitted at the very
//! beginning, is told to wait for each of them, too.
//!
//! ```sh
//! cargo run -p windlass --example live_graph
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass::{WorkError, WorkHandle, WorkId, WorkScheduler, WorkSpec, WorkState, work_fn};

/// The pages of a site, and where they link to. The links go round in circles.
const SITE: [(&str, &[&str]); 9] = [
    ("/", &["/docs", "/blog", "/about"]),
    ("/docs", &["/docs/guide", "/docs/rules", "/"]),
    ("/docs/guide", &["/docs/guide/retries", "/docs/guide/limits"]),
    ("/docs/guide/retries", &["/docs/rules"]),
    ("/docs/guide/limits", &["/docs/rules", "/docs"]),
    ("/docs/rules", &["/"]),
    ("/blog", &["/blog/hello", "/about"]),
    ("/blog/hello", &["/docs/guide"]),
    ("/about", &["/"]),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut scheduler = WorkScheduler::builder().max_concurrency(2).build()?;
    let crawl = Arc::new(Crawl::default());

    let report = scheduler.submit(report(&crawl))?;
    let root = scheduler.submit(crawl.page("/", report))?;
    scheduler.add_dependency(report, root)?;

    let handle = scheduler.handle();
    let watch = tokio::spawn(async move { watch(&handle, root, report).await });
    let summary = scheduler.run_until_done().await;
    watch.await?;

    let pages = SITE.len();
    println!("{} works in all; two were there at the start", summary.success);
    assert_eq!(summary.success, 2 * pages + 1, "pages, their indexing, and the report");
    assert_eq!(crawl.words.lock().expect("no holder panicked").len(), pages);
    Ok(())
}

/// What all works of a crawl share.
#[derive(Default)]
struct Crawl {
    seen: Mutex<BTreeSet<&'static str>>,
    words: Mutex<BTreeMap<&'static str, usize>>,
}

impl Crawl {
    /// A page: fetches it, and adds those it links to as its children.
    fn page(self: &Arc<Self>, url: &'static str, report: WorkId) -> WorkSpec {
        self.is_new(url);
        let crawl = Arc::clone(self);
        work_fn(url, move |ctx| {
            let crawl = Arc::clone(&crawl);
            async move {
                let links = fetch(url).await?;
                let index = ctx.handle().submit(crawl.index(url))?;
                ctx.handle().add_dependency(report, index)?;
                for link in links.iter().filter(|link| crawl.is_new(link)) {
                    ctx.add_child(crawl.page(link, report))?;
                }
                // It would wait for its children anyway, but this way it can go on after them.
                let children = ctx.join_children().await?;
                println!("    {url} is complete, with {} found on it", children.succeeded);
                Ok(())
            }
        })
    }

    /// A work beside the family: it is not waited for by its page.
    fn index(self: &Arc<Self>, url: &'static str) -> WorkSpec {
        let crawl = Arc::clone(self);
        work_fn(format!("index {url}"), move |_ctx| {
            crawl.words.lock().expect("no holder panicked").insert(url, url.len());
            async { Ok(()) }
        })
    }

    fn is_new(&self, url: &'static str) -> bool {
        self.seen.lock().expect("no holder panicked").insert(url)
    }
}

fn report(crawl: &Arc<Crawl>) -> WorkSpec {
    let crawl = Arc::clone(crawl);
    work_fn("report", move |_ctx| {
        let words = crawl.words.lock().expect("no holder panicked").values().sum::<usize>();
        println!("report: {words} words");
        async { Ok(()) }
    })
}

/// Stands in for a request over the network.
async fn fetch(url: &str) -> Result<&'static [&'static str], WorkError> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    let page = SITE.iter().find(|(page, _)| *page == url);
    page.map(|(_, links)| *links).ok_or_else(|| WorkError::msg("404 Not Found"))
}

/// Prints where things stand, now and then, until the report is there.
async fn watch(handle: &WorkHandle, root: WorkId, report: WorkId) {
    while handle.state(report).is_some_and(|state| !state.is_terminal()) {
        let metrics = handle.metrics();
        println!("{} works known, {} ended", metrics.total, metrics.success);
        for id in [root, report] {
            let work = handle.snapshot_of(id).expect("it is not forgotten");
            println!("    {:8}{}", work.name, work.status());
        }
        tokio::time::sleep(Duration::from_millis(75)).await;
    }
    assert_eq!(handle.state(report), Some(WorkState::Success));
}
