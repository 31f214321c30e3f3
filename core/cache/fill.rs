//! One response on its way into the cache.
//!
//! The worker that runs the script reports the response to the fill ([`ResponseRecorder`]); the I/O thread of the client reports
//! a request that ends without a worker. The first of these events ends the flight and releases its followers. Dropping
//! the fill ends it, too.
//!
//! ```text
//!   Open ──complete, 304──▶ stored        followers: this response if it is fresh, or anew if a purge came in between
//!    │ ──not storable, too large──▶       followers: run side by side, as do the next ones for ten seconds
//!    │ ──script failed──▶                 followers: the stale response if it may be used, else side by side
//!    │ ──304 to its client's condition──▶ followers: anew; the next one to lead fetches the whole response
//!    └─ ──client left, refused, dropped──▶ followers: anew, so that one of them leads
//! ```

use std::time::Instant;

use bytes::Bytes;

use super::directives::Directives;
use super::entry::{ReceivedResponse, StoredEntry};
use super::freshness::ReceivedAt;
use super::outcome::CacheOutcome;
use super::partition::{ClientConditions, Lead, Remembered};
use super::response_cache::{Release, ResponseCache};
use super::storable::{RequestTraits, Unstorable, check};
use super::tag::CacheTag;
use crate::http::{Fields, Head};
use crate::pool::{Origin, RecordedResponse, Recording, RecordingEnd, ResponseHead, ResponseRecorder};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;
use crate::time;

/// Receives one response for the cache.
#[derive(Debug)]
pub struct Fill {
    cache: Arc<ResponseCache>,
    request: RequestTraits,
    is_unconditional: bool,
    /// The request of the client, if its conditions or its range are evaluated here.
    conditional: Option<Arc<Head>>,
    state: ShortLock<FillState>,
}

#[derive(Debug, Default)]
struct FillState {
    /// The flight; `None` once it has ended.
    lead: Option<Lead>,
    /// When the script began. The age of its response counts from then: a request that waits for a worker has no
    /// response that could age.
    started: Option<Instant>,
    is_stored: bool,
    replacement: Option<Replacement>,
}

/// The stored response that is sent instead of the response of the script.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The response.
    pub entry: Arc<StoredEntry>,
    /// [`Revalidated`](CacheOutcome::Revalidated), [`Stale`](CacheOutcome::Stale) after a failure, or
    /// [`Miss`](CacheOutcome::Miss) for a response that was just stored.
    pub outcome: CacheOutcome,
    /// The status of the script.
    pub status: u16,
}

impl Fill {
    /// Begins to receive the response of `lead`. `conditional`: the request of the client, if it has conditions or a range.
    pub fn new(
        cache: Arc<ResponseCache>,
        lead: Lead,
        request: RequestTraits,
        conditional: Option<Arc<Head>>,
    ) -> Arc<Self> {
        let is_unconditional = lead.conditions == ClientConditions::LeftOut;
        // Otherwise, the script evaluates them.
        let conditional = conditional.filter(|_| is_unconditional || lead.validates());
        let state = FillState { lead: Some(lead), ..FillState::default() };
        Arc::new(Self { cache, request, is_unconditional, conditional, state: ShortLock::new(state) })
    }

    /// Ends the flight without a response, unless it has ended: one of the followers leads the next one.
    pub fn abandon(&self) {
        if let Some(lead) = self.take_lead() {
            self.cache.end(&lead, &Release::Retry, Remembered::Nothing, time::now());
        }
    }

    /// Returns whether its script runs without those conditions of the client that are answered with 304.
    pub fn is_unconditional(&self) -> bool {
        self.is_unconditional
    }

    /// Returns whether the response was stored.
    pub fn is_stored(&self) -> bool {
        self.state.lock().is_stored
    }

    /// Returns the response to send instead of the response of the script, if there is one.
    pub fn replacement(&self) -> Option<Replacement> {
        self.state.lock().replacement.clone()
    }

    fn take_lead(&self) -> Option<Lead> {
        self.state.lock().lead.take()
    }

    fn received_at(&self) -> ReceivedAt {
        let now = time::now();
        let started = self.state.lock().started.unwrap_or(now);
        ReceivedAt { now, wall: time::wall(), delay: now.saturating_duration_since(started) }
    }

    /// Handles a failed script: the stale response answers, where it may.
    fn fail(&self, status: u16) -> Recording {
        let Some(lead) = self.take_lead() else {
            // A worker that has just replaced its response has not sent the replacement yet.
            let is_replaced = self.state.lock().replacement.is_some();
            return if is_replaced { Recording::Replaced } else { Recording::Nothing };
        };
        let now = time::now();
        let stale = lead.stale.as_ref().filter(|entry| entry.freshness().answers_error(status, now));
        let Some(entry) = stale.map(Arc::clone) else {
            self.cache.end(&lead, &Release::Gate, Remembered::Nothing, now);
            return Recording::Nothing;
        };
        let replacement = Replacement { entry: Arc::clone(&entry), outcome: CacheOutcome::Stale, status };
        self.state.lock().replacement = Some(replacement);
        self.cache.end(&lead, &Release::Stale(entry), Remembered::Nothing, now);
        Recording::Replaced
    }

    /// Handles a 304 to a request that validates a stored response.
    fn renew(&self, lead: &Lead, stale: &StoredEntry, head: &ResponseHead) -> Recording {
        let at = self.received_at();
        let fields = stale.updated_fields(&head.fields);
        let is_storable = self.may_renew(stale, &fields);
        let entry = Arc::new(stale.renewed(fields, &self.cache.settings.entries, at));
        let is_stored = is_storable && self.cache.store(lead, &entry, at.now);
        if !is_storable {
            self.cache.end(lead, &Release::Gate, Remembered::Unstorable, at.now);
        }
        let mut state = self.state.lock();
        state.is_stored = is_stored;
        state.replacement = Some(Replacement { entry, outcome: CacheOutcome::Revalidated, status: 304 });
        Recording::Replaced
    }

    /// Returns whether a stored response may still be stored once a 304 has updated its fields to these: the 304 may set
    /// a cookie or forbid sharing. Without a lifetime, the response is stored stale, as it was.
    fn may_renew(&self, stale: &StoredEntry, fields: &Fields) -> bool {
        let directives = Directives::of(fields);
        let verdict = check(self.request, stale.status(), fields, &directives, time::wall(), true);
        matches!(verdict, Ok(()) | Err(Unstorable::NoLifetime))
            && stale.varies_like(fields, self.request.is_proxied)
            && CacheTag::are_bounded(fields)
    }

    /// Decides whether the response may be stored, by its head, as if it had this status.
    fn check(&self, head: &ResponseHead, status: u16) -> Result<(), Unstorable> {
        let options = &self.cache.settings.entries;
        let directives = Directives::of(&head.fields);
        let has_default = !options.freshness.default_ttl.is_zero();
        let is_short =
            head.content_length.is_none_or(|length| length <= self.cache.object_bytes_max() as u64);
        if !is_short || head.file.is_some() || !CacheTag::are_bounded(&head.fields) {
            return Err(Unstorable::TooLarge);
        }
        check(self.request, status, &head.fields, &directives, time::wall(), has_default)
    }

    /// Ends the flight of a response that answers the range or the conditions of its client: others may get a whole one.
    fn end_partial(&self, lead: &Lead, head: &ResponseHead) {
        let hides_storable =
            head.status == 304 && lead.conditions == ClientConditions::Sent && self.check(head, 200).is_ok();
        let (release, remembered) = if hides_storable {
            (Release::Retry, Remembered::Condition)
        } else {
            (Release::Gate, Remembered::Nothing)
        };
        self.cache.end(lead, &release, remembered, time::now());
    }
}

impl ResponseRecorder for Fill {
    fn start(&self) {
        let now = time::now();
        self.state.lock().started.get_or_insert(now);
    }

    fn begin(&self, head: &ResponseHead) -> Recording {
        if head.origin != Origin::Script || head.status >= 500 {
            let can_be_replaced = {
                let state = self.state.lock();
                let stale = state.lead.as_ref().and_then(|lead| lead.stale.as_ref());
                stale.is_some_and(|entry| entry.freshness().answers_error(head.status, time::now()))
            };
            if head.origin != Origin::Script || can_be_replaced {
                return self.fail(head.status);
            }
        }
        if matches!(head.status, 206 | 304 | 412 | 416) {
            let Some(lead) = self.take_lead() else { return Recording::Nothing };
            let validated = lead.stale.as_ref().filter(|entry| head.status == 304 && entry.has_validator());
            if let Some(stale) = validated.map(Arc::clone) {
                return self.renew(&lead, &stale, head);
            }
            self.end_partial(&lead, head);
            return Recording::Nothing;
        }
        match self.check(head, head.status) {
            Ok(()) => return Recording::UpTo(self.cache.object_bytes_max()),
            // An error does not mean that the stored response is outdated.
            Err(_) if head.status >= 500 => self.give_up(RecordingEnd::Failed),
            Err(Unstorable::Authorized) => {
                if let Some(lead) = self.take_lead() {
                    let remembered = Remembered::UnstorableIfAuthorized;
                    self.cache.end(&lead, &Release::Retry, remembered, time::now());
                }
            }
            Err(_) => self.give_up(RecordingEnd::Unstorable),
        }
        Recording::Nothing
    }

    fn complete(&self, request: &Head, response: RecordedResponse) -> bool {
        let Some(lead) = self.take_lead() else { return false };
        let at = self.received_at();
        let RecordedResponse { status, reason, fields, body } = response;
        let received = ReceivedResponse { status, reason, fields, body: Bytes::from(body), at };
        let entry = StoredEntry::new(request, received, &self.cache.settings.entries);
        let entry = Arc::new(if self.request.is_proxied { entry.for_proxy(request) } else { entry });
        if !entry.is_useful() {
            self.cache.end(&lead, &Release::Gate, Remembered::Unstorable, at.now);
            return false;
        }
        let is_stored = self.cache.store(&lead, &entry, at.now);
        let mut state = self.state.lock();
        state.is_stored = is_stored;
        // The script has not seen the conditions of the client.
        let is_replaced = is_stored
            && self.conditional.as_ref().is_some_and(|head| entry.answer(head, String::new).status != status);
        if is_replaced {
            state.replacement = Some(Replacement { entry, outcome: CacheOutcome::Miss, status });
        }
        is_replaced
    }

    fn give_up(&self, end: RecordingEnd) {
        let Some(lead) = self.take_lead() else { return };
        let (release, remembered) = match end {
            RecordingEnd::Unstorable => (Release::Gate, Remembered::Unstorable),
            RecordingEnd::Failed => (Release::Gate, Remembered::Nothing),
            RecordingEnd::ClientLeft => (Release::Retry, Remembered::Nothing),
        };
        self.cache.end(&lead, &release, remembered, time::now());
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.abandon();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::key::{CacheKey, UrlParts};
    use super::super::partition::{CacheLookup, Query};
    use super::super::patterns::NamePatterns;
    use super::super::response_cache::CacheSettings;
    use super::super::{EntryOptions, FreshnessPolicy};
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    fn head() -> Head {
        match parse(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", HeadLimits::main_port()) {
            Ok(Parsed::Complete { head, .. }) => head,
            other => panic!("{other:?}"),
        }
    }

    fn cache() -> Arc<ResponseCache> {
        ResponseCache::new(CacheSettings {
            bytes: 1 << 20,
            object_bytes_max: 1 << 16,
            entries: EntryOptions {
                freshness: FreshnessPolicy::default(),
                codings: Vec::new(),
                is_compressible: |_| false,
            },
            bypass_cookies: NamePatterns::default(),
            ignored_parameters: NamePatterns::default(),
            followers_max: 1,
        })
    }

    fn ask(cache: &ResponseCache) -> CacheLookup {
        let key = CacheKey::new(UrlParts::parse(b"http://h/", None).unwrap(), &NamePatterns::default());
        let head = head();
        let query = Query { key: &key, head: &head, is_authorized: false, may_lead: true, may_follow: true };
        cache.consult(query, time::now(), || panic!("nothing is received")).0
    }

    #[test]
    fn the_age_counts_from_the_beginning_of_the_script() {
        let cache = cache();
        let CacheLookup::Lead(lead) = ask(&cache) else { panic!("it is empty") };
        let fill = Fill::new(Arc::clone(&cache), lead, RequestTraits::default(), None);
        fill.state.lock().started = time::now().checked_sub(Duration::from_secs(30));
        // The script was looked up anew.
        fill.start();
        let mut fields = Fields::new();
        fields.push(b"Cache-Control", b"max-age=3600").unwrap();
        fill.complete(&head(), RecordedResponse { status: 200, reason: None, fields, body: Vec::new() });
        let CacheLookup::Fresh(entry) = ask(&cache) else { panic!("it is stored") };
        assert!((30..1000).contains(&entry.age_seconds(time::now())));
    }
}
