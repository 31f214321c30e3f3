//! One io thread's access to the file threads.

use crate::pool::StreamKey;
use crate::sync::primitive::Arc;

use super::file_job::{BackgroundJob, FileJob};
use super::threads::{Disk, JobClient};

/// Orders jobs whose results come back to one io thread.
#[derive(Clone, Debug)]
pub(in crate::serve) struct DiskClient {
    disk: Arc<Disk>,
    client: Arc<dyn JobClient>,
}

impl DiskClient {
    /// Orders from `disk`; results go to `client`.
    pub(in crate::serve) fn new(disk: Arc<Disk>, client: Arc<dyn JobClient>) -> Self {
        Self { disk, client }
    }

    /// Orders `job`; its result arrives as a message for the stream with `key`.
    pub(in crate::serve) fn order(&self, job: FileJob, key: StreamKey) {
        self.disk.order(job, key, Arc::clone(&self.client));
    }

    /// Orders a job, which has no result.
    pub(in crate::serve) fn order_background(&self, job: BackgroundJob) {
        self.disk.order_background(job);
    }
}
