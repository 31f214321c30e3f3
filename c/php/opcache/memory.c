/* OPcache's report of its memory.
 *
 * Only the thread that started PHP reads it, which runs no script: no code here can hit a request's memory
 * limit, exception or destructor. Its counters are in shared memory, where other threads change them meanwhile: each is
 * read atomically, but they are not a consistent snapshot. */
#include "compat.h"
#include "php/opcache/opcache.h"
#include "shim.h"

static uint64_t count_of(const zval *group, const char *name)
{
    const zval *value = zend_hash_str_find(Z_ARRVAL_P(group), name, strlen(name));
    return value != NULL && Z_TYPE_P(value) == IS_LONG && Z_LVAL_P(value) > 0 ? (uint64_t)Z_LVAL_P(value) : 0;
}

static const zval *group_of(const zval *status, const char *name)
{
    const zval *group = zend_hash_str_find(Z_ARRVAL_P(status), name, strlen(name));
    return group != NULL && Z_TYPE_P(group) == IS_ARRAY ? group : NULL;
}

static bool take(shim_opcache *out, const zval *status)
{
    if (Z_TYPE_P(status) != IS_ARRAY) {
        return false;
    }
    const zval *memory = group_of(status, "memory_usage");
    const zval *statistics = group_of(status, "opcache_statistics");
    const zval *cache_full = zend_hash_str_find(Z_ARRVAL_P(status), ZEND_STRL("cache_full"));
    if (memory == NULL || statistics == NULL) {
        return false;
    }
    *out = (shim_opcache){
        .used_bytes = count_of(memory, "used_memory"),
        .free_bytes = count_of(memory, "free_memory"),
        .wasted_bytes = count_of(memory, "wasted_memory"),
        .scripts = count_of(statistics, "num_cached_scripts"),
        .hits = count_of(statistics, "hits"),
        .misses = count_of(statistics, "misses"),
        .is_full = (cache_full != NULL && Z_TYPE_P(cache_full) == IS_TRUE) ||
                   count_of(statistics, "num_cached_keys") >= count_of(statistics, "max_cached_keys"),
    };
    return true;
}

bool shim_opcache_read(shim_opcache *out)
{
    zval has_scripts, result;
    ZVAL_FALSE(&has_scripts);
    const bool is_known = shim_opcache_call("opcache_get_status", &has_scripts, &result) && take(out, &result);
    zval_ptr_dtor(&result);
    return is_known;
}
