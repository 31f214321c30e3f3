/* Whether a thread executes the instructions of a script, and whether its time limit is over while it does not.
 *
 * Zend looks at a flag of each thread whenever a script jumps back or calls: whoever raises it gets an answer within an
 * instant from a thread that executes instructions, and none from one that is inside a system call or a function.
 *
 * Promises: a question changes nothing but when the answer comes. */
#include "compat.h"
#include "engine/execution_timer.h"
#include "engine/interrupt.h"
#include "shim.h"

struct shim_interrupter {
    zend_atomic_bool *flag;
    shim_timer *timer;
    bool asked;
    bool answered;
};

static __thread shim_interrupter *own;

/* Others who have something to do at an interrupt; NULL when there are none. */
static void (*others)(zend_execute_data *frame);

static void answer(zend_execute_data *frame)
{
    if (own != NULL && __atomic_exchange_n(&own->asked, false, __ATOMIC_ACQ_REL)) {
        __atomic_store_n(&own->answered, true, __ATOMIC_RELEASE);
    }
    if (others != NULL) {
        others(frame);
    }
}

void shim_interrupts_install(void)
{
    others = zend_interrupt_function;
    zend_interrupt_function = answer;
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

uint64_t shim_interrupter_look(shim_interrupter *interrupter)
{
    return shim_timer_look(interrupter->timer);
}

void shim_interrupter_stop(shim_interrupter *interrupter)
{
    own = NULL;
    free(interrupter);
}
