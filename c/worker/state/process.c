/* State that libc keeps for the process although each request needs its own: the environment, the locale, signals, the
 * priority of its thread, the settings of the system's log and the text domain. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/state/state.h"

void shim_process_capture(void)
{
    shim_environment = (shim_overlay){.boot = shim_environment.own};
    shim_locale = (shim_locale_layers){.boot = shim_locale.own};
    shim_system_log = (shim_system_log_layers){.boot = shim_system_log.own};
    shim_text_domain = (shim_text_domain_layers){.boot = shim_text_domain.own};
}

void shim_process_release(void)
{
    shim_environment = (shim_overlay){.own = shim_environment.boot};
    shim_locale = (shim_locale_layers){.own = shim_locale.boot};
    shim_system_log = (shim_system_log_layers){.own = shim_system_log.boot};
    shim_text_domain = (shim_text_domain_layers){.own = shim_text_domain.boot};
}

/* Exchanges the request's own locale. */
static void use_locale(locale_t own)
{
    const bool is_change = own != shim_locale.own;
    shim_locale.own = own;
    if (is_change) {
        shim_locale_apply();
    }
}

void shim_process_suspend(shim_process_state *state)
{
    *state = (shim_process_state){.variables = shim_environment.own,
                                  .locale = shim_locale.own,
                                  .log = shim_system_log.own,
                                  .text_domain = shim_text_domain.own};
    shim_environment.own = NULL;
    shim_system_log.own = NULL;
    shim_text_domain.own = NULL;
    use_locale(NULL);
    shim_own_signals_suspend(&state->signals);
    shim_attributes_suspend(&state->attributes);
}

void shim_process_resume(const shim_process_state *state)
{
    shim_environment.own = state->variables;
    use_locale(state->locale);
    shim_system_log.own = state->log;
    shim_text_domain.own = state->text_domain;
    shim_own_signals_resume(&state->signals);
    shim_attributes_resume(&state->attributes);
}
