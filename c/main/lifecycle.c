/* Starting and stopping PHP: once per process, and once per thread.
 *
 * Module startup and shutdown happen on the thread that called shim_startup; a thread's storage is freed on
 * that thread. */
#include "compat.h"
#include "main/main.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "php/opcache/opcache.h"
#include "php/process/process.h"
#include "php/sapi/sapi.h"
#include "shim.h"

#include <sched.h>
#include <unistd.h>

/* The exit code for settings that cannot be used. */
enum { EXIT_MISCONFIGURED = 2 };

/* Exported by libphp, but not declared in its headers. */
extern char *php_ini_opened_path;
extern char *php_ini_scanned_files;

static const shim_pair *ini_defaults;
static size_t ini_defaults_count;
static char *ini_overrides;

static void set_ini_defaults(HashTable *configuration)
{
    for (size_t i = 0; i < ini_defaults_count; i++) {
        const shim_pair *entry = &ini_defaults[i];
        zval value;
        ZVAL_NEW_STR(&value, zend_string_init(entry->value.bytes, entry->value.length, 1));
        zend_hash_str_update(configuration, entry->name.bytes, entry->name.length, &value);
    }
}

/* Without an output layer (after a fatal error in an output callback), PHP writes to stdout of stdio, where the
 * server's log goes: discards that output. */
static void silence_stdio(void)
{
    FILE *nowhere = fopen("/dev/null", "we");
    if (nowhere != NULL) {
        stdout = nowhere;
    }
}

/* The process that starts PHP's modules; 0 if none does. */
static pid_t starting;

/* PHP ends the process if OPcache cannot use its directives, with a code that means nothing to a service manager. */
static void end_as_misconfigured(void)
{
    /* A child that preloads scripts as another user ends, too. */
    if (starting == getpid()) {
        _exit(EXIT_MISCONFIGURED);
    }
}

/* Sets the variables that tell PHP where its ini files are. Only this thread sees them, and only while PHP starts, so
 * that programs of scripts do not inherit them. */
static void lend_environment(const shim_pair *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *name = strndup(entries[i].name.bytes, entries[i].name.length);
        char *value = strndup(entries[i].value.bytes, entries[i].value.length);
        if (name != NULL && value != NULL) {
            shim_environment_lend(name, value);
        }
        free(name);
        free(value);
    }
}

const char *shim_startup(const shim_options *options)
{
    if (options->callbacks->size != sizeof(shim_callbacks)) {
        return "svc's C shim and its Rust bindings were built from different headers; rebuild svc";
    }
    /* Layouts differ between minor versions, and the installed library may not be the one that svc was built for. */
    if (php_version_id() / 100 != PHP_VERSION_ID / 100) {
        return "svc was built for PHP " PHP_VERSION ", but libphp is of another version; rebuild svc";
    }
    if (!shim_host_install(options->callbacks)) {
        return "the host leaves a callback out; rebuild svc";
    }
    shim_superglobals_hidden = !options->superglobals;
    shim_has_tasks = options->boots;
    ini_defaults = options->ini_defaults;
    ini_defaults_count = options->ini_defaults_count;
    ini_overrides = strndup(options->ini_overrides.bytes ? options->ini_overrides.bytes : "", options->ini_overrides.length);
    if (ini_overrides == NULL) {
        return "out of memory";
    }
    silence_stdio();
    const char *failure = shim_install_before_php(options);
    if (failure != NULL) {
        return failure;
    }
    if (!php_tsrm_startup()) {
        return "cannot start PHP's thread-safe resource manager";
    }
    ZEND_TSRMLS_CACHE_UPDATE();
    shim_children_install();
    /* Copies the module and resets some members, so the following ones are set on the original. */
    sapi_startup(&shim_sapi);
    shim_sapi.ini_entries = ini_overrides;
    /* PHP copies the path, and ignores one that it cannot execute. */
    char *const command_line = strndup(options->command_line.bytes, options->command_line.length);
    shim_sapi.executable_location = command_line != NULL && command_line[0] != '\0' ? command_line : NULL;
    shim_sapi.ini_defaults = set_ini_defaults;
    shim_sapi.additional_functions = shim_functions;
    if (!shim_ini_errors_begin() || atexit(end_as_misconfigured) != 0) {
        return "out of memory";
    }
    lend_environment(options->environment, options->environment_count);
    starting = getpid();
    int started = shim_sapi.startup(&shim_sapi);
    starting = 0;
    shim_sapi.executable_location = NULL;
    free(command_line);
    shim_environment_clear();
    shim_ini_errors_end();
    if (started == FAILURE) {
        return "cannot start PHP's modules";
    }
    failure = shim_install(options);
    /* The defaults belong to the caller and are not read again. */
    ini_defaults = NULL;
    ini_defaults_count = 0;
    return failure;
}

static bool opcache_is_enabled(void)
{
    zend_long enabled = zend_ini_long("opcache.enable", sizeof("opcache.enable") - 1, 0);
    return enabled && zend_get_extension("Zend OPcache") != NULL;
}

void shim_facts_read(shim_facts *facts)
{
    *facts = (shim_facts){
        .version = shim_view_of_cstr(php_version()),
#ifdef ZTS
        .zts = true,
#endif
#if ZEND_DEBUG
        .debug = true,
#endif
#ifdef ZEND_SIGNALS
        .zend_signals = true,
#endif
#ifdef ZEND_MAX_EXECUTION_TIMERS
        .max_execution_timers = true,
#endif
        .opcache_enabled = opcache_is_enabled(),
        .umask_per_thread = shim_has_own_umask(),
        .ini_path = shim_view_of_cstr(php_ini_opened_path),
    };
}

shim_view shim_ini_scanned(void)
{
    return shim_view_of_cstr(php_ini_scanned_files);
}

void shim_ini_directories(shim_view *first, shim_view *further)
{
    *first = shim_view_of(PHP_CONFIG_FILE_PATH, sizeof(PHP_CONFIG_FILE_PATH) - 1);
    *further = shim_view_of(PHP_CONFIG_FILE_SCAN_DIR, sizeof(PHP_CONFIG_FILE_SCAN_DIR) - 1);
}

bool shim_extension_read(size_t index, shim_view *name, shim_view *version)
{
    zend_module_entry *module;
    size_t at = 0;
    ZEND_HASH_MAP_FOREACH_PTR(&module_registry, module)
    {
        if (at++ == index) {
            *name = shim_view_of_cstr(module->name);
            *version = shim_view_of_cstr(module->version);
            return true;
        }
    }
    ZEND_HASH_FOREACH_END();
    return false;
}

bool shim_ini_exists(shim_view name)
{
    return zend_hash_str_exists(EG(ini_directives), name.bytes, name.length);
}

void shim_shutdown(void)
{
    php_module_shutdown();
    sapi_shutdown();
    tsrm_shutdown();
    free(ini_overrides);
    ini_overrides = NULL;
}

/* Gives precedence to I/O threads: a PHP thread that wakes up does not preempt one of them in the middle of a request
 * (SCHED_BATCH does not preempt). Some sandboxes refuse the call; requests are slower then. */
static void use_batch_scheduling(void)
{
    const struct sched_param none = {0};
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

void shim_thread_start(void)
{
    use_batch_scheduling();
    shim_execution_timer_start();
    (void)ts_resource(0);
    ZEND_TSRMLS_CACHE_UPDATE();
    /* PHP inspects the locale only on the thread that starts it. */
    zend_update_current_locale();
    shim_opcache_thread_start();
    shim_umask_thread_start();
    shim_overflow_thread_start();
}

void shim_thread_stop(void)
{
    shim_opcache_thread_stop();
    ts_free_thread();
    shim_features_stop_thread();
}
