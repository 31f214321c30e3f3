/* What is per request, as one struct.
 *
 * In worker mode one thread carries many requests, and PHP keeps what belongs to a request in structs of the thread.
 * While no request is in its place these hold the neutral image: what the boot script left, without what was the boot
 * request's own. A request begins on the neutral image and ends by putting it back; a suspended one has what is its
 * own in here, and the neutral image is in place again.
 *
 * One file a concern, each with the same verbs:
 *
 *   capture   makes the neutral image of what is in place (the boot script has run)
 *   release   undoes capture
 *   begin     neutral -> a request's own
 *   prepare   gathers what suspend needs; false: there is no memory, and the request stays where it is
 *   suspend   a request's own -> saved here, neutral in place
 *   resume    saved here -> in place
 *   end       a request's own -> freed, neutral in place
 *
 * Invariants. `begin` takes what it needs first and puts it in place then, without anything that could jump: a jump out of
 * it leaves the neutral image whole, and what has not begun is not ended. What is saved comes from malloc, in `prepare`,
 * before anybody is told that the request waits. `suspend` and `resume` cannot fail, cannot jump and run no script's code;
 * engine code that could is called by shim_quietly(). `end` may run scripts' code, and is a guarded step.
 *
 * The boot request itself is suspended while its worker serves, and resumed when it has ended. */
#ifndef SVC_SHIM_STATE_H
#define SVC_SHIM_STATE_H

#include "compat.h"

#include <sys/stat.h>
#include <zend_virtual_cwd.h>

/* state/streams.c: what the layer of streams keeps. */
typedef struct shim_streams_state {
    int pclose_ret;
    const char *user_stream_current_filename;
    php_stream_context *default_context;
    HashTable *stream_wrappers;
    HashTable *stream_filters;
    HashTable *wrapper_errors;
} shim_streams_state;

/* state/globals.c: the structs that travel whole. */
typedef struct shim_globals_state {
    sapi_globals_struct sapi;
    zend_output_globals output;
    php_core_globals core;
    php_basic_globals basic;
    shim_streams_state streams;
    /* Its buffer is Zend's, and moves with it. */
    cwd_state directory;
    /* The request's, when it has changed it. */
    mode_t umask;
} shim_globals_state;

/* state/executor.c: the engine's members that are a request's. The other members are the thread's or the fiber's. */
typedef struct shim_executor_state {
    int error_reporting;
    int exit_status;
    int ticks_count;
    int user_error_handler_error_reporting;
    zval user_error_handler;
    zval user_exception_handler;
    zend_stack user_error_handlers_error_reporting;
    zend_stack user_error_handlers;
    zend_stack user_exception_handlers;
    zend_class_entry *exception_class;
    zend_error_handling_t error_handling;
    bool variable_width_locale;
    bool ascii_compatible_locale;
    zval fatal_backtrace;
    /* The classes that its autoloaders are asked for. */
    HashTable *in_autoload;
    /* What is in flight: a callback may have thrown before the engine waits for something. */
    zend_object *exception;
    zend_object *prev_exception;
    const zend_op *opline_before_exception;
    shim_scope *fake_scope;
    zend_string *filename_override;
    zend_long lineno_override;
    /* Somebody has swallowed a jump of the request's. */
    bool unclean_shutdown;
} shim_executor_state;

/* state/superglobals.c: what scripts reach through the symbol table. */
enum { SHIM_SUPERGLOBALS = 7 };
typedef struct shim_superglobals_state {
    zval values[SHIM_SUPERGLOBALS];
    /* Undefined while there is no session. */
    zval session;
} shim_superglobals_state;

/* state/ini.c: directives that the request has changed. */
typedef struct shim_ini_value {
    zend_ini_entry *entry;
    zend_string *value;
    uint8_t modifiable;
} shim_ini_value;
typedef struct shim_ini_state {
    HashTable *modified;
    /* From malloc, kept from wait to wait. */
    shim_ini_value *values;
    uint32_t count;
    uint32_t room;
} shim_ini_state;

/* state/process.c: environment and locale. Each is a list or an object of its file. */
typedef struct shim_process_state {
    void *overlay;
    void *locale;
} shim_process_state;

/* execution_timer.c */
typedef struct shim_timer_state {
    /* When it fires, on the monotonic clock in nanoseconds; 0: it is not armed. */
    int64_t deadline;
    bool timed_out;
} shim_timer_state;

typedef struct shim_request_state {
    shim_globals_state globals;
    shim_executor_state executor;
    shim_superglobals_state superglobals;
    shim_ini_state ini;
    shim_process_state process;
    shim_timer_state timer;
    /* state/modules.c: members of extensions' structs; one block, allocated with the first use. */
    char *modules;
    /* How far the request has begun: what has not begun is not ended. */
    bool globals_begun;
    bool executor_begun;
    int modules_begun;
    int modules_started;
} shim_request_state;

/* state.c */
void shim_state_capture(void);
void shim_state_release(void);
bool shim_state_prepare(shim_request_state *state);
void shim_state_suspend(shim_request_state *state);
void shim_state_resume(shim_request_state *state);
/* Frees what the struct itself holds. */
void shim_state_free(shim_request_state *state);

/* The concerns. `begin` and `end` are called one by one by worker.c, which knows what has to happen between them. */
void shim_globals_capture(void);
void shim_globals_release(void);
void shim_globals_begin(void);
void shim_globals_suspend(shim_globals_state *state);
void shim_globals_resume(shim_globals_state *state);
void shim_globals_end(void);
/* Puts the neutral image in place, whatever is there. */
void shim_globals_neutral(void);
/* Whether there is something that scripts' destructors may hang on; and frees it, while the request is whole but for that:
 * they may make more of it. */
bool shim_globals_hold(void);
void shim_globals_drop(void);

/* Part of the globals. */
void shim_streams_capture(void);
void shim_streams_release(void);
void shim_streams_begin(void);
void shim_streams_suspend(shim_streams_state *state);
void shim_streams_resume(const shim_streams_state *state);
void shim_streams_end(void);
/* Puts the neutral image in place, whatever is there. */
void shim_streams_neutral(void);
/* Scripts cannot close it. */
void shim_keep_open(php_stream *stream);
/* A context of the same options and the same notifier: nothing that is set in the one is seen in the other. */
php_stream_context *shim_context_copy(const php_stream_context *context);

void shim_executor_capture(void);
void shim_executor_begin(void);
void shim_executor_suspend(shim_executor_state *state);
void shim_executor_resume(const shim_executor_state *state);
void shim_executor_end(void);
/* Puts the neutral image in place, whatever is there. */
void shim_executor_neutral(void);
/* The same of handlers. */
bool shim_executor_holds(void);
void shim_executor_drop(void);
/* A fatal error is about to be told. PHP 8.5 keeps where it happened for error_get_last(), every frame of it and without
 * a limit: that of endless recursion takes several times the memory that the limit allows. The innermost frames stay. */
void shim_executor_shorten_backtrace(void);

/* Leaves them empty for scripts, in both modes. Called once, while extensions start. */
extern bool shim_superglobals_hidden;
void shim_superglobals_hide(void);
void shim_superglobals_capture(void);
void shim_superglobals_release(void);
void shim_superglobals_begin(void);
/* False: the script has taken the arrays away, and there is no memory for them. */
bool shim_superglobals_prepare(void);
void shim_superglobals_suspend(shim_superglobals_state *state);
void shim_superglobals_resume(shim_superglobals_state *state);
void shim_superglobals_end(void);

void shim_ini_capture(void);
void shim_ini_release(void);
/* Makes room for what the next suspend saves; false: there is no memory. */
bool shim_ini_prepare(shim_ini_state *state);
void shim_ini_free(shim_ini_state *state);
void shim_ini_suspend(shim_ini_state *state);
void shim_ini_resume(shim_ini_state *state);
void shim_ini_end(void);

void shim_process_capture(void);
void shim_process_release(void);
void shim_process_suspend(shim_process_state *state);
void shim_process_resume(const shim_process_state *state);
/* Of a request on the thread itself: before PHP starts it, and when it is over. */
void shim_process_begin(void);
void shim_process_end(void);

void shim_timer_suspend(shim_timer_state *state);
void shim_timer_resume(const shim_timer_state *state);
int64_t shim_timer_deadline(void);

void shim_modules_capture(void);
void shim_modules_release(void);
/* References to what the boot script owns, then the extensions' own start-up, which may run scripts' code. */
void shim_modules_begin(int *begun);
void shim_modules_start(int *started);
bool shim_modules_prepare(char **block);
/* Puts the neutral image in place once more, after directives' handlers have written where they should not. */
void shim_modules_neutral(void);
void shim_modules_suspend(char *block);
void shim_modules_resume(const char *block);
/* Extensions end the request (sessions are written), then what is left is freed. Each may run scripts' code: after a jump
 * the numbers say how many are left, and the next call goes on with them. */
void shim_modules_end(int *started);
void shim_modules_clean(int *begun);

/* Whether a part of what the extension keeps is known to be a request's. */
bool shim_modules_travel(const char *name);

#endif
