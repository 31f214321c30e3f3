/* What a process shares and PHP's requests must not: environment (environment.c), locale (locale.c), file mode mask and
 * working directory.
 *
 * The last two are a thread's own where the system lets a thread leave the process's (unshare(CLONE_FS)). PHP's own chdir() is
 * virtual and per request anyway. */
#include "internal.h"
#include "state.h"

#include <sched.h>

void shim_isolate_thread(void)
{
    /* Refused in some sandboxes: then umask() and chdir() of extensions are shared, as under any threaded server. */
    (void)unshare(CLONE_FS);
}

void shim_isolate_begin(void)
{
    shim_environment_clear();
}

void shim_isolate_end(void)
{
    shim_environment_clear();
    shim_locale_end();
}

/* ---- worker mode ---- */

void shim_process_capture(void)
{
    shim_environment_capture();
    shim_locale_capture();
}

void shim_process_release(void)
{
    shim_environment_release();
    shim_locale_release();
}

void shim_process_suspend(shim_process_state *state)
{
    *state = (shim_process_state){.overlay = shim_environment_take(), .locale = shim_locale_take()};
}

void shim_process_resume(const shim_process_state *state)
{
    shim_environment_give(state->overlay);
    shim_locale_give(state->locale);
}

void shim_process_end(void)
{
    shim_isolate_end();
}
