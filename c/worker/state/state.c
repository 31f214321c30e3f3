/* The state of a request as a whole: its parts in their order.
 *
 * The order matters for directives, because their handlers write into the other structs. A request's values are
 * withdrawn after everything else has been restored to the baseline, and put in place before anything else of the
 * request's. Some handlers write more than the directive's value (a new default_charset changes the current encoding of
 * mbstring), so the extensions' state is then reset again. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "worker/engine/engine.h"
#include "worker/state/state.h"

/* ---- the state that libc keeps for the process: see shim_process_state ---- */

static void capture_process(void)
{
    shim_environment = (shim_overlay){.boot = shim_environment.own};
    shim_locale = (shim_locale_layers){.boot = shim_locale.own};
    shim_system_log = (shim_system_log_layers){.boot = shim_system_log.own};
    shim_text_domain = (shim_text_domain_layers){.boot = shim_text_domain.own};
}

static void release_process(void)
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

static void suspend_process(shim_process_state *state)
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

static void resume_process(const shim_process_state *state)
{
    shim_environment.own = state->variables;
    use_locale(state->locale);
    shim_system_log.own = state->log;
    shim_text_domain.own = state->text_domain;
    shim_own_signals_resume(&state->signals);
    shim_attributes_resume(&state->attributes);
}

/* ---- all parts ---- */

void shim_state_capture(void)
{
    shim_superglobals_capture();
    shim_globals_capture();
    shim_executor_capture();
    shim_modules_capture();
    capture_process();
    shim_ini_capture();
}

void shim_state_release(void)
{
    shim_loops_release();
    shim_ini_release();
    release_process();
    shim_modules_release();
    shim_globals_release();
    shim_superglobals_release();
}

bool shim_state_prepare(shim_request_state *state)
{
    return shim_superglobals_prepare() && shim_modules_prepare(&state->modules) && shim_ini_prepare(&state->ini) &&
           shim_loops_prepare(&state->loops);
}

void shim_state_suspend(shim_request_state *state)
{
    shim_memory_limit_lift();
    shim_timer_suspend(&state->timer);
    state->transfer = shim_transfer_suspend();
    state->query = shim_query_suspend();
    shim_superglobals_suspend(&state->superglobals);
    shim_variables_suspend(&state->variables);
    shim_loops_suspend(&state->loops);
    shim_modules_suspend(state->modules);
    if (CG(unclean_shutdown)) {
        /* A bailout has protected the collector until this request recovers. Others collect meanwhile. */
        shim_collector_unprotect();
    }
    shim_executor_suspend(&state->executor);
    shim_globals_suspend(&state->globals);
    suspend_process(&state->process);
    shim_ini_suspend(&state->ini);
    if (state->ini.count > 0) {
        shim_modules_reset();
    }
    shim_memory_limit_apply();
}

void shim_state_resume(shim_request_state *state)
{
    shim_memory_limit_lift();
    shim_ini_resume(&state->ini);
    resume_process(&state->process);
    shim_globals_resume(&state->globals);
    shim_executor_resume(&state->executor);
    if (CG(unclean_shutdown)) {
        (void)gc_protect(true);
    }
    shim_modules_resume(state->modules);
    shim_loops_resume(&state->loops);
    shim_variables_resume(&state->variables);
    shim_superglobals_resume(&state->superglobals);
    shim_memory_limit_apply();
    shim_query_resume(state->query);
    shim_transfer_resume(state->transfer);
    shim_timer_resume(&state->timer);
}

void shim_state_free(shim_request_state *state)
{
    free(state->modules);
    state->modules = NULL;
    shim_ini_free(&state->ini);
    shim_loops_free(&state->loops);
}
