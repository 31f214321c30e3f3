//! Fixed bounds, in one place, with the relations between them checked at compile time.
//!
//! What an operator may change is a setting (`config::keys`); what stands here protects the server from its own
//! mistakes and from hostile clients, whatever the settings say.

use std::time::Duration;

/// The longest request head (request line and fields) that is read, in bytes; longer ones are answered 431.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The longest request target, in bytes; longer ones are answered 414.
pub const TARGET_BYTES_MAX: usize = 32 * 1024;

/// The most header fields in one request; more are answered 431.
pub const HEAD_FIELDS_MAX: usize = 128;

/// The empty lines that are skipped before a request line; more are answered 400.
pub const HEAD_EMPTY_LINES_MAX: usize = 4;

/// The chunk extensions in one request body, in bytes; more are answered 400.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 16 * 1024;

/// The trailer section of one request body, in bytes; a longer one is answered 431.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// The most ranges in one request; a field with more is ignored, and the whole is sent.
pub const RANGES_MAX: usize = 64;

/// What an io thread reads from a socket at once, in bytes.
pub const READ_BYTES: usize = 16 * 1024;

/// The part of a request body that is kept in memory, in bytes; a longer body goes to a spool file.
pub const BODY_MEMORY_MAX: usize = 64 * 1024;

/// The part of a reply that waits in memory for a slow reader, in bytes; more goes to a spool file.
pub const REPLY_MEMORY_MAX: usize = 256 * 1024;

/// The longest piece of a reply that waits in memory, in bytes; a longer one goes to a spool file.
pub const REPLY_PIECE_MAX: usize = 4 * 1024 * 1024;

/// What all replies together hold in memory, in bytes, a few KiB of each aside; more goes to spool files. While those have no room either, a
/// worker waits for its reader, and a reply keeps twice [`REPLY_GATHER_MAX`] whatever the others hold: nobody who reads
/// is stopped by those who do not.
pub const REPLIES_MEMORY_MAX: u64 = 128 * 1024 * 1024;

/// The part of a reply that a worker gathers before it hands it over, in bytes, unless the script flushes.
pub const REPLY_GATHER_MAX: usize = 64 * 1024;

/// How much of a file to read ahead when the next part to send is not in the page cache, in bytes.
pub const READ_AHEAD_BYTES: usize = 1024 * 1024;

/// The longest run of a file that is sent in one call, in bytes.
pub const SEND_FILE_BYTES: usize = 256 * 1024;

/// What is read from or written to a disk at once, in bytes.
pub const DISK_SLICE_BYTES: usize = 64 * 1024;

/// The same for a reply that waited on disk, while replies hold all the memory that they may.
pub const TIGHT_SLICE_BYTES: usize = 4 * 1024;

/// The longest static file whose bytes are kept in memory; longer ones are kept as descriptors.
pub const STATIC_MEMORY_FILE_MAX: u64 = 1024 * 1024;

/// What a descriptor of a static file takes of the cache's room, in bytes, unless its share of the room is larger.
pub const STATIC_DESCRIPTOR_BYTES: u64 = 256 * 1024;

/// The most descriptors that the cache of static files keeps.
pub const STATIC_DESCRIPTORS_MAX: u64 = 256;

/// The part of the static cache's room that one file may take, as a divisor.
pub const STATIC_CACHE_SHARE: u64 = 8;

/// How long what the cache says of a file is taken as it is. From then on somebody looks at the disk while the others
/// are still served.
pub const STATIC_FRESH: Duration = Duration::from_secs(1);

/// How long what the cache says of a file is used at all without a look at the disk.
pub const STATIC_STALE: Duration = Duration::from_secs(2);

/// How long a descriptor is kept that nobody asks for: the room of a deleted file is the disk's again after that.
pub const STATIC_DESCRIPTOR_AGE: Duration = Duration::from_secs(10);

/// How often somebody looks for descriptors that nobody asks for.
pub const STATIC_SWEEP_PAUSE: Duration = Duration::from_secs(5);

/// How often a file is read again that changes while it is read.
pub const FILE_READ_TRIES: u32 = 3;

/// The longest static file of which coded copies are made, in bytes; a longer one can have coded neighbours.
pub const CODED_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The stack of a thread that runs PHP, in bytes. Scripts may use 8 MiB of it (`zend.max_allowed_stack_size`); the rest
/// is for what the engine does unchecked, such as freeing deeply nested structures. Only what is touched takes memory.
pub const PHP_STACK_BYTES: usize = 64 * 1024 * 1024;

/// The shortest body that is coded, in bytes: below it the fields that tell of a coding eat up what it saves.
pub const CODED_BYTES_MIN: u64 = 256;

/// What an encoder may look back on, as a power of two of bytes: 256 KiB, more than a page has as a rule. It bounds what
/// one reply holds while it is coded (`compress::encoder` has the figures).
pub const CODING_WINDOW_LOG: u32 = 18;

/// What a client must keep to read a file's copy, as a power of two of bytes: RFC 9659 lets it refuse more than 8 MiB.
pub const CODING_WINDOW_LOG_MAX: u32 = 23;

/// The room that coded bytes are given at once, in bytes.
pub const CODED_STEP_BYTES: usize = 16 * 1024;

/// The longest file that gets the densest copy that Brotli can make, in bytes: it takes a second for each MiB.
pub const DENSEST_BYTES_MAX: usize = 128 * 1024;
/// The longest file of a certificate chain or of a key, in bytes.
pub const TLS_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The sessions that are remembered for clients that resume without a ticket.
pub const TLS_SESSIONS_MAX: usize = 4096;

/// The records that one session holds back while its client reads slowly, in bytes, more or less.
pub const TLS_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// What a TLS port reads first, in bytes: enough for most first records, and to see who speaks no TLS.
pub const TLS_FIRST_BYTES: usize = 1024;

/// How long threads get to end by themselves after the drain deadline has cut their requests off.
pub const THREAD_EXIT_GRACE: Duration = Duration::from_secs(2);

/// The most threads of one kind.
pub const THREADS_MAX: usize = 1024;

/// The least number of workers that a pool lets linger: they take no more work and end with what they carry, while others
/// have taken their places. A larger pool lets as many linger as it may have workers, so that all of them can be replaced
/// while each still has a stream open. Each holds an application's memory, so there is no more room than for one
/// generation; in a small pool, where a generation is soon used up, there is room for a few. Beyond that a worker that
/// wants to be replaced keeps its place until it has ended.
pub const LINGERING_MIN: usize = 4;

/// The most request fibers that one persistent worker carries; with so many it takes no work.
pub const REQUEST_FIBERS_MAX: usize = 256;

/// The most places in the work queue.
pub const QUEUE_CAPACITY_MAX: usize = 1 << 20;

/// Threads that wait for disks.
pub const FILE_THREADS: usize = 2;

/// Descriptors that the server needs besides the ones of its connections: listeners, pollers, spool files, static
/// files in flight, static files that are kept ready, and what scripts open.
pub const DESCRIPTORS_RESERVED: u64 = 512 + STATIC_DESCRIPTORS_MAX;

/// What a connection that ends with unread input is still listened to, in bytes and in time, so that its client can
/// read the answer before it sees the connection break.
pub const LINGER_BYTES_MAX: u64 = 1024 * 1024;

/// The time that belongs to [`LINGER_BYTES_MAX`].
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection that has sent nothing is left open when the server is ending, counted from its arrival: its
/// first request may be on its way.
pub const FIRST_BYTE_GRACE: Duration = Duration::from_secs(1);

/// Connections that are served beyond `MAX_CONNECTIONS` when the server is ending: whoever had connected by then.
pub const LATE_CONNECTIONS_MAX: usize = 8192;

/// What waits in an io thread for a slow client, in bytes, before it stops collecting the reply.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// The streams that one connection of HTTP/2 carries at once.
pub const HTTP2_STREAMS_MAX: u32 = 128;

/// The streams of all connections beside the first one of each: as many as `MAX_CONNECTIONS`, or this if that is less.
/// One more is refused, and its client may ask again. So many streams cost no more memory and descriptors than as many
/// connections.
pub const HTTP2_STREAMS_BESIDE_MIN: usize = 8 * HTTP2_STREAMS_MAX as usize;

/// What waits in an io thread for the client of one HTTP/2 stream, in bytes; the library holds as much again.
pub const HTTP2_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// What a client may send ahead on one HTTP/2 stream, in bytes.
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// What a client may send ahead on all streams of an HTTP/2 connection, in bytes.
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// The longest list of fields that is decoded for one HTTP/2 request, in bytes. Heads between [`HEAD_BYTES_MAX`] and
/// this get their 431 from us and count; longer ones are answered by the library, and count all the same.
pub const HTTP2_HEAD_BYTES_MAX: u32 = 2 * HEAD_BYTES_MAX as u32;

/// Streams that a client may reset before they were looked at; more of them end its connection.
pub const HTTP2_RESETS_UNSEEN_MAX: usize = 32;

/// Streams that a client may call off before their answers were out, beyond those whose answers it took; more of them
/// end its connection. A page that is left at once calls off [`HTTP2_STREAMS_MAX`] of them, and may do so twice.
pub const HTTP2_RESETS_MAX: u32 = 2 * HTTP2_STREAMS_MAX;

/// Frames without content (PING, SETTINGS, empty DATA and the like) that a client may send in a row; more of them end
/// its connection.
pub const HTTP2_IDLE_FRAMES_MAX: u32 = 10_000;

/// The frames without content that one with content stands for: it may move two windows, and more than once.
pub const HTTP2_FRAMES_PER_CONTENT: u32 = 8;

/// What a poller of the main port reports at once.
pub const POLL_EVENTS: usize = 1024;

/// How many steps a connection makes before the other connections of its io thread get their turn.
pub const LINK_STEPS_MAX: u32 = 64;

/// The same for a connection of HTTP/2, each of whose steps serves all its streams that have something to do.
pub const HTTP2_STEPS_MAX: u32 = 8;

/// Records that wait for the log thread; what does not fit is dropped and counted.
pub const LOG_QUEUE_RECORDS: usize = 8192;

/// The longest text in a log record, in bytes; longer ones are cut.
pub const LOG_TEXT_BYTES_MAX: usize = 8 * 1024;

/// How long the log may take to write what is queued when the process ends.
pub const LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the log is silent about a lasting trouble (a full disk, no descriptor left) after a record of it.
pub const TROUBLE_RECORD_PAUSE: Duration = Duration::from_secs(60);

/// How long an io thread trusts what it knows about a script's place on disk.
pub const ROUTE_CACHE_AGE: Duration = Duration::from_secs(1);

/// The paths that an io thread remembers a script for.
pub const ROUTE_CACHE_ENTRIES_MAX: usize = 4096;

/// Connections that the operations port holds at once; for one more, the one that has been waiting longest is closed.
pub const OPS_CONNECTIONS_MAX: usize = 64;

/// How long a connection of the operations port may stay open between requests: longer than usual scrape intervals.
pub const OPS_IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a client of the operations port may take to close after the last answer on its connection.
pub const OPS_LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Steps for one connection of the operations port before the others get their turn. An answer takes two (it is made
/// and it is sent), so this is at most four answers.
pub const OPS_STEPS_PER_TURN: usize = 8;

/// Descriptors that are kept for connections of the operations port when the process has no other left.
pub const OPS_RESERVE_DESCRIPTORS: usize = 4;

/// The sets of the rate limiter's table, of 128 bytes and 16 clients each: a mebibyte for 131,072 clients.
pub const RATE_TABLE_SETS: usize = 8192;

/// The most requests that the rate limiter can be set to allow in a window.
pub const RATE_LIMIT_MAX: u64 = 1_000_000;

/// How far the readings of the clock may be apart with which two threads ask the rate limiter.
pub const RATE_CLOCK_SLACK: Duration = Duration::from_secs(16);

/// The longest file of deny rules, in bytes.
pub const DENY_FILE_BYTES_MAX: usize = 1024 * 1024;

/// The directories above a path that deny rules are asked about before the disk is.
pub const DENY_DEPTH_MAX: usize = 128;

/// The longest path that a file can have below the document root, in bytes: the system's `PATH_MAX`.
pub const FILE_PATH_BYTES_MAX: usize = 4096;

/// The longest page of an error, in bytes.
pub const ERROR_PAGE_BYTES_MAX: usize = 1024 * 1024;

/// What all pages of errors may take, in bytes.
pub const ERROR_PAGES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often the control thread looks at the state of the server.
pub const CONTROL_TICK: Duration = Duration::from_secs(1);

/// The smallest answer of the operations port that is compressed on demand, in bytes.
pub const OPS_GZIP_MIN_BYTES: usize = 1024;

/// The longest request head on the operations port, in bytes; longer ones are answered 431.
pub const OPS_HEAD_BYTES_MAX: usize = 8 * 1024;

/// How long a client of the operations port may take for one request and for reading its answer.
pub const OPS_EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that the system holds for a port until they are accepted, if its own limit (`net.core.somaxconn`) allows:
/// a client that finds no room asks again a second later.
pub const LISTEN_BACKLOG: i32 = 4096;

/// The lowest number that a descriptor of ours gets: `select` in PHP sees numbers below 1024 only.
pub const DESCRIPTOR_MIN: i32 = 1024;

const _: () = assert!(RATE_TABLE_SETS.is_power_of_two(), "bits of a hash choose a set");
const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX, "a legal target must fit into a legal head");
const _: () = assert!(REPLY_GATHER_MAX < REPLY_MEMORY_MAX, "one handed-over part must fit the mailbox");
const _: () = assert!(REPLY_PIECE_MAX as u64 <= REPLIES_MEMORY_MAX / 32, "no reply takes the others' memory");
const _: () = assert!(CODING_WINDOW_LOG <= CODING_WINDOW_LOG_MAX, "pages are readable wherever files are");
const _: () = assert!(CODING_WINDOW_LOG > 16, "Brotli is many times slower in windows of 64 KiB and less");
const _: () = assert!(OPS_HEAD_BYTES_MAX <= HEAD_BYTES_MAX, "the operations port is the stricter one");
const _: () =
    assert!(STATIC_FRESH.as_millis() < STATIC_STALE.as_millis(), "somebody looks before all have to wait");
const _: () =
    assert!(SEND_FILE_BYTES <= OUTPUT_BYTES_MAX, "a run of a file is no more than a client's share");
