/* Libraries that end the process on an error, or that an error leaves locked.
 *
 * libgmp calls abort() if a number is too large for it, or if malloc() fails; libsodium, if it is misused. The script
 * chooses the arguments, but the process serves other requests, too. On a thread that runs a request, abort() is therefore
 * a fatal error of its script. Calls that libc makes itself (a corrupted heap, assert()), and those of PHP and svc, still
 * end the process.
 *
 * libgmp allocates outside of PHP's heap: gmp_pow(2, 1 << 40) would exhaust the memory of the machine. A single number
 * that exceeds memory_limit is refused, like a string of that size.
 *
 * libxml2 locks its catalogs for the whole process while it reads one. A document may name another catalog
 * (`<?oasis-xml-catalog?>`), and PHP reads it through streams: a bailout in a stream wrapper of a script would leave the
 * catalogs locked. Those that documents name are therefore ignored; those of the system are not. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <stdlib.h>

static bool can_end_script(void)
{
    return shim_is_in_request() && EG(bailout) != NULL;
}

/* Whether this is a shared library other than those of PHP, libc and the sanitizers. */
static bool is_library(const char *name)
{
    static const char *const others[] = {"libphp", "opcache.so", "libc.so", "libasan.so", "libubsan.so"};
    if (strstr(name, ".so") == NULL) {
        return false;
    }
    for (size_t i = 0; i < SHIM_COUNT(others); i++) {
        if (strncmp(name, others[i], strlen(others[i])) == 0) {
            return false;
        }
    }
    return true;
}

void abort(void)
{
    if (can_end_script()) {
        const char *library = shim_library_at(SHIM_CALLER);
        if (is_library(library)) {
            zend_error_noreturn(E_ERROR, "%s called abort()", library);
        }
    }
    NEXT(abort)();
    __builtin_unreachable();
}

/* ---- the memory of libgmp ---- */

static void *check(void *memory, size_t size)
{
    if (memory == NULL && size > 0) {
        if (can_end_script()) {
            zend_error_noreturn(E_ERROR, "Out of memory (libgmp tried to allocate %zu bytes)", size);
        }
        NEXT(abort)();
    }
    return memory;
}

static void check_limit(size_t size)
{
    if (can_end_script() && PG(memory_limit) > 0 && size > (size_t)PG(memory_limit)) {
        zend_error_noreturn(E_ERROR, "Allowed memory size of " ZEND_LONG_FMT " bytes exhausted (libgmp tried to allocate %zu bytes)",
                            PG(memory_limit), size);
    }
}

static void *allocate(size_t size)
{
    check_limit(size);
    return check(malloc(size), size);
}

static void *reallocate(void *memory, size_t former, size_t size)
{
    (void)former;
    check_limit(size);
    return check(realloc(memory, size), size);
}

static void release(void *memory, size_t size)
{
    (void)size;
    free(memory);
}

/* xmlCatalogAllow of libxml2. */
enum { XML_CATA_ALLOW_GLOBAL = 1 };

static void ignore_catalogs_of_documents(void)
{
    static const char *const files[] = {"libxml2.so.2"};
    void (*set_defaults)(int) = shim_library(SHIM_SLOT, "xmlCatalogSetDefaults", files, SHIM_COUNT(files));
    if (set_defaults != NULL) {
        set_defaults(XML_CATA_ALLOW_GLOBAL);
    }
}

void shim_library_failures_install(void)
{
    ignore_catalogs_of_documents();
    static const char *const files[] = {"libgmp.so.10"};
    void (*set)(void *(*)(size_t), void *(*)(void *, size_t, size_t), void (*)(void *, size_t)) =
        shim_library(SHIM_SLOT, "__gmp_set_memory_functions", files, SHIM_COUNT(files));
    if (set != NULL) {
        set(allocate, reallocate, release);
    }
}
