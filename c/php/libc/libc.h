/* Functions that come before libc's, and what they keep for each request. */
#ifndef SVC_PHP_LIBC_H
#define SVC_PHP_LIBC_H

#include "compat.h"

#include <locale.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- Attributes of the process and its threads (process_attributes.c) ---- */

void shim_umask_install(void);
/* Whether the calling thread has its own working directory. */
bool shim_has_own_directory(void);
/* Call in a forked child: its only thread has its own working directory. */
void shim_own_directory_become(void);
/* Whether the system lets each thread have its own umask and working directory. */
bool shim_has_own_umask(void);
/* Returns the mask of all threads that have not set another one. */
mode_t shim_shared_umask(void);
void shim_umask_thread_start(void);

/* The request's changes of its thread, while another request runs on it. */
typedef struct shim_attributes_state {
    bool has_priority;
    int priority;
} shim_attributes_state;

void shim_attributes_suspend(shim_attributes_state *state);
void shim_attributes_resume(const shim_attributes_state *state);
void shim_attributes_end(void);

/* ---- The process, and its clocks ---- */

/* Asks the kernel: getpid() answers in a child of vfork() as in its parent. */
static inline pid_t shim_process_id(void)
{
    return (pid_t)syscall(SYS_getpid);
}

static inline int64_t shim_read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns the time in nanoseconds. */
static inline int64_t shim_now(void)
{
    return shim_read_clock(CLOCK_MONOTONIC);
}

/* ---- The range of the server's own descriptors ---- */

/* While it serves, the server opens descriptors outside the range that select() supports, which is left to scripts. */
enum { SHIM_DESCRIPTOR_MIN = 1024 };

/* ---- The environment of a request (environment.c) ---- */

/* The variables that the request has set, and below them those of the boot script of its worker. */
typedef struct shim_overlay {
    struct shim_variable *own;
    struct shim_variable *boot;
} shim_overlay;
extern __thread shim_overlay shim_environment;

/* Visits the variables that the request has set on top of the process's environment; a NULL value means that it has
 * unset the variable. */
void shim_environment_each(void (*visit)(const char *name, size_t name_length, const char *value, void *data), void *data);
/* Builds the environment for a child process: one block, which the caller frees. NULL stands for the process's own.
 * Returns false if out of memory. */
bool shim_environment_merge(char ***out);
/* Call in a forked child: makes the request's variables part of the process's environment. */
void shim_environment_become(void);
/* Adds a variable for the calling thread, unless the process has it. */
void shim_environment_lend(const char *name, const char *value);
/* Removes the request's variables. */
void shim_environment_clear(void);

/* Reads the environment. Call once, before other threads of PHP start. */
void shim_process_variables_read(void);
/* Returns a copy that the caller may change. It omits names that begin with HTTP_, because they would be taken for
 * fields of a request, and the variables that every request, task and boot script sets. */
zend_array *shim_process_variables_copy(void);
/* Returns the number of variables. */
uint32_t shim_process_variables_count(void);
bool shim_process_variables_have(const char *name, size_t length);

/* ---- The functions behind the executable's replacements of the same name (libc.c) ---- */

/* Finds the definition of `name` that follows the executable's, and stores it in `slot`. Can be called on any thread,
 * at any time. */
void *shim_next(void **slot, const char *name);
/* Does the same for a function of a library that is loaded with libphp, or later with an extension; `files` are the
 * possible names of the library. NULL means that it is not loaded, so that the function is never called. */
void *shim_library(void **slot, const char *name, const char *const *files, size_t count);
/* Does the same for a function of libpq. */
void *shim_libpq(void **slot, const char *name);
/* Locks for state that libc keeps for the process. A fork waits until no other thread holds one: that thread would not exist
 * in the child. */
typedef enum shim_libc_lock_id { SHIM_LOCK_OF_LOG, SHIM_LOCK_OF_BINDINGS, SHIM_LOCK_OF_LDAP } shim_libc_lock_id;
void shim_libc_lock(shim_libc_lock_id id);
void shim_libc_unlock(shim_libc_lock_id id);
/* Call before threads run PHP. */
void shim_libc_install(void);
/* Returns the file name of the library, without its folder, that the code at this address belongs to; an empty one if it is
 * unknown. */
const char *shim_library_at(const void *address);
/* Called on any thread after a library has been loaded. NULL if it is unused. */
extern void (*shim_on_library_loaded)(void);
/* The code that called a replacement of one of libc's functions. */
#define SHIM_CALLER __builtin_return_address(0)
/* Returns the first name of interposed.def that libraries do not find in the executable; NULL if they find all of
 * them. */
const char *shim_libc_hidden(void);
/* Returns the first of its names that is a function of libphp and that libphp does not export; NULL if there is none. */
const char *shim_libphp_missing(void);
/* Where a place of the code keeps the function that it has looked up. */
#define SHIM_SLOT __extension__({ static void *shim_slot; &shim_slot; })
/* The function that the executable's definition of `name` precedes, as RTLD_NEXT finds it. */
#define NEXT(name) ((__typeof__(&name))shim_next(SHIM_SLOT, #name))

/* ---- The locale of a request (locale.c) ---- */

/* The locale that the request has set, and that of the boot script of its worker; NULL if it has set none. */
typedef struct shim_locale_layers {
    locale_t own;
    locale_t boot;
} shim_locale_layers;
extern __thread shim_locale_layers shim_locale;
/* Makes the thread use them; call after a change. */
void shim_locale_apply(void);
void shim_locale_end(void);

/* ---- The signals of a request (own_signals.c) ---- */

/* The request's settings, while another request runs on its thread. */
typedef struct shim_own_signals_state {
    /* The time at which its alarm goes off, on the monotonic clock; 0 if it has none. */
    int64_t alarm_at;
    /* Its mask, and the signals that have arrived meanwhile although blocked, in the kernel's form. */
    uint64_t blocked;
    uint64_t pending;
} shim_own_signals_state;

/* Call before threads run PHP. */
void shim_own_signals_install(void);
void shim_own_signals_thread_stop(void);

/* For a thread that runs a request, to which the dispositions and masks of signals belong. */
int shim_own_sigaction(int number, const struct sigaction *action, struct sigaction *old);
int shim_own_mask(int (*real)(int, const sigset_t *, sigset_t *), int how, const sigset_t *set, sigset_t *old);

/* Returns the number of the signal that ends the current request, once; 0 if there is none. */
int shim_own_signal_take(void);

void shim_own_signals_suspend(shim_own_signals_state *state);
void shim_own_signals_resume(const shim_own_signals_state *state);
void shim_own_signals_end(void);
/* Sets the process's handler by a system call: sigaction() would change that of the request, and refuses libc's own
 * signals. */
void shim_signal_handle_by(int number, void (*handler)(int));
/* Call in a handler for a fault that is not its own: calls the former handler, and restores the default action, which the
 * fault, or a signal that was sent, triggers once the handler returns. */
void shim_signal_pass_on(const struct sigaction *former, int number, siginfo_t *info, void *place);
/* Call in a forked child: makes the request's settings those of the process. */
void shim_own_signals_become(void);

/* ---- The system's log of a request (system_log.c) ---- */

/* The arguments of the request's openlog(), and below them those of the boot script of its worker; NULL if it has not
 * called it. */
typedef struct shim_system_log_layers {
    struct shim_log_settings *own;
    struct shim_log_settings *boot;
} shim_system_log_layers;
extern __thread shim_system_log_layers shim_system_log;
void shim_system_log_end(void);

/* ---- The text domain of a request (gettext.c) ---- */

/* The domain that the request has set, and that of the boot script of its worker; NULL if it has set none. */
typedef struct shim_text_domain_layers {
    char *own;
    char *boot;
} shim_text_domain_layers;
extern __thread shim_text_domain_layers shim_text_domain;
void shim_text_domain_end(void);

/* ---- Environment, locale, signals, priority, the system's log and the text domain ---- */

/* Call when a request has ended. */
static inline void shim_process_state_end(void)
{
    shim_environment_clear();
    shim_locale_end();
    shim_system_log_end();
    shim_text_domain_end();
    shim_own_signals_end();
    shim_attributes_end();
}

/* ---- System calls whose result is known (syscall_elision.c) ---- */

void shim_syscall_elision_install(void);

#endif
