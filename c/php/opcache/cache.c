/* OPcache's state for a request, and the workers that use its memory.
 *
 * OPcache decides at request startup whether it serves a request. A worker starts up once and lives long, so its
 * requests get here the values that they would have received: the time of day, with which OPcache decides whether
 * scripts on disk have changed, and the cache itself, if an earlier request has disabled it with
 * ini_set('opcache.enable', 0).
 *
 * A thread that started up while OPcache waits for a restart is not served before its next startup, and does not touch
 * the shared memory until then, so it does not delay the restart. The host is notified which workers these are.
 *
 * OPcache installs no header for its struct. The struct is found through its directives, and the two relevant members
 * through operations that change them; a member that is not found is left alone. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/opcache/opcache.h"
#include "shim.h"

#include <dlfcn.h>

/* ---- OPcache's own functions ---- */

zif_handler shim_opcache_function(const char *name)
{
    const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
    const zend_function_entry *function = module != NULL ? module->functions : NULL;
    while (function != NULL && function->fname != NULL && strcmp(function->fname, name) != 0) {
        function++;
    }
    return function != NULL && function->fname != NULL ? function->handler : NULL;
}

/* ---- its state for a request ---- */

/* Offsets from the beginning of the struct; 0 if unknown. */
static size_t at_enabled;
static size_t at_in_use;
static size_t at_time;
static size_t at_memory;
static size_t at_frequency;
static size_t at_validation;
static ts_rsrc_id globals_id;

/* The size of the cache, in bytes. */
static zend_long memory;

static ZEND_INI_MH((*next_on_enable));
/* Whether the cache serves this thread, apart from its request's own setting. */
static __thread bool is_served;

static zend_ini_entry *directive(const char *name, size_t length)
{
    return zend_hash_str_find_ptr(EG(ini_directives), name, length);
}

static char *globals(void)
{
    return TSRMG_BULK(globals_id, char *);
}

/* ---- the request's own setting ---- */

/* Restores the effective setting at the end of a worker's request: OPcache's "till the end of request" lasts until the
 * next request startup, which these requests do not have. */
static ZEND_INI_MH(on_enable)
{
    int result = next_on_enable(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
    if (stage == ZEND_INI_STAGE_DEACTIVATE && shim_own_worker.serving) {
        globals()[at_in_use] = is_served && zend_ini_parse_bool(new_value);
    }
    return result;
}

/* When OPcache is disabled in the middle of a request, it clears two adjacent flags: the directive's and the effective
 * one. */
static size_t find_in_use(zend_ini_entry *entry)
{
    enum { FLAGS = 6 };
    char *flags = globals() + at_enabled;
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
        if (is_own && *(ts_rsrc_id *)entry->mh_arg2 == globals_id && (size_t)entry->mh_arg1 > end) {
            end = (size_t)entry->mh_arg1;
        }
    } ZEND_HASH_FOREACH_END();
    return (end + 2 * sizeof(zend_long) - 1) & ~(sizeof(zend_long) - 1);
}

/* Returns the offset of the first word that contains the time of the request, which has just started up. */
static size_t find_time(void)
{
    time_t now = (time_t)sapi_get_request_time();
    size_t size = shim_tsrm_size(globals_id);
    for (size_t at = end_of_directives(); at > sizeof(zend_long) && at + sizeof(now) <= size; at += sizeof(zend_long)) {
        time_t value;
        memcpy(&value, globals() + at, sizeof(value));
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
        memcpy(globals() + at_frequency, &at_once, sizeof(at_once));
    }
}

static void look_at_files_when_due(time_t now)
{
    const zend_long seconds = zend_ini_long("opcache.revalidate_freq", sizeof("opcache.revalidate_freq") - 1, 0);
    if (now > started_at + seconds) {
        started_at = 0;
        memcpy(globals() + at_frequency, &seconds, sizeof(seconds));
    }
}

void shim_cache_begin(double time)
{
    time_t seconds = (time_t)time;
    size_t at = __atomic_load_n(&at_time, __ATOMIC_RELAXED);
    if (at != 0) {
        memcpy(globals() + at, &seconds, sizeof(seconds));
    }
    if (started_at != 0) {
        look_at_files_when_due(seconds);
    }
}

/* ---- the memory ---- */

/* Returns the offset of a directive's value; 0 if it is unknown. */
static size_t find_directive(const char *name, size_t length)
{
    const zend_ini_entry *entry = directive(name, length);
    const bool is_own = entry != NULL && entry->mh_arg2 != NULL && *(ts_rsrc_id *)entry->mh_arg2 == globals_id;
    return is_own ? (size_t)entry->mh_arg1 : 0;
}

/* Finds the size of the cache. A thread's structs receive the values of the directives when the thread starts. PHP 8.5
 * takes that for a change of this directive, and refuses it because the cache already exists. The thread would then
 * believe that the cache has no bytes, restart it for the first wasted byte, and divide by zero. */
static void find_memory(void)
{
    at_memory = find_directive(ZEND_STRL("opcache.memory_consumption"));
    if (at_memory != 0) {
        memcpy(&memory, globals() + at_memory, sizeof(memory));
    }
}

void shim_cache_thread_start(void)
{
    if (at_memory != 0) {
        memcpy(globals() + at_memory, &memory, sizeof(memory));
    }
}

bool shim_cache_validate(bool validates)
{
    const bool before = at_validation != 0 && globals()[at_validation] != 0;
    if (at_validation != 0) {
        globals()[at_validation] = validates;
    }
    return before;
}

/* Calls a function of OPcache that takes one argument, or none (NULL), and returns a bool. */
static bool call(const char *name, zend_string *argument)
{
    const zif_handler handler = shim_opcache_function(name);
    if (handler == NULL) {
        return false;
    }
    zval result, slots[ZEND_CALL_FRAME_SLOT + 1] = {0};
    zend_execute_data *const frame = (zend_execute_data *)slots;
    char *path = SG(request_info).path_translated;
    ZVAL_FALSE(&result);
    if (argument != NULL) {
        ZEND_CALL_NUM_ARGS(frame) = 1;
        ZVAL_STR(ZEND_CALL_ARG(frame, 1), argument);
    }
    /* opcache.restrict_api is meant for scripts. */
    SG(request_info).path_translated = zend_ini_string("opcache.restrict_api", sizeof("opcache.restrict_api") - 1, 0);
    handler(frame, &result);
    SG(request_info).path_translated = path;
    return Z_TYPE(result) == IS_TRUE;
}

bool shim_cache_holds(zend_string *path)
{
    return is_served && call("opcache_is_script_cached", path);
}

/* ---- restarts ---- */

/* OPcache announces a restart before it acts, and while it holds its lock. A request that starts up in between would
 * not see the restart, so the host is notified when the lock is released. */
static __thread bool is_scheduling;

static void on_schedule(int reason)
{
    (void)reason;
    is_scheduling = true;
}

void shim_cache_unlocked(void)
{
    if (is_scheduling) {
        is_scheduling = false;
        shim_host.restart.wanted();
    }
}

static zif_handler next_reset;

static ZEND_FUNCTION(reset_and_tell)
{
    next_reset(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) == IS_TRUE) {
        shim_host.restart.wanted();
    }
}

static void hear_of_restarts(void)
{
    void (**hook)(int) = (void (**)(int))dlsym(RTLD_DEFAULT, "zend_accel_schedule_restart_hook");
    if (hook != NULL) {
        *hook = on_schedule;
        return;
    }
    /* Before PHP 8.4, the host learns about a full cache when the next request starts up. */
    next_reset = shim_function_replace("opcache_reset", ZEND_FN(reset_and_tell));
}

/* ---- reloads ---- */

/* The number of renewals of code, and the number that this thread has seen. */
static unsigned renewals;
static __thread unsigned known_renewals;

/* Clears the thread's cache of resolved paths, which keeps the target of a link to a release for realpath_cache_ttl
 * seconds. */
static void forget_paths(void)
{
    const unsigned now = __atomic_load_n(&renewals, __ATOMIC_ACQUIRE);
    if (known_renewals != now) {
        known_renewals = now;
        realpath_cache_clean();
    }
}

static zend_long number(const char *name, size_t length)
{
    return zend_ini_long(name, length, 0);
}

/* Returns whether OPcache looks at each file that a script includes, and keeps none that may change again within the
 * second that its time of change names. */
static bool is_each_file_checked(void)
{
    const char *const preloaded = zend_ini_string(ZEND_STRL("opcache.preload"), 0);
    return number(ZEND_STRL("opcache.validate_timestamps")) != 0 && number(ZEND_STRL("opcache.revalidate_freq")) == 0
        && number(ZEND_STRL("opcache.file_update_protection")) >= 2 && (preloaded == NULL || *preloaded == '\0');
}

/* The first request that starts up alone empties the cache; requests that start up earlier do not use it. If a restart
 * is already pending, opcache_reset() does nothing, which is enough. */
void shim_code_renew(bool is_saved)
{
    __atomic_fetch_add(&renewals, 1, __ATOMIC_RELEASE);
    if (is_saved && is_each_file_checked()) {
        return;
    }
    if (call("opcache_reset", NULL)) {
        shim_host.restart.wanted();
    }
}

void shim_cache_started(bool is_boot)
{
    forget_paths();
    if (!is_boot) {
        return;
    }
    zend_ini_entry *entry = directive(ZEND_STRL("opcache.enable"));
    if (at_in_use != 0 && entry != NULL) {
        /* Each thread has its own table. */
        entry->on_modify = on_enable;
    }
    is_served = at_in_use != 0 && globals()[at_in_use] != 0;
    if (is_served && __atomic_load_n(&at_time, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(&at_time, find_time(), __ATOMIC_RELAXED);
    }
    look_at_each_file((time_t)sapi_get_request_time());
    shim_host.restart.worker_started(shim_cache_is_used());
}

bool shim_cache_is_used(void)
{
    return is_served || at_in_use == 0;
}

void shim_cache_install(void)
{
    zend_ini_entry *entry = directive(ZEND_STRL("opcache.enable"));
    if (entry == NULL || entry->on_modify == NULL || entry->mh_arg2 == NULL) {
        return;
    }
    globals_id = *(ts_rsrc_id *)entry->mh_arg2;
    at_enabled = (size_t)entry->mh_arg1;
    at_in_use = find_in_use(entry);
    find_memory();
    at_frequency = find_directive(ZEND_STRL("opcache.revalidate_freq"));
    at_validation = find_directive(ZEND_STRL("opcache.validate_timestamps"));
    next_on_enable = entry->on_modify;
    hear_of_restarts();
}
