/* The parts of extensions around libraries that are a request's, and what these libraries keep for a thread.
 *
 * The structs are written down here as the extensions have them; one that has another size in the PHP at hand stays the
 * thread's. Libraries are asked by name, so none is needed at link time. */
#include "state_parts.h"

#include <dlfcn.h>
#include <zend_smart_str.h>

/* ---- libxml ---- */

/* The beginning of zend_libxml_globals, whose header wants libxml2's. What follows, the loader of external entities,
 * stays the thread's. */
typedef struct libxml_globals {
    zval stream_context;
    smart_str error_buffer;
    zend_llist *error_list;
} libxml_globals;

static void libxml_make_neutral(void *globals)
{
    libxml_globals *libxml = globals;
    ZVAL_UNDEF(&libxml->stream_context);
    memset(&libxml->error_buffer, 0, sizeof(libxml->error_buffer));
    libxml->error_list = NULL;
}

/* libxml2 knows, for each thread, whom it tells of errors: a function of PHP's while libxml_use_internal_errors() is on.
 * That function is hidden; libxml2 is asked for it. */
static void libxml_report(bool to_php)
{
    static __thread void *reporter;
    void **(*current)(void) = (void **(*)(void))dlsym(RTLD_DEFAULT, "__xmlStructuredError");
    void (*set)(void *, void *) = (void (*)(void *, void *))dlsym(RTLD_DEFAULT, "xmlSetStructuredErrorFunc");
    if (current == NULL || set == NULL) {
        return;
    }
    if (*current() != NULL) {
        reporter = *current();
    }
    set(NULL, to_php ? reporter : NULL);
}

static void libxml_end(void *globals)
{
    libxml_globals *libxml = globals;
    zval_ptr_dtor(&libxml->stream_context);
    smart_str_free(&libxml->error_buffer);
    if (libxml->error_list != NULL) {
        libxml_report(false);
        zend_llist_destroy(libxml->error_list);
        efree(libxml->error_list);
        libxml->error_list = NULL;
    }
}

static void libxml_suspend(void *globals)
{
    if (((libxml_globals *)globals)->error_list != NULL) {
        libxml_report(false);
    }
}

static void libxml_resume(void *globals)
{
    if (((libxml_globals *)globals)->error_list != NULL) {
        libxml_report(true);
    }
}

const shim_part shim_library_parts[] = {
    {
        .module = "libxml",
        .ranges = {{0, sizeof(libxml_globals)}},
        .make_neutral = libxml_make_neutral,
        .suspend = libxml_suspend,
        .resume = libxml_resume,
        .end = libxml_end,
    },
};
const size_t shim_library_parts_count = sizeof(shim_library_parts) / sizeof(shim_library_parts[0]);
