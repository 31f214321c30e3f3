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
 * fail, cannot bail out and run no script code; engine code that could is called through shim_quietly(). `end` may run
 * script code, and is a guarded step.
 *
 * The boot request itself is suspended while its worker serves, and resumed when the worker has ended. */
#ifndef SVC_SHIM_STATE_H
#define SVC_SHIM_STATE_H

#include "php/engine/execution_timer.h"
#include "php/libc/process.h"
#include "worker/state/executor.h"
#include "worker/state/globals.h"
#include "worker/state/ini.h"
#include "worker/state/loops.h"
#include "worker/state/superglobals.h"
#include "worker/state/variables.h"

typedef struct shim_request_state {
    shim_globals_state globals;
    shim_executor_state executor;
    shim_superglobals_state superglobals;
    shim_variables_state variables;
    shim_ini_state ini;
    shim_loops_state loops;
    shim_process_state process;
    shim_timer_state timer;
    /* The libcurl transfer that the request waits in. */
    void *transfer;
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
