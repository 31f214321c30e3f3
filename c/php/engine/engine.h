/* Hooks into Zend that every mode needs. */
#ifndef SVC_PHP_ENGINE_H
#define SVC_PHP_ENGINE_H

#include "compat.h"
#include "php/context/context.h"

/* ---- Freeing structures of any depth (iterative_free.c) ---- */

bool shim_iterative_free_install(void);
/* Returns the outermost call that frees on the current stack; shim_free_depth_return_to() restores it after a bailout or a
 * switch. */
const void *shim_free_depth_here(void);
void shim_free_depth_return_to(const void *free_depth);
/* Call before PHP's heap is destroyed, with all postponed values. */
void shim_free_depth_forget(void);
void shim_free_depth_stop(void);

/* ---- Exceptions as the engine sees them (exception.c) ---- */

/* Returns the property that Exception or Error declares under this name, without side effects: an ordinary read calls
 * `__isset` and `__get` if a script has unset it. */
zval *shim_exception_member(zend_object *exception, zend_string *name);
/* Whether it is not an error: exit() was called, or the fiber is being destroyed. */
static inline bool shim_is_exit(const zend_object *exception)
{
    return zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception);
}
/* Returns the previous exception; NULL if there is none. */
zend_object *shim_exception_previous(zend_object *exception);
/* Returns the number of exceptions in the chain that begins with this one. Each counts once, even if a script has
 * closed the chain to a circle. */
size_t shim_exception_chain(zend_object *exception);

/* ---- The timer behind max_execution_time and set_time_limit() (execution_timer.c) ---- */

typedef struct shim_timer shim_timer;
void shim_execution_timer_start(void);
void shim_execution_timer_stop(void);
/* Call in a forked child, which inherits no timers. */
void shim_execution_timer_forget(void);
/* The timer of this thread has fired. Async-signal-safe. */
void shim_execution_timer_fired(void);
/* Call when an error ends the script of this thread. If the time limit caused it, the code that runs afterwards gets a
 * limit too. */
void shim_execution_timer_script_failed(void);
/* Records whether this thread is about to wait in an interruptible call, which gives up once the limit has expired. */
void shim_execution_timer_set_interrupting(bool insists);
/* Call when PHP's own end of a request begins: PHP removes the limit there before it closes streams, whose wrappers and
 * filters are script code. Until the release, the following code gets a limit of the same length instead. */
void shim_execution_timer_hold(void);
void shim_execution_timer_release(void);
shim_timer *shim_timer_of_thread(void);
/* Call on one other thread at a time, about once a second while the timer's thread runs PHP. Returns the number of the
 * request whose limit expired a while ago; 0 if there is none. */
uint64_t shim_timer_check(shim_timer *timer);

/* The limit of a suspended request. */
typedef struct shim_timer_state {
    /* The time at which it fires, on the monotonic clock in nanoseconds; 0 if it is not armed. */
    int64_t deadline;
    bool timed_out;
} shim_timer_state;

void shim_timer_suspend(shim_timer_state *state);
void shim_timer_resume(const shim_timer_state *state);
/* Returns the time at which the limit of the running request expires, on the monotonic clock; 0 if it has none. */
int64_t shim_timer_deadline(void);

/* ---- Checks whether a thread executes instructions of a script (interrupt.c) ---- */

/* Called on each interrupt, between two instructions of a script; may throw. NULL if it is unused. */
extern void (*shim_on_interrupt)(void);

void shim_interrupts_install(void);
/* Whether a function runs whose library writes output (libxml2, libxslt, libpng, ImageMagick). A bailout out of the output
 * would lose the memory that such a library has allocated. */
bool shim_is_inside_writer(void);
/* Whether the current request is a task that has been cancelled. */
bool shim_is_cancelled(void);
/* The same for any request of the thread. */
bool shim_context_is_cancelled(shim_context *context);
/* Throws the exception for a wait of a cancelled task; set by the feature that has tasks. */
extern void (*shim_throw_cancelled)(void);

/* ---- Pages of mapped files that another process or request has truncated (lost_pages.c) ---- */

void shim_lost_pages_install(void);
/* Whether code of the current request has read such a page; each occurrence is reported once. */
bool shim_lost_pages_take(void);

/* ---- The memory limit of a worker's requests (memory_limit.c) ---- */

/* Makes the heap enforce the current memory limit, plus the memory that bailouts have left allocated. A heap that is
 * already larger does not grow. */
void shim_memory_limit_apply(void);
void shim_memory_limit_lift(void);
/* Raises the limit by this many bytes, until it is applied again. */
void shim_memory_limit_extend(size_t bytes);
/* Call after a bailout: other requests, and the code that ends this one, may need memory beyond the memory that the
 * bailout has left allocated. */
void shim_memory_limit_after_bailout(void);
/* Call when a worker boots: there is no memory left behind. */
void shim_memory_limit_forget(void);

/* ---- Patterns of mbstring (onig.c) ---- */

/* Call once, after PHP's modules have started. */
void shim_patterns_install(void);
void shim_patterns_thread_stop(void);

/* ---- Corrections of PHP's class Fiber (fiber_class.c) ---- */

void shim_fiber_class_install(void);

/* ---- Classes that only svc instantiates (internal_classes.c) ---- */

/* Registers a final class with these methods. `create` allocates an object; NULL if objects have no state. */
zend_class_entry *shim_sealed_class(const char *name, const zend_function_entry *methods,
                                    zend_object *(*create)(zend_class_entry *));
/* Creates an object of such a class; no other function can. */
void shim_sealed_make(zval *object, zend_class_entry *class);

/* ---- Streams and their contexts (streams.c) ---- */

/* Fills `wrapper` and `operations` with copies of PHP's, with another opener, and replaces PHP's wrapper of this scheme by
 * them. Call before any thread runs PHP. */
void shim_wrapper_replace(const char *scheme, const php_stream_wrapper *php, php_stream_wrapper *wrapper,
                          php_stream_wrapper_ops *operations,
                          __typeof__(((php_stream_wrapper_ops *)NULL)->stream_opener) open);
/* Prevents scripts from closing the stream. */
void shim_keep_open(php_stream *stream);
/* Returns a context with the same options and the same notifier: changes of one do not affect the other. */
php_stream_context *shim_context_copy(const php_stream_context *context);
/* Returns a notifier that calls the same callback; NULL for NULL. */
php_stream_notifier *shim_notifier_copy(const php_stream_notifier *notifier);

/* The error_reporting while svc calls PHP on its own behalf: only fatal errors are reported. Scripts do not set this
 * value. */
#define SHIM_REPORTS_NOTHING (1 << 30)

/* ---- The per-thread state of extensions (tsrm.c) ---- */

/* Returns the ID of the state that the module has requested for each thread, identified by its size; 0 if there is none. */
ts_rsrc_id shim_tsrm_id(const char *module, size_t size);
/* Returns the size of that state; 0 if unknown. */
size_t shim_tsrm_size(ts_rsrc_id id);
/* Returns the module that made the request with this index; NULL after the last one. */
const char *shim_tsrm_module(size_t index);

/* Returns the virtual working directory of the thread. */
cwd_state *shim_directory(void);

/* ---- The handlers of PHP's functions (handlers.c) ---- */

/* Returns the internal function of this lower-case name; NULL if there is none. */
zend_function *shim_function_find(const HashTable *functions, const char *name);
/* Replaces the handler of an internal function or method. Returns PHP's own; NULL if there is no such function. */
zif_handler shim_handler_replace(zend_function *function, zif_handler handler);
/* As shim_handler_replace(), by name. */
zif_handler shim_function_replace(const char *name, zif_handler handler);
/* As shim_function_replace(), for all functions that share the handler: gzclose() is fclose(). */
zif_handler shim_function_replace_aliases(const char *name, zif_handler handler);

/* Calls a function of PHP, or a method of this class even if a script's subclass overrides it. Names are in lower case;
 * `class_name` and `object` are NULL for a function. Returns false if there is none, or an exception is thrown; the result
 * is then undefined, unless the call has returned. */
bool shim_builtin_call(const char *class_name, const char *name, zend_object *object, zval *result, zval *arguments,
                       uint32_t count);

/* ---- Persistent connections of PDO (persistent_pdo.c) ---- */

/* Whether the arguments of a constructor, or of PDO::connect(), ask for a persistent connection. */
bool shim_pdo_asks_to_persist(const zend_execute_data *execute_data);
/* Returns the persistent connection of an object, which other objects may have, too; NULL if it has none. */
const void *shim_pdo_persistent_handle(zend_object *object);
/* Call after extensions have started. */
void shim_persistent_pdo_install(void);

/* ---- The call that a handler replaces ---- */

/* Whether it calls a function or method of this name. */
static inline bool shim_is_called(const zend_execute_data *execute_data, const char *name)
{
    return strcasecmp(ZSTR_VAL(EX(func)->common.function_name), name) == 0;
}

/* Returns the call if the current one is of PHP's function of this name. NULL otherwise. Only on a thread of PHP. */
static inline const zend_execute_data *shim_current_call(const char *name)
{
    const zend_execute_data *call = EG(current_execute_data);
    const bool is_internal = call != NULL && call->func != NULL && call->func->type == ZEND_INTERNAL_FUNCTION &&
                             call->func->common.function_name != NULL;
    return is_internal && shim_is_called(call, name) ? call : NULL;
}

/* Returns an argument without references; NULL if it was not passed. */
static inline zval *shim_argument(const zend_execute_data *execute_data, uint32_t number)
{
    if (number == 0 || ZEND_CALL_NUM_ARGS(execute_data) < number) {
        return NULL;
    }
    zval *argument = ZEND_CALL_ARG(execute_data, number);
    ZVAL_DEREF(argument);
    return Z_TYPE_P(argument) != IS_UNDEF ? argument : NULL;
}

/* Returns an argument that is an object; NULL otherwise. */
static inline zend_object *shim_argument_object(const zend_execute_data *execute_data, uint32_t number)
{
    const zval *argument = shim_argument(execute_data, number);
    return argument != NULL && Z_TYPE_P(argument) == IS_OBJECT ? Z_OBJ_P(argument) : NULL;
}

#endif
