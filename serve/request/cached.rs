//! How a request uses the response cache: a lookup in front of the gate, a copy of the response, an invalidation.
//!
//! A stored response is sent on the I/O thread by the code that sends files. A request that follows another one waits
//! outside of the gate, within the same budget. The decisions are made in [`cache`](svc_core::cache); their outcome for a
//! request is in its [`CacheUse`].

use crate::io_thread::io::Io;
use svc_core::admission::{OfferOutcome, ShedReason};
use svc_core::cache::{
    CacheKey, CacheLookup, CacheOutcome, Fill, Follower, Lead, Purge, Query, Release, RequestTraits,
    ResponseCache, StaleReason, StoredEntry, UrlParts, has_cookie, is_forged_by_clients, is_unkeyed,
};
use svc_core::connection::Decision;
use svc_core::http::{Fields, Head, MethodKind};
use svc_core::pool::{Body, Origin, ResponseHead};
use svc_core::sync::primitive::Arc;

use super::cache_status::{CacheStatus, Forwarded};
use super::cache_use::{CacheUse, FollowedFill};
use super::meta::RequestMeta;
use super::server_response::ServerResponse;

/// The conditions that are answered with 304.
const ANSWERED_WITH_304: [&str; 2] = ["if-modified-since", "if-none-match"];

/// The request fields that a validation replaces.
const CONDITIONS: [&str; 6] =
    ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range"];

impl RequestMeta {
    /// Looks up a request for a script in the cache. Returns the decision if the cache answers the request, or makes it wait.
    pub(super) fn ask_cache(
        &mut self,
        io: &mut Io,
        cache: &Arc<ResponseCache>,
        has_body: bool,
    ) -> Option<Decision> {
        let until = self.cache.take().and_then(|used| used.follows.as_ref().and_then(|wait| wait.until));
        let (key, request, may_lead) = match self.lookup(io, cache, has_body) {
            Ok(lookup) => lookup,
            Err(forwarded) => {
                self.cache = Some(CacheUse::new(CacheOutcome::Bypass, forwarded));
                return None;
            }
        };
        let head = self.head()?;
        let is_authorized = request.has_authorization;
        let query = Query { key: &key, head, is_authorized, may_lead, may_follow: false };
        let (notify, stream) = (io.pool.notify(), self.key);
        let (lookup, place) = cache.consult(query, io.now, || Follower::new(notify, stream));
        match lookup {
            CacheLookup::Fresh(entry) => {
                self.cache = Some(CacheUse::new(CacheOutcome::Hit, Forwarded::No));
                Some(self.send_stored(io, &entry, &CacheStatus::hit(&entry, io.now)))
            }
            CacheLookup::Refresh(entry, lead) => {
                if let Some(lead) = lead {
                    self.refresh(io, cache, lead, request);
                }
                self.cache = Some(CacheUse::new(CacheOutcome::Stale, Forwarded::No));
                Some(self.send_stale(io, &entry, StaleReason::Revalidate))
            }
            CacheLookup::Lead(lead) => {
                self.lead(cache, lead, request);
                None
            }
            // Without waiting at the gate, requests do not wait for each other either.
            CacheLookup::Full(stale) if cache.settings.followers_max == 0 => self.pass(stale),
            CacheLookup::Pass(stale) => self.pass(stale),
            CacheLookup::Full(stale) => {
                self.pass(stale);
                Some(self.stale_or_shed(io, ShedReason::WaitingFull))
            }
            CacheLookup::Follow(following) => {
                let (follower, permit) = place?;
                let until = until.or_else(|| io.pool.wait_until());
                let mut used = CacheUse::new(CacheOutcome::Miss, Forwarded::of(following.stale.as_ref()));
                used.stale = following.stale.as_ref().map(Arc::clone);
                let cache = Arc::clone(cache);
                used.follows = Some(FollowedFill { cache, following, follower, until, _place: permit });
                self.cache = Some(used);
                Some(Decision::Await { until })
            }
        }
    }

    /// Returns the key of the request, its traits, and whether its response may be stored.
    ///
    /// # Errors
    ///
    /// The reason why the cache is bypassed.
    fn lookup(
        &self,
        io: &Io,
        cache: &ResponseCache,
        has_body: bool,
    ) -> Result<(CacheKey, RequestTraits, bool), Forwarded> {
        let head = self.head().ok_or(Forwarded::Bypass)?;
        let method = head.method_kind();
        if !matches!(method, MethodKind::Get | MethodKind::Head) {
            return Err(Forwarded::Method);
        }
        let trusts_proxy = io.shared.policy.proxies.trusts(self.endpoints.peer.ip());
        let has_forwarded = trusts_proxy && head.header("forwarded").is_some();
        let (mut is_authorized, mut is_forged) = (false, false);
        for (name, _) in head.headers() {
            if is_unkeyed(name) {
                return Err(Forwarded::Bypass);
            }
            is_authorized |= name.eq_ignore_ascii_case(b"authorization");
            // A trusted proxy that sends `Forwarded` may pass on the other fields as its client sent them.
            let is_vouched = trusts_proxy && (!has_forwarded || name.eq_ignore_ascii_case(b"forwarded"));
            is_forged |= !is_vouched && is_forged_by_clients(name);
        }
        if has_body || has_cookie(head, &cache.settings.bypass_cookies) {
            return Err(Forwarded::Bypass);
        }
        let url = self.url().ok_or(Forwarded::Bypass)?;
        let key = CacheKey::new(url, &cache.settings.ignored_parameters);
        let traits = RequestTraits { has_authorization: is_authorized, is_proxied: trusts_proxy };
        Ok((key, traits, method == MethodKind::Get && !is_forged))
    }

    /// Returns the URL of the request, as the client sent it.
    fn url(&self) -> Option<UrlParts<'_>> {
        let (head, client) = (self.head()?, &self.client_context.client);
        let (path, query) = head.path_and_query();
        let host = client.host.as_deref().or_else(|| head.host()).unwrap_or_default();
        Some(UrlParts { is_https: client.https, host, port: client.port, path, query })
    }

    /// Lets the script of the request run, without a copy of its response.
    fn pass(&mut self, stale: Option<Arc<StoredEntry>>) -> Option<Decision> {
        let mut used = CacheUse::new(CacheOutcome::Miss, Forwarded::of(stale.as_ref()));
        used.stale = stale;
        self.cache = Some(used);
        None
    }

    /// Makes the request receive a response for the cache.
    fn lead(&mut self, cache: &Arc<ResponseCache>, lead: Lead, request: RequestTraits) {
        let stale = lead.stale.as_ref().map(Arc::clone);
        let mut used = CacheUse::new(CacheOutcome::Miss, Forwarded::of(stale.as_ref()));
        let has_conditions = |head: &&Arc<Head>| head.headers().any(|(name, _)| is_among(&CONDITIONS, name));
        let conditional = self.head().filter(has_conditions).map(Arc::clone);
        used.fill = Some(Fill::new(Arc::clone(cache), lead, request, conditional));
        used.stale = stale;
        self.cache = Some(used);
    }

    /// Returns the head for the script: with the validators of the stored response that it may confirm, or without the
    /// conditions that are evaluated here.
    pub(super) fn head_for_script(&self) -> Option<Arc<Head>> {
        let head = self.head()?;
        let used = self.cache.as_ref();
        let Some(fill) = used.and_then(|used| used.fill.as_ref()) else { return Some(Arc::clone(head)) };
        let stale = used.and_then(|used| used.stale.as_ref()).filter(|stale| stale.has_validator());
        Some(match stale {
            Some(stale) => Arc::new(validating(head, stale)),
            None if fill.is_unconditional() => {
                Arc::new(head.revised(|name| is_among(&ANSWERED_WITH_304, name), &[]))
            }
            None => Arc::clone(head),
        })
    }

    /// Starts a request without a client that receives a new response.
    fn refresh(&mut self, io: &mut Io, cache: &Arc<ResponseCache>, lead: Lead, request: RequestTraits) {
        let stale = lead.stale.as_ref().map(Arc::clone);
        let fill = Fill::new(Arc::clone(cache), lead, request, None);
        let (Some(script), Some(head), Some(stale)) = (self.script.clone(), self.head(), stale) else {
            return;
        };
        let head = Arc::new(validating(head, &stale));
        let request_id = io.ids.new_id();
        let request = self.complete_request(head, Body::Empty, script, request_id, Some(fill));
        let exchange = io.pool.exchange(request, self.key, None);
        exchange.begin_without_client();
        match io.pool.offer(exchange) {
            OfferOutcome::Queued => cache.refreshes.incr(),
            // A refresh does not compete with clients for a place. The next request tries again.
            OfferOutcome::Waiting(ticket) => io.pool.leave(Some(ticket)),
            OfferOutcome::Refused(_) => {}
        }
    }

    /// Returns whether the request follows another one.
    pub(crate) fn is_following(&self) -> bool {
        self.cache.as_ref().is_some_and(|used| used.follows.is_some())
    }

    /// Ends the wait for the response to another request. Returns whether it waited.
    pub(super) fn stop_following(&mut self) -> bool {
        self.cache.as_mut().is_some_and(|used| used.follows.take().is_some())
    }

    /// Decides about a request whose wait for the response to another one has ended.
    pub(crate) fn released(&mut self, io: &mut Io) -> Option<Decision> {
        let cache = Arc::clone(io.shared.cache.as_ref()?);
        let wait = self.cache.as_ref()?.follows.as_ref()?;
        let (release, until) = (wait.follower.take_release()?, wait.until);
        match release {
            Release::Entry(entry) if self.is_answered_by(&entry) => {
                self.stop_following();
                self.set_outcome(CacheOutcome::Collapsed, None);
                Some(self.send_stored(io, &entry, &CacheStatus::collapsed()))
            }
            Release::Stale(entry) if self.is_answered_by(&entry) => {
                self.stop_following();
                Some(self.send_stale(io, &entry, StaleReason::Error))
            }
            Release::Gate => {
                self.stop_following();
                self.offer_to_pool(io, Body::Empty, false, until)
            }
            Release::Entry(_) | Release::Stale(_) | Release::Retry => self
                .ask_cache(io, &cache, false)
                .or_else(|| self.offer_to_pool(io, Body::Empty, false, until)),
        }
    }

    /// Returns whether a response that another request has received answers this one, too.
    fn is_answered_by(&self, entry: &StoredEntry) -> bool {
        self.head().is_some_and(|head| {
            entry.is_for(&entry.vary().values_in(head))
                && (entry.serves_authorized() || head.header("authorization").is_none())
        })
    }

    /// Answers a request that is not admitted: with a stale response, where that is allowed.
    pub(super) fn stale_or_shed(&mut self, io: &mut Io, reason: ShedReason) -> Decision {
        self.stale_instead(io, reason).unwrap_or_else(|| self.shed(reason))
    }

    /// Answers a request with a stale response in place of a refusal, where that is allowed.
    pub(super) fn stale_instead(&mut self, io: &mut Io, reason: ShedReason) -> Option<Decision> {
        let used = self.cache.as_ref()?;
        let entry = Arc::clone(used.stale.as_ref()?);
        let why = match reason {
            ShedReason::ShuttingDown => return None,
            ShedReason::PoolUnavailable => StaleReason::Error,
            _ => StaleReason::Overload,
        };
        if !entry.freshness().answers_error(reason.status(), io.now) {
            return None;
        }
        used.abandon_fill();
        Some(self.send_stale(io, &entry, why))
    }

    /// Sends the stored response that replaces the answer of the script.
    pub(crate) fn send_stored_instead(&mut self, io: &mut Io) -> Decision {
        self.send_replacement(io).unwrap_or_else(|| ServerResponse::plain(500).into_decision())
    }

    fn send_replacement(&mut self, io: &mut Io) -> Option<Decision> {
        let replacement = self.cache.as_ref()?.fill.as_ref()?.replacement()?;
        if replacement.outcome == CacheOutcome::Stale {
            return Some(self.send_stale(io, &replacement.entry, StaleReason::Error));
        }
        self.set_outcome(replacement.outcome, None);
        let status = match replacement.outcome {
            CacheOutcome::Revalidated => CacheStatus::revalidated(replacement.status),
            _ => CacheStatus::stored(self.cache.as_ref()?.forwarded),
        };
        Some(self.send_stored(io, &replacement.entry, &status))
    }

    fn send_stale(&mut self, io: &mut Io, entry: &Arc<StoredEntry>, reason: StaleReason) -> Decision {
        self.set_outcome(CacheOutcome::Stale, Some(reason));
        self.send_stored(io, entry, &CacheStatus::stale(entry, reason, io.now))
    }

    fn set_outcome(&mut self, outcome: CacheOutcome, stale_reason: Option<StaleReason>) {
        if let Some(used) = &mut self.cache {
            (used.outcome, used.stale_reason) = (outcome, stale_reason);
        }
    }

    /// Answers the request with a stored response, as a file is sent.
    fn send_stored(&mut self, io: &mut Io, entry: &Arc<StoredEntry>, status: &CacheStatus) -> Decision {
        if let Some(used) = &mut self.cache {
            used.has_cache_status = true;
        }
        let Some(head) = self.head() else { return ServerResponse::plain(500).into_decision() };
        let mut shown = entry.answer(head, || io.ids.new_id().to_string());
        let is_refused = shown.status >= 400 && shown.status != entry.status();
        let origin = if is_refused { Origin::Server } else { Origin::Script };
        let mut head = ResponseHead { status: shown.status, ..ResponseHead::bare(origin) };
        shown.fields.push_own(b"Cache-Status", status.as_bytes());
        if !is_refused {
            let age = itoa::Buffer::new().format(entry.age_seconds(io.now)).to_owned();
            shown.fields.push_own(b"Age", age.as_bytes());
        }
        if shown.status == entry.status() {
            head.reason = entry.reason().map(<[u8]>::to_vec);
        }
        self.send_asset(io, entry.asset(), shown, head, is_refused)
    }

    /// Completes the fields of a response that is sent now, and invalidates what it has changed.
    pub(super) fn complete_cache_fields(
        &mut self,
        cache: &ResponseCache,
        status: u16,
        origin: Origin,
        fields: &mut Fields,
    ) {
        if origin == Origin::Script {
            for name in [&b"svc-cache-control"[..], b"cache-tag", b"surrogate-key"] {
                fields.remove(name);
            }
            self.invalidate(cache, status, fields);
        }
        if let Some(used) = &mut self.cache
            && !std::mem::replace(&mut used.has_cache_status, true)
        {
            let is_stored = used.fill.as_ref().is_some_and(|fill| fill.is_stored());
            if let Some(field) = used.forwarded.field(is_stored) {
                fields.push_own(b"Cache-Status", field.as_bytes());
            }
        }
    }

    /// Removes the stored responses to the URLs that an unsafe request has changed (RFC 9111, section 4.4).
    fn invalidate(&self, cache: &ResponseCache, status: u16, fields: &Fields) {
        let is_safe = self.head().is_none_or(|head| head.method_kind().is_safe());
        if is_safe || !(200..400).contains(&status) {
            return;
        }
        let Some(own) = self.url() else { return };
        let ignored = &cache.settings.ignored_parameters;
        cache.purge(&Purge::Url(CacheKey::new(own, ignored)));
        for name in [&b"location"[..], b"content-location"] {
            let Some(value) = fields.get(name) else { continue };
            let resolved = own.resolve(value);
            let url = UrlParts::parse(&resolved, Some(own));
            if let Some(url) = url.filter(|url| url.is_of_the_host_of(&own)) {
                cache.purge(&Purge::Url(CacheKey::new(url, ignored)));
            }
        }
    }
}

/// Returns the head that validates a stored response, without the conditions and the range of the client.
fn validating(head: &Head, stale: &StoredEntry) -> Head {
    let (tag, modified) = stale.validators();
    let added: Vec<(&str, &[u8])> = [("If-None-Match", tag), ("If-Modified-Since", modified)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    head.revised(|name| is_among(&CONDITIONS, name), &added)
}

fn is_among(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}
