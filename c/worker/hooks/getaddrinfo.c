/* Interposes getaddrinfo(), getnameinfo() and gethostbyname_r().
 *
 * Numeric addresses and invalid arguments go straight to libc. All other names are resolved on a helper thread, including
 * those in /etc/hosts: only libc knows which source has a name. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <locale.h>
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* ---- gethostbyname_r() ---- */

/* PHP's gethostbyname() and the functions of ext/sockets call it.
 *
 * The variants that return a static struct of libc have no hook: they are not thread-safe, so no library whose requests can
 * be suspended uses them. */

/* The results point into a buffer of the caller's size, at the caller's offset from an aligned address: it suffices exactly
 * when the caller's buffer does. */
enum { ALIGNMENT = _Alignof(max_align_t) };

typedef struct host_call {
    shim_helper_call call;
    int result;
    int host_error;
    struct hostent entry;
    struct hostent *found;
    char *buffer;
    size_t size;
    char name[];
} host_call;

static void find_host(shim_helper_call *call)
{
    host_call *own = (host_call *)call;
    own->result =
        NEXT(gethostbyname_r)(own->name, &own->entry, own->buffer, own->size, &own->found, &own->host_error);
}

static host_call *host_call_of(const char *name, const char *buffer, size_t size)
{
    const size_t name_size = strlen(name) + 1;
    host_call *own = shim_helper_call_new(sizeof(*own) + name_size + 2 * ALIGNMENT + size, find_host, NULL);
    if (own == NULL) {
        return NULL;
    }
    memcpy(own->name, name, name_size);
    const uintptr_t end = (uintptr_t)own->name + name_size;
    own->buffer = own->name + name_size + ((uintptr_t)buffer - end) % ALIGNMENT;
    own->size = size;
    return own;
}

/* ---- the results ---- */

/* Returns the same position in the caller's buffer; a pointer to other memory is returned unchanged. */
static void *moved(const host_call *own, void *pointer, char *buffer)
{
    const size_t offset = (size_t)((char *)pointer - own->buffer);
    return pointer != NULL && offset < own->size ? buffer + offset : pointer;
}

static char **moved_list(const host_call *own, char **list, char *buffer)
{
    char **moved_to = moved(own, list, buffer);
    for (char **at = moved_to; at != NULL && *at != NULL; at++) {
        *at = moved(own, *at, buffer);
    }
    return moved_to;
}

static void take_host(const host_call *own, struct hostent *entry, char *buffer)
{
    memcpy(buffer, own->buffer, own->size);
    *entry = own->entry;
    entry->h_name = moved(own, own->entry.h_name, buffer);
    entry->h_aliases = moved_list(own, own->entry.h_aliases, buffer);
    entry->h_addr_list = moved_list(own, own->entry.h_addr_list, buffer);
}

/* Whether libc takes `name` for a numeric address, which it parses without a query. */
static bool is_number(const char *name)
{
    const size_t length = strlen(name);
    const char *digits = strchr(name, ':') != NULL ? "0123456789abcdefABCDEF:." : "0123456789.";
    return length > 0 && strspn(name, digits) == length && name[length - 1] != '.';
}

int gethostbyname_r(const char *name, struct hostent *entry, char *buffer, size_t size, struct hostent **found,
                    int *host_error)
{
    if (!shim_hook_is_on_for(SHIM_HOOK_DNS, SHIM_CALLER) || is_number(name)) {
        return NEXT(gethostbyname_r)(name, entry, buffer, size, found, host_error);
    }
    host_call *own = host_call_of(name, buffer, size);
    const shim_waited waited = own != NULL ? shim_helper_call_wait(&own->call) : SHIM_WAITED_BLOCK;
    if (waited == SHIM_WAITED_BLOCK) {
        return NEXT(gethostbyname_r)(name, entry, buffer, size, found, host_error);
    }
    *found = NULL;
    if (waited != SHIM_WAITED_CHECK) {
        /* Callers do not retry after this error. */
        *host_error = NO_RECOVERY;
        return 0;
    }
    const int result = own->result;
    *host_error = own->host_error;
    if (own->found != NULL) {
        take_host(own, entry, buffer);
        *found = entry;
    }
    shim_helper_call_release(&own->call);
    return result;
}

/* ---- getaddrinfo() and getnameinfo() ---- */

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
    own->result = NEXT(getaddrinfo)(own->node, own->service, own->has_hints ? &own->hints : NULL, &own->found);
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
}

static address_call *address_call_of(const char *node, const char *service, const struct addrinfo *hints)
{
    const size_t node_size = strlen(node) + 1;
    const size_t service_size = service != NULL ? strlen(service) + 1 : 0;
    address_call *own =
        shim_helper_call_new(sizeof(*own) + node_size + service_size, find_addresses, discard_addresses);
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
    const int result = NEXT(getaddrinfo)(node, service, &numeric, &found);
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
        return NEXT(getaddrinfo)(node, service, hints, found);
    }
    address_call *own = address_call_of(node, service, hints);
    const shim_waited waited = own != NULL ? shim_helper_call_wait(&own->call) : SHIM_WAITED_BLOCK;
    if (waited == SHIM_WAITED_BLOCK) {
        return NEXT(getaddrinfo)(node, service, hints, found);
    }
    if (waited != SHIM_WAITED_CHECK) {
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
    own->result = NEXT(getnameinfo)((const struct sockaddr *)&own->address, own->size, own->node, own->node_size,
                                    own->service, own->service_size, own->flags);
}

static name_call *name_call_of(const struct sockaddr *address, socklen_t size, socklen_t node_size, bool has_service,
                               socklen_t service_size, int flags)
{
    name_call *own = shim_helper_call_new(sizeof(*own) + node_size + service_size, find_name, NULL);
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
        return NEXT(getnameinfo)(address, size, node, node_size, service, service_size, flags);
    }
    name_call *own = name_call_of(address, size, node_size, service != NULL, service_size, flags);
    const shim_waited waited = own != NULL ? shim_helper_call_wait(&own->call) : SHIM_WAITED_BLOCK;
    if (waited == SHIM_WAITED_BLOCK) {
        return NEXT(getnameinfo)(address, size, node, node_size, service, service_size, flags);
    }
    if (waited != SHIM_WAITED_CHECK) {
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
