/* The signals of a request. */
#ifndef SVC_SHIM_OWN_SIGNALS_H
#define SVC_SHIM_OWN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

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

/* Whether the dispositions and masks of signals that the calling code sets belong to a request. */
bool shim_own_signals_apply(void);
int shim_own_sigaction(int number, const struct sigaction *action, struct sigaction *old);
int shim_own_mask(int (*real)(int, const sigset_t *, sigset_t *), int how, const sigset_t *set, sigset_t *old);

/* Returns the number of the signal that ends the current request, once; 0 if there is none. */
int shim_own_signal_take(void);

void shim_own_signals_suspend(shim_own_signals_state *state);
void shim_own_signals_resume(const shim_own_signals_state *state);
void shim_own_signals_end(void);
/* Restores the default action, which a fault, or a signal that was sent, triggers once its handler returns. */
void shim_signal_by_default(int number, const siginfo_t *info);
/* Call in a forked child: makes the request's settings the process's. */
void shim_own_signals_become(void);

#endif
