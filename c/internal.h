/* What the shim's own files share. Zend's headers come in here and nowhere else in the project's headers. */
#ifndef SVC_SHIM_INTERNAL_H
#define SVC_SHIM_INTERNAL_H

#include "compat.h"
#include "jump/guard.h"
#include "shim.h"
#include "state/state.h"

#include <time.h>

/* Strings of a request for PHP, which wants them NUL-terminated and outside its own request memory. One block, kept
 * from request to request. */
typedef struct shim_strings {
    char *bytes;
    size_t size;
} shim_strings;

/* The request that runs on this thread, or NULL between requests. In classic mode it is owned by shim_run's frame, in
 * worker mode by its fiber. */
typedef struct shim_context {
    /* NULL once the reply has ended. */
    void *host;
    /* The same, until nothing of the request is left: its destructors have run. */
    void *owner;
    const shim_request *request;
    /* The host's name for it. */
    uint64_t number;
    /* When it arrived; Unix time. */
    double time;
    int64_t body_length;
    /* The resource of the stream behind php://input, when it was made with the request. */
    zend_resource *body;
    /* The response has been ended by svc_finish_request(); later output is dropped. */
    bool finished;
    /* The host said that nobody reads. */
    bool refused;
    /* zend_error_cb saw an error that ends scripts. */
    bool fatal;
    /* The execution timer fired. */
    volatile bool timed_out;
    /* It was left without the lock of its session: what it has of that is not to be written. */
    bool lost_session;
    /* Inside php_request_startup, where OPcache restarts. */
    bool starting;
    /* This thread holds the restart; see opcache/lock.c. */
    bool restarting;
    /* The script of a worker: it lives as long as the worker and serves no client itself. */
    bool is_boot;
    /* It has ended by exit(). */
    bool exited;
    /* A step of it has ended by a jump. */
    bool jumped;
    /* Svc\\Request::current(), once it has been asked for. */
    zval object;
} shim_context;

/* Where a fiber's request is. */
typedef enum shim_phase {
    /* No request: kept for the next one. */
    SHIM_PHASE_IDLE = 0,
    SHIM_PHASE_RUNNING,
    /* It waits in park.c. */
    SHIM_PHASE_PARKED,
    /* What it waited for has come. */
    SHIM_PHASE_READY,
} shim_phase;

/* Why a wait is over. */
typedef enum shim_woken {
    /* It could not wait without its thread: the caller blocks. */
    SHIM_WOKEN_NEVER_PARKED = 0,
    SHIM_WOKEN_BY_DESCRIPTOR,
    SHIM_WOKEN_BY_TIME,
    /* Its descriptor is closed. */
    SHIM_WOKEN_BY_CLOSE,
} shim_woken;

/* A request of worker mode, and the carrier (a stack of its own) that runs one after the other.
 *
 * The carrier is ours and no object of PHP's; each request gets a Fiber object of its own, which scripts see as the
 * current one and which nobody sees again in another request. */
typedef struct shim_fiber {
    shim_context context;
    shim_request_state state;
    shim_strings strings;
    /* Whether there is a carrier; a request on the thread's own stack has none, and no Fiber. */
    bool is_carried;
    /* What the carrier runs for each request: from its beginning to its end. */
    void (*serve)(struct shim_fiber *fiber);
    zend_fiber_context carrier;
    /* Its VM stack, and the frame at the bottom of it. */
    zend_vm_stack vm_stack;
    zend_execute_data *bottom;
    /* The loop's context, to which it switches, and the one of its own that is to be resumed: of the carrier, or of a
     * fiber that the request has made. */
    zend_fiber_context *loop;
    zend_fiber_context *innermost;
    /* The request's Fiber; NULL: it has not begun, or has ended. */
    zend_fiber *php;
    shim_phase phase;
    /* The next one that is idle or ready. */
    struct shim_fiber *next;
    /* What a parked one waits for: events of a descriptor (or of -1), a moment on the monotonic clock (or 0). */
    int descriptor;
    short events;
    /* The others who wait for that descriptor. */
    struct shim_fiber *next_watcher;
    struct shim_fiber *previous_watcher;
    int64_t deadline;
    /* Its place among the timers and one more; 0: none. */
    uint32_t timer_place;
    shim_woken woken;
} shim_fiber;

extern __thread shim_context *shim_current;
extern shim_callbacks shim_host;

/* The host of the current request; NULL when there is none, or it has its outcome already. */
static inline void *shim_party(void)
{
    return shim_current != NULL ? shim_current->host : NULL;
}

/* request.c */
bool shim_describe(shim_strings *strings, const shim_request *request, char **script);
/* The file of the script that runs; NULL: none does. */
extern __thread zend_file_handle *shim_script;

/* closing.c */
void shim_closing_install(void);

/* run.c */
/* What answers the requests of this thread's worker. */
typedef struct shim_request_handler {
    zend_fcall_info call;
    zend_fcall_info_cache cache;
} shim_request_handler;
extern __thread shim_request_handler shim_handler;
void shim_request_run(shim_fiber *fiber);

/* ending.c: what a request leaves to its end. */
void shim_request_finish(shim_fiber *fiber, const shim_place *here);
/* An exception that nobody caught: the script's handler gets it, or the log. exit() is none. */
void shim_exception_report(void);
/* Runs a step of a request; what it throws is reported in its name. */
bool shim_step(const shim_place *here, void (*step)(shim_fiber *), shim_fiber *fiber);

/* worker.c: the worker of this thread. */
typedef struct shim_worker {
    /* The host of the boot request; NULL: this thread is no worker. */
    void *host;
    shim_context *boot;
    /* The boot script has handed over: requests may begin. */
    bool serving;
    /* A request has ended by a jump: what it left behind is not freed before the boot request ends. */
    bool tainted;
    bool exit_scheduled;
    /* The script was told that it serves no more. */
    bool over;
    char exit_reason[16];
    shim_worker_card card;
    uint64_t requests;
    /* Those that have begun and not ended. */
    unsigned carried;
} shim_worker;
extern __thread shim_worker shim_own_worker;
void shim_worker_forget(void);

/* late_boot.c: what an application has set up that boots inside of its first request. */
void shim_late_boot_expect(void);
void shim_late_boot_take(void);
void shim_late_boot_give(void);

/* fiber.c */
extern __thread shim_fiber *shim_running;
/* fiber_class.c, and fiber_variables.c */
void shim_fiber_class_install(void);
/* Among the handlers of PHP's fibers: how the cycle collector is told of their variables. */
void shim_fiber_variables_install(zend_object_handlers *handlers);
/* Runs `serve` on a stack of the request's own until it waits or ends; where there is no memory for it, it ends at once. */
shim_progress shim_fiber_start(shim_context context, void (*serve)(shim_fiber *fiber));
/* Gives the request a new Fiber, which is the current one from then on; may jump. */
void shim_fiber_identify(shim_fiber *fiber);
/* Takes it away, with what scripts have hung on it; may run their code. */
void shim_fiber_retire(shim_fiber *fiber);
/* Nothing is left of the request: its host has it back. */
void shim_fiber_let_go(shim_fiber *fiber);
/* Switches to the loop until the fiber is resumed. */
void shim_fiber_switch_out(shim_fiber *fiber);
bool shim_fiber_may_park(void);
void shim_fibers_forget(void);

/* opcache/lock.c */
/* Whether fcntl() has been answered: it was about a lock that means something to OPcache alone. */
bool shim_opcache_answers(int descriptor, int command, void *argument);

/* locks.c */
int shim_lock_file(int descriptor, int operation);
/* The request ends. Locks by flock() that it still holds are given back if it has ended by a jump, which leaves its files
 * open; otherwise they are held by what it has left to others. */
void shim_locks_end(const shim_fiber *holder, bool give_back);
/* The descriptor is closed. */
void shim_lock_strike(int descriptor);
void shim_locks_stop(void);
/* Whether a request that is parked waits for a lock of it. */
bool shim_is_being_locked(int descriptor);
bool shim_is_over(void);
bool shim_waits_for_session(void);
int shim_give_up(void);
int shim_lock_record(int descriptor, int command, void *lock, int (*call)(int, int, ...));

/* park.c: the one place where a request waits without its thread. */
/* Waits for `events` (of poll()) on `descriptor`, or for the moment `deadline` on the monotonic clock (0: none). The
 * request's own time limit ends the wait too, if `limited`. */
shim_woken shim_park(int descriptor, short events, int64_t deadline, bool limited);
/* Before the next try of what cannot be waited for otherwise; each pause is longer than the one before it, up to a bound,
 * and the first follows 0. False: the caller is to block. */
bool shim_park_briefly(int64_t *pause);
void shim_reactor_install(void);
void shim_reactor_close(void);

/* ready.c */
void shim_ready_push(shim_fiber *fiber);
/* NULL: nobody is ready. */
shim_fiber *shim_ready_pop(void);
size_t shim_ready_count(void);

/* timers.c */
/* Waits for its deadline. False: there is no memory. */
bool shim_timer_add(shim_fiber *fiber);
/* Harmless if it does not wait for a moment. */
void shim_timer_remove(shim_fiber *fiber);
/* Whose moment comes first; NULL: nobody waits for one. */
shim_fiber *shim_timer_first(void);
void shim_timers_close(void);

/* bottom.c: the frame at the bottom of a request, or of engine code that is called in the middle of a switch. */
void shim_bottom_define(zend_class_entry *class, zend_module_entry *module);
/* Makes `frame` that frame, and the current one. */
void shim_bottom_enter(zend_execute_data *frame);

/* classes.c */
/* The request ends: its object must not need it any more. */
void shim_object_forget(shim_context *context);
void shim_classes_register(zend_module_entry *module);
void shim_frankenphp_register(int module_number);
extern const zend_function_entry shim_worker_functions[];

/* sapi_module.c */
extern sapi_module_struct shim_sapi;
extern zend_module_entry shim_module;
void shim_send_interim(int status);

/* errors.c */
void shim_log_message(const char *message, int priority);
/* After all extensions have started. */
void shim_errors_install(void);

/* server_variables.c */
/* After all extensions have started. */
void shim_server_variables_install(void);
void shim_server_variables_register(zval *array);
/* getenv() of a variable of the request, as CGI programs expect. Returns an emalloc'ed string or NULL. */
char *shim_server_variable(const char *name, size_t length);
/* The worker's memory is about to go. */
void shim_server_variables_forget(void);

/* functions.c */
extern const zend_function_entry shim_functions[];
void shim_functions_override(void);

/* loading.c */
/* Before PHP starts. False: libphp does not have what is needed. */
bool shim_loading_prepare(void);
void shim_loading_install(void);
/* Whether the running request is inside of a load of code, where it cannot be suspended. */
bool shim_is_loading(void);
/* A request begins: what is being loaded around it is not its own. */
void shim_loading_begin(void);
/* What was being loaded has ended by a jump. */
void shim_loading_forget(void);

/* interrupt.c */
void shim_interrupts_install(void);

/* children.c: processes that a request forks. */
extern bool shim_is_child;
void shim_children_install(void);
/* The script has ended. In a child this ends the process with the script's exit status; elsewhere it does nothing. */
void shim_child_end(void);
/* cache.c: OPcache, as a worker and its requests see it. */
/* After all extensions have started. */
void shim_cache_install(void);
/* This thread has PHP's structs. */
void shim_cache_thread_start(void);
/* php_request_startup has run. */
void shim_cache_started(bool is_boot);
/* This thread gives back OPcache's lock. */
void shim_cache_unlocked(void);
/* A request of a worker begins, which arrived then. */
void shim_cache_begin(double time);

/* matching.c */
/* PHP has started the boot request: requests of this thread match without what they would share. False: there is no
 * memory. */
bool shim_matching_begin(void);
/* The boot request has ended. */
void shim_matching_end(void);

/* umask.c: the file mode mask and the working directory. */
void shim_umask_install(void);
/* Whether the system lets each thread have its own umask. */
bool shim_has_own_umask(void);
/* If not: the one of all. */
mode_t shim_shared_umask(void);
void shim_umask_thread_start(void);

/* environment.c */
/* What the request has put on top of the process's environment; a value of NULL: it has unset it. */
void shim_environment_each(void (*visit)(const char *name, size_t name_length, const char *value, void *data), void *data);
/* The environment for a program; one block, to be freed. NULL: the process's. False: no memory. */
bool shim_environment_merge(char ***out);
/* Makes the request's environment the process's, in a child. */
void shim_environment_become(void);
void shim_environment_clear(void);
void shim_environment_capture(void);
void shim_environment_release(void);
/* What the request has put, out of its place and back. */
void *shim_environment_take(void);
void shim_environment_give(void *own);

/* locale.c */
void shim_locale_end(void);
void shim_locale_capture(void);
void shim_locale_release(void);
void *shim_locale_take(void);
void shim_locale_give(void *own);

/* programs.c */
void shim_programs_install(void);

/* shortcuts.c */
void shim_shortcuts_install(void);

/* after_jump.c: puts right what a jump has left set. May run a session's handlers, and jump; to be called at the bottom
 * of a request, whether or not there was a jump. */
void shim_after_jump(void);
/* Errors are reported as they are by default. */
void shim_error_handling_reset(void);
/* Before a jump: the caller forgets the method that it was about to call. */
void shim_callee_forget(void);
void shim_output_mend(void);

/* session.c */
/* Puts right what a jump has left set, and lets go of a session that was left half open: it is closed, and not written. */
void shim_session_after_jump(void);
/* Closes what a user's session handler has left open; after the session has ended. NULL: the thread's. */
void shim_session_close(void *globals);
bool shim_session_is_active(void);

/* execution_timer.c */
typedef struct shim_timer shim_timer;
void shim_execution_timer_start(void);
void shim_execution_timer_stop(void);
/* In a forked child, which inherits no timer. */
void shim_execution_timer_forget(void);
/* The timer of this thread has fired. Async-signal-safe. */
void shim_execution_timer_fired(void);
/* An error ends the script of this thread: if it is the time limit's, what runs afterwards has a limit too. */
void shim_execution_timer_taken(void);
/* Whether this thread is about to wait in a call that an interruption ends, and that ends so once the limit is over. */
void shim_execution_timer_insists(bool insists);
shim_timer *shim_timer_of_thread(void);
/* By any one other thread, about once a second while the timer's thread runs PHP. Returns the number of the request whose
 * limit has been over for a while; 0: there is none. */
uint64_t shim_timer_look(shim_timer *timer);

/* memory_limit.c */
/* The heap obeys the memory limit that is in place, and what jumps have left allocated comes on top. A heap that is larger
 * already does not grow. */
void shim_memory_limit_apply(void);
void shim_memory_limit_lift(void);
/* So many bytes more, until it is applied again. */
void shim_memory_limit_extend(size_t bytes);
/* Neighbours, and what ends this request, may need memory beyond what the jump has left allocated. */
void shim_memory_limit_after_jump(void);
/* A worker boots: nothing has been left behind. */
void shim_memory_limit_forget(void);

/* collector.c: when the cycle collector runs. */
void shim_collector_install(void);
/* A worker boots. */
void shim_collector_forget(void);
bool shim_is_collecting(void);
/* After each jump: PHP protects the collector from what it calls a shut-down. If the jump came out of a collection, its
 * buffer is half worked off, and it stays protected. */
void shim_collector_unprotect(void);
/* Whether there is so much possible garbage that it should be collected between two requests; and that. */
bool shim_collector_is_due(void);
void shim_collector_run(void);

/* deep.c: freeing structures of any depth. */
bool shim_deep_install(void);
bool shim_deep_follow_fibers(void);
/* The outermost call that frees on the current stack, and the way back to it after a jump. */
const void *shim_descent_here(void);
void shim_descent_return_to(const void *descent);
/* PHP's heap is about to go, with all that is still to be freed. */
void shim_descent_forget(void);
void shim_descent_stop(void);

/* mutexes.c: how many of PHP's mutexes this thread holds; and gives back those beyond that number, after a jump. */
unsigned shim_mutexes_held(void);
void shim_mutexes_return_to(unsigned count);

/* overflow.c: the end of a stack. */
/* Once PHP has started, before other threads do. */
void shim_overflow_install(void);
void shim_overflow_thread_start(void);
void shim_overflow_thread_stop(void);
/* After a jump: whether it came from the end of a stack; then its request is told so. */
bool shim_overflow_report(void);

/* tsrm.c: what the module has asked to be kept for each thread, by its size; 0: nothing like that. */
ts_rsrc_id shim_tsrm_place(const char *module, size_t size);
/* How much is kept there; 0: nobody knows. */
size_t shim_tsrm_size(ts_rsrc_id id);
/* The module that asked as the one of this index; NULL behind the last. */
const char *shim_tsrm_module(size_t index);

/* The directory that PHP imagines for the thread. */
cwd_state *shim_directory(void);

/* libc.c: libc's own functions, behind the executable's definitions of the same names. */
void *shim_libc(void **slot, const char *name);
const char *shim_libc_hidden(void);
#define DECLARE_LIBC(name) static void *libc_##name
#define LIBC(name) ((__typeof__(&name))shim_libc(&libc_##name, #name))

/* The monotonic clock, in nanoseconds. */
static inline int64_t shim_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Views. */
static inline shim_view shim_view_of(const char *bytes, size_t length)
{
    return (shim_view){.bytes = bytes, .length = length};
}

#endif
