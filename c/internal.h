/* What the shim's own files share. Zend's headers come in here and nowhere else in the project's headers. */
#ifndef SVC_SHIM_INTERNAL_H
#define SVC_SHIM_INTERNAL_H

#include "compat.h"
#include "shim.h"

/* The request that runs on this thread. Owned by shim_run's frame; `current` is NULL between requests. */
typedef struct shim_context {
    void *host;
    const shim_request *request;
    /* The response has been ended by svc_finish_request(); later output is dropped. */
    bool finished;
    /* The host said that nobody reads. */
    bool refused;
    /* zend_error_cb saw an error that ends scripts. */
    bool fatal;
    /* The execution timer fired. */
    volatile bool timed_out;
    /* Inside php_request_startup, where OPcache restarts. */
    bool starting;
    /* This thread holds the restart; see opcache.c. */
    bool restarting;
} shim_context;

extern __thread shim_context *shim_current;
extern shim_callbacks shim_host;

/* sapi_module.c */
extern sapi_module_struct shim_sapi;
extern zend_module_entry shim_module;
void shim_sapi_hooks_install(void);

/* functions.c */
extern const zend_function_entry shim_functions[];
void shim_functions_override(void);

/* interrupt.c */
void shim_interrupts_install(void);

/* isolate.c: what PHP shares between threads and requests must not. */
void shim_isolate_thread(void);
void shim_isolate_begin(void);
void shim_isolate_end(void);
void shim_environment_each(void (*visit)(const char *name, size_t name_length, const char *value, void *data), void *data);

/* shortcuts.c */
void shim_shortcuts_install(void);
void shim_shortcuts_thread_start(void);
void shim_shortcuts_thread_stop(void);
/* Arms this thread's execution timer once more. Async-signal-safe. */
void shim_execution_timer_rearm(int seconds);
bool shim_is_opcache_lock(int descriptor);

/* libc.c: libc's own functions, behind the executable's definitions of the same names. */
void *shim_libc(void **slot, const char *name);
const char *shim_libc_hidden(void);
#define DECLARE_LIBC(name) static void *libc_##name
#define LIBC(name) ((__typeof__(&name))shim_libc(&libc_##name, #name))

/* Views. */
static inline shim_view shim_view_of(const char *bytes, size_t length)
{
    return (shim_view){.bytes = bytes, .length = length};
}

#endif
