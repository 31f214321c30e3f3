/* $_SERVER: the environment of the process, and on top of it the host's description of the request.
 *
 * For each variable, PHP itself runs the input filter, which stores the value twice: for scripts, and for
 * filter_input(). Where the filter would change nothing, both arrays are built here, at a fraction of the cost.
 *
 * Both arrays have the contents that PHP itself would give them. The host must pass names that consist of
 * letters, digits and underscores. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "php/request/request.h"
#include "shim.h"

#include <dlfcn.h>
#include <ext/filter/php_filter.h>

/* ---- the input filter ---- */

/* The offset of ext/filter's globals in a thread's storage; 0 if the extension is not loaded. */
static ts_rsrc_id filter_id;
/* Whether the input filter is known: ext/filter's, or the default one without that extension. */
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
    shim_process_variables_read();
    filter_id = shim_tsrm_id("filter", sizeof(zend_filter_globals));
    const void *owner = library_of((const void *)sapi_module.input_filter);
    zval *raw = zend_get_constant_str("FILTER_UNSAFE_RAW", sizeof("FILTER_UNSAFE_RAW") - 1);
    filter_raw = raw != NULL ? Z_LVAL_P(raw) : -1;
    filter_is_known = owner != NULL && owner == library_of((const void *)php_request_startup) &&
                      (filter_id != 0 || sapi_module.input_filter == php_default_input_filter);
}

/* Whether variables contain the client's bytes unchanged, for scripts and for filter_input(). */
static bool filter_changes_nothing(void)
{
    if (!filter_is_known) {
        return false;
    }
    return filter_id == 0 || TSRMG_BULK(filter_id, zend_filter_globals *)->default_filter == filter_raw;
}

void shim_filter_set_server(zend_array *array)
{
    if (filter_id == 0) {
        zend_array_release(array);
        return;
    }
    zval *raw = &TSRMG_BULK(filter_id, zend_filter_globals *)->server_array;
    zval_ptr_dtor(raw);
    ZVAL_ARR(raw, array);
}

/* ---- the arrays ---- */

void shim_server_variables_put(zend_array *array, const shim_pairs *variables, size_t first)
{
    /* Leaves room for the variables that PHP adds. */
    zend_hash_extend(array, zend_hash_num_elements(array) + (uint32_t)variables->count + 8, false);
    for (size_t i = first; i < variables->count; i++) {
        const shim_pair *pair = &variables->pairs[i];
        zend_string *name = zend_string_init_fast(pair->name.bytes, pair->name.length);
        zval value;
        ZVAL_STRINGL_FAST(&value, pair->value.bytes, pair->value.length);
        zend_hash_update(array, name, &value);
        zend_string_release(name);
    }
}

/* ---- with an unknown input filter ---- */

/* Adds a variable through the input filter, as PHP does. */
static void add_filtered(zval *array, const shim_pair *pair)
{
    size_t length = 0;
    char *value = estrndup(pair->value.bytes, pair->value.length);
    char *name = estrndup(pair->name.bytes, pair->name.length);
    if (sapi_module.input_filter(PARSE_SERVER, name, &value, pair->value.length, &length)) {
        php_register_variable_safe(name, value, length, array);
    }
    efree(name);
    efree(value);
}

/* Replaces the array of PHP's variable. */
static void begin_with(zval *array, zend_array *own)
{
    zval_ptr_dtor_nogc(array);
    ZVAL_ARR(array, own);
}

bool (*shim_server_variables_reuse)(zval *array, const shim_pairs *variables);

void shim_server_variables_register(zval *array)
{
    if (shim_request_host() == NULL) {
        return;
    }
    /* Finish the call to the host first: PHP may run out of memory and bail out below. */
    shim_pairs variables = {0};
    shim_host.io.variables(shim_current->host, &variables);
    if (!filter_changes_nothing()) {
        begin_with(array, shim_process_variables_copy());
        for (size_t i = 0; i < variables.count; i++) {
            add_filtered(array, &variables.pairs[i]);
        }
        return;
    }
    if (shim_server_variables_reuse == NULL || !shim_server_variables_reuse(array, &variables)) {
        begin_with(array, shim_process_variables_copy());
        shim_server_variables_put(Z_ARRVAL_P(array), &variables, 0);
        shim_filter_set_server(zend_array_dup(Z_ARRVAL_P(array)));
    }
}

void shim_server_variables_add(zend_array *array)
{
    if (shim_request_host() != NULL) {
        shim_pairs variables = {0};
        shim_host.io.variables(shim_current->host, &variables);
        shim_server_variables_put(array, &variables, 0);
    }
}

/* Keeps the answer until the next call: PHP copies it and does not free it. */
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
