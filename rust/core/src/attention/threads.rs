//! The threads that share one model's work.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// A fixed number of threads; clones share them.
#[derive(Debug, Clone)]
pub struct Threads(Arc<ThreadPool>);

impl Threads {
    /// Starts `count` threads; the error says why the system refused.
    pub fn new(count: usize) -> Result<Self, String> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|index| format!("decoder-{index}"))
            .build();
        Ok(Self(Arc::new(pool.map_err(|error| error.to_string())?)))
    }

    /// Runs `work` on these threads, with every parallel iterator in it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.install(work)
    }
}
