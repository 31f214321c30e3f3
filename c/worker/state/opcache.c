/* OPcache's state for a request of a worker, and the workers that use its memory.
 *
 * OPcache decides at request startup whether it serves a request. A worker starts up once and lives long, so its
 * requests get here the values that they would have received: the time of day, with which OPcache decides whether
 * scripts on disk have changed, and the cache itself, if an earlier request has disabled it with
 * ini_set('opcache.enable', 0).
 *
 * A thread that started up while OPcache waits for a restart is not served before its next startup, and does not touch
 * the shared memory until then, so it does not delay the restart. The host is notified which workers these are.
 *
 * The two relevant members of OPcache's struct that are no directives are found through operations that change them; a
 * member that is not found is left alone. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/opcache/opcache.h"
#include "worker/state/state.h"

/* Offsets from the beginning of the struct; 0 if unknown. */
static size_t at_enabled;
static size_t at_in_use;
static size_t at_time;
static size_t at_frequency;
static size_t at_validation;

static ZEND_INI_MH((*next_on_enable));
/* Whether the cache serves this thread, apart from its request's own setting. */
static __thread bool is_served;

static zend_ini_entry *enable_directive(void)
{
    return zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("opcache.enable"));
}

/* ---- the request's own setting ---- */

/* Restores the effective setting at the end of a worker's request: OPcache's "till the end of request" lasts until the
 * next request startup, which these requests do not have. */
static ZEND_INI_MH(on_enable)
{
    int result = next_on_enable(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
    if (stage == ZEND_INI_STAGE_DEACTIVATE && shim_own_worker.serving) {
        shim_opcache_struct()[at_in_use] = is_served && zend_ini_parse_bool(new_value);
    }
    return result;
}

/* When OPcache is disabled in the middle of a request, it clears two adjacent flags: the directive's and the effective
 * one. */
static size_t find_in_use(zend_ini_entry *entry)
{
    enum { FLAGS = 6 };
    char *flags = shim_opcache_struct() + at_enabled;
    char before[FLAGS];
    size_t found = 0, cleared = 0;
    zend_string *off = ZSTR_CHAR('0');
    memcpy(before, flags, FLAGS);
    memset(flags, 1, FLAGS);
    (void)entry->on_modify(entry, off, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3, ZEND_INI_STAGE_RUNTIME);
    for (size_t i = 1; i < FLAGS; i++) {
        if (flags[i] == 0) {
            found = at_enabled + i;
            cleared++;
        }
    }
    memcpy(flags, before, FLAGS);
    return cleared == 1 ? found : 0;
}

/* ---- the time ---- */

/* Returns the offset at which to look for the time, behind the values of the directives. */
static size_t end_of_directives(void)
{
    size_t end = 0;
    zend_ini_entry *entry;
    ZEND_HASH_FOREACH_PTR(EG(ini_directives), entry) {
        bool is_own = zend_string_starts_with_literal(entry->name, "opcache.") && entry->mh_arg2 != NULL;
        if (is_own && *(ts_rsrc_id *)entry->mh_arg2 == shim_opcache_id && (size_t)entry->mh_arg1 > end) {
            end = (size_t)entry->mh_arg1;
        }
    } ZEND_HASH_FOREACH_END();
    return (end + 2 * sizeof(zend_long) - 1) & ~(sizeof(zend_long) - 1);
}

/* Returns the offset of the first word that contains the time of the request, which has just started up. */
static size_t find_time(void)
{
    time_t now = (time_t)sapi_get_request_time();
    size_t size = shim_tsrm_size(shim_opcache_id);
    for (size_t at = end_of_directives(); at > sizeof(zend_long) && at + sizeof(now) <= size; at += sizeof(zend_long)) {
        time_t value;
        memcpy(&value, shim_opcache_struct() + at, sizeof(value));
        if (value == now) {
            return at;
        }
    }
    return 0;
}

/* Makes OPcache check each file, until results from before this worker's start have expired. OPcache trusts the check
 * of any thread for opcache.revalidate_freq seconds. A worker keeps the code that it loads for its whole life, so one
 * that starts because code has changed would keep the old code if it was checked just before. */
static __thread time_t started_at;

static void look_at_each_file(time_t now)
{
    static const zend_long at_once = 0;
    started_at = 0;
    if (at_frequency != 0) {
        started_at = now;
        memcpy(shim_opcache_struct() + at_frequency, &at_once, sizeof(at_once));
    }
}

static void look_at_files_when_due(time_t now)
{
    const zend_long seconds = zend_ini_long("opcache.revalidate_freq", sizeof("opcache.revalidate_freq") - 1, 0);
    if (now > started_at + seconds) {
        started_at = 0;
        memcpy(shim_opcache_struct() + at_frequency, &seconds, sizeof(seconds));
    }
}

void shim_opcache_request_begin(double time)
{
    time_t seconds = (time_t)time;
    size_t at = __atomic_load_n(&at_time, __ATOMIC_RELAXED);
    if (at != 0) {
        memcpy(shim_opcache_struct() + at, &seconds, sizeof(seconds));
    }
    if (started_at != 0) {
        look_at_files_when_due(seconds);
    }
}

/* ---- for tasks ---- */

bool shim_opcache_validate(bool validates)
{
    const bool before = at_validation != 0 && shim_opcache_struct()[at_validation] != 0;
    if (at_validation != 0) {
        shim_opcache_struct()[at_validation] = validates;
    }
    return before;
}

bool shim_opcache_holds(zend_string *path)
{
    zval name, is_cached;
    ZVAL_STR(&name, path);
    return is_served && shim_opcache_call("opcache_is_script_cached", &name, &is_cached) && Z_TYPE(is_cached) == IS_TRUE;
}

bool shim_opcache_is_used(void)
{
    return is_served || at_in_use == 0;
}

/* ---- the worker ---- */

void shim_opcache_request_boot(void)
{
    if (at_in_use != 0) {
        /* Each thread has its own table. */
        enable_directive()->on_modify = on_enable;
    }
    is_served = at_in_use != 0 && shim_opcache_struct()[at_in_use] != 0;
    if (is_served && __atomic_load_n(&at_time, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(&at_time, find_time(), __ATOMIC_RELAXED);
    }
    look_at_each_file((time_t)sapi_get_request_time());
    shim_host.restart.worker_started(shim_opcache_is_used());
}

void shim_opcache_requests_install(void)
{
    zend_ini_entry *entry = enable_directive();
    /* A cache that is on disk only has no restarts, and its workers are never without it. */
    if (shim_opcache_id == 0 || INI_BOOL("opcache.file_cache_only")) {
        return;
    }
    at_enabled = (size_t)entry->mh_arg1;
    at_in_use = find_in_use(entry);
    at_frequency = shim_opcache_offset(ZEND_STRL("opcache.revalidate_freq"));
    at_validation = shim_opcache_offset(ZEND_STRL("opcache.validate_timestamps"));
    next_on_enable = entry->on_modify;
}
