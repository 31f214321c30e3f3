//! A file that is ready to be sent: its bytes or its descriptor, its header fields, and its variants in content
//! codings.
//!
//! Bytes, length and validators belong to one state of the file; if the file changes while it is read, it is read
//! again. A variant is created once and shared by all users of the asset. Compression happens elsewhere, and
//! [`keep`](Asset::keep) stores the result. An asset does not know when it is outdated.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::conditions::Validators;
use super::content_hash;
use super::file_version::{FileVersion, whole_seconds};
use super::media_type::content_type;
use super::resolve::{Opened, StaticFile};
use super::slice::read_slice;
use crate::allocation::{allocated, allocated_shared};
use crate::descriptor;
use crate::http::{Coding, Fields, imf_fixdate};
use crate::limits::{CODED_BYTES_MIN, CODED_FILE_BYTES_MAX, FILE_READ_TRIES};
use crate::sync::primitive::{Arc, AtomicU8, AtomicU64, Ordering};

/// How the files of a site are sent.
#[derive(Clone, Debug)]
pub struct AssetOptions {
    /// The `max-age` of their `Cache-Control`; with zero, the field is not sent.
    pub max_age: Duration,
    /// The codings of compressed copies, in order of preference.
    pub codings: Vec<Coding>,
    /// Whether files of a media type are compressible.
    pub is_compressible: fn(&[u8]) -> bool,
    /// The size of the largest file that is read into memory; for larger files, the descriptor is kept.
    pub memory_file_max: u64,
    /// The maximum size of a file that is hashed without being read into memory.
    pub hashed_file_max: u64,
}

/// A file that is ready to be sent.
#[derive(Debug)]
pub struct Asset {
    pub(super) plain: Variant,
    /// The operator's precompressed files.
    pub(super) neighbours: Vec<Variant>,
    /// Compressed copies created by the server, if the file is suitable.
    pub(super) copies: Option<Copies>,
    pub(super) content_type: &'static str,
    /// Whether every later change to the files changes their stamps.
    pub(super) is_settled: bool,
}

/// One representation of the file.
#[derive(Debug)]
pub struct Variant {
    /// Its coding, if it has one.
    pub coding: Option<Coding>,
    /// Its bytes.
    pub content: Content,
    /// Its length in bytes.
    pub length: u64,
    /// The header fields of a 304 response.
    pub validators: Fields,
    /// The header fields of a 200 response.
    pub fields: Fields,
    pub(super) tag: String,
    /// The state of its file; `None` without a file.
    pub(super) stamp: Option<FileVersion>,
    /// When the file was modified, if its modification time is meaningful.
    pub(super) modified: Option<SystemTime>,
}

/// The memory of a compressed copy beyond its bytes and the fields of the plain variant, in bytes: `Content-Encoding`, and
/// rounding.
const COPY_BYTES: usize = 96;

/// The size of the reference count that the crate `bytes` allocates for shared bytes.
const SHARED_BYTES: usize = 24;

/// The location of a variant's bytes.
#[derive(Clone, Debug)]
pub enum Content {
    /// On disk, accessed through the descriptor that was checked.
    File(Arc<File>),
    /// In memory.
    Memory(Bytes),
}

/// Compressed copies.
#[derive(Debug)]
pub(super) struct Copies {
    /// The codings to choose from, in order of preference.
    codings: Vec<Coding>,
    /// The result for each coding: a copy, or `None` if it is not worth keeping.
    made: [OnceLock<Option<Variant>>; Coding::ALL.len()],
    /// One bit for each coding whose copy is being created.
    ordered: AtomicU8,
    /// The number of bytes that all copies together may still use.
    room: AtomicU64,
}

impl Asset {
    /// Reads a file, or keeps its descriptor if it is large. Accesses the disk.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn load(found: StaticFile, options: &AssetOptions, now: SystemTime) -> io::Result<Self> {
        let content_type = content_type(&found.path);
        let stamp = found.plain.stamp;
        let length = stamp.length;
        let is_codable = found.coded.is_empty()
            && !options.codings.is_empty()
            && (CODED_BYTES_MIN..=CODED_FILE_BYTES_MAX).contains(&length)
            && (options.is_compressible)(content_type.as_bytes());
        let copies = is_codable.then(|| Copies::new(options.codings.clone(), length));
        let varies = is_codable || !found.coded.is_empty();
        let root_modified = found.root_modified;
        let dress = VariantBuilder { content_type, options, varies, root_modified, now };
        let plain = dress.variant(None, found.plain)?;
        // A precompressed file that cannot be read is not offered.
        let neighbours: Vec<_> = found
            .coded
            .into_iter()
            .filter_map(|(coding, opened)| dress.variant(Some(coding), opened).ok())
            .collect();
        let is_settled = std::iter::once(&plain)
            .chain(&neighbours)
            .all(|variant| variant.stamp.is_some_and(|stamp| stamp.is_settled(now)));
        Ok(Self { plain, neighbours, copies, content_type, is_settled })
    }

    /// Returns whether `found` is the state of the files held here.
    pub fn is_of(&self, found: &StaticFile) -> bool {
        let neighbours = self.neighbours.iter().map(|variant| (variant.coding, variant.stamp));
        self.is_settled
            && self.plain.stamp == Some(found.plain.stamp)
            && neighbours.eq(found.coded.iter().map(|(coding, opened)| (Some(*coding), Some(opened.stamp))))
    }

    /// Returns whether a file kept as a descriptor is unchanged. Uses only information that the system has in memory,
    /// so it does not block.
    pub fn is_unchanged(&self) -> bool {
        std::iter::once(&self.plain).chain(&self.neighbours).all(|variant| match &variant.content {
            Content::Memory(_) => true,
            Content::File(file) => variant.stamp.is_some_and(|stamp| stamp.is_still_of(file)),
        })
    }

    /// Returns the uncoded file.
    pub fn plain(&self) -> &Variant {
        &self.plain
    }

    /// Returns the media type as sent in `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// Returns the coded variants that can be sent now, in order of preference.
    pub fn coded(&self) -> impl Iterator<Item = &Variant> {
        let copies = self.copies.iter().flat_map(|copies| {
            copies.codings.iter().filter_map(|coding| copies.made[*coding as usize].get()?.as_ref())
        });
        self.neighbours.iter().chain(copies)
    }

    /// Returns the codings that are available now or once a copy has been created, in order of preference.
    pub fn codings_on_offer(&self) -> impl Iterator<Item = Coding> {
        let copies = self.copies.iter().flat_map(|copies| {
            let is_refused = |coding: Coding| matches!(copies.made[coding as usize].get(), Some(None));
            copies.codings.iter().copied().filter(move |coding| !is_refused(*coding))
        });
        self.neighbours.iter().filter_map(|variant| variant.coding).chain(copies)
    }

    /// Claims the creation of a copy in this coding. Returns false if it has been claimed already.
    pub fn take_order(&self, coding: Coding) -> bool {
        let bit = 1 << coding as u8;
        // Relaxed: only one caller sees the bit unset, and nothing else depends on it.
        self.copies.as_ref().is_some_and(|copies| copies.ordered.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Reads the bytes to create a copy from. Accesses the disk.
    ///
    /// # Errors
    ///
    /// If the disk fails, or the file has changed.
    pub fn bytes_to_code(&self) -> io::Result<Bytes> {
        match &self.plain.content {
            Content::Memory(bytes) => Ok(bytes.clone()),
            Content::File(file) => {
                let bytes = read(file, self.plain.length)?;
                let is_current = self.plain.stamp.is_some_and(|stamp| stamp.is_still_of(file));
                if bytes.len() as u64 != self.plain.length || !is_current {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(bytes.into())
            }
        }
    }

    /// Stores the result of compressing, if all copies together stay smaller than the file. `None` means that there is
    /// no result, and that no further attempt is needed.
    pub fn keep(&self, coding: Coding, coded: Option<Bytes>) {
        let Some(copies) = &self.copies else { return };
        let taken = coded.filter(|coded| copies.take_room(coded.len() as u64));
        let variant = taken.map(|coded| self.copy(coding, coded));
        // Only the caller that claimed this copy stores it.
        let _ = copies.made[coding as usize].set(variant);
    }

    /// Returns the part of the cache's capacity that it accounts for, in bytes: its maximum size.
    pub fn weight(&self) -> u64 {
        let own =
            allocated_shared(size_of::<Self>()) + allocated(self.neighbours.len() * size_of::<Variant>());
        let variants = std::iter::once(&self.plain).chain(&self.neighbours).map(Variant::weight);
        let reserve = |copies: &Copies| {
            let count = copies.codings.len();
            self.plain.length + (count * (COPY_BYTES + self.plain.overhead()) + allocated(count)) as u64
        };
        own as u64 + variants.sum::<u64>() + self.copies.as_ref().map_or(0, reserve)
    }

    /// Returns the number of descriptors it keeps.
    pub fn descriptors(&self) -> u64 {
        let is_file = |variant: &&Variant| matches!(variant.content, Content::File(_));
        std::iter::once(&self.plain).chain(&self.neighbours).filter(is_file).count() as u64
    }

    fn copy(&self, coding: Coding, bytes: Bytes) -> Variant {
        let (mut validators, mut fields) = (self.plain.validators.clone(), self.plain.fields.clone());
        let tag = weakened(&self.plain.tag);
        for fields in [&mut validators, &mut fields].into_iter().filter(|fields| fields.contains(b"etag")) {
            fields.set_own(b"ETag", tag.as_bytes());
        }
        // Two copies may differ in their bytes, so the tag of a copy is weak.
        fields.remove(b"Accept-Ranges");
        fields.set_own(b"Content-Encoding", coding.token().as_bytes());
        fields.shrink_to_fit();
        validators.shrink_to_fit();
        let length = bytes.len() as u64;
        let content = Content::Memory(bytes);
        let (stamp, modified) = (self.plain.stamp, self.plain.modified);
        Variant { coding: Some(coding), content, length, validators, fields, tag, stamp, modified }
    }
}

impl Variant {
    /// Returns the validators of the variant.
    pub fn validators(&self) -> Validators<'_> {
        Validators { tag: self.tag.as_bytes(), modified: self.modified }
    }

    /// Returns whether ranges of it can be sent.
    pub fn has_ranges(&self) -> bool {
        !self.tag.starts_with("W/")
    }

    fn weight(&self) -> u64 {
        let content = match &self.content {
            Content::Memory(bytes) => allocated(bytes.len()),
            Content::File(_) => 0,
        };
        (content + self.overhead()) as u64
    }

    /// Returns the memory of the fields, of those of a 304, and of what the users of the bytes share. The variant itself is
    /// a part of its asset.
    fn overhead(&self) -> usize {
        let shared = allocated(SHARED_BYTES);
        shared + self.fields.memory_bytes() + self.validators.memory_bytes() + allocated(self.tag.capacity())
    }
}

/// Returns the weak form of an entity tag. That of an empty one, which stands for none, matches nothing.
fn weakened(tag: &str) -> String {
    if tag.starts_with("W/") { tag.to_owned() } else { format!("W/{tag}") }
}

impl Copies {
    pub(super) fn new(codings: Vec<Coding>, room: u64) -> Self {
        Self {
            codings,
            made: [const { OnceLock::new() }; Coding::ALL.len()],
            ordered: AtomicU8::new(0),
            room: AtomicU64::new(room),
        }
    }

    fn take_room(&self, bytes: u64) -> bool {
        // Relaxed: a budget that orders nothing.
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(bytes)).is_ok()
    }
}

/// The properties that the variants of a file share.
struct VariantBuilder<'a> {
    content_type: &'static str,
    options: &'a AssetOptions,
    varies: bool,
    root_modified: Option<SystemTime>,
    now: SystemTime,
}

impl VariantBuilder<'_> {
    fn variant(&self, coding: Option<Coding>, opened: Opened) -> io::Result<Variant> {
        let (content, stamp) = content(opened, self.options.memory_file_max)?;
        // A file and its precompressed file may have the same time and length.
        let suffix = coding.map(|coding| format!("-{}", coding.token())).unwrap_or_default();
        let is_dated = stamp.is_dated(self.root_modified);
        let tag = format!("\"{}{suffix}\"", self.tag(&content, &stamp, is_dated));
        // RFC 9110, section 8.8.2.1: a server must not send a Last-Modified later than the response.
        let is_past = whole_seconds(stamp.modified) <= whole_seconds(self.now);
        let modified = Some(stamp.modified).filter(|_| is_dated && is_past);
        let mut validators = Fields::new();
        if let Some(modified) = modified {
            validators.set_own(b"Last-Modified", &imf_fixdate(modified));
        }
        validators.set_own(b"ETag", tag.as_bytes());
        if !self.options.max_age.is_zero() {
            let max_age = format!("max-age={}", self.options.max_age.as_secs());
            validators.set_own(b"Cache-Control", max_age.as_bytes());
        }
        if self.varies {
            validators.set_own(b"Vary", b"Accept-Encoding");
        }
        let mut fields = validators.clone();
        fields.set_own(b"Accept-Ranges", b"bytes");
        fields.set_own(b"Content-Type", self.content_type.as_bytes());
        if let Some(coding) = coding {
            fields.set_own(b"Content-Encoding", coding.token().as_bytes());
        }
        let length = match &content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_) => stamp.length,
        };
        let stamp = Some(stamp);
        Ok(Variant { coding, content, length, validators, fields, tag, stamp, modified })
    }

    /// Returns the entity tag. It is the same on every machine unless that would require reading a large file.
    fn tag(&self, content: &Content, stamp: &FileVersion, is_dated: bool) -> String {
        match content {
            Content::Memory(bytes) => content_hash::of_bytes(bytes),
            Content::File(_) if is_dated && !stamp.is_in_whole_seconds() => stamp.tag(),
            Content::File(file) if stamp.length <= self.options.hashed_file_max => {
                let hash = content_hash::of_file(file, stamp.length).ok();
                hash.filter(|_| stamp.is_still_of(file)).unwrap_or_else(|| stamp.local_tag())
            }
            Content::File(_) if is_dated => stamp.tag(),
            Content::File(_) => stamp.local_tag(),
        }
    }
}

/// Reads a small file together with the stamp of what was read; a large file is not read.
fn content(opened: Opened, memory_max: u64) -> io::Result<(Content, FileVersion)> {
    let Opened { file, mut stamp } = opened;
    if stamp.length > memory_max {
        return Ok((Content::File(Arc::new(descriptor::move_up(file))), stamp));
    }
    for tries_left in (0..FILE_READ_TRIES).rev() {
        let bytes = read(&file, stamp.length)?;
        let after = FileVersion::of(&rustix::fs::fstat(&file)?);
        // A file that changes each time is probably appended to; then the bytes read still match the stamp.
        if after == stamp || tries_left == 0 {
            return Ok((Content::Memory(bytes.into()), stamp));
        }
        stamp = after;
        if stamp.length > memory_max {
            break;
        }
    }
    content(Opened { file, stamp }, memory_max)
}

/// Reads up to `length` bytes; fewer only at the end of the file.
fn read(file: &File, length: u64) -> io::Result<Vec<u8>> {
    read_slice(0, usize::try_from(length).unwrap_or(0), |buf, at| file.read_at(buf, at))
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    fn opened(file: &File) -> Opened {
        Opened { file: file.try_clone().unwrap(), stamp: FileVersion::of(&rustix::fs::fstat(file).unwrap()) }
    }

    fn found(file: &File) -> StaticFile {
        StaticFile {
            path: b"/a.txt".to_vec(),
            elsewhere: None,
            plain: opened(file),
            coded: Vec::new(),
            root_modified: None,
        }
    }

    fn load(found: StaticFile, now: SystemTime) -> Asset {
        let options = AssetOptions {
            max_age: Duration::ZERO,
            codings: Coding::ALL.to_vec(),
            is_compressible: |_| true,
            memory_file_max: 100_000,
            hashed_file_max: 200_000,
        };
        Asset::load(found, &options, now).unwrap()
    }

    fn later() -> SystemTime {
        crate::time::wall() + Duration::from_secs(10)
    }

    #[test]
    fn a_change_is_recognised() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one").unwrap();
        let asset = load(found(&file), later());
        assert!(asset.is_of(&found(&file)));
        file.write_all(b"two").unwrap();
        assert!(!asset.is_of(&found(&file)));
        let mut beside = found(&file);
        beside.coded.push((Coding::Gzip, opened(&file)));
        assert!(!load(found(&file), later()).is_of(&beside), "a neighbour that is new");
    }

    #[test]
    fn a_file_that_changed_a_moment_ago_is_read_again() {
        let file = tempfile::tempfile().unwrap();
        let asset = load(found(&file), crate::time::wall());
        assert!(!asset.is_of(&found(&file)), "the next change might not show");
    }

    #[test]
    fn the_stamp_is_that_of_the_bytes_that_were_read() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"old bytes").unwrap();
        let found = found(&file);
        // It changes after the check and before it is read.
        file.rewind().unwrap();
        file.set_len(0).unwrap();
        file.write_all(b"new").unwrap();
        let asset = load(found, later());
        let Content::Memory(bytes) = &asset.plain().content else { panic!() };
        assert_eq!((&bytes[..], asset.plain().length), (&b"new"[..], 3));
        assert_eq!(asset.plain().stamp, Some(opened(&file).stamp));
    }

    #[test]
    fn a_descriptor_tells_that_its_file_has_changed() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(100_001).unwrap();
        let asset = load(found(&file), later());
        assert!(asset.is_unchanged());
        assert_eq!(asset.bytes_to_code().unwrap().len(), 100_001);
        file.write_all(b"x").unwrap();
        assert!(!asset.is_unchanged());
        assert!(asset.bytes_to_code().is_err());
    }

    #[test]
    fn a_tag_is_a_hash_unless_the_file_is_large_or_its_time_exact() {
        // Keeps the files open: the number of a deleted inode may be reused.
        let objects = std::cell::RefCell::new(Vec::new());
        let tagged_at = |length: usize, last: u8, time: Duration| {
            let mut file = tempfile::tempfile().unwrap();
            objects.borrow_mut().push(file.try_clone().unwrap());
            file.write_all(&vec![b'a'; length - 1]).unwrap();
            file.write_all(&[last]).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
            let asset = load(found(&file), later());
            let (tag, modified) = (asset.plain.tag.clone(), asset.plain.modified);
            assert_eq!(asset.plain.fields.contains(b"last-modified"), modified.is_some());
            (tag, modified.is_some())
        };
        let tagged = |length, last, seconds| tagged_at(length, last, Duration::from_secs(seconds));
        for (length, is_hash) in [(10, true), (100_001, true), (200_001, false)] {
            for seconds in [0, 1] {
                let (tag, is_dated) = tagged(length, b'x', seconds);
                assert!(!is_dated);
                assert_ne!(tag, tagged(length, b'y', seconds).0, "other bytes");
                assert_eq!(tag == tagged(length, b'x', seconds).0, is_hash, "the same bytes, another object");
            }
        }
        let dated = |length, last| tagged(length, last, 1_000_000);
        assert_eq!(dated(10, b'x'), (tagged(10, b'x', 1).0, true));
        assert_eq!(dated(100_001, b'x'), (tagged(100_001, b'x', 1).0, true), "a time without a fraction");
        assert_ne!(dated(100_001, b'x'), dated(100_001, b'y'));
        assert_eq!(dated(200_001, b'x'), dated(200_001, b'y'), "time and length");
        let exact = |last| tagged_at(100_001, last, Duration::from_millis(1_000_000_001));
        assert_eq!(exact(b'x'), exact(b'y'), "time and length");
    }

    #[test]
    fn a_time_in_the_future_is_not_sent() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(200_001).unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_100);
        let after = |milliseconds| now + Duration::from_millis(milliseconds);
        // A date has a resolution of one second.
        for (modified, is_sent) in
            [(now, true), (after(899), true), (after(900), false), (after(9000), false)]
        {
            file.set_modified(modified).unwrap();
            let asset = load(found(&file), now);
            assert_eq!(asset.plain.modified.is_some(), is_sent, "{modified:?}");
            assert_eq!(asset.plain.fields.contains(b"last-modified"), is_sent, "{modified:?}");
            assert_eq!(asset.plain.tag, format!("\"{}\"", opened(&file).stamp.tag()), "{modified:?}");
        }
    }

    #[test]
    fn the_weight_covers_all_that_it_may_come_to_hold() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10_000).unwrap();
        let asset = load(found(&file), later());
        let weight = asset.weight();
        assert!(weight >= 20_000);
        asset.keep(Coding::Brotli, Some(vec![0; 6000].into()));
        asset.keep(Coding::Gzip, Some(vec![0; 6000].into()));
        asset.keep(Coding::Zstd, Some(vec![0; 4000].into()));
        let kept: Vec<_> = asset.coded().map(|variant| (variant.coding, variant.length)).collect();
        assert_eq!(kept, [(Some(Coding::Brotli), 6000), (Some(Coding::Zstd), 4000)]);
        assert_eq!(asset.weight(), weight);
        let held: u64 = std::iter::once(&asset.plain).chain(asset.coded()).map(Variant::weight).sum();
        assert!(held <= weight, "{held} {weight}");
    }
}
