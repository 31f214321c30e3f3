//! Fixed bounds, in one place, with the relations between them checked at compile time.
//!
//! Whatever an operator may change is a setting (`config::keys`). These bounds protect the server from its own bugs and
//! from hostile clients, regardless of the settings.

use std::time::Duration;

/// The maximum length of a request header (request line and fields), in bytes; beyond it, the status is 431.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The maximum length of a request target, in bytes; beyond it, the status is 414.
pub const TARGET_BYTES_MAX: usize = 32 * 1024;

/// The maximum number of fields in a request header; beyond it, the status is 431.
pub const HEAD_FIELDS_MAX: usize = 128;

/// The longest header of a response from a FastCGI responder.
pub const FASTCGI_HEAD_BYTES_MAX: usize = 256 * 1024;

/// The maximum number of empty lines before a request line; beyond it, the status is 400.
pub const HEAD_EMPTY_LINES_MAX: usize = 4;

/// The maximum length of all chunk extensions in a request body, in bytes; beyond it, the status is 400.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 16 * 1024;

/// The maximum length of the trailer section of a request body, in bytes; beyond it, the status is 431.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// The maximum number of ranges in a request; a field with more is ignored, and the whole representation is sent.
pub const RANGES_MAX: usize = 64;

/// The maximum number of bytes that an I/O thread reads from a socket at once.
pub const READ_BYTES: usize = 16 * 1024;

/// The maximum length of a request body in memory, in bytes; a longer body is written to a spool file.
pub const BODY_MEMORY_MAX: usize = 64 * 1024;

/// The maximum part of a response that waits in memory for a slow client, in bytes; the rest is written to a spool file.
pub const RESPONSE_MEMORY_MAX: usize = 256 * 1024;

/// The maximum length of a piece of a response that waits in memory, in bytes; a longer one is written to a spool file.
pub const RESPONSE_PIECE_MAX: usize = 4 * 1024 * 1024;

/// The memory for all responses together, in bytes, apart from a few KiB of each: output of scripts, file contents, and
/// copies of both in HTTP/2 and TLS. Further output of scripts goes to spool files. If those are full, too, a worker
/// waits for its client. Every response may keep twice [`RESPONSE_GATHER_MAX`], so that clients that do not read cannot
/// block those that do.
pub const REPLIES_MEMORY_MAX: u64 = 128 * 1024 * 1024;

/// The growth of the resident memory from which free memory is returned to the system, in bytes.
pub const MEMORY_PEAK_MIN: u64 = 8 * 1024 * 1024;

/// The number of bytes of a response that a worker collects before it passes them on, unless the script flushes.
pub const RESPONSE_GATHER_MAX: usize = 64 * 1024;

/// The number of bytes to read ahead when the next part of a file is not in the page cache.
pub const READ_AHEAD_BYTES: usize = 1024 * 1024;

/// The number of bytes of a file that are sent with one system call.
pub const SEND_FILE_BYTES: usize = 256 * 1024;

/// The number of bytes that are read from or written to a disk at once.
pub const DISK_SLICE_BYTES: usize = 64 * 1024;

/// The number of bytes of a response on disk that are read at once while the memory for responses is used up.
pub const TIGHT_SLICE_BYTES: usize = 4 * 1024;

/// The number of bytes that HTTP/2 and TLS buffer for a connection while the memory for responses is used up: one frame
/// or record.
pub const TIGHT_OUTPUT_BYTES: usize = 16 * 1024;

/// The maximum number of runs of files that an I/O thread collects for a client. Each needs separate system calls.
pub const OUTPUT_RUNS_MAX: usize = 16;

/// The maximum size of a static file that is cached in memory; larger files are cached as descriptors.
pub const STATIC_MEMORY_FILE_MAX: u64 = 1024 * 1024;

/// The maximum size of a static file that is hashed for its entity tag without being read into memory. Only files without a
/// meaningful modification time are.
pub const HASHED_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The part of the cache's capacity that the descriptor of a static file accounts for, in bytes, unless its share is
/// larger.
pub const STATIC_DESCRIPTOR_BYTES: u64 = 256 * 1024;

/// The maximum number of descriptors in the cache of static files.
pub const STATIC_DESCRIPTORS_MAX: u64 = 256;

/// The part of the static cache's capacity that one file may use, as a divisor.
pub const STATIC_CACHE_SHARE: u64 = 8;

/// The maximum number of fields by which a stored response of a script may vary.
pub const CACHE_VARY_NAMES_MAX: usize = 16;

/// The maximum number of stored responses to one URL, for requests that differ in the fields that they vary by.
pub const CACHE_VARIANTS_MAX: usize = 64;

/// The maximum number of tags of a stored response.
pub const CACHE_TAGS_MAX: usize = 256;

/// The maximum length of such a tag, in bytes.
pub const CACHE_TAG_BYTES_MAX: usize = 1024;

/// How long the response cache remembers that the response to a URL is not stored, so that further requests for it do
/// not wait for one another.
pub const CACHE_PASS_TIME: Duration = Duration::from_secs(10);

/// How long the response cache remembers that a script has answered a condition of a client with a 304 whose 200 may be
/// stored, so that the next request for the URL fetches that, or that it could then not be stored.
pub const CACHE_CONDITION_TIME: Duration = Duration::from_secs(600);

/// The maximum number of URLs that one part of the response cache remembers for each of these reasons.
pub const CACHE_RECENT_KEYS_MAX: u64 = 16 * 1024;

/// The capacity of a part for which it remembers one of them, in bytes.
pub const CACHE_BYTES_PER_RECENT_KEY: u64 = 8 * 1024;

/// The number of purges that one part of the response cache remembers for responses that are being received.
pub const CACHE_PURGES_MAX: usize = 1024;

/// The maximum number of parts of the response cache; each has a lock and a share of the capacity.
pub const CACHE_PARTS_MAX: u64 = 16;

/// The minimum capacity of a part, in bytes; a smaller cache has only one.
pub const CACHE_PART_BYTES_MIN: u64 = 16 * 1024 * 1024;

/// The part of a part's capacity that one response may use, as a divisor.
pub const CACHE_SHARE: u64 = 4;

/// How long a cached file is fresh. After that, one request starts a check of the disk while others are still served.
pub const STATIC_FRESH: Duration = Duration::from_secs(1);

/// The maximum time for which a cached file is served without a check of the disk.
pub const STATIC_STALE: Duration = Duration::from_secs(2);

/// How long an unused descriptor is kept; the disk space of a deleted file is free only after that.
pub const STATIC_DESCRIPTOR_AGE: Duration = Duration::from_secs(10);

/// How often unused descriptors are closed.
pub const STATIC_SWEEP_PAUSE: Duration = Duration::from_secs(5);

/// The maximum number of attempts to read a file that changes during the read.
pub const FILE_READ_TRIES: u32 = 3;

/// The maximum size of a static file that the server compresses, in bytes; larger ones can have precompressed files.
pub const CODED_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The maximum number of spans created by the script of a request, or by a task; further ones are not recorded.
pub const SCRIPT_SPANS_MAX: usize = 10_000;

/// The maximum number of these spans that may be open at the same time.
pub const SCRIPT_SPANS_OPEN_MAX: usize = 256;

/// The maximum length of a text, or of a list, that a script sets on a span, in bytes; longer ones are truncated.
pub const SPAN_TEXT_BYTES_MAX: usize = 16 * 1024;

/// The maximum length of all data that a script sets on a span, in bytes; the rest is dropped and counted.
pub const SPAN_BYTES_MAX: usize = 64 * 1024;

/// The maximum capacity of a span's buffer that is kept for reuse, in bytes.
pub const SPAN_BUFFER_KEPT_MAX: usize = 4 * 1024;

/// The stack of a thread that runs PHP, in bytes. Scripts may use 8 MiB of it (`zend.max_allowed_stack_size`); the rest
/// is for recursion that the engine does not check, such as freeing deeply nested structures. Only touched pages use
/// memory.
pub const PHP_STACK_BYTES: usize = 64 * 1024 * 1024;

/// The minimum length of a body that is compressed, in bytes: below it, the additional fields outweigh the savings.
pub const CODED_BYTES_MIN: u64 = 256;

/// The window of an encoder, as a power of two in bytes: 256 KiB, more than most pages. It bounds the memory for one
/// response while it is compressed (`compress::encoder` has the figures).
pub const CODING_WINDOW_LOG: u32 = 18;

/// The window for compressed copies of files, as a power of two in bytes: RFC 9659 lets clients refuse more than 8 MiB.
pub const CODING_WINDOW_LOG_MAX: u32 = 23;

/// The growth step of an encoder's output buffer, in bytes.
pub const CODED_STEP_BYTES: usize = 16 * 1024;

/// The maximum size of a file that is compressed with Brotli's highest level, in bytes: it takes a second per MiB.
pub const DENSEST_BYTES_MAX: usize = 128 * 1024;
/// The maximum size of a certificate or key file, in bytes.
pub const TLS_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The number of TLS sessions that are cached for clients that resume without a ticket.
pub const TLS_SESSIONS_MAX: usize = 4096;

/// The approximate size of the TLS records that wait for a slow client, in bytes.
pub const TLS_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// The size of the first read on a TLS port, in bytes: enough for most first records, and to detect other protocols.
pub const TLS_FIRST_BYTES: usize = 1024;

/// How long threads may take to end after the drain deadline has aborted their requests.
pub const THREAD_EXIT_GRACE: Duration = Duration::from_secs(2);

/// The maximum number of threads of one kind.
pub const THREADS_MAX: usize = 1024;

/// The minimum number of workers that may linger: they take no more work and end with their current requests, while
/// others have replaced them. In a larger pool, as many may linger as it has workers, so that all can be replaced while
/// each still has a stream open. Each holds the memory of an application, so no more than one generation may linger; a
/// small pool, whose generation is soon used up, may have a few more. Beyond that, a worker to be replaced keeps its
/// slot until it has ended.
pub const LINGERING_MIN: usize = 4;

/// The maximum number of request fibers of a persistent worker; with that many, it takes no work.
pub const REQUEST_FIBERS_MAX: usize = 256;

/// The maximum capacity of the work queue.
pub const QUEUE_CAPACITY_MAX: usize = 1 << 20;

/// The number of threads that wait for disks.
pub const FILE_THREADS: usize = 2;

/// The maximum number of helper threads, which run calls that would block the threads of requests. They mostly wait for
/// other hosts, above all for name resolution, so their number does not depend on that of processors.
pub const HELPER_THREADS_MAX: usize = 32;

/// The maximum number of jobs that wait for a helper thread; beyond it, a request blocks its thread.
pub const HELPER_QUEUE_MAX: usize = REQUEST_FIBERS_MAX;

/// How long a helper thread must be unneeded before it ends.
pub const HELPER_IDLE: Duration = Duration::from_secs(10);

/// Descriptors that the server needs in addition to those of its connections: listeners, pollers, spool files, static
/// files being sent or cached, and files opened by scripts.
pub const DESCRIPTORS_RESERVED: u64 = 512 + STATIC_DESCRIPTORS_MAX;

/// Returns the number of descriptors that `max_connections` connections and the rest of the server need. If all fit below
/// [`DESCRIPTOR_MIN`], every number is in the range that PHP's `select` supports, and none needs to be left to PHP.
pub const fn descriptors_needed(max_connections: u64) -> u64 {
    let used = max_connections + DESCRIPTORS_RESERVED;
    let low = DESCRIPTOR_MIN.unsigned_abs() as u64;
    if used <= low { used } else { low + used }
}

/// Returns the maximum number of connections for which this many descriptors suffice.
pub const fn connections_within(descriptors: u64) -> u64 {
    let low = DESCRIPTOR_MIN.unsigned_abs() as u64;
    let below = if descriptors < low { descriptors } else { low }.saturating_sub(DESCRIPTORS_RESERVED);
    let above = descriptors.saturating_sub(low + DESCRIPTORS_RESERVED);
    if above > below { above } else { below }
}

/// The maximum size of a file of variables, in bytes.
pub const ENV_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The number of input bytes that are still read from a connection that ends with unread input, so that its client can
/// read the response before the connection is reset.
pub const LINGER_BYTES_MAX: u64 = 1024 * 1024;

/// How long such input is read; see [`LINGER_BYTES_MAX`].
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection that has sent no data stays open during the drain, measured from its arrival: its first
/// request may be on its way.
pub const FIRST_BYTE_GRACE: Duration = Duration::from_secs(1);

/// The number of connections served in addition to `MAX_CONNECTIONS` during the drain: those in the backlog at its start.
pub const LATE_CONNECTIONS_MAX: usize = 8192;

/// The number of bytes of a response that an I/O thread collects for a slow client.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// The maximum number of concurrent streams on an HTTP/2 connection.
pub const HTTP2_STREAMS_MAX: u32 = 128;

/// The lower bound of the limit on streams of all connections, not counting the first one of each: the limit is
/// `MAX_CONNECTIONS` if that is greater. Further streams are refused, and their clients may retry. Streams thus cost no
/// more memory and descriptors than connections.
pub const HTTP2_STREAMS_BESIDE_MIN: usize = 8 * HTTP2_STREAMS_MAX as usize;

/// The number of bytes of a response that an I/O thread collects for an HTTP/2 stream.
pub const HTTP2_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// The maximum number of response bytes in flight on an HTTP/2 connection: read from files, in the library, or in the
/// output of the connection. Beyond it, streams wait until the client has read some.
pub const HTTP2_UNSENT_BYTES_MAX: usize = OUTPUT_BYTES_MAX;

/// The initial receive window of an HTTP/2 connection, in bytes.
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// The maximum receive window of an HTTP/2 connection, in bytes: 1.3 Gbit/s at a round-trip time of 100 ms. It is also the
/// window of each stream: only the one of the connection limits a client, because a larger one needs no new settings, which
/// the client would have to acknowledge first.
pub const HTTP2_WINDOW_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The number of bytes by which a permit enlarges the receive window of a connection.
pub const HTTP2_WINDOW_PERMIT_BYTES: u32 = 1024 * 1024;

/// The number of these permits: together, they bound the unread request bodies of all HTTP/2 clients beyond the initial
/// windows.
pub const HTTP2_WINDOW_PERMITS: usize = 64;

/// The maximum length of the decoded fields of an HTTP/2 request, in bytes. The server answers longer headers than
/// [`HEAD_BYTES_MAX`] with 431; the library answers those beyond this limit. Both are counted.
pub const HTTP2_HEAD_BYTES_MAX: u32 = 2 * HEAD_BYTES_MAX as u32;

/// The maximum number of streams that a client may reset before the server has seen them; more end the connection.
pub const HTTP2_RESETS_UNSEEN_MAX: usize = 32;

/// The number of streams that a client may cancel before their responses were sent, in addition to the number of responses
/// that it received; more end the connection. A browser that leaves a page cancels up to [`HTTP2_STREAMS_MAX`] streams,
/// and may do so twice.
pub const HTTP2_RESETS_MAX: u32 = 2 * HTTP2_STREAMS_MAX;

/// The maximum number of successive frames without content (PING, SETTINGS, empty DATA and the like) from a client; more
/// end the connection.
pub const HTTP2_IDLE_FRAMES_MAX: u32 = 10_000;

/// The number of frames without content that each frame with content allows: it may cause several updates of two
/// windows.
pub const HTTP2_FRAMES_PER_CONTENT: u32 = 8;

/// The maximum number of events that a poller of the main port reports at once.
pub const POLL_EVENTS: usize = 1024;

/// The number of steps a connection may take before the other connections of its I/O thread get their turn. Each write,
/// and each [`STEP_BYTES`] of written data, counts as a step: a turn sends about half a mebibyte.
pub const LINK_STEPS_MAX: u32 = 64;

/// The number of bytes whose sending counts as a step.
pub const STEP_BYTES: usize = 16 * 1024;

/// The maximum number of steps of all streams in a turn of an HTTP/2 connection.
pub const HTTP2_STEPS_MAX: u32 = 512;

/// The number of stream steps that a write on an HTTP/2 connection, and each [`STEP_BYTES`] of it, counts for.
pub const HTTP2_WRITE_STEPS: u32 = HTTP2_STEPS_MAX / LINK_STEPS_MAX;

/// The maximum number of records that wait for the log thread; further ones are dropped and counted.
pub const LOG_QUEUE_RECORDS: usize = 8192;

/// The maximum length of a text in a log record, in bytes; longer ones are truncated.
pub const LOG_TEXT_BYTES_MAX: usize = 8 * 1024;

/// The timeout for writing the log's queue when the process ends.
pub const LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The minimum time between two records about a persistent problem (a full disk, no descriptors left).
pub const TROUBLE_RECORD_PAUSE: Duration = Duration::from_secs(60);

/// How long an I/O thread caches the location of a script on the disk.
pub const ROUTE_CACHE_AGE: Duration = Duration::from_secs(1);

/// The maximum number of paths for which an I/O thread caches scripts.
pub const ROUTE_CACHE_ENTRIES_MAX: usize = 4096;

/// The maximum number of plugins.
pub const PLUGINS_MAX: usize = 32;

/// The maximum length of a plugin's name, in bytes.
pub const PLUGIN_NAME_BYTES_MAX: usize = 32;

/// How long the start of the server waits for the initialisation of a plugin.
pub const PLUGIN_INIT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a callback of a plugin may take before the plugin counts as degraded, and its pages are answered with 503.
pub const PLUGIN_LATE_AFTER: Duration = Duration::from_secs(5);

/// How long a callback of a plugin may take before the plugin counts as failed.
pub const PLUGIN_FAILED_AFTER: Duration = Duration::from_secs(60);

/// The stack of a plugin's thread, in bytes: the usual size for C code.
pub const PLUGIN_STACK_BYTES: usize = 8 * 1024 * 1024;

/// The maximum length of a plugin's part of the configuration report, in bytes.
pub const PLUGIN_CONFIG_BYTES_MAX: usize = 64 * 1024;

/// The maximum nesting of objects and arrays in it. Clients that read the report have limits of 128 levels and more.
pub const PLUGIN_CONFIG_DEPTH_MAX: usize = 64;

/// The maximum length of the body of a plugin's page, in bytes.
pub const PLUGIN_PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The maximum number of requests for pages that wait for a plugin; further ones are answered with 503.
pub const PLUGIN_REQUESTS_MAX: usize = 16;

/// How long a request waits for a plugin's page before it is answered with 503, if the plugin is busy with others.
pub const PLUGIN_PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum length of all texts of a plugin's metrics together, in bytes.
pub const PLUGIN_METRICS_BYTES_MAX: usize = 256 * 1024;

/// The maximum number of labels of a series of a plugin.
pub const PLUGIN_LABELS_MAX: usize = 16;

/// The maximum number of ended requests that wait for a plugin; further ones are dropped and counted.
pub const PLUGIN_FACTS_MAX: usize = 4096;

/// The maximum number of connections to the operations port; for another one, the one idle for longest is closed.
pub const OPS_CONNECTIONS_MAX: usize = 64;

/// How long a connection to the operations port stays open between requests: longer than usual scrape intervals.
pub const OPS_IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a client of the operations port may take to close its connection after the last response.
pub const OPS_LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of steps a connection to the operations port may take before the others get their turn. A response takes
/// two (it is created and sent), so these are at most four responses.
pub const OPS_STEPS_PER_TURN: usize = 8;

/// Descriptors reserved for connections to the operations port, for when the process has no others left.
pub const OPS_RESERVE_DESCRIPTORS: usize = 4;

/// The sets of the rate limiter's table, of 128 bytes and 16 clients each: a mebibyte for 131,072 clients.
pub const RATE_TABLE_SETS: usize = 8192;

/// The maximum number of requests per window that the rate limiter can be configured with.
pub const RATE_LIMIT_MAX: u64 = 1_000_000;

/// The maximum difference between the clock readings of two threads that use the rate limiter at the same time.
pub const RATE_CLOCK_SLACK: Duration = Duration::from_secs(16);

/// The maximum size of a file of deny rules, in bytes.
pub const DENY_FILE_BYTES_MAX: usize = 1024 * 1024;

/// The maximum size of a file of response fields, in bytes.
pub const HEADERS_FILE_BYTES_MAX: usize = 64 * 1024;

/// The maximum number of parent directories of a path that are checked against the deny rules before the disk.
pub const DENY_DEPTH_MAX: usize = 128;

/// The maximum length of the path of a file below the document root, in bytes: the system's `PATH_MAX`.
pub const FILE_PATH_BYTES_MAX: usize = 4096;

/// The maximum size of an error page, in bytes.
pub const ERROR_PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The maximum size of all error pages together, in bytes.
pub const ERROR_PAGES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The interval at which the control thread scans the state of the server.
pub const CONTROL_TICK: Duration = Duration::from_secs(1);

/// The interval of decisions about the number of I/O threads in use.
pub const IO_SCALING_TICK: Duration = Duration::from_millis(500);

/// The number of episodes that the operations port keeps.
pub const EPISODES_MAX: usize = 32;

/// The maximum length of the description of an episode, in bytes.
pub const EPISODE_TEXT_BYTES_MAX: usize = 240;

/// The number of past seconds that the rates and latencies of `/status` cover.
pub const STATUS_WINDOW_SECONDS: usize = 10;

/// How many points the trend in `/status` has, each of [`STATUS_WINDOW_SECONDS`].
pub const STATUS_TREND_POINTS: usize = 60;

/// The part of the served requests that fail from which `/status` reports it, in percent.
pub const FAILING_PERCENT: u64 = 5;

/// The number of failures within a window below which `/status` does not report them.
pub const FAILURES_MIN: u64 = 3;

/// How long after its last sign `/status` reports trouble that has no end, such as a full disk.
pub const TROUBLE_SHOWN_FOR: Duration = Duration::from_secs(60);

/// How long before a certificate expires `/status` reports it.
pub const CERTIFICATE_WARNING: Duration = Duration::from_secs(14 * 86_400);

/// How many distinct errors of PHP `/status` lists.
pub const PHP_ERRORS_KEPT: usize = 5;

/// The maximum length of the text of such an error, in bytes.
pub const PHP_ERROR_TEXT_MAX: usize = 500;

/// The maximum length of a path that `/status` shows beside a worker, in bytes.
pub const STATUS_PATH_MAX: usize = 200;

/// How long a response of `/status` is cached for further viewers.
pub const STATUS_KEPT_FOR: Duration = Duration::from_secs(1);

/// The minimum size of a response of the operations port that is compressed, in bytes.
pub const OPS_GZIP_MIN_BYTES: usize = 1024;

/// The maximum length of a request header on the operations port, in bytes; beyond it, the status is 431.
pub const OPS_HEAD_BYTES_MAX: usize = 8 * 1024;

/// How long a client of the operations port may take to send a request and to read its response.
pub const OPS_EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The backlog of a listener, if the system's limit (`net.core.somaxconn`) allows it: a client whose connection does not
/// fit retries a second later.
pub const LISTEN_BACKLOG: i32 = 4096;

/// The maximum number of finished spans that can wait for their export.
pub const TRACE_QUEUE_SPANS_MAX: usize = 1 << 20;

/// The maximum number of log records that can wait for their export.
pub const LOG_EXPORT_QUEUE_RECORDS_MAX: usize = 1 << 20;

/// The size from which a batch of log records is complete, in bytes. A collector accepts 4 MiB over gRPC by default.
pub const LOG_BATCH_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The maximum size of a batch before compression, in bytes; a larger one is not sent.
pub const EXPORT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The maximum size of a collector's response, in bytes.
pub const EXPORT_ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The maximum size of the header of a collector's response, in bytes.
pub const EXPORT_HEAD_BYTES_MAX: usize = 64 * 1024;

/// The maximum idle time of a reused connection to a collector: a device in between may have dropped its state.
pub const EXPORT_IDLE_MAX: Duration = Duration::from_secs(30);

/// The lowest number of the server's descriptors: `select` in PHP supports only numbers below 1024.
pub const DESCRIPTOR_MIN: i32 = 1024;

const _: () = assert!(RATE_TABLE_SETS.is_power_of_two(), "bits of a hash choose a set");
const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX, "a legal target must fit into a legal head");
const _: () = assert!(RESPONSE_GATHER_MAX < RESPONSE_MEMORY_MAX, "one handed-over part must fit the mailbox");
const _: () =
    assert!(RESPONSE_PIECE_MAX as u64 <= REPLIES_MEMORY_MAX / 32, "no response takes the others' memory");
const _: () = assert!(CODING_WINDOW_LOG <= CODING_WINDOW_LOG_MAX, "pages are readable wherever files are");
const _: () = assert!(CODING_WINDOW_LOG > 16, "Brotli is many times slower in windows of 64 KiB and less");
const _: () = assert!(PLUGIN_LATE_AFTER.as_secs() < PLUGIN_FAILED_AFTER.as_secs(), "late before failed");
const _: () = assert!(OPS_HEAD_BYTES_MAX <= HEAD_BYTES_MAX, "the operations port is the stricter one");
const _: () =
    assert!(STATIC_FRESH.as_millis() < STATIC_STALE.as_millis(), "a check begins before requests wait");
const _: () =
    assert!(HTTP2_CONNECTION_WINDOW_BYTES <= HTTP2_WINDOW_BYTES_MAX, "a connection fits its streams");
const _: () =
    assert!(SEND_FILE_BYTES <= OUTPUT_BYTES_MAX, "a run of a file is no more than a client's share");
