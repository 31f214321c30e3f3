//! Files that scripts name in their responses, sent instead of the scripts' bodies.
//!
//! A request whose script no longer exists is handled in the same way: its path is resolved again.
//!
//! The worker is free; a file thread opens the file, which is sent like any static file. Which files may be sent is
//! decided where files are opened, and the content of the response where files are represented.

use std::io;

use svc_core::connection::Decision;
use svc_core::files::{kept, represent_sent};
use svc_core::http::{NamedFile, uri};
use svc_core::observe::Event;
use svc_core::pool::ResponseHead;

use super::meta::RequestMeta;
use super::server_response::ServerResponse;
use crate::disk::file_job::FileJob;
use crate::disk::site::{Named, Ready};
use crate::io_thread::io::Io;

impl RequestMeta {
    /// Orders the file that `head`, the response of the script, names.
    pub(crate) fn order_file(&mut self, io: &mut Io, mut head: ResponseHead) {
        match head.file.take() {
            None | Some(NamedFile::Stored) => {}
            Some(NamedFile::Requested) => {
                let path = self.head().and_then(|head| uri::normalise(head.path_and_query().0).ok());
                // The path is valid: the router has found a script for it.
                let path = path.map(|normalised| normalised.path).unwrap_or_default();
                self.has_lost_script = true;
                if let Some(used) = &self.cache {
                    // Others do not wait until a file is sent.
                    used.abandon_fill();
                }
                io.disk.order(FileJob::Find(io.router.site(), path), self.key);
            }
            Some(named) => {
                self.sends = Some(Box::new(head));
                io.disk.order(FileJob::Name(io.router.site(), named), self.key);
            }
        }
    }

    /// Decides by the file that a file thread has found.
    pub(crate) fn file_opened(&mut self, io: &mut Io, found: io::Result<Named>) -> Option<Decision> {
        let head = *self.sends.take()?;
        let reason = match found {
            Ok(Named::File(ready)) => return Some(self.send_named(io, &ready, head)),
            Ok(Named::Refused { file, reason }) => {
                let id = &self.request_id;
                io.shared.log.emit(&Event::FileRefused { file: &file, reason, request_id: id });
                404
            }
            Err(error) => {
                let what = format!("SENDFILE_ROOTS cannot be read: {error}");
                io.shared.log.emit(&Event::Failure { what: &what });
                503
            }
        };
        Some(ServerResponse::plain(reason).with(&kept(&head.fields)).into_decision())
    }

    fn send_named(&mut self, io: &mut Io, ready: &Ready, mut head: ResponseHead) -> Decision {
        let Some(asked) = self.head() else { return ServerResponse::plain(500).into_decision() };
        let fields = std::mem::take(&mut head.fields);
        let representation =
            represent_sent(&ready.asset, asked, (head.status, fields), || io.ids.new_id().to_string());
        let is_refused = representation.status >= 400 && representation.status != head.status;
        if representation.status != head.status {
            (head.status, head.reason) = (representation.status, None);
        }
        self.send_representation(io, ready, representation, head, is_refused)
    }
}
