/* State that libc keeps for the process although each request needs its own: the environment, the locale, signals, the
 * priority of its thread and the settings of the system's log. */
#include "compat.h"
#include "php/libc/libc.h"

void shim_process_capture(void)
{
    shim_environment_capture();
    shim_locale_capture();
    shim_system_log_capture();
}

void shim_process_release(void)
{
    shim_environment_release();
    shim_locale_release();
    shim_system_log_release();
}

void shim_process_suspend(shim_process_state *state)
{
    *state = (shim_process_state){
        .overlay = shim_environment_take(), .locale = shim_locale_take(), .log = shim_system_log_take()};
    shim_own_signals_suspend(&state->signals);
    shim_attributes_suspend(&state->attributes);
}

void shim_process_resume(const shim_process_state *state)
{
    shim_environment_give(state->overlay);
    shim_locale_give(state->locale);
    shim_system_log_give(state->log);
    shim_own_signals_resume(&state->signals);
    shim_attributes_resume(&state->attributes);
}

void shim_process_begin(void)
{
    shim_environment_clear();
}

void shim_process_end(void)
{
    shim_environment_clear();
    shim_locale_end();
    shim_system_log_end();
    shim_own_signals_end();
    shim_attributes_end();
}
