//! A stored response: its representation for a request, and its renewal by a validation.
//!
//! Fields that concern one connection, or this cache alone, are not stored (RFC 9111, section 3.1). The bytes are
//! shared by all threads that send them; their content codings are kept with them, even if a validation renews the
//! entry.

use std::time::Instant;

use bytes::Bytes;

use super::directives::{Directives, OWN_FIELD, joined};
use super::freshness::{Freshness, FreshnessPolicy, ReceivedAt};
use super::storable::{permits_authorized, takes_default_ttl};
use super::tag::CacheTag;
use super::vary::VaryNames;
use crate::allocation::{allocated, allocated_shared};
use crate::files::{Asset, Representation, StoredBody, represent_stored};
use crate::http::{Coding, Fields, Head, imf_fixdate};
use crate::sync::primitive::Arc;

/// A complete response of a script.
#[derive(Debug)]
pub struct ReceivedResponse {
    /// The status code.
    pub status: u16,
    /// The reason phrase, if the script has set one.
    pub reason: Option<Vec<u8>>,
    /// The fields as the script has set them.
    pub fields: Fields,
    /// The body, without a content coding of the server.
    pub body: Bytes,
    /// When it was received.
    pub at: ReceivedAt,
}

/// How entries are made.
#[derive(Clone, Debug)]
pub struct EntryOptions {
    /// The operator's times.
    pub freshness: FreshnessPolicy,
    /// The content codings of copies, in order of preference.
    pub codings: Vec<Coding>,
    /// Whether a media type is worth a content coding.
    pub is_compressible: fn(&[u8]) -> bool,
}

/// A stored response.
#[derive(Debug)]
pub struct StoredEntry {
    status: u16,
    reason: Option<Vec<u8>>,
    /// The fields as stored, with their date.
    fields: Fields,
    asset: Arc<Asset>,
    /// The field for this cache alone, which is not among the fields.
    own_directives: Option<Box<[u8]>>,
    freshness: Freshness,
    vary: VaryNames,
    /// The values of the fields that it varies by, in the request that it answered.
    vary_values: Box<[u8]>,
    tags: Box<[CacheTag]>,
    serves_authorized: bool,
}

/// The fields that are never stored: those of a connection, of one proxy, and of this cache.
const UNSTORED: [&[u8]; 8] = [
    b"age",
    b"content-length",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    OWN_FIELD,
    b"cache-tag",
    b"surrogate-key",
];

/// The fields that a validation does not renew (RFC 9111, section 3.2): they describe the stored bytes.
const OF_THE_BYTES: [&[u8]; 4] = [b"content-encoding", b"content-length", b"content-range", b"content-type"];

impl StoredEntry {
    /// Makes the entry of a response to `request`, which may be stored.
    pub fn new(request: &Head, response: ReceivedResponse, options: &EntryOptions) -> Self {
        let ReceivedResponse { status, reason, fields, body, at } = response;
        let vary = VaryNames::of(&fields).unwrap_or_default();
        let vary_values = vary.values_in(request);
        let (freshness, serves_authorized) = Self::read(status, &fields, options, at);
        let tags = CacheTag::all_of(&fields);
        let own_directives = own_directives(&fields);
        let fields = stored_fields(fields, at);
        let asset = Arc::new(Self::make_asset(status, &fields, body, options));
        Self {
            status,
            reason,
            fields,
            asset,
            own_directives,
            freshness,
            vary,
            vary_values,
            tags,
            serves_authorized,
        }
    }

    /// Adds the fields that trusted proxies set to those by which the entry varies.
    #[must_use]
    pub fn for_proxy(self, request: &Head) -> Self {
        let vary = self.vary.with_proxy_fields();
        let vary_values = vary.values_in(request);
        Self { vary, vary_values, ..self }
    }

    /// Returns its fields as a 304 with the fields `renewing` updates them (RFC 9111, section 3.2).
    pub fn updated_fields(&self, renewing: &Fields) -> Fields {
        let mut fields = self.fields.clone();
        let is_update = |name: &[u8]| !OF_THE_BYTES.iter().any(|kept| name.eq_ignore_ascii_case(kept));
        fields.remove(b"date");
        for (name, _) in renewing.iter().filter(|(name, _)| is_update(name)) {
            fields.remove(name);
        }
        for (name, value) in renewing.iter().filter(|(name, _)| is_update(name)) {
            // It was a valid field before.
            let _ = fields.push(name, value);
        }
        if let Some(own) = self.own_directives.as_ref().filter(|_| !renewing.contains(OWN_FIELD)) {
            fields.push_own(OWN_FIELD, own);
        }
        fields
    }

    /// Returns whether a response with these fields varies by the same request fields. If the request came through a
    /// trusted proxy, the fields that proxies set are among them.
    pub fn varies_like(&self, fields: &Fields, is_proxied: bool) -> bool {
        VaryNames::of(fields).is_some_and(|names| {
            self.vary == names.with_proxy_fields() || (!is_proxied && self.vary == names)
        })
    }

    /// Makes the entry that a 304 renews, from the [`updated_fields`](Self::updated_fields).
    pub fn renewed(&self, fields: Fields, options: &EntryOptions, at: ReceivedAt) -> Self {
        let (freshness, serves_authorized) = Self::read(self.status, &fields, options, at);
        // The stored fields name no tags.
        let tags = if fields.contains(b"cache-tag") || fields.contains(b"surrogate-key") {
            CacheTag::all_of(&fields)
        } else {
            self.tags.clone()
        };
        let own_directives = own_directives(&fields);
        let fields = stored_fields(fields, at);
        let asset =
            Self::make_asset(self.status, &fields, self.asset.stored_bytes().unwrap_or_default(), options);
        asset.adopt_copies(&self.asset);
        Self {
            status: self.status,
            reason: self.reason.clone(),
            fields,
            asset: Arc::new(asset),
            own_directives,
            freshness,
            vary: self.vary.clone(),
            vary_values: self.vary_values.clone(),
            tags,
            serves_authorized,
        }
    }

    fn read(status: u16, fields: &Fields, options: &EntryOptions, at: ReceivedAt) -> (Freshness, bool) {
        let directives = Directives::of(fields);
        let is_heuristic = takes_default_ttl(status, &directives);
        let freshness = Freshness::of(fields, &directives, options.freshness, at, is_heuristic);
        (freshness, permits_authorized(&directives))
    }

    fn make_asset(status: u16, fields: &Fields, body: Bytes, options: &EntryOptions) -> Asset {
        Asset::of_response(StoredBody {
            bytes: body,
            fields,
            is_codable: status == 200 || status >= 400,
            codings: &options.codings,
            is_compressible: options.is_compressible,
        })
    }

    /// Determines the response to a request; several parts are separated by `boundary`.
    pub fn answer(&self, request: &Head, boundary: impl FnOnce() -> String) -> Representation {
        represent_stored(&self.asset, request, self.status, boundary)
    }

    /// Returns the bytes and their coded copies.
    pub fn asset(&self) -> &Arc<Asset> {
        &self.asset
    }

    /// Returns the reason phrase, if the script has set one.
    pub fn reason(&self) -> Option<&[u8]> {
        self.reason.as_deref()
    }

    /// Returns the status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns its freshness.
    pub fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// Returns its age, in whole seconds.
    pub fn age_seconds(&self, now: Instant) -> u64 {
        self.freshness.age(now).as_secs()
    }

    /// Returns the fields that it varies by.
    pub fn vary(&self) -> &VaryNames {
        &self.vary
    }

    /// Returns whether it answers a request whose fields have these values.
    pub fn is_for(&self, values: &[u8]) -> bool {
        *self.vary_values == *values
    }

    /// Returns whether both answer the same requests.
    pub fn is_like(&self, other: &Self) -> bool {
        self.vary == other.vary && self.vary_values == other.vary_values
    }

    /// Returns its tags.
    pub fn tags(&self) -> &[CacheTag] {
        &self.tags
    }

    /// Returns whether it may answer a request with `Authorization`.
    pub fn serves_authorized(&self) -> bool {
        self.serves_authorized
    }

    /// Returns its entity tag and its date of modification, to validate it with.
    pub fn validators(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        (self.fields.get(b"etag"), self.fields.get(b"last-modified"))
    }

    /// Returns whether it can be validated.
    pub fn has_validator(&self) -> bool {
        self.validators() != (None, None)
    }

    /// Returns whether it can ever be used.
    pub fn is_useful(&self) -> bool {
        self.freshness.is_useful(self.has_validator())
    }

    /// Returns the memory that it accounts for, in bytes: at most what it holds once its copies are made.
    pub fn weight(&self) -> u64 {
        let tags =
            allocated(size_of_val(&*self.tags)) + self.tags.iter().map(CacheTag::memory_bytes).sum::<usize>();
        let own = allocated_shared(size_of::<Self>()) + self.fields.memory_bytes() + tags;
        let vary = self.vary.memory_bytes() + allocated(self.vary_values.len());
        let reason = self.reason.as_ref().map_or(0, |reason| allocated(reason.capacity()));
        let directives = self.own_directives.as_ref().map_or(0, |directives| allocated(directives.len()));
        self.asset.weight() + (own + vary + reason + directives) as u64
    }
}

/// Returns the field for this cache alone, which a validation keeps unless it has one itself (RFC 9111, section 3.2).
fn own_directives(fields: &Fields) -> Option<Box<[u8]>> {
    joined(fields, OWN_FIELD).map(Vec::into_boxed_slice)
}

/// Removes what is not stored, and adds the date of a response that has none or an invalid one.
fn stored_fields(mut fields: Fields, at: ReceivedAt) -> Fields {
    for name in UNSTORED {
        fields.remove(name);
    }
    if fields.get(b"date").and_then(super::expiry::date).is_none() {
        fields.set_own(b"Date", &imf_fixdate(at.wall));
    }
    fields.shrink_to_fit();
    fields
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
