/* The state of a request, and of the extensions in it. */
#ifndef SVC_WORKER_STATE_H
#define SVC_WORKER_STATE_H

#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

#include <sys/stat.h>
#include <zend_virtual_cwd.h>

/* ---- Environment, locale, signals, priority, the system's log and the text domain (state.c) ---- */

typedef struct shim_process_state {
    struct shim_variable *variables;
    locale_t locale;
    struct shim_log_settings *log;
    char *text_domain;
    shim_own_signals_state signals;
    shim_attributes_state attributes;
} shim_process_state;

/* ---- $_SERVER of the last request (kept_variables.c) ---- */

void shim_kept_variables_install(void);
/* Drops the kept array: the worker's memory is about to be freed. */
void shim_kept_variables_forget(void);

/* ---- OPcache's state for a request (opcache.c) ---- */

/* Call after shim_opcache_install(). */
void shim_opcache_requests_install(void);
/* Call when PHP has started the boot request. */
void shim_opcache_request_boot(void);
/* Call when a request of a worker begins; `time` is its time of arrival. */
void shim_opcache_request_begin(double time);
/* Whether this worker may execute from the cache. One that started up while OPcache waited for a restart may not:
 * OPcache restarts during its life. */
bool shim_opcache_is_used(void);
/* Whether OPcache serves this thread and holds the file. */
bool shim_opcache_holds(zend_string *path);
/* Sets whether OPcache compares the files of this thread with the disk. Returns the former value. */
bool shim_opcache_validate(bool validates);

/* ---- Members of PHP's structs that travel one by one ---- */

/* For lists of EACH(the macro that accesses the member, its struct, its name): declares it with the type that it has in
 * PHP's struct, and reads and writes it. */
#define SHIM_DECLARE_MEMBER(access, type, member) __typeof__(((type *)NULL)->member) member;
#define SHIM_READ_MEMBER(access, type, member) state->member = access(member);
#define SHIM_WRITE_MEMBER(access, type, member) access(member) = state->member;

/* ---- The engine's members that belong to a request (executor.c) ---- */

#define SHIM_EXECUTOR_MEMBERS(EACH) \
    EACH(EG, zend_executor_globals, error_reporting) \
    EACH(EG, zend_executor_globals, exit_status) \
    EACH(EG, zend_executor_globals, ticks_count) \
    EACH(EG, zend_executor_globals, user_error_handler_error_reporting) \
    EACH(EG, zend_executor_globals, user_error_handler) \
    EACH(EG, zend_executor_globals, user_exception_handler) \
    EACH(EG, zend_executor_globals, user_error_handlers_error_reporting) \
    EACH(EG, zend_executor_globals, user_error_handlers) \
    EACH(EG, zend_executor_globals, user_exception_handlers) \
    EACH(EG, zend_executor_globals, exception_class) \
    EACH(EG, zend_executor_globals, error_handling) \
    EACH(CG, zend_compiler_globals, variable_width_locale) \
    EACH(CG, zend_compiler_globals, ascii_compatible_locale) \
    /* The classes that the request's autoloaders are loading. */ \
    EACH(EG, zend_executor_globals, in_autoload) \
    /* A pending exception: a callback may have thrown before the engine waits for something. */ \
    EACH(EG, zend_executor_globals, exception) \
    EACH(EG, zend_executor_globals, prev_exception) \
    EACH(EG, zend_executor_globals, opline_before_exception) \
    EACH(EG, zend_executor_globals, fake_scope) \
    EACH(EG, zend_executor_globals, filename_override) \
    EACH(EG, zend_executor_globals, lineno_override) \
    /* Whether an extension or the engine has caught a bailout of the request. */ \
    EACH(CG, zend_compiler_globals, unclean_shutdown)

typedef struct shim_executor_state {
    SHIM_EXECUTOR_MEMBERS(SHIM_DECLARE_MEMBER)
    zval fatal_backtrace;
} shim_executor_state;

void shim_executor_capture(void);
void shim_executor_begin(void);
void shim_executor_suspend(shim_executor_state *state);
void shim_executor_resume(const shim_executor_state *state);
void shim_executor_end(void);
/* Puts the baseline snapshot in place, whatever the current state. */
void shim_executor_reset(void);
/* Whether handlers remain that may hold objects with destructors, and the function that frees them; see globals.c. */
bool shim_executor_holds(void);
void shim_executor_drop(void);

/* ---- The state of the streams layer (streams.c) ---- */

#define SHIM_STREAMS_MEMBERS(EACH) \
    EACH(FG, php_file_globals, pclose_ret) \
    EACH(FG, php_file_globals, user_stream_current_filename) \
    EACH(FG, php_file_globals, default_context) \
    EACH(FG, php_file_globals, stream_wrappers) \
    EACH(FG, php_file_globals, stream_filters) \
    EACH(FG, php_file_globals, wrapper_errors) \
    /* The buffer of php_network_gethostbyname(), which frees it at its next call. An answer may still be written into \
     * it. */ \
    EACH(FG, php_file_globals, tmp_host_buf) \
    EACH(FG, php_file_globals, tmp_host_buf_len)

typedef struct shim_streams_state {
    SHIM_STREAMS_MEMBERS(SHIM_DECLARE_MEMBER)
} shim_streams_state;

void shim_streams_capture(void);
void shim_streams_release(void);
void shim_streams_begin(void);
void shim_streams_suspend(shim_streams_state *state);
void shim_streams_resume(const shim_streams_state *state);
/* Keeps the wrappers and filters for shim_streams_inherit(), or frees them. */
void shim_streams_end(bool keeps);
/* Replaces the boot script's wrappers and filters, which must be in place, with those of the last request, if they were
 * kept. */
void shim_streams_inherit(void);
/* Puts the baseline snapshot in place, whatever the current state. */
void shim_streams_reset(void);

void shim_input_install(void);
/* The request of this body has ended: detaches the streams that the request has opened, which read nothing from now on.
 * Runs no script code. */
void shim_input_empty(const php_stream *body);
/* Closes the emptied streams, as fclose() would. Filters may run script code. */
void shim_input_close(void);

/* ---- The structs of the engine's layers that travel as a whole (globals.c) ---- */

typedef struct shim_globals_state {
    sapi_globals_struct sapi;
    zend_output_globals output;
    php_core_globals core;
    php_basic_globals basic;
    shim_streams_state streams;
    /* Zend allocates its buffer, which moves with it. */
    cwd_state directory;
    /* The request's own mask, if it has changed it. */
    mode_t umask;
} shim_globals_state;

void shim_globals_capture(void);
void shim_globals_release(void);
void shim_globals_begin(void);
void shim_globals_suspend(shim_globals_state *state);
void shim_globals_resume(shim_globals_state *state);
/* Ends the body, and every php://input that reads it. PHP does that only when it ends all resources, at the end of the
 * worker. Filters may run script code. */
void shim_globals_end_body(void);
/* Runs no script code. Keeps the request's wrappers and filters for shim_streams_inherit() if `keeps_streams`. */
void shim_globals_end(bool keeps_streams);
/* Puts the baseline snapshot in place, whatever the current state. */
void shim_globals_reset(void);
/* Whether values remain that may hold objects with destructors; shim_globals_drop() frees them while the rest of the
 * request is intact, because destructors may create more. */
bool shim_globals_hold(void);
void shim_globals_drop(void);

/* ---- Directives that the request has changed (ini.c) ---- */

typedef struct shim_ini_value {
    zend_ini_entry *entry;
    zend_string *value;
    uint8_t modifiable;
} shim_ini_value;
typedef struct shim_ini_state {
    HashTable *modified;
    /* Allocated by malloc, and reused by later waits. */
    shim_ini_value *values;
    uint32_t count;
    uint32_t room;
} shim_ini_state;

void shim_ini_capture(void);
void shim_ini_release(void);
/* Makes room for the values that the next suspend saves. Returns false if out of memory. */
bool shim_ini_prepare(shim_ini_state *state);
void shim_ini_free(shim_ini_state *state);
void shim_ini_suspend(shim_ini_state *state);
void shim_ini_resume(shim_ini_state *state);
void shim_ini_end(void);

/* Which parts of extensions' structs belong to a request: the tables, as read by the code that moves them.
 *
 * PHP's own extensions have headers (worker/state/php_extensions.c). Those that wrap libraries have none, or headers that require
 * the library's (worker/state/library_extensions.c). */

typedef struct shim_range {
    size_t offset;
    size_t size;
} shim_range;

/* A directive whose value is a member of the struct. */
typedef struct shim_directive {
    const char *name;
    size_t offset;
} shim_directive;

enum { SHIM_RANGES_MAX = 9, SHIM_DIRECTIVES_MAX = 8, SHIM_STACK_RANGES_MAX = 4 };

typedef struct shim_part {
    const char *module;
    /* The size of the struct, if it is known here: a struct of another size does not move. */
    size_t size;
    /* Ends with the first one without a name. If one of them has another place in the struct, no part of the struct
     * moves. */
    shim_directive directives[SHIM_DIRECTIVES_MAX];
    /* Whether the module entry does not describe the struct. */
    bool hidden;
    /* Returns the part, if the extension's struct only points to it; NULL if the pointer is not set. */
    void *(*inner)(void *globals);
    /* The ranges that move, up to the first empty one; if there is none, the whole struct. Memory that belongs to a
     * directive's handler must not move: the handler frees it when the directive changes. */
    shim_range ranges[SHIM_RANGES_MAX];
    /* The ranges that belong to a stack (worker/engine/stacks.c), up to the first empty one. */
    shim_range of_stack[SHIM_STACK_RANGES_MAX];
    /* Whether the baseline snapshot is all zeros. */
    bool blank;
    /* Called with a copy of the struct, whose ranges become the baseline snapshot. */
    void (*make_baseline)(void *globals);
    /* Called with the struct in place: when a request begins, around each of its waits, and after the extension's own
     * shutdown. */
    void (*begin)(void *globals);
    void (*suspend)(void *globals);
    void (*resume)(void *globals);
    void (*end)(void *globals);
    /* Whether the extension's own request startup and shutdown run for each request. */
    bool start;
    bool stop;
} shim_part;

#define SHIM_MEMBER(type, member) {offsetof(type, member), sizeof(((type *)0)->member)}
#define SHIM_MEMBERS(type, first, last) \
    {offsetof(type, first), offsetof(type, last) + sizeof(((type *)0)->last) - offsetof(type, first)}

#define SHIM_DIRECTIVE(type, member, name) {name, offsetof(type, member)}

/* ---- The parts of extensions that wrap libraries (library_extensions.c) ---- */

extern const shim_part shim_library_extensions[];
extern const size_t shim_library_extensions_count;

/* ---- The event loops of a request (loops.c) ---- */

typedef struct shim_loops_state {
    /* Whether the request has its own loops. Consecutive requests, as in frankenphp_handle_request(), share those of
     * their script. */
    bool is_own;
    /* The values while the request waits, in the order of the thread's properties. */
    zval *values;
    uint32_t count;
    uint32_t room;
} shim_loops_state;

bool shim_loops_prepare(shim_loops_state *state);
void shim_loops_suspend(shim_loops_state *state);
void shim_loops_resume(shim_loops_state *state);
/* Frees the request's values in the loops. May run script code, which may leave more. */
bool shim_loops_hold(const shim_loops_state *state);
void shim_loops_drop(const shim_loops_state *state);
/* Restores the declared values; remaining values are not freed. */
void shim_loops_reset(const shim_loops_state *state);
/* The thread serves no more requests, and its classes may be destroyed. */
void shim_loops_release(void);
void shim_loops_free(shim_loops_state *state);

/* ---- The state of extensions for a request (modules.c) ---- */

enum { SHIM_PARTS_MAX = 32 };

/* Returns a part; NULL after the last one. Those of libraries come first: they are started first and stopped last. */
const shim_part *shim_part_at(size_t index);

void shim_modules_capture(void);
void shim_modules_release(void);
/* Adds references to the boot script's values, and then runs the extensions' own startup, which may run script code. */
void shim_modules_begin(int *begun);
void shim_modules_start(int *started);
/* Marks all extensions as started without starting them, so that they end what destructors between requests begin. */
void shim_modules_mark_started(int *started);
bool shim_modules_prepare(char **block);
/* Puts the baseline snapshot in place once more: handlers of directives may have written into it. */
void shim_modules_reset(void);
void shim_modules_suspend(char *block);
void shim_modules_resume(const char *block);
/* Ends the request in the extensions (sessions are written), and then frees the rest. Each may run script code: after a
 * bailout, the numbers tell how many extensions are left, and the next call continues with them. */
void shim_modules_end(int *started);
void shim_modules_clean(int *begun);

/* Registers the parts that belong to a stack (worker/engine/stacks.c). Call after PHP has started. */
void shim_modules_follow_stacks(void);
/* Whether the struct exists and has a known layout. */
bool shim_modules_hold(const shim_part *part);
/* Returns this thread's struct of the extension; NULL if there is none, or its layout is unknown. */
void *shim_modules_struct(const char *name);
/* Whether any part of the extension's state is known to belong to a request. */
bool shim_modules_travel(const char *name);

/* ---- Cached descriptions of services (wsdl_cache.c) ---- */

/* The place of the pointer to the cache in the struct of soap (library_extensions.c). */
extern const size_t shim_soap_cache_offset;

void shim_wsdl_cache_install(void);
void shim_wsdl_cache_stop(void);

/* ---- The parts of PHP's own extensions (php_extensions.c) ---- */

extern const shim_part shim_php_extensions[];
extern const size_t shim_php_extensions_count;

/* ---- The superglobals of a request (superglobals.c) ---- */

enum { SHIM_SUPERGLOBALS = 7 };
typedef struct shim_superglobals_state {
    zval values[SHIM_SUPERGLOBALS];
    /* Undefined while there is no session. */
    zval session;
} shim_superglobals_state;

void shim_superglobals_capture(void);
void shim_superglobals_release(void);
void shim_superglobals_begin(void);
/* Returns false if the script has removed the arrays and there is no memory for new ones. */
bool shim_superglobals_prepare(void);
void shim_superglobals_suspend(shim_superglobals_state *state);
void shim_superglobals_resume(shim_superglobals_state *state);
void shim_superglobals_end(void);

typedef struct shim_variables_state {
    /* Whether the request has its own variables. */
    bool begun;
    /* The variables while the request is suspended. */
    HashTable own;
} shim_variables_state;

/* Gives the request its own copy of the baseline's variables. May run out of memory. */
void shim_variables_begin(shim_variables_state *state);
void shim_variables_suspend(shim_variables_state *state);
void shim_variables_resume(shim_variables_state *state);
/* Whether there are variables besides the superglobals. */
bool shim_variables_hold(const shim_variables_state *state);
/* Frees the variables; may run script code. */
void shim_variables_drop(const shim_variables_state *state);
/* Puts the baseline's variables back in place. */
void shim_variables_end(shim_variables_state *state);

/* ---- The state of a request as a whole (state.c) ---- */

/* Everything that belongs to a request, as one struct.
 *
 * In worker mode, one thread carries many requests, and PHP keeps what belongs to a request in structs of the thread.
 * While no request is active, these contain the baseline snapshot: the state after the boot script, without the parts
 * that belong to the boot request itself. A request begins on the baseline snapshot and restores it when it ends. The
 * state of a suspended request is saved here, and the baseline snapshot is in place.
 *
 * There is one file per concern, each with the same verbs:
 *
 *   capture   takes the baseline snapshot of what is in place (the boot script has run)
 *   release   undoes capture
 *   begin     baseline -> a request's own
 *   prepare   allocates what suspend needs; false if out of memory, and the request does not wait
 *   suspend   a request's own -> saved here, baseline in place
 *   resume    saved here -> in place
 *   end       a request's own -> freed, baseline in place
 *
 * Invariants. `begin` first acquires everything it needs and then puts it in place, without any call that could bail
 * out: a bailout leaves the baseline snapshot intact, and parts that have not begun are not ended. Saved state is
 * allocated with malloc in `prepare`, before the host learns that the request waits. `suspend` and `resume` cannot
 * fail, cannot bail out and run no script code; engine code that could is called through shim_call_suppressed(). `end` may run
 * script code, and is a guarded step.
 *
 * The boot request itself is suspended while its worker serves, and resumed when the worker has ended. */

typedef struct shim_request_state {
    shim_globals_state globals;
    shim_executor_state executor;
    shim_superglobals_state superglobals;
    shim_variables_state variables;
    shim_ini_state ini;
    shim_loops_state loops;
    shim_process_state process;
    shim_timer_state timer;
    /* The libcurl transfer, and the call to SQLite, that the request waits in. */
    void *transfer;
    void *query;
    /* Members of extensions' structs, in one block that is allocated on first use. */
    char *modules;
    /* The parts that have begun; only these are ended. */
    bool globals_begun;
    bool executor_begun;
    int modules_begun;
    int modules_started;
} shim_request_state;

void shim_state_capture(void);
void shim_state_release(void);
bool shim_state_prepare(shim_request_state *state);
void shim_state_suspend(shim_request_state *state);
void shim_state_resume(shim_request_state *state);
/* Frees the memory that the struct owns. */
void shim_state_free(shim_request_state *state);

#endif
