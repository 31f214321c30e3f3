use std::time::Duration;

use bytes::Bytes;

use super::super::key::UrlParts;
use super::super::patterns::NamePatterns;
use super::super::{EntryOptions, FreshnessPolicy, ReceivedAt, ReceivedResponse};
use super::*;
use crate::http::{Fields, HeadLimits, Parsed, parse};
use crate::limits::CACHE_VARIANTS_MAX;
use crate::time;

/// A cache whose followers are numbers, with a simulated clock.
struct Scene {
    part: Partition<u32>,
    now: Instant,
}

fn key(url: &str) -> CacheKey {
    let url = format!("http://h{url}");
    CacheKey::new(UrlParts::parse(url.as_bytes(), None).unwrap(), &NamePatterns::default())
}

fn head(lines: &str) -> Head {
    let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    match parse(text.as_bytes(), HeadLimits::main_port()) {
        Ok(Parsed::Complete { head, .. }) => head,
        other => panic!("{lines}: {other:?}"),
    }
}

impl Scene {
    fn new(bytes: u64) -> Self {
        Self { part: Partition::new(bytes), now: time::now() }
    }

    fn entry(&self, request: &str, lines: &[(&str, &str)], bytes: usize) -> Arc<StoredEntry> {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let options = EntryOptions {
            freshness: FreshnessPolicy::default(),
            codings: Vec::new(),
            is_compressible: |_| false,
        };
        let at = ReceivedAt { now: self.now, wall: time::wall(), delay: Duration::ZERO };
        let body = Bytes::from(vec![b'x'; bytes]);
        let response = ReceivedResponse { status: 200, reason: None, fields, body, at };
        Arc::new(StoredEntry::new(&head(request), response, &options))
    }

    fn ask(&mut self, url: &str, request: &str) -> CacheLookup {
        self.ask_as(url, request, false, true)
    }

    fn ask_as(&mut self, url: &str, request: &str, is_authorized: bool, may_lead: bool) -> CacheLookup {
        let (key, head) = (key(url), head(request));
        let query = Query { key: &key, head: &head, is_authorized, may_lead, may_follow: true };
        self.part.consult(&query, self.now)
    }

    fn lead(&mut self, url: &str, request: &str) -> Lead {
        match self.ask(url, request) {
            CacheLookup::Lead(lead) => lead,
            other => panic!("{url} does not lead: {other:?}"),
        }
    }

    fn follow(&mut self, url: &str, follower: u32) -> Following {
        match self.ask(url, "") {
            CacheLookup::Follow(following) => {
                self.part.follow(&following, follower);
                following
            }
            other => panic!("{url} does not follow: {other:?}"),
        }
    }

    /// Receives and stores a response.
    fn put(&mut self, url: &str, request: &str, lines: &[(&str, &str)], bytes: usize) -> Removed {
        let lead = self.lead(url, request);
        let entry = self.entry(request, lines, bytes);
        let mut removed = Removed::default();
        assert_eq!(self.part.store(&lead, &entry, &mut removed), StoreOutcome::Stored, "{url}");
        self.part.end(&lead, Remembered::Nothing, self.now, &mut removed);
        removed
    }

    fn end(&mut self, lead: &Lead, is_passed: bool) -> Vec<u32> {
        let remembered = if is_passed { Remembered::Unstorable } else { Remembered::Nothing };
        self.part.end(lead, remembered, self.now, &mut Removed::default())
    }

    fn is_fresh(&mut self, url: &str, request: &str) -> bool {
        match self.ask(url, request) {
            CacheLookup::Fresh(_) => true,
            CacheLookup::Lead(lead) => {
                self.end(&lead, false);
                false
            }
            other => panic!("{url}: {other:?}"),
        }
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

const MINUTE: (&str, &str) = ("Cache-Control", "max-age=60");

#[test]
fn one_leads_and_others_follow_until_it_ends() {
    let mut scene = Scene::new(1 << 20);
    let lead = scene.lead("/a", "");
    scene.follow("/a", 1);
    let leaver = scene.follow("/a", 2);
    scene.follow("/a", 3);
    assert_eq!(scene.part.leave(&leaver), Some(2));
    assert_eq!(scene.part.leave(&leaver), None);
    let other = scene.lead("/b", "");
    assert_eq!((scene.part.flights(), scene.part.followers(&lead)), (2, 2));
    let entry = scene.entry("", &[MINUTE], 10);
    assert_eq!(scene.part.store(&lead, &entry, &mut Removed::default()), StoreOutcome::Stored);
    assert_eq!(scene.end(&lead, false), [1, 3]);
    assert!(scene.end(&lead, false).is_empty(), "it ends once");
    assert!(scene.is_fresh("/a", ""));
    assert!(scene.end(&other, false).is_empty());
    assert_eq!(scene.part.flights(), 0);
}

#[test]
fn requests_for_unstorable_responses_do_not_wait_for_ten_seconds() {
    let mut scene = Scene::new(1 << 20);
    let lead = scene.lead("/a", "");
    scene.follow("/a", 1);
    assert_eq!(scene.end(&lead, true), [1]);
    for _ in 0..2 {
        assert!(matches!(scene.ask("/a", ""), CacheLookup::Pass(None)));
    }
    scene.wait(10);
    let lead = scene.lead("/a", "");
    scene.end(&lead, false);
}

#[test]
fn a_stale_response_is_validated_by_one() {
    let mut scene = Scene::new(1 << 20);
    drop(scene.put("/a", "", &[("Cache-Control", "max-age=1"), ("ETag", "\"1\"")], 10));
    scene.wait(2);
    let lead = scene.lead("/a", "");
    assert!(lead.stale.is_some());
    scene.follow("/a", 1);
    assert_eq!(scene.end(&lead, true), [1]);
    assert!(matches!(scene.ask("/a", ""), CacheLookup::Pass(None)), "the stale one is gone");
    assert_eq!(scene.part.entries(), 0);
}

#[test]
fn one_refreshes_while_all_are_answered() {
    let mut scene = Scene::new(1 << 20);
    drop(scene.put("/a", "", &[("Cache-Control", "max-age=1, stale-while-revalidate=9")], 10));
    scene.wait(2);
    let CacheLookup::Refresh(_, Some(lead)) = scene.ask("/a", "") else { panic!() };
    assert!(matches!(scene.ask("/a", ""), CacheLookup::Refresh(_, None)));
    assert!(scene.end(&lead, false).is_empty());
    assert!(matches!(scene.ask("/a", ""), CacheLookup::Refresh(_, Some(_))));
    scene.wait(8);
    assert!(
        matches!(scene.ask("/a", ""), CacheLookup::Follow(_)),
        "the window is over, and one is on its way"
    );
}

#[test]
fn variants_are_chosen_by_the_request() {
    let mut scene = Scene::new(1 << 20);
    let vary = ("Vary", "Foo");
    drop(scene.put("/a", "Foo: 1\r\n", &[MINUTE, vary], 10));
    assert!(
        scene.is_fresh("/a", "Foo: 1\r\n")
            && !scene.is_fresh("/a", "Foo: 2\r\n")
            && !scene.is_fresh("/a", "")
    );
    drop(scene.put("/a", "Foo: 2\r\n", &[MINUTE, vary], 10));
    assert!(scene.is_fresh("/a", "Foo: 1\r\n") && scene.is_fresh("/a", "Foo: 2\r\n"));
    // Two variants are received side by side.
    let (one, other) = (scene.lead("/a", "Foo: 3\r\n"), scene.lead("/a", "Foo: 4\r\n"));
    scene.end(&one, false);
    scene.end(&other, false);
    // A response that varies by something else replaces all.
    drop(scene.put("/a", "Foo: 5\r\n", &[MINUTE], 10));
    assert!(scene.is_fresh("/a", "Foo: 9\r\n"));
    assert_eq!(scene.part.entries(), 1);
}

#[test]
fn variants_are_bounded() {
    let mut scene = Scene::new(64 << 20);
    let mut dropped = 0;
    for number in 0..CACHE_VARIANTS_MAX + 3 {
        dropped +=
            scene.put("/a", &format!("Foo: {number}\r\n"), &[MINUTE, ("Vary", "Foo")], 10).for_variants;
    }
    assert_eq!((scene.part.entries(), dropped), (CACHE_VARIANTS_MAX as u64, 3));
    assert!(!scene.is_fresh("/a", "Foo: 2\r\n") && scene.is_fresh("/a", "Foo: 3\r\n"));
}

#[test]
fn a_purge_removes_the_named_entries() {
    let mut scene = Scene::new(1 << 20);
    let vary = ("Vary", "Foo");
    drop(scene.put("/a", "Foo: 1\r\n", &[MINUTE, vary, ("Cache-Tag", "x, y")], 10));
    drop(scene.put("/a", "Foo: 2\r\n", &[MINUTE, vary, ("Cache-Tag", "y")], 10));
    drop(scene.put("/b", "", &[MINUTE, ("Cache-Tag", "x")], 10));
    drop(scene.put("/c", "", &[MINUTE], 10));
    let purge = |scene: &mut Scene, purge| scene.part.purge(purge, &mut Removed::default());
    assert_eq!(purge(&mut scene, Purge::Tag(CacheTag::new(b"z"))), 0);
    assert_eq!(purge(&mut scene, Purge::Tag(CacheTag::new(b"x"))), 2);
    assert!(!scene.is_fresh("/a", "Foo: 1\r\n") && scene.is_fresh("/a", "Foo: 2\r\n"));
    assert_eq!(purge(&mut scene, Purge::Url(key("/a"))), 1);
    assert_eq!(scene.part.entries(), 1);
    assert_eq!(purge(&mut scene, Purge::All), 1);
    assert_eq!((scene.part.entries(), scene.part.bytes()), (0, 0));
    assert!(scene.part.index.is_empty());
}

#[test]
fn a_purge_prevents_that_responses_being_received_are_stored() {
    let mut scene = Scene::new(1 << 20);
    for (purge, concerns) in [
        (Purge::All, true),
        (Purge::Url(key("/a")), true),
        (Purge::Tag(CacheTag::new(b"x")), true),
        (Purge::Url(key("/b")), false),
        (Purge::Tag(CacheTag::new(b"y")), false),
    ] {
        let lead = scene.lead("/a", "");
        scene.part.purge(purge.clone(), &mut Removed::default());
        let entry = scene.entry("", &[MINUTE, ("Cache-Tag", "x")], 10);
        let expected = if concerns { StoreOutcome::Purged } else { StoreOutcome::Stored };
        assert_eq!(scene.part.store(&lead, &entry, &mut Removed::default()), expected, "{purge:?}");
        scene.end(&lead, false);
        scene.part.purge(Purge::All, &mut Removed::default());
    }
}

#[test]
fn the_capacity_holds_and_a_scan_evicts_no_favourite() {
    let mut scene = Scene::new(1 << 20);
    drop(scene.put("/favourite", "", &[MINUTE, ("Cache-Tag", "x")], 5_000));
    let mut evicted = 0;
    for number in 0..2_000 {
        assert!(scene.is_fresh("/favourite", ""), "after {number}");
        evicted += scene.put(&format!("/{number}"), "", &[MINUTE, ("Cache-Tag", "x")], 5_000).for_room;
        assert!(scene.part.bytes() <= scene.part.capacity());
    }
    assert_eq!(scene.part.entries() + evicted, 2_001);
    assert_eq!(scene.part.index[&CacheTag::new(b"x")].len() as u64, scene.part.entries());
}

#[test]
fn large_responses_are_not_stored() {
    let mut scene = Scene::new(1 << 20);
    let lead = scene.lead("/a", "");
    let entry = scene.entry("", &[MINUTE], 300_000);
    assert_eq!(scene.part.store(&lead, &entry, &mut Removed::default()), StoreOutcome::TooLarge);
}

#[test]
fn authorized_requests_get_only_responses_that_permit_it() {
    let mut scene = Scene::new(1 << 20);
    drop(scene.put("/a", "", &[MINUTE], 10));
    drop(scene.put("/b", "", &[("Cache-Control", "public, max-age=60")], 10));
    let mut ask = |url: &str| {
        let (key, head) = (key(url), head(""));
        let query = Query { key: &key, head: &head, is_authorized: true, may_lead: false, may_follow: true };
        scene.part.consult(&query, scene.now)
    };
    assert!(matches!(ask("/a"), CacheLookup::Pass(None)) && matches!(ask("/b"), CacheLookup::Fresh(_)));
}

#[test]
fn a_request_with_an_unstorable_response_can_wait_for_others() {
    let mut scene = Scene::new(1 << 20);
    assert!(matches!(scene.ask_as("/a", "", false, false), CacheLookup::Pass(None)));
    let lead = scene.lead("/a", "");
    assert!(matches!(scene.ask_as("/a", "", false, false), CacheLookup::Follow(_)));
    scene.end(&lead, false);
    assert_eq!(scene.part.flights(), 0);
}

#[test]
fn unstorable_if_authorized_affects_authorized_requests_only() {
    let mut scene = Scene::new(1 << 20);
    let CacheLookup::Lead(lead) = scene.ask_as("/a", "", true, true) else { panic!("it is empty") };
    let (remembered, now) = (Remembered::UnstorableIfAuthorized, scene.now);
    scene.part.end(&lead, remembered, now, &mut Removed::default());
    assert!(matches!(scene.ask_as("/a", "", true, true), CacheLookup::Pass(None)));
    let lead = scene.lead("/a", "");
    scene.end(&lead, true);
    assert!(matches!(scene.ask("/a", ""), CacheLookup::Pass(None)));
    scene.wait(11);
    drop(scene.put("/a", "", &[MINUTE], 10));
    assert!(matches!(scene.ask_as("/a", "", true, true), CacheLookup::Lead(_)), "the time is over");
}

#[test]
fn a_condition_that_was_answered_is_left_out_for_a_while() {
    let mut scene = Scene::new(1 << 20);
    let conditions = |scene: &mut Scene, url: &str, is_passed: bool| {
        let lead = scene.lead(url, "");
        scene.end(&lead, is_passed);
        lead.conditions
    };
    let answered = |scene: &mut Scene| {
        let (lead, now) = (scene.lead("/a", ""), scene.now);
        scene.part.end(&lead, Remembered::Condition, now, &mut Removed::default());
        lead.conditions
    };
    assert_eq!(answered(&mut scene), ClientConditions::Sent);
    assert_eq!(conditions(&mut scene, "/a", false), ClientConditions::LeftOut);
    assert_eq!(conditions(&mut scene, "/b", false), ClientConditions::Sent);
    scene.wait(601);
    assert_eq!(answered(&mut scene), ClientConditions::Sent);
    assert_eq!(conditions(&mut scene, "/a", true), ClientConditions::LeftOut);
    scene.wait(11);
    assert_eq!(conditions(&mut scene, "/a", false), ClientConditions::Needed, "it was not stored");
    scene.wait(601);
    assert_eq!(conditions(&mut scene, "/a", false), ClientConditions::Sent);
}
