/* $_SERVER, from the host's description of the request.
 *
 * For each variable, PHP itself runs the input filter, which stores the value twice: for scripts, and for
 * filter_input(). Where the filter would change nothing, both arrays are built here, at a fraction of the cost. A
 * worker also keeps the strings of its last request, because most variables of a request have the same value in the
 * next one.
 *
 * Promises: both arrays contain what PHP itself would put there. Requires from the host: names consist of letters,
 * digits and underscores. */
#include "compat.h"
#include "context/context.h"
#include "context/host.h"
#include "context/own_worker.h"
#include "engine/tsrm.h"
#include "request/server_variables.h"
#include "shim.h"

#include <dlfcn.h>
#include <ext/filter/php_filter.h>

/* ---- the input filter ---- */

/* The offset of ext/filter's globals in a thread's storage; 0 if the extension is not loaded. */
static ts_rsrc_id filter_place;
/* The input filter is one that we know: ext/filter's, or the default one without it. */
static bool filter_is_known;
/* FILTER_UNSAFE_RAW, which changes nothing. */
static zend_long filter_raw;

static const void *library_of(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) != 0 ? info.dli_fbase : NULL;
}

void shim_server_variables_install(void)
{
    filter_place = shim_tsrm_place("filter", sizeof(zend_filter_globals));
    const void *owner = library_of((const void *)sapi_module.input_filter);
    zval *raw = zend_get_constant_str("FILTER_UNSAFE_RAW", sizeof("FILTER_UNSAFE_RAW") - 1);
    filter_raw = raw != NULL ? Z_LVAL_P(raw) : -1;
    filter_is_known = owner != NULL && owner == library_of((const void *)php_request_startup) &&
                      (filter_place != 0 || sapi_module.input_filter == php_default_input_filter);
}

/* Whether variables contain the client's bytes unchanged, for scripts and for filter_input(). */
static bool filter_changes_nothing(void)
{
    if (!filter_is_known) {
        return false;
    }
    return filter_place == 0 || TSRMG_BULK(filter_place, zend_filter_globals *)->default_filter == filter_raw;
}

/* The array that filter_input(INPUT_SERVER) reads. */
static void tell_filter(const zval *array)
{
    if (filter_place == 0) {
        return;
    }
    zval *raw = &TSRMG_BULK(filter_place, zend_filter_globals *)->server_array;
    zval_ptr_dtor(raw);
    ZVAL_ARR(raw, zend_array_dup(Z_ARRVAL_P(array)));
}

/* ---- strings of the last request ---- */

enum { KEPT_MAX = 64, KEPT_BYTES_MAX = 256 };

/* Indexed like the variables. In the worker's own memory, so they live no longer than the boot request. */
static __thread struct {
    zend_string *name;
    zend_string *value;
} kept[KEPT_MAX];

void shim_server_variables_forget(void)
{
    for (size_t i = 0; i < KEPT_MAX; i++) {
        if (kept[i].name != NULL) {
            zend_string_release(kept[i].name);
        }
        if (kept[i].value != NULL) {
            zend_string_release(kept[i].value);
        }
    }
    memset(kept, 0, sizeof(kept));
}

/* Returns a reference to `*own` if its text equals `view`, and otherwise a new string, which replaces it. */
static zend_string *keep(zend_string **own, const shim_view *view)
{
    zend_string *old = *own;
    if (old != NULL && zend_string_equals_cstr(old, view->bytes, view->length)) {
        return zend_string_copy(old);
    }
    zend_string *new = zend_string_init_fast(view->bytes, view->length);
    *own = view->length <= KEPT_BYTES_MAX ? zend_string_copy(new) : NULL;
    if (old != NULL) {
        zend_string_release(old);
    }
    return new;
}

/* ---- the arrays ---- */

static void add(zval *array, size_t place, const shim_pair *pair)
{
    static const shim_view nothing = {.bytes = "", .length = 0};
    const shim_view *said = pair->value.bytes != NULL ? &pair->value : &nothing;
    zend_string *name;
    zval value;
    if (shim_own_worker.serving && place < KEPT_MAX) {
        name = keep(&kept[place].name, &pair->name);
        ZVAL_STR(&value, keep(&kept[place].value, said));
    } else {
        name = zend_string_init_fast(pair->name.bytes, pair->name.length);
        ZVAL_STRINGL_FAST(&value, said->bytes, said->length);
    }
    zend_hash_update(Z_ARRVAL_P(array), name, &value);
    zend_string_release(name);
}

/* As PHP itself would do it. */
static void add_filtered(zval *array, const shim_pair *pair)
{
    size_t length = 0;
    char *value = estrndup(pair->value.bytes ? pair->value.bytes : "", pair->value.length);
    char *name = estrndup(pair->name.bytes, pair->name.length);
    if (sapi_module.input_filter(PARSE_SERVER, name, &value, pair->value.length, &length)) {
        php_register_variable_safe(name, value, length, array);
    }
    efree(name);
    efree(value);
}

void shim_server_variables_register(zval *array)
{
    if (shim_request_host() == NULL) {
        return;
    }
    if (shim_current->is_boot) {
        /* As on the command line and with CGI, where scripts for workers look for their parameters. */
        php_import_environment_variables(array);
    }
    /* The host is finished before PHP may run out of memory and bail out. */
    shim_pairs variables = {0};
    shim_host.io.variables(shim_current->host, &variables);
    if (!filter_changes_nothing()) {
        for (size_t i = 0; i < variables.count; i++) {
            add_filtered(array, &variables.pairs[i]);
        }
        return;
    }
    /* Room for what PHP adds. */
    zend_hash_extend(Z_ARRVAL_P(array), (uint32_t)variables.count + 8, false);
    for (size_t i = 0; i < variables.count; i++) {
        add(array, i, &variables.pairs[i]);
    }
    tell_filter(array);
}

/* PHP copies the answer and does not free it: the last one is kept until the next call. */
static char *hold(shim_view value)
{
    static __thread char *held;
    char *copy = realloc(held, value.length + 1);
    if (copy == NULL) {
        return NULL;
    }
    held = copy;
    if (value.length > 0) {
        memcpy(held, value.bytes, value.length);
    }
    held[value.length] = '\0';
    return held;
}

char *shim_server_variable(const char *name, size_t length)
{
    if (shim_request_host() == NULL) {
        return NULL;
    }
    shim_pairs variables = {0};
    shim_host.io.variables(shim_current->host, &variables);
    for (size_t i = 0; i < variables.count; i++) {
        const shim_pair *pair = &variables.pairs[i];
        if (pair->name.length == length && memcmp(pair->name.bytes, name, length) == 0) {
            return hold(pair->value);
        }
    }
    return NULL;
}
