/* OPcache as all threads use it: its functions, the size of its memory, restarts and reloads.
 *
 * OPcache installs no header for its struct, which is found through its directives. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/opcache/opcache.h"
#include "shim.h"

#include <Zend/zend_vm.h>
#include <dlfcn.h>

/* ---- OPcache's own functions ---- */

static zif_handler function_of_opcache(const char *name)
{
    const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
    const zend_function_entry *function = module != NULL ? module->functions : NULL;
    while (function != NULL && function->fname != NULL && strcmp(function->fname, name) != 0) {
        function++;
    }
    return function != NULL && function->fname != NULL ? function->handler : NULL;
}

bool shim_opcache_call(const char *name, const zval *argument, zval *result)
{
    const zif_handler handler = function_of_opcache(name);
    zval slots[ZEND_CALL_FRAME_SLOT + 1] = {0};
    zend_execute_data *const frame = (zend_execute_data *)slots, *const before = EG(current_execute_data);
    char *const path = SG(request_info).path_translated;
    ZVAL_FALSE(result);
    if (handler == NULL) {
        return false;
    }
    if (argument != NULL) {
        ZEND_CALL_NUM_ARGS(frame) = 1;
        ZVAL_COPY_VALUE(ZEND_CALL_ARG(frame, 1), argument);
    }
    frame->prev_execute_data = before;
    /* opcache.restrict_api is meant for scripts. */
    SG(request_info).path_translated = zend_ini_string(ZEND_STRL("opcache.restrict_api"), 0);
    EG(current_execute_data) = frame;
    handler(frame, result);
    EG(current_execute_data) = before;
    SG(request_info).path_translated = path;
    return true;
}

/* ---- its struct ---- */

ts_rsrc_id shim_opcache_id;

size_t shim_opcache_offset(const char *name, size_t length)
{
    const zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, length);
    const bool is_own = entry != NULL && entry->mh_arg2 != NULL && *(ts_rsrc_id *)entry->mh_arg2 == shim_opcache_id;
    return is_own ? (size_t)entry->mh_arg1 : 0;
}

/* The offset and the value of the cache's size, in bytes. */
static size_t at_memory;
static zend_long memory;

/* Finds the size of the cache. A thread's structs receive the values of the directives when the thread starts. PHP 8.5
 * takes that for a change of this directive, and refuses it because the cache already exists. The thread would then
 * believe that the cache has no bytes, restart it for the first wasted byte, and divide by zero. */
static void find_memory(void)
{
    at_memory = shim_opcache_offset(ZEND_STRL("opcache.memory_consumption"));
    if (at_memory != 0) {
        memcpy(&memory, shim_opcache_struct() + at_memory, sizeof(memory));
    }
}

void shim_opcache_thread_start(void)
{
    if (at_memory != 0) {
        memcpy(shim_opcache_struct() + at_memory, &memory, sizeof(memory));
    }
}

/* PCRE caches compiled patterns for each thread, some under keys in OPcache's memory. After a restart, that memory has other
 * contents, so OPcache removes these entries when the thread's next request begins. In a thread that stops without another
 * request, ts_free_thread() would release the keys, and decrement a reference count in unrelated data (PHP 8.4.24; debug
 * builds fail an assertion in zend_gc_delref()). OPcache's RINIT function removes them here instead. It is not called if code
 * is preloaded: it would then initialize superglobals, which exist only in a request. */
void shim_opcache_thread_stop(void)
{
    zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
    const char *const preloaded = zend_ini_string(ZEND_STRL("opcache.preload"), 0);
    if (module != NULL && module->request_startup_func != NULL && (preloaded == NULL || *preloaded == '\0')) {
        (void)module->request_startup_func(module->type, module->module_number);
    }
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

void shim_opcache_unlocked(void)
{
    if (is_scheduling) {
        is_scheduling = false;
        shim_host.restart.wanted();
    }
}

static zif_handler next_reset;

static ZEND_FUNCTION(reset_and_report)
{
    next_reset(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) == IS_TRUE) {
        shim_host.restart.wanted();
    }
}

static void hook_restarts(void)
{
    void (**hook)(int) = (void (**)(int))dlsym(RTLD_DEFAULT, "zend_accel_schedule_restart_hook");
    if (hook != NULL) {
        *hook = on_schedule;
        return;
    }
    /* Before PHP 8.4, the host learns about a full cache when the next request starts up. */
    next_reset = shim_function_replace("opcache_reset", ZEND_FN(reset_and_report));
}

/* ---- reloads ---- */

/* The number of renewals of code, and the number that this thread has seen. */
static unsigned renewals;
static __thread unsigned known_renewals;

/* Clears the thread's cache of resolved paths, which keeps the target of a link to a release for realpath_cache_ttl
 * seconds. */
void shim_opcache_request_started(void)
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
    zval is_reset;
    if (shim_opcache_call("opcache_reset", NULL, &is_reset) && Z_TYPE(is_reset) == IS_TRUE) {
        shim_host.restart.wanted();
    }
}

/* zend_serialize_opcode_handler() fills a table for all threads when a thread stores its first file, without a lock: a second
 * thread would use a table without entries (PHP 8.3 to 8.5). */
static void fill_table_of_handlers(void)
{
    const char *folder = zend_ini_string(ZEND_STRL("opcache.file_cache"), 0);
    if (folder != NULL && *folder != '\0') {
        zend_op nothing = {.opcode = ZEND_NOP};
        zend_vm_set_opcode_handler(&nothing);
        zend_serialize_opcode_handler(&nothing);
    }
}

void shim_opcache_install(void)
{
    const zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("opcache.enable"));
    if (entry == NULL || entry->on_modify == NULL || entry->mh_arg2 == NULL) {
        return;
    }
    shim_opcache_id = *(ts_rsrc_id *)entry->mh_arg2;
    find_memory();
    hook_restarts();
    fill_table_of_handlers();
}
