//! Removing stored responses on behalf of a script.

use svc_core::cache::{CacheKey, CacheTag, Purge, ResponseCache, UrlParts};
use svc_core::pool::CompleteRequest;

use svc_ffi::CachePurge;

/// Removes stored responses; returns their number, or `None` if the script cannot refer to the URL: a path is relative to
/// the host of `request`, which a task does not have.
pub(crate) fn purge(
    cache: Option<&ResponseCache>,
    purge: CachePurge<'_>,
    request: Option<&CompleteRequest>,
) -> Option<u64> {
    let base = request.map(|request| {
        let (path, query) = request.head.path_and_query();
        let (host, port) = &request.asked;
        let host = host.as_deref().or_else(|| request.head.host()).unwrap_or_default();
        UrlParts { is_https: request.https, host, port: *port, path, query }
    });
    let remove = |purge| cache.map_or(0, |cache| cache.purge(&purge));
    Some(match purge {
        CachePurge::All => remove(Purge::All),
        CachePurge::Tags(tags) => tags.iter().map(|tag| remove(Purge::Tag(CacheTag::new(tag)))).sum(),
        CachePurge::Url(url) => {
            let url = UrlParts::parse(url, base)?;
            cache.map_or(0, |cache| {
                cache.purge(&Purge::Url(CacheKey::new(url, &cache.settings.ignored_parameters)))
            })
        }
    })
}
