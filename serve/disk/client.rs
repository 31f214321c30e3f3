//! One I/O thread's access to the file threads.

use svc_core::pool::StreamKey;
use svc_core::sync::primitive::Arc;

use super::file_job::{BackgroundJob, FileJob};
use super::threads::{Disk, JobClient};

/// Orders jobs whose results come back to one I/O thread.
#[derive(Clone, Debug)]
pub(crate) struct DiskClient {
    disk: Arc<Disk>,
    client: Arc<dyn JobClient>,
}

impl DiskClient {
    /// Orders from `disk`; results go to `client`.
    pub(crate) fn new(disk: Arc<Disk>, client: Arc<dyn JobClient>) -> Self {
        Self { disk, client }
    }

    /// Orders `job`; its result arrives as a message for the stream with `key`.
    pub(crate) fn order(&self, job: FileJob, key: StreamKey) {
        self.disk.order(job, key, Arc::clone(&self.client));
    }

    /// Orders a job, which has no result.
    pub(crate) fn order_background(&self, job: BackgroundJob) {
        self.disk.order_background(job);
    }
}
