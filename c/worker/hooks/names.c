/* Interposes getaddrinfo() and getnameinfo().
 *
 * Numeric addresses and invalid arguments go straight to libc. All other names are resolved on a helper thread, including
 * those in /etc/hosts: only libc knows which source has a name. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/hooks/helper_call.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <locale.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

DECLARE_LIBC(getaddrinfo);
DECLARE_LIBC(getnameinfo);

/* The error of a lookup whose request may no longer wait; callers do not retry after it. */
enum { GIVEN_UP = EAI_FAIL };

/* ---- from a name to addresses ---- */

typedef struct address_call {
    shim_helper_call call;
    int result;
    struct addrinfo *found;
    bool has_hints;
    struct addrinfo hints;
    /* For names that are not ASCII: libc decodes them by the request's locale. */
    locale_t locale;
    const char *service;
    char node[];
} address_call;

static void find_addresses(shim_helper_call *call)
{
    address_call *own = (address_call *)call;
    const locale_t before = own->locale != (locale_t)0 ? uselocale(own->locale) : (locale_t)0;
    own->result = LIBC(getaddrinfo)(own->node, own->service, own->has_hints ? &own->hints : NULL, &own->found);
    if (own->locale != (locale_t)0) {
        (void)uselocale(before);
    }
}

static void discard_addresses(shim_helper_call *call)
{
    address_call *own = (address_call *)call;
    if (own->found != NULL) {
        freeaddrinfo(own->found);
    }
    if (own->locale != (locale_t)0) {
        freelocale(own->locale);
    }
    free(own);
}

static address_call *address_call_of(const char *node, const char *service, const struct addrinfo *hints)
{
    const size_t node_size = strlen(node) + 1;
    const size_t service_size = service != NULL ? strlen(service) + 1 : 0;
    address_call *own = shim_helper_call_new(SHIM_HOOK_DNS, sizeof(*own) + node_size + service_size, find_addresses,
                                             discard_addresses);
    if (own == NULL) {
        return NULL;
    }
    memcpy(own->node, node, node_size);
    if (service != NULL) {
        own->service = memcpy(own->node + node_size, service, service_size);
    }
    if (hints != NULL) {
        own->has_hints = true;
        own->hints = *hints;
        if ((hints->ai_flags & (AI_IDN | AI_CANONIDN)) != 0) {
            /* If out of memory, such a name is read as ASCII. */
            own->locale = duplocale(uselocale((locale_t)0));
        }
    }
    return own;
}

/* Whether libc takes the node for a name that needs a lookup, and accepts the other arguments. Calls libc to decide, since
 * its notion of a numeric address has exceptions. */
static bool is_name(const char *node, const char *service, const struct addrinfo *hints)
{
    /* libc's defaults without hints. */
    static const struct addrinfo no_hints = {.ai_flags = AI_V4MAPPED | AI_ADDRCONFIG, .ai_family = AF_UNSPEC};
    struct addrinfo numeric = hints != NULL ? *hints : no_hints;
    struct addrinfo *found = NULL;
    numeric.ai_flags |= AI_NUMERICHOST;
    const int error = errno;
    const int result = LIBC(getaddrinfo)(node, service, &numeric, &found);
    if (result == 0) {
        freeaddrinfo(found);
    }
    errno = error;
    return result == EAI_NONAME;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    const bool is_numeric = hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0;
    if (!shim_hook_is_on_for(SHIM_HOOK_DNS, SHIM_CALLER) || node == NULL || is_numeric || !is_name(node, service, hints)) {
        return LIBC(getaddrinfo)(node, service, hints, found);
    }
    address_call *own = address_call_of(node, service, hints);
    const shim_waited waited = own != NULL ? shim_helper_call_wait(SHIM_HOOK_DNS, &own->call) : SHIM_WAITED_BLOCK;
    if (waited == SHIM_WAITED_BLOCK) {
        return LIBC(getaddrinfo)(node, service, hints, found);
    }
    if (waited != SHIM_WAITED_LOOK) {
        return GIVEN_UP;
    }
    const int result = own->result;
    if (result == 0) {
        *found = own->found;
        own->found = NULL;
    }
    shim_helper_call_release(&own->call);
    return result;
}

/* ---- from an address to a name ---- */

typedef struct name_call {
    shim_helper_call call;
    int result;
    struct sockaddr_storage address;
    socklen_t size;
    int flags;
    socklen_t node_size;
    socklen_t service_size;
    char *service;
    char node[];
} name_call;

static void find_name(shim_helper_call *call)
{
    name_call *own = (name_call *)call;
    own->result = LIBC(getnameinfo)((const struct sockaddr *)&own->address, own->size, own->node, own->node_size,
                                    own->service, own->service_size, own->flags);
}

static void discard_name(shim_helper_call *call)
{
    free(call);
}

static name_call *name_call_of(const struct sockaddr *address, socklen_t size, socklen_t node_size, bool has_service,
                               socklen_t service_size, int flags)
{
    name_call *own =
        shim_helper_call_new(SHIM_HOOK_DNS, sizeof(*own) + node_size + service_size, find_name, discard_name);
    if (own == NULL) {
        return NULL;
    }
    memcpy(&own->address, address, size);
    own->size = size;
    own->flags = flags;
    own->node_size = node_size;
    own->service_size = service_size;
    own->service = has_service ? own->node + node_size : NULL;
    return own;
}

/* Whether the call needs a lookup. */
static bool is_question(const struct sockaddr *address, socklen_t size, const char *node, socklen_t node_size, int flags)
{
    if (address == NULL || size < sizeof(address->sa_family) || size > sizeof(struct sockaddr_storage)) {
        return false;
    }
    const bool is_of_internet = address->sa_family == AF_INET || address->sa_family == AF_INET6;
    return is_of_internet && node != NULL && node_size > 0 && (flags & (NI_NUMERICHOST | NI_IDN)) == 0;
}

int getnameinfo(const struct sockaddr *address, socklen_t size, char *node, socklen_t node_size, char *service,
                socklen_t service_size, int flags)
{
    if (!shim_hook_is_on_for(SHIM_HOOK_DNS, SHIM_CALLER) || !is_question(address, size, node, node_size, flags)) {
        return LIBC(getnameinfo)(address, size, node, node_size, service, service_size, flags);
    }
    name_call *own = name_call_of(address, size, node_size, service != NULL, service_size, flags);
    const shim_waited waited = own != NULL ? shim_helper_call_wait(SHIM_HOOK_DNS, &own->call) : SHIM_WAITED_BLOCK;
    if (waited == SHIM_WAITED_BLOCK) {
        return LIBC(getnameinfo)(address, size, node, node_size, service, service_size, flags);
    }
    if (waited != SHIM_WAITED_LOOK) {
        return GIVEN_UP;
    }
    const int result = own->result;
    if (result == 0) {
        memcpy(node, own->node, strlen(own->node) + 1);
        if (service != NULL && service_size > 0) {
            memcpy(service, own->service, strlen(own->service) + 1);
        }
    }
    shim_helper_call_release(&own->call);
    return result;
}
