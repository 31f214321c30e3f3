/* Locks on files that PHP waits for: flock(), and fcntl() with a lock, which replace those of libc.
 *
 * Waiting for a lock ends at the time limit of the request, even where the session extension would start waiting again.
 * In worker mode, the request waits without blocking its thread. Locks on OPcache's own file are answered immediately
 * (php/opcache/lock.c). All other calls pass through unchanged. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "php/opcache/opcache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>

bool shim_is_past_limit(void)
{
    return zend_atomic_bool_load_ex(&EG(timed_out));
}

bool shim_is_over(void)
{
    return shim_is_past_limit() || shim_is_cancelled();
}

/* Whether the session extension is waiting: in one of its functions, or by itself while the current frame is not that
 * of a script. */
bool shim_waits_for_session(void)
{
    const zend_execute_data *frame = EG(current_execute_data);
    if (frame == NULL || frame->func == NULL) {
        return shim_session_is_active();
    }
    const bool is_internal = frame->func->type == ZEND_INTERNAL_FUNCTION;
    const zend_module_entry *module = is_internal ? frame->func->internal_function.module : NULL;
    if (module == NULL) {
        return false;
    }
    return strcmp(module->name, "session") == 0 || (strcmp(module->name, "svc") == 0 && shim_session_is_active());
}

/* Gives up waiting, because the request's time limit has expired or its task was cancelled: reports an interrupted wait
 * to the caller. At the time limit, the script ends when that call returns; a cancelled task gets an exception, so that
 * it does not continue without the lock. The session extension, however, would start waiting again, and after any other
 * error it would continue, so its script is ended here. */
int shim_give_up(void)
{
    if (shim_waits_for_session()) {
        shim_current->lost_session = true;
        if (shim_is_cancelled()) {
            zend_error_noreturn(E_ERROR, "The task was cancelled while it waited for a session");
        }
        zend_timeout();
    }
    if (!shim_is_past_limit() && EG(current_execute_data) != NULL && EG(exception) == NULL) {
        shim_throw_cancelled();
    }
    errno = EINTR;
    return -1;
}

/* Callers that restart an interrupted wait do not see interruptions before the time limit. */
int shim_flock_here(int descriptor, int operation, bool (*may_block)(int descriptor))
{
    int result = NEXT(flock)(descriptor, operation | LOCK_NB);
    if (result == 0 || errno != EWOULDBLOCK) {
        return result;
    }
    if (shim_is_over()) {
        /* The wait could no longer be interrupted. */
        return shim_give_up();
    }
    if (may_block != NULL && !may_block(descriptor)) {
        return -1;
    }
    shim_execution_timer_set_interrupting(true);
    do {
        result = NEXT(flock)(descriptor, operation);
    } while (result != 0 && errno == EINTR && !shim_is_over());
    int error = errno;
    shim_execution_timer_set_interrupting(false);
    errno = error;
    return result != 0 && error == EINTR ? shim_give_up() : result;
}

/* Whether the call returns at once. */
static bool is_immediate(int operation)
{
    return shim_current == NULL || (operation & LOCK_NB) != 0 || (operation & LOCK_UN) != 0;
}

int flock(int descriptor, int operation)
{
    if (shim_wait_hooks.for_lock != NULL) {
        return shim_wait_hooks.for_lock(descriptor, operation);
    }
    return is_immediate(operation) ? NEXT(flock)(descriptor, operation) : shim_flock_here(descriptor, operation, NULL);
}

static int control(int descriptor, int command, void *argument)
{
    if (shim_opcache_handles(descriptor, command, argument)) {
        return 0;
    }
    if ((command == F_SETLKW || command == F_OFD_SETLKW) && shim_wait_hooks.for_record_lock != NULL) {
        return shim_wait_hooks.for_record_lock(descriptor, command, argument, NEXT(fcntl64));
    }
    return NEXT(fcntl64)(descriptor, command, argument);
}

int fcntl(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return control(descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return control(descriptor, command, argument);
}
