/* Recovery from bailouts, and the end of a stack. */
#ifndef SVC_PHP_BAILOUT_H
#define SVC_PHP_BAILOUT_H

#include <stdbool.h>

/* ---- The flags that a bailout leaves set (recover.c) ---- */

/* Call after the session has ended: closes the handler that a user's session handler has left open. NULL stands for the
 * globals of the calling thread. */
void shim_session_close(void *globals);
bool shim_session_is_active(void);
/* Writes and closes an active session, as the session extension does at the end of a request. */
void shim_session_write(void);

/* Resets the flags. May run session handlers and bail out. Call at the bottom of a request, whether or not there was a
 * bailout. */
void shim_bailout_recover(void);
/* Removes the entry without a value that a bailout in putenv() leaves. Call before PHP destroys the table. */
void shim_putenv_drop_unfinished(void);
void shim_error_handling_reset(void);
/* Before a bailout: makes the caller forget the method that it was about to call. */
void shim_callee_forget(void);
void shim_output_recover(void);

/* ---- PHP's mutexes that this thread holds (mutexes.c) ---- */

unsigned shim_mutexes_held(void);
void shim_mutexes_return_to(unsigned count);
/* Makes waits for the mutex that `lock_once` locks and unlocks end the script at its time limit, by a bailout: its holders
 * may keep it for long. Call at most once, before threads run PHP. */
void shim_mutexes_bound(void (*lock_once)(void));

/* ---- The fonts of GD (gd_fonts.c) ---- */

void shim_fonts_install(void);

/* ---- Suspended fibers (fibers.c) ---- */

/* After a bailout: ends the fibers that are suspended, without running script code. Call before the objects are freed. */
void shim_suspended_fibers_bail_out(const struct _zend_objects_store *objects);
/* Call once, after PHP's modules have started. */
void shim_suspended_fibers_install(void);

/* ---- The end of a stack (overflow.c) ---- */

/* Call while extensions start: all threads, this one included, copy PHP's table of directives afterwards. */
void shim_overflow_prepare(void);
/* Call after PHP has started and before other threads start. */
void shim_overflow_install(void);
void shim_overflow_thread_start(void);
void shim_overflow_thread_stop(void);
/* Call after a bailout: if it came from the end of a stack, reports that as a fatal error of the script. */
void shim_overflow_report(void);
/* Returns the end of the stack that the thread runs on, below which the protected pages begin; NULL if it is unknown. */
const char *shim_overflow_end(void);

/* ---- Libraries that would end the process, or stay locked (library_failures.c) ---- */

/* Call after extensions have started, on the thread that starts PHP. */
void shim_library_failures_install(void);

/* ---- The call to SQLite that a request waits in (sqlite.c) ---- */

/* Call after extensions have started, before other threads start. */
void shim_queries_install(void);
/* Returns the call that runs on this thread and clears it; NULL if none was running. */
void *shim_query_suspend(void);
void shim_query_resume(void *suspended);
/* Finalizes the statements that bailouts have left. Call when the objects of a script have been freed. */
void shim_queries_end(void);

/* ---- The transfer by libcurl that a request waits in (curl.c) ---- */

/* Returns the transfer that runs on this thread and clears it; NULL if none was running. */
void *shim_transfer_suspend(void);
void shim_transfer_resume(void *suspended);

/* An easy handle in a multi handle, as libcurl knows them. */
typedef struct shim_transfer_pair {
    void *many;
    void *handle;
} shim_transfer_pair;

/* Returns the pair of the last call of curl_multi_add_handle() on this thread. */
shim_transfer_pair shim_transfer_last_added(void);
/* Ends the transfer, unless it has ended by itself. For libcurl, the easy handle is no longer in the multi handle; for
 * PHP, it stays there until a script removes it: the multi handle has a message that the transfer was aborted. May
 * wait; runs no script code. */
void shim_transfer_abandon(shim_transfer_pair pair);

/* Results of transfers besides libcurl's own codes, of which 0 is success. */
enum {
    SHIM_TRANSFER_UNKNOWN = -1,
    /* The multi handle has not accepted the easy handle. */
    SHIM_TRANSFER_REFUSED = -2,
    /* A bailout has interrupted it, and continues after this call. */
    SHIM_TRANSFER_CUT = -3,
};

/* An observer of libcurl's handles. None of its functions runs script code. */
typedef struct shim_transfer_watch {
    /* An option has been set; 0 stands for all of them, which have their defaults again. `is_callback` if the value was
     * a callback of ext/curl. */
    void (*set)(void *easy, int option, void *value, bool is_callback);
    void (*copied)(void *easy, void *copy);
    /* A transfer begins, in a multi handle unless that is NULL. Returns whether the observer follows it. */
    bool (*begin)(void *easy, void *many);
    /* The transfer has ended; a multi handle keeps its easy handle. */
    void (*ended)(void *easy, int result);
    /* The handle is free for another transfer. */
    void (*left)(void *easy, void *many, int result);
    /* An easy handle, or a multi handle, is about to be freed; the other one is NULL. */
    void (*freed)(void *easy, void *many);
} shim_transfer_watch;
/* NULL if there is none. Set before any thread runs PHP. */
extern const shim_transfer_watch *shim_transfer_watched;
/* Looks up libcurl's own function, without the observer; NULL if libcurl is not loaded. */
void *shim_libcurl(void **slot, const char *name);

#endif
