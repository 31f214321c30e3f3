/* $_SERVER of a worker's requests: the variables of the last request are kept, because most of them have the same value in
 * the next one. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "php/request/request.h"
#include "worker/state/state.h"

enum { KEPT_BYTES_MAX = 16 * 1024 };

/* The variables of the process, followed by those of the request. Allocated in the worker's own memory, so it does not
 * outlive the boot request. Packed without gaps, because entries are removed only from its end. Parked requests may
 * share it. */
static __thread zend_array *kept;

void shim_kept_variables_forget(void)
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
    zend_array *const whole = kept;
    const uint32_t base = shim_process_variables_count();
    if (whole->nNumUsed <= base) {
        return zend_array_dup(whole);
    }
    zend_array *copy = emalloc(sizeof(*copy));
    *copy = *whole;
    GC_SET_REFCOUNT(copy, 1);
    GC_TYPE_INFO(copy) = GC_ARRAY;
    HT_FLAGS(copy) = HT_FLAGS(whole) & HASH_FLAG_MASK;
    HT_SET_DATA_ADDR(copy, emalloc(HT_SIZE(whole)));
    memcpy(HT_GET_DATA_ADDR(copy), HT_GET_DATA_ADDR(whole), HT_USED_SIZE(whole));
    for (uint32_t i = base; i < copy->nNumUsed; i++) {
        zend_string_addref(copy->arData[i].key);
        Z_TRY_ADDREF(copy->arData[i].val);
    }
    return copy;
}

/* Makes `kept` an array without other references, and returns it. */
static zend_array *own_kept(void)
{
    if (kept == NULL) {
        kept = shim_process_variables_copy();
    } else if (GC_REFCOUNT(kept) > 1) {
        zend_array *own = duplicate_kept();
        GC_DELREF(kept);
        kept = own;
    }
    return kept;
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
    zend_array *const array = own_kept();
    const size_t base = shim_process_variables_count();
    size_t i = 0;
    for (; i < variables->count && base + i < array->nNumUsed; i++) {
        const shim_pair *pair = &variables->pairs[i];
        const shim_view *said = &pair->value;
        Bucket *entry = &array->arData[base + i];
        if (!zend_string_equals_cstr(entry->key, pair->name.bytes, pair->name.length)) {
            break;
        }
        zend_string *old = Z_STR(entry->val);
        if (!zend_string_equals_cstr(old, said->bytes, said->length)) {
            ZVAL_STRINGL_FAST(&entry->val, said->bytes, said->length);
            zend_string_release(old);
        }
    }
    while (array->nNumUsed > base + i) {
        zend_hash_del_bucket(array, &array->arData[array->nNumUsed - 1]);
    }
    if (replaces_any(variables, i)) {
        return false;
    }
    if (i < variables->count) {
        shim_server_variables_put(array, variables, i);
    }
    return true;
}

static bool reuse(zval *array, const shim_pairs *variables)
{
    if (!shim_own_worker.serving || !may_keep(variables) || !keep(variables)) {
        return false;
    }
    zend_array *own = duplicate_kept();
    zval_ptr_dtor_nogc(array);
    ZVAL_ARR(array, own);
    GC_ADDREF(kept);
    shim_filter_set_server(kept);
    return true;
}

void shim_kept_variables_install(void)
{
    shim_server_variables_reuse = reuse;
}
