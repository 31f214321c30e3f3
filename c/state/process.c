/* What libc keeps for the process although each request needs its own: the environment and the locale. */
#include "compat.h"
#include "libc/environment.h"
#include "libc/locale.h"
#include "state/process.h"

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

void shim_process_begin(void)
{
    shim_environment_clear();
}

void shim_process_end(void)
{
    shim_environment_clear();
    shim_locale_end();
}
