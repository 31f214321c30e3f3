//! The tests that start the real binary, and the tests of the repository itself: one program, so that only one is linked.
//!
//! A file is a module with one topic; `cargo test worker_limits` runs one module. Two programs are separate: `php_suite`,
//! which keeps the machine busy for minutes, and `chaos`, which has modules of its own.

#[expect(dead_code, reason = "the tests of the core use the rest of it")]
mod support;

#[cfg(feature = "php")]
#[path = "support/answering.rs"]
mod answering;
#[path = "../core/tests/support/authority.rs"]
mod authority;
#[cfg(feature = "php")]
#[path = "support/backend.rs"]
mod backend;
#[cfg(feature = "php")]
#[path = "support/browser.rs"]
mod browser;
#[cfg(feature = "php")]
#[path = "support/chromium.rs"]
mod chromium;
#[path = "../core/tests/support/collector.rs"]
#[expect(dead_code, reason = "the tests of the core use the rest of it")]
mod collector;
#[cfg(feature = "php")]
#[path = "support/daemon.rs"]
mod daemon;
#[cfg(feature = "php")]
#[path = "support/databases.rs"]
mod databases;
#[cfg(feature = "php")]
#[path = "support/dns.rs"]
mod dns;
#[path = "support/exposition.rs"]
mod exposition;
#[cfg(feature = "php")]
#[path = "support/fetched.rs"]
mod fetched;
#[cfg(feature = "php")]
#[path = "support/gate.rs"]
mod gate;
#[cfg(feature = "php")]
#[path = "support/hooked.rs"]
mod hooked;
#[cfg(feature = "php")]
#[path = "support/pair.rs"]
mod pair;
#[cfg(feature = "php")]
#[path = "support/plugins.rs"]
mod plugins;
#[cfg(feature = "php")]
#[path = "support/proxy.rs"]
mod proxy;
#[cfg(feature = "php")]
#[path = "support/results.rs"]
mod results;
#[path = "support/scraper.rs"]
mod scraper;
#[cfg(feature = "php")]
#[path = "support/socket.rs"]
mod socket;
#[cfg(feature = "php")]
#[path = "support/spans.rs"]
mod spans;
#[cfg(feature = "php")]
#[path = "support/tasks.rs"]
mod tasks;
#[cfg(feature = "php")]
#[path = "support/turns.rs"]
mod turns;
#[cfg(feature = "php")]
#[path = "support/visits.rs"]
mod visits;
#[cfg(feature = "php")]
#[path = "support/waits.rs"]
mod waits;
#[cfg(feature = "php")]
#[path = "support/wiki.rs"]
mod wiki;

mod apm_absent;
mod apm_calls;
mod apm_ends;
mod apm_shapes;
mod apm_shared;
mod apm_tasks;
mod applications;
mod architecture;
mod async_api;
mod async_awaiting;
mod async_bounds;
mod async_cancel;
mod async_circles;
mod async_docs;
mod async_failures;
mod async_functions;
mod async_isolation;
mod async_life;
mod async_loss;
mod async_memory;
mod async_metrics;
mod async_nested;
mod async_opcache;
mod async_places;
mod async_renewal;
mod async_request_end;
mod async_sessions;
mod async_shapes;
mod async_transfer;
mod async_values;
mod benchmark;
mod circles;
mod cli_check;
mod cli_commands;
mod cli_settings;
#[cfg(feature = "php")]
mod cli_watch;
mod codings;
mod config;
mod conformance;
mod deployments;
mod docs;
mod dokuwiki;
mod gone_scripts;
mod headers_file;
mod hooks_clients;
mod hooks_closing;
mod hooks_collecting;
mod hooks_dns;
mod hooks_figures;
mod hooks_forks;
mod hooks_graph;
mod hooks_guards;
mod hooks_large_objects;
mod hooks_left_transfers;
mod hooks_lending;
mod hooks_life;
mod hooks_limits;
mod hooks_lock_stores;
mod hooks_memory;
mod hooks_mixtures;
mod hooks_net;
mod hooks_own_connections;
mod hooks_owners;
mod hooks_owners_bank;
mod hooks_owners_drivers;
mod hooks_owners_rows;
mod hooks_per_request;
mod hooks_per_request_engine;
mod hooks_places;
mod hooks_process;
mod hooks_reach;
mod hooks_results_sockets;
mod hooks_results_streams;
mod hooks_servers;
mod hooks_sleep;
mod hooks_sqlite;
mod hooks_stacks;
mod hooks_streams;
mod hooks_transfers;
mod http;
mod http2;
mod install;
mod kubernetes;
mod lifecycle;
mod listeners;
mod log;
mod machines;
mod memory;
mod ops_alerts;
mod ops_alerts_clients;
mod ops_alerts_php;
mod ops_board;
mod ops_caches;
mod ops_page;
mod ops_port;
mod ops_status;
mod overload;
mod php_archives;
mod php_backends;
mod php_children;
mod php_clients;
mod php_databases;
mod php_end;
mod php_extensions;
mod php_frankenphp;
mod php_isolation;
mod php_limits;
mod php_mappings;
mod php_names;
mod php_objects;
mod php_opcache;
mod php_paths;
mod php_process;
mod php_programs;
mod php_request;
mod php_response;
mod php_shutdown;
mod php_signals;
mod php_streams;
mod php_transfers;
mod plugins_abi;
mod plugins_answers;
mod plugins_examples;
mod plugins_hostile;
mod plugins_load;
mod plugins_ops;
mod plugins_panics;
mod plugins_signals;
mod policy_clients;
mod policy_deny;
mod policy_error_pages;
mod pool;
mod redirect;
mod response_cache;
mod response_cache_flights;
mod routing;
mod run_as;
mod sendfile;
mod service_manager;
mod settings;
mod spool;
mod static_cache;
mod static_files;
mod static_ranges;
mod static_validators;
mod stubs;
mod tls;
mod tls_certificates;
mod trace_collector;
mod trace_exceptions;
mod trace_jaeger;
mod trace_php;
mod trace_requests;
mod waiting;
mod worker_bodies;
mod worker_books;
mod worker_compat;
mod worker_completions;
mod worker_connections;
mod worker_depth;
mod worker_directives;
mod worker_docs;
mod worker_errors;
mod worker_event_loops;
mod worker_extensions;
mod worker_fibers;
mod worker_flight;
mod worker_frameworks;
mod worker_garbage;
mod worker_isolation;
mod worker_jumps;
mod worker_left_fibers;
mod worker_left_open;
mod worker_life;
mod worker_limits;
mod worker_loading;
mod worker_locks;
mod worker_opcache;
mod worker_pool;
mod worker_recycle;
mod worker_registered;
mod worker_sessions;
mod worker_stand_ins;
mod worker_starting_point;
mod worker_variables;
mod worker_watches;
mod worker_wedge;
