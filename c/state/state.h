/* What is per request, as one struct.
 *
 * In worker mode one thread carries many requests, and PHP keeps what belongs to a request in structs of the thread.
 * While no request is in its place these hold the baseline snapshot: what the boot script left, without what was the boot
 * request's own. A request begins on the baseline snapshot and ends by putting it back; a suspended one has what is its
 * own in here, and the baseline snapshot is in place again.
 *
 * One file a concern, each with the same verbs:
 *
 *   capture   makes the baseline snapshot of what is in place (the boot script has run)
 *   release   undoes capture
 *   begin     baseline -> a request's own
 *   prepare   gathers what suspend needs; false: there is no memory, and the request stays where it is
 *   suspend   a request's own -> saved here, baseline in place
 *   resume    saved here -> in place
 *   end       a request's own -> freed, baseline in place
 *
 * Invariants. `begin` takes what it needs first and puts it in place then, without anything that could jump: a jump out
 * of it leaves the baseline snapshot whole, and what has not begun is not ended. What is saved comes from malloc, in
 * `prepare`, before anybody is told that the request waits. `suspend` and `resume` cannot fail, cannot jump and run no
 * script's code; engine code that could is called by shim_quietly(). `end` may run scripts' code, and is a guarded
 * step.
 *
 * The boot request itself is suspended while its worker serves, and resumed when it has ended. */
#ifndef SVC_SHIM_STATE_H
#define SVC_SHIM_STATE_H

#include "engine/execution_timer.h"
#include "state/executor.h"
#include "state/globals.h"
#include "state/ini.h"
#include "state/process.h"
#include "state/superglobals.h"

typedef struct shim_request_state {
    shim_globals_state globals;
    shim_executor_state executor;
    shim_superglobals_state superglobals;
    shim_ini_state ini;
    shim_process_state process;
    shim_timer_state timer;
    /* Members of extensions' structs; one block, allocated with the first use. */
    char *modules;
    /* How far the request has begun: what has not begun is not ended. */
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
/* Frees what the struct itself holds. */
void shim_state_free(shim_request_state *state);

#endif
