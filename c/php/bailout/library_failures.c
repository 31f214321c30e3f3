/* Libraries that end the process where they cannot go on.
 *
 * libgmp calls abort() for a number that is too large for it, and for one that memory has no room for; libsodium, for
 * arguments that it does not accept. A script chooses these arguments, and the process serves other requests. On a thread
 * that runs one, abort() therefore ends its script with a fatal error. A library that has found its memory damaged calls
 * abort() of libc itself, directly or by assert(), and still ends the process, as do PHP and svc.
 *
 * libgmp's memory is not PHP's: gmp_pow(2, 1 << 40) would take the memory of the whole machine. A number larger than
 * memory_limit is refused as a string of that size is. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <stdlib.h>

static bool can_end_script(void)
{
    return shim_is_in_request() && EG(bailout) != NULL;
}

/* Whether it is a library that PHP uses, and neither PHP, svc, libc nor a sanitizer. */
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
            zend_error_noreturn(E_ERROR, "%s called abort(): an argument is out of its range", library);
        }
    }
    LIBC(abort)();
    __builtin_unreachable();
}

/* ---- the memory of libgmp ---- */

static void *check(void *memory, size_t size)
{
    if (memory == NULL && size > 0) {
        if (can_end_script()) {
            zend_error_noreturn(E_ERROR, "Out of memory (libgmp tried to allocate %zu bytes)", size);
        }
        LIBC(abort)();
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

void shim_library_failures_install(void)
{
    static const char *const files[] = {"libgmp.so.10"};
    void (*set)(void *(*)(size_t), void *(*)(void *, size_t, size_t), void (*)(void *, size_t)) =
        shim_library(SHIM_SLOT, "__gmp_set_memory_functions", files, SHIM_COUNT(files));
    if (set != NULL) {
        set(allocate, reallocate, release);
    }
}
