/* Checks whether a thread executes instructions of a script, and whether its time limit has expired while it does not.
 *
 * Zend checks a flag of each thread at every backward jump and call of a script. If the flag is set, a thread that
 * executes instructions answers almost immediately; a thread inside a system call or an internal function does not.
 *
 * Asking has no effect on the script. Other users of the interrupt are called too, and may throw. */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "shim.h"

#include <string.h>

struct shim_interrupter {
    zend_atomic_bool *flag;
    shim_timer *timer;
    bool asked;
    bool answered;
};

static __thread shim_interrupter *own;

/* Other users of the interrupt; NULL if there are none. */
static void (*others)(zend_execute_data *frame);

void (*shim_on_interrupt)(void);

static void end_by_signal(int number)
{
    zend_error_noreturn(E_ERROR, "Terminated by signal %d (%s), which the script has sent to its own process", number,
                        strsignal(number));
}

static bool is_inside_writer(const zend_execute_data *frame)
{
    static const char *const writers[] = {"dom", "gd", "imagick", "simplexml", "xml", "xmlwriter", "xsl"};
    for (; frame != NULL; frame = frame->prev_execute_data) {
        const zend_module_entry *module = frame->func != NULL && frame->func->type == ZEND_INTERNAL_FUNCTION
            ? frame->func->internal_function.module
            : NULL;
        if (module != NULL && SHIM_IS_LISTED(module->name, writers)) {
            return true;
        }
    }
    return false;
}

bool shim_is_inside_writer(void)
{
    return is_inside_writer(EG(current_execute_data));
}

/* Ends the script whose client has gone, as PHP would have done when it noticed. An internal function that is interrupted
 * has returned. */
static void end_aborted_script(const zend_execute_data *frame)
{
    if (shim_current == NULL || !shim_current->aborts_later) {
        return;
    }
    const bool is_internal = frame != NULL && frame->func != NULL && !ZEND_USER_CODE(frame->func->type);
    if (!is_inside_writer(is_internal ? frame->prev_execute_data : frame)) {
        shim_current->aborts_later = false;
        if (!PG(ignore_user_abort)) {
            zend_bailout();
        }
    }
}

static void handle_interrupt(zend_execute_data *frame)
{
    if (own != NULL && __atomic_exchange_n(&own->asked, false, __ATOMIC_ACQ_REL)) {
        __atomic_store_n(&own->answered, true, __ATOMIC_RELEASE);
    }
    if (shim_lost_pages_take()) {
        zend_error_noreturn(E_ERROR, "A file was truncated while a library had it mapped into memory");
    }
    const int ending = shim_own_signal_take();
    if (ending > 0) {
        end_by_signal(ending);
    }
    end_aborted_script(frame);
    if (shim_on_interrupt != NULL) {
        shim_on_interrupt();
    }
    if (others != NULL) {
        others(frame);
    }
}

void shim_interrupts_install(void)
{
    others = zend_interrupt_function;
    zend_interrupt_function = handle_interrupt;
}

shim_interrupter *shim_interrupter_start(void)
{
    own = calloc(1, sizeof(*own));
    if (own != NULL) {
        own->flag = &EG(vm_interrupt);
        own->timer = shim_timer_of_thread();
    }
    return own;
}

void shim_interrupter_ask(shim_interrupter *interrupter)
{
    __atomic_store_n(&interrupter->answered, false, __ATOMIC_RELEASE);
    __atomic_store_n(&interrupter->asked, true, __ATOMIC_RELEASE);
    zend_atomic_bool_store_ex(interrupter->flag, true);
}

bool shim_interrupter_is_answered(const shim_interrupter *interrupter)
{
    return __atomic_load_n(&interrupter->answered, __ATOMIC_ACQUIRE);
}

uint64_t shim_interrupter_check(shim_interrupter *interrupter)
{
    return shim_timer_check(interrupter->timer);
}

void shim_interrupter_notify(shim_interrupter *interrupter)
{
    zend_atomic_bool_store_ex(interrupter->flag, true);
}

void shim_interrupter_stop(shim_interrupter *interrupter)
{
    own = NULL;
    free(interrupter);
}

/* ---- cancelled tasks ---- */

void (*shim_throw_cancelled)(void);

bool shim_context_is_cancelled(shim_context *context)
{
    if (!context->is_cancelled && context->owner != NULL && shim_host.task.is_cancelled(context->owner)) {
        context->is_cancelled = true;
        context->cancelled_at = shim_now();
    }
    return context->is_cancelled;
}

bool shim_is_cancelled(void)
{
    return shim_current != NULL && shim_current->is_task && shim_context_is_cancelled(shim_current);
}
