/* $_SERVER: the environment of the process, and on top of it the host's description of the request.
 *
 * For each variable, PHP itself runs the input filter, which stores the value twice: for scripts, and for
 * filter_input(). Where the filter would change nothing, both arrays are built here, at a fraction of the cost. A
 * worker also keeps the variables of its last request, because most of them have the same value in the next one.
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
static ts_rsrc_id filter_place;
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

/* Makes filter_input(INPUT_SERVER) read `array`, and takes over a reference to it. */
static void tell_filter(zend_array *array)
{
    if (filter_place == 0) {
        zend_array_release(array);
        return;
    }
    zval *raw = &TSRMG_BULK(filter_place, zend_filter_globals *)->server_array;
    zval_ptr_dtor(raw);
    ZVAL_ARR(raw, array);
}

/* ---- the arrays ---- */

/* Returns the value of a variable; an empty string if it has none. */
static const shim_view *value_of(const shim_pair *pair)
{
    static const shim_view nothing = {.bytes = "", .length = 0};
    return pair->value.bytes != NULL ? &pair->value : &nothing;
}

/* Adds the variables from `first` on to an array that the caller owns alone. */
static void add(zend_array *array, const shim_pairs *variables, size_t first)
{
    /* Leaves room for the variables that PHP adds. */
    zend_hash_extend(array, zend_hash_num_elements(array) + (uint32_t)variables->count + 8, false);
    for (size_t i = first; i < variables->count; i++) {
        const shim_pair *pair = &variables->pairs[i];
        const shim_view *said = value_of(pair);
        zend_string *name = zend_string_init_fast(pair->name.bytes, pair->name.length);
        zval value;
        ZVAL_STRINGL_FAST(&value, said->bytes, said->length);
        zend_hash_update(array, name, &value);
        zend_string_release(name);
    }
}

/* ---- the variables of the last request ---- */

enum { KEPT_BYTES_MAX = 16 * 1024 };

/* The variables of the process, followed by those of the request. Allocated in the worker's own memory, so it does not
 * outlive the boot request. Packed without gaps, because entries are removed only from its end. Parked requests may
 * share it. */
static __thread zend_array *kept;

void shim_server_variables_forget(void)
{
    if (kept != NULL) {
        zend_array_release(kept);
        kept = NULL;
    }
}

/* A single large cookie is not worth its memory. */
static bool may_keep(const shim_pairs *variables)
{
    size_t bytes = 0;
    for (size_t i = 0; i < variables->count; i++) {
        bytes += variables->pairs[i].value.length;
    }
    return bytes <= KEPT_BYTES_MAX;
}

/* Duplicates `kept` faster than zend_array_dup(), which copies entry by entry. The variables of the process are interned:
 * only the entries after them have reference counts. */
static zend_array *duplicate_kept(void)
{
    const uint32_t base = shim_process_variables_count();
    if (kept->nNumUsed <= base) {
        return zend_array_dup(kept);
    }
    zend_array *copy = emalloc(sizeof(*copy));
    *copy = *kept;
    GC_SET_REFCOUNT(copy, 1);
    GC_TYPE_INFO(copy) = GC_ARRAY;
    HT_FLAGS(copy) = HT_FLAGS(kept) & HASH_FLAG_MASK;
    HT_SET_DATA_ADDR(copy, emalloc(HT_SIZE(kept)));
    memcpy(HT_GET_DATA_ADDR(copy), HT_GET_DATA_ADDR(kept), HT_USED_SIZE(kept));
    for (uint32_t i = base; i < copy->nNumUsed; i++) {
        zend_string_addref(copy->arData[i].key);
        Z_TRY_ADDREF(copy->arData[i].val);
    }
    return copy;
}

/* Makes `kept` an array without other references. */
static void own_kept(void)
{
    if (kept == NULL) {
        kept = shim_process_variables_copy();
    } else if (GC_REFCOUNT(kept) > 1) {
        zend_array *own = duplicate_kept();
        GC_DELREF(kept);
        kept = own;
    }
}

/* Whether one of the variables from `first` on has the name of a variable of the process. It would replace that entry,
 * and outlive its request. */
static bool replaces_any(const shim_pairs *variables, size_t first)
{
    while (first < variables->count &&
           !shim_process_variables_have(variables->pairs[first].name.bytes, variables->pairs[first].name.length)) {
        first++;
    }
    return first < variables->count;
}

/* Turns the variables of the last request into those of this one. Returns false if that is not possible. PHP may run
 * out of memory at any allocation; the array is then a mixture of both, which the next request turns into its own. */
static bool keep(const shim_pairs *variables)
{
    own_kept();
    const size_t base = shim_process_variables_count();
    size_t i = 0;
    for (; i < variables->count && base + i < kept->nNumUsed; i++) {
        const shim_pair *pair = &variables->pairs[i];
        const shim_view *said = value_of(pair);
        Bucket *entry = &kept->arData[base + i];
        if (!zend_string_equals_cstr(entry->key, pair->name.bytes, pair->name.length)) {
            break;
        }
        zend_string *old = Z_STR(entry->val);
        if (!zend_string_equals_cstr(old, said->bytes, said->length)) {
            ZVAL_STRINGL_FAST(&entry->val, said->bytes, said->length);
            zend_string_release(old);
        }
    }
    while (kept->nNumUsed > base + i) {
        zend_hash_del_bucket(kept, &kept->arData[kept->nNumUsed - 1]);
    }
    if (replaces_any(variables, i)) {
        return false;
    }
    if (i < variables->count) {
        add(kept, variables, i);
    }
    return true;
}

/* ---- with an unknown input filter ---- */

/* Adds a variable through the input filter, as PHP does. */
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

/* Replaces the array of PHP's variable. */
static void begin_with(zval *array, zend_array *own)
{
    zval_ptr_dtor_nogc(array);
    ZVAL_ARR(array, own);
}

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
    if (!shim_own_worker.serving || !may_keep(&variables) || !keep(&variables)) {
        begin_with(array, shim_process_variables_copy());
        add(Z_ARRVAL_P(array), &variables, 0);
        tell_filter(zend_array_dup(Z_ARRVAL_P(array)));
        return;
    }
    begin_with(array, duplicate_kept());
    GC_ADDREF(kept);
    tell_filter(kept);
}

void shim_server_variables_add(zend_array *array)
{
    if (shim_request_host() != NULL) {
        shim_pairs variables = {0};
        shim_host.io.variables(shim_current->host, &variables);
        add(array, &variables, 0);
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
