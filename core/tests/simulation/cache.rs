//! The response cache under thousands of random histories, on a simulated clock: requests, responses of all kinds,
//! failures, purges. A model that is smaller than the cache checks what RFC 9111 permits.
//!
//! - A request is answered with a response to its own URL and variant, within the time for which it may be used, and
//!   never with one that a purge has named since its script began.
//! - A variant is received by one request at a time, and every follower is released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use svc_core::cache::{
    CacheKey, CacheLookup, CacheTag, EntryOptions, Following, FreshnessPolicy, Lead, NamePatterns, Partition,
    Purge, Query, ReceivedAt, ReceivedResponse, Remembered, Removed, StoreOutcome, StoredEntry, UrlParts,
};
use svc_core::http::{Fields, Head, HeadLimits, Parsed, parse};
use svc_core::time;
use svc_testing::dice::Dice;

const SEEDS: u64 = 2000;
const STEPS: u64 = 300;
const URLS: u64 = 4;
const COLORS: u64 = 3;
const TAGS: u64 = 3;

/// The URL and the colour of a request.
type Target = (u64, u64);

/// A response that was made, as the model knows it.
#[derive(Clone, Debug)]
struct Made {
    url: u64,
    /// The colour for which it was made, if it varies.
    color: Option<u64>,
    stored_at: Instant,
    fresh: u64,
    refreshing: u64,
    stale: u64,
    is_purged: bool,
}

/// A script that runs.
struct Running {
    lead: Lead,
    target: Target,
    /// The variant that it receives, if variants are known.
    begins_as: Option<Box<[u8]>>,
    /// The tags and URLs that were purged since it began.
    purged: Vec<Purge>,
}

struct World {
    dice: Dice,
    part: Partition<u64>,
    now: Instant,
    made: BTreeMap<u64, Made>,
    tags: BTreeMap<u64, Vec<u64>>,
    running: Vec<Running>,
    followers: BTreeMap<u64, Following>,
    waiting: BTreeSet<u64>,
    numbers: u64,
}

fn key(url: u64) -> CacheKey {
    let url = format!("http://h/{url}");
    CacheKey::new(UrlParts::parse(url.as_bytes(), None).unwrap(), &NamePatterns::default())
}

fn head(color: u64) -> Head {
    let text = format!("GET / HTTP/1.1\r\nHost: h\r\nColor: {color}\r\n\r\n");
    match parse(text.as_bytes(), HeadLimits::main_port()) {
        Ok(Parsed::Complete { head, .. }) => head,
        other => panic!("{other:?}"),
    }
}

fn tag(number: u64) -> CacheTag {
    CacheTag::new(number.to_string().as_bytes())
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            part: Partition::new(if seed.is_multiple_of(3) { 24 << 10 } else { 1 << 20 }),
            now: time::now(),
            made: BTreeMap::new(),
            tags: BTreeMap::new(),
            running: Vec::new(),
            followers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            numbers: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn step(&mut self) {
        match self.dice.below(12) {
            0..=5 => self.ask(),
            6 | 7 => self.finish(),
            8 => self.fail(),
            9 => self.leave(),
            10 => self.purge(),
            _ => self.now += Duration::from_millis(self.dice.below(4000)),
        }
        assert!(self.part.bytes() <= self.part.capacity());
        assert_eq!(self.part.flights(), self.running.len());
    }

    fn ask(&mut self) {
        let target @ (url, color) = (self.dice.below(URLS), self.dice.below(COLORS));
        let (key, head) = (key(url), head(color));
        let may_follow = self.waiting.len() < 5;
        let query = Query { key: &key, head: &head, is_authorized: false, may_lead: true, may_follow };
        match self.part.consult(&query, self.now) {
            CacheLookup::Fresh(entry) => self.check(&entry, target, |made| made.fresh),
            CacheLookup::Refresh(entry, lead) => {
                self.check(&entry, target, |made| made.fresh + made.refreshing);
                if let Some(lead) = lead {
                    self.run(lead, target);
                }
            }
            CacheLookup::Lead(lead) => self.run(lead, target),
            CacheLookup::Follow(following) => {
                let number = self.number();
                self.part.follow(&following, number);
                self.followers.insert(number, following);
                self.waiting.insert(number);
            }
            CacheLookup::Full(stale) => {
                assert!(!may_follow);
                self.check_stale(stale, target);
            }
            CacheLookup::Pass(stale) => self.check_stale(stale, target),
        }
    }

    /// Checks that a stale response would be used within its time only.
    fn check_stale(&self, stale: Option<Arc<StoredEntry>>, target: Target) {
        if let Some(entry) = stale.filter(|entry| entry.freshness().answers_error(503, self.now)) {
            self.check(&entry, target, |made| made.fresh + made.stale);
        }
    }

    /// Checks that a response may answer a request now, within `seconds` of its birth.
    fn check(&self, entry: &StoredEntry, (url, color): Target, seconds: impl Fn(&Made) -> u64) {
        let made = &self.made[&id_of(entry)];
        assert_eq!(made.url, url, "another URL");
        assert!(made.color.is_none_or(|own| own == color), "another variant");
        assert!(!made.is_purged, "a purge has named it");
        let age = self.now.saturating_duration_since(made.stored_at);
        assert!(age < Duration::from_secs(seconds(made)), "{age:?} old: {made:?}");
    }

    fn run(&mut self, lead: Lead, target: Target) {
        // The colour of a URL that varies by it is known once there is a response; before, one request is for all.
        let is_same = |other: &&Running| other.target == target && other.begins_as == lead.variant();
        assert!(!self.running.iter().any(|other| is_same(&other)), "two scripts for {target:?}");
        let begins_as = lead.variant();
        self.running.push(Running { lead, target, begins_as, purged: Vec::new() });
    }

    fn finish(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let place = self.dice.below(self.running.len() as u64) as usize;
        let Running { lead, target: (url, color), purged, .. } = self.running.swap_remove(place);
        let id = self.number();
        let varies = url % 2 == 1;
        let made = Made {
            url,
            color: varies.then_some(color),
            stored_at: self.now,
            fresh: self.dice.below(4),
            refreshing: self.dice.below(3),
            stale: self.dice.below(6),
            is_purged: false,
        };
        let tags: Vec<u64> = (0..TAGS).filter(|_| self.dice.one_in(3)).collect();
        let entry = self.response(id, &made, color, &tags);
        let names_it = |purge: &Purge| match purge {
            Purge::All => true,
            Purge::Url(key) => key == lead.key(),
            Purge::Tag(tag) => entry.tags().contains(tag),
        };
        let is_outdated = purged.iter().any(names_it);
        let mut removed = Removed::default();
        let is_stored = self.part.store(&lead, &entry, &mut removed) == StoreOutcome::Stored;
        assert!(is_stored || is_outdated || self.part.capacity() < 1 << 20, "nothing forbids it");
        assert!(!(is_stored && is_outdated), "a purge came in between");
        self.made.insert(id, made);
        self.tags.insert(id, tags);
        let followers = self.part.end(&lead, Remembered::Nothing, self.now, &mut removed);
        self.release(followers);
    }

    fn response(&self, id: u64, made: &Made, color: u64, tags: &[u64]) -> Arc<StoredEntry> {
        let mut fields = Fields::new();
        let control = format!(
            "max-age={}, stale-while-revalidate={}, stale-if-error={}",
            made.fresh, made.refreshing, made.stale
        );
        fields.push(b"Cache-Control", control.as_bytes()).unwrap();
        fields.push(b"X-Id", id.to_string().as_bytes()).unwrap();
        if made.color.is_some() {
            fields.push(b"Vary", b"Color").unwrap();
        }
        let tags: Vec<String> = tags.iter().map(u64::to_string).collect();
        fields.push(b"Cache-Tag", tags.join(",").as_bytes()).unwrap();
        let options = EntryOptions {
            freshness: FreshnessPolicy::default(),
            codings: Vec::new(),
            is_compressible: |_| false,
        };
        let at = ReceivedAt { now: self.now, wall: time::wall(), delay: Duration::ZERO };
        let body = Bytes::from(vec![b'x'; 100]);
        let response = ReceivedResponse { status: 200, reason: None, fields, body, at };
        Arc::new(StoredEntry::new(&head(color), response, &options))
    }

    fn fail(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let place = self.dice.below(self.running.len() as u64) as usize;
        let Running { lead, .. } = self.running.swap_remove(place);
        let remembered = match self.dice.below(4) {
            0 => Remembered::Unstorable,
            1 => Remembered::UnstorableIfAuthorized,
            2 => Remembered::Condition,
            _ => Remembered::Nothing,
        };
        let followers = self.part.end(&lead, remembered, self.now, &mut Removed::default());
        self.release(followers);
    }

    fn release(&mut self, followers: Vec<u64>) {
        for number in followers {
            assert!(self.waiting.remove(&number), "{number} was released twice");
            self.followers.remove(&number);
        }
    }

    fn leave(&mut self) {
        let Some((&number, _)) = self.followers.iter().next() else { return };
        if let Some(following) = self.followers.remove(&number) {
            assert_eq!(self.part.leave(&following), Some(number));
            assert_eq!(self.part.leave(&following), None);
            self.waiting.remove(&number);
        }
    }

    fn purge(&mut self) {
        let purge = match self.dice.below(8) {
            0 => Purge::All,
            1..=3 => Purge::Url(key(self.dice.below(URLS))),
            _ => Purge::Tag(tag(self.dice.below(TAGS))),
        };
        for (id, made) in &mut self.made {
            made.is_purged |= match &purge {
                Purge::All => true,
                Purge::Url(url) => *url == key(made.url),
                Purge::Tag(name) => self.tags[id].iter().any(|number| tag(*number) == *name),
            };
        }
        self.part.purge(purge.clone(), &mut Removed::default());
        for running in &mut self.running {
            running.purged.push(purge.clone());
        }
    }

    fn finish_all(&mut self) {
        while !self.running.is_empty() {
            self.finish();
        }
        assert!(self.waiting.is_empty(), "{:?} wait for nothing", self.waiting);
        assert_eq!(self.part.flights(), 0);
    }
}

/// Returns the number of a response, which is one of its fields.
fn id_of(entry: &StoredEntry) -> u64 {
    let shown = entry.answer(&head(0), String::new);
    let text = String::from_utf8(shown.fields.get(b"x-id").unwrap().to_vec()).unwrap();
    text.parse().unwrap()
}

#[test]
fn histories_follow_rfc_9111() {
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.finish_all();
        });
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
