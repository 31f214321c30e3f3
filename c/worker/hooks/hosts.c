/* Interposes gethostbyname_r(): PHP's gethostbyname() and the functions of ext/sockets call it.
 *
 * The variants that return a static struct of libc have no hook: they are not thread-safe, so no library whose requests can
 * be suspended uses them. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/hooks/helper_call.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

DECLARE_LIBC(gethostbyname_r);

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
        LIBC(gethostbyname_r)(own->name, &own->entry, own->buffer, own->size, &own->found, &own->host_error);
}

static void discard_host(shim_helper_call *call)
{
    free(call);
}

static host_call *host_call_of(const char *name, const char *buffer, size_t size)
{
    const size_t name_size = strlen(name) + 1;
    host_call *own =
        shim_helper_call_new(SHIM_HOOK_DNS, sizeof(*own) + name_size + 2 * ALIGNMENT + size, find_host, discard_host);
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
        return LIBC(gethostbyname_r)(name, entry, buffer, size, found, host_error);
    }
    host_call *own = host_call_of(name, buffer, size);
    const shim_waited waited = own != NULL ? shim_helper_call_wait(SHIM_HOOK_DNS, &own->call) : SHIM_WAITED_BLOCK;
    if (waited == SHIM_WAITED_BLOCK) {
        return LIBC(gethostbyname_r)(name, entry, buffer, size, found, host_error);
    }
    *found = NULL;
    if (waited != SHIM_WAITED_LOOK) {
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
