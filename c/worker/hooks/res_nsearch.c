/* Interposes res_nsearch(): dns_get_record(), dns_check_record() and dns_get_mx() call it.
 *
 * A resolver state cannot be passed to another thread: its owner may give up and free it, and it must not be copied, since
 * libc counts references to its configuration. The helper thread initialises another state from the same files and applies
 * the caller's settings. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/hooks/hooks.h"

#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <string.h>

/* The settings that a caller may have changed in its state; names as in resolv.h. */
typedef struct resolver_settings {
    int retrans;
    int retry;
    unsigned long options;
    int nscount;
    struct sockaddr_in nsaddr_list[MAXNS];
    unsigned ndots;
    unsigned nsort;
    struct __res_state_sort {
        struct in_addr addr;
        uint32_t mask;
    } sort_list[MAXRESOLVSORT];
    char defdname[256];
    /* The offset in `defdname` of each domain of the search list. */
    size_t search[MAXDNSRCH];
    unsigned search_count;
} resolver_settings;

typedef struct record_call {
    shim_helper_call call;
    resolver_settings settings;
    int class;
    int type;
    int result;
    int state_error;
    int size;
    unsigned char *answer;
    char name[];
} record_call;

/* ---- settings ---- */

static void read_settings(resolver_settings *settings, const struct __res_state *state)
{
    settings->retrans = state->retrans;
    settings->retry = state->retry;
    settings->options = state->options;
    settings->nscount = state->nscount;
    memcpy(settings->nsaddr_list, state->nsaddr_list, sizeof(settings->nsaddr_list));
    settings->ndots = state->ndots;
    settings->nsort = state->nsort;
    for (unsigned i = 0; i < MAXRESOLVSORT; i++) {
        settings->sort_list[i].addr = state->sort_list[i].addr;
        settings->sort_list[i].mask = state->sort_list[i].mask;
    }
    _Static_assert(sizeof(settings->defdname) == sizeof(state->defdname), "as in resolv.h");
    memcpy(settings->defdname, state->defdname, sizeof(settings->defdname));
    for (unsigned i = 0; i < MAXDNSRCH && state->dnsrch[i] != NULL; i++) {
        const size_t offset = (size_t)(state->dnsrch[i] - state->defdname);
        if (offset < sizeof(state->defdname)) {
            settings->search[settings->search_count++] = offset;
        }
    }
}

static void write_settings(const resolver_settings *settings, struct __res_state *state)
{
    state->retrans = settings->retrans;
    state->retry = settings->retry;
    state->options = settings->options;
    state->nscount = settings->nscount;
    memcpy(state->nsaddr_list, settings->nsaddr_list, sizeof(settings->nsaddr_list));
    state->ndots = settings->ndots & 0xf;
    state->nsort = settings->nsort & 0xf;
    for (unsigned i = 0; i < MAXRESOLVSORT; i++) {
        state->sort_list[i].addr = settings->sort_list[i].addr;
        state->sort_list[i].mask = settings->sort_list[i].mask;
    }
    memcpy(state->defdname, settings->defdname, sizeof(settings->defdname));
    memset(state->dnsrch, 0, sizeof(state->dnsrch));
    for (unsigned i = 0; i < settings->search_count; i++) {
        state->dnsrch[i] = state->defdname + settings->search[i];
    }
}

/* ---- the call ---- */

static void find_records(shim_helper_call *call)
{
    record_call *own = (record_call *)call;
    struct __res_state state;
    memset(&state, 0, sizeof(state));
    if (res_ninit(&state) != 0) {
        own->result = -1;
        own->state_error = NETDB_INTERNAL;
        return;
    }
    const int opened = state.nscount;
    write_settings(&own->settings, &state);
    own->result = NEXT(res_nsearch)(&state, own->name, own->class, own->type, own->answer, own->size);
    own->state_error = state.res_h_errno;
    /* res_nclose() frees `nscount` addresses. */
    state.nscount = opened > state.nscount ? opened : state.nscount;
    const int error = errno;
    res_nclose(&state);
    errno = error;
}

static record_call *record_call_of(const struct __res_state *state, const char *name, int class, int type, int size)
{
    const size_t name_size = strlen(name) + 1;
    record_call *own =
        shim_helper_call_new(sizeof(*own) + name_size + sizeof(HEADER) + (size_t)size, find_records, NULL);
    if (own == NULL) {
        return NULL;
    }
    read_settings(&own->settings, state);
    own->class = class;
    own->type = type;
    own->size = size;
    memcpy(own->name, name, name_size);
    /* libc accesses the buffer as a HEADER. */
    const uintptr_t end = (uintptr_t)own->name + name_size;
    own->answer = (unsigned char *)own->name + name_size + -end % _Alignof(HEADER);
    return own;
}

int res_nsearch(res_state state, const char *name, int class, int type, unsigned char *answer, int size)
{
    if (!shim_hook_is_on_for(SHIM_HOOK_DNS, SHIM_CALLER) || (state->options & RES_INIT) == 0 || size <= 0) {
        return NEXT(res_nsearch)(state, name, class, type, answer, size);
    }
    record_call *own = record_call_of(state, name, class, type, size);
    const shim_waited waited = own != NULL ? shim_helper_call_wait(&own->call) : SHIM_WAITED_BLOCK;
    if (waited == SHIM_WAITED_BLOCK) {
        return NEXT(res_nsearch)(state, name, class, type, answer, size);
    }
    if (waited != SHIM_WAITED_CHECK) {
        /* Callers do not retry after this error. */
        state->res_h_errno = NO_RECOVERY;
        h_errno = NO_RECOVERY;
        return -1;
    }
    const int result = own->result;
    state->res_h_errno = own->state_error;
    if (result > 0) {
        /* The result is the length of the whole response, which may exceed the buffer. */
        memcpy(answer, own->answer, (size_t)(result < size ? result : size));
    }
    shim_helper_call_release(&own->call);
    return result;
}
