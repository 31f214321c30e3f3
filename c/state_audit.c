/* Whether everything that the engine and its extensions keep is known to be a request's, a fiber's or a thread's.
 *
 * A member that a new version of PHP adds, or an extension that nobody has looked at, is found by this list and not by
 * a client who sees another one's data. The structs that travel whole (state_globals.c) need no list. */
#include "state.h"
#include "internal.h"

typedef struct member {
    const char *name;
    size_t offset;
    size_t size;
} member;

/* ---- the engine's struct, in its order ---- */

#define OF(type, name) {#name, offsetof(type, name), sizeof(((type *)0)->name)}
/* Travels with the request: state_executor.c, state_ini.c, shortcuts.c. */
#define REQUEST(name) OF(zend_executor_globals, name)
/* PHP saves and restores it with each switch of fibers. */
#define FIBER(name) OF(zend_executor_globals, name)
/* The worker's: code, objects, caches; what a directive says; what is in use only while the engine does one thing. */
#define THREAD(name) OF(zend_executor_globals, name)

#ifdef SHIM_EXECUTOR_IS_AUDITED
static const member executor[] = {
    THREAD(uninitialized_zval), THREAD(error_zval), THREAD(symtable_cache), THREAD(symtable_cache_limit),
    THREAD(symtable_cache_ptr), THREAD(symbol_table), THREAD(included_files), FIBER(bailout), REQUEST(error_reporting),
    SHIM_EXECUTOR_BACKTRACE
    REQUEST(exit_status), THREAD(function_table), THREAD(class_table), THREAD(zend_constants), FIBER(vm_stack_top),
    FIBER(vm_stack_end), FIBER(vm_stack), FIBER(vm_stack_page_size), FIBER(current_execute_data), THREAD(fake_scope),
    FIBER(jit_trace_num), FIBER(current_observed_frame), REQUEST(ticks_count), THREAD(precision),
    THREAD(persistent_constants_count), THREAD(persistent_functions_count), THREAD(persistent_classes_count),
    THREAD(no_extensions), THREAD(full_tables_cleanup), THREAD(vm_interrupt), REQUEST(timed_out), REQUEST(in_autoload),
    THREAD(hard_timeout), FIBER(stack_base), FIBER(stack_limit), THREAD(regular_list), THREAD(persistent_list),
    REQUEST(user_error_handler_error_reporting), THREAD(exception_ignore_args), REQUEST(user_error_handler),
    REQUEST(user_exception_handler), REQUEST(user_error_handlers_error_reporting), REQUEST(user_error_handlers),
    REQUEST(user_exception_handlers), REQUEST(exception_class), REQUEST(error_handling),
    THREAD(capture_warnings_during_sccp), THREAD(timeout_seconds), THREAD(ini_directives),
    REQUEST(modified_ini_directives), THREAD(error_reporting_ini_entry), THREAD(objects_store),
    THREAD(lazy_objects_store), THREAD(exception), THREAD(prev_exception), THREAD(opline_before_exception),
    THREAD(exception_op), THREAD(current_module), THREAD(active), THREAD(flags), THREAD(assertions),
    THREAD(ht_iterators_count), THREAD(ht_iterators_used), THREAD(ht_iterators), THREAD(ht_iterators_slots),
    THREAD(saved_fpu_cw_ptr),
#if XPFPA_HAVE_CW
    THREAD(saved_fpu_cw),
#endif
    THREAD(trampoline), THREAD(call_trampoline_op), THREAD(weakrefs), THREAD(exception_string_param_max_len),
    THREAD(get_gc_buffer), FIBER(main_fiber_context), FIBER(current_fiber_context), FIBER(active_fiber),
    THREAD(fiber_stack_size), THREAD(record_errors), THREAD(num_errors), THREAD(errors), THREAD(filename_override),
    THREAD(lineno_override), THREAD(call_stack), THREAD(max_allowed_stack_size), THREAD(reserved_stack_size),
    THREAD(max_execution_timer_timer), THREAD(pid), THREAD(oldact), THREAD(strtod_state), THREAD(reserved),
};

/* What lies between two members is padding, or a member that the list lacks. */
static const char *stray_of_executor(void)
{
    size_t end = 0;
    for (size_t i = 0; i < sizeof(executor) / sizeof(executor[0]); i++) {
        if (executor[i].offset < end || executor[i].offset - end >= _Alignof(max_align_t)) {
            return executor[i].name;
        }
        end = executor[i].offset + executor[i].size;
    }
    return sizeof(zend_executor_globals) - end >= _Alignof(max_align_t) ? "the last member" : NULL;
}
#else
static const char *stray_of_executor(void)
{
    return NULL;
}
#endif

/* ---- extensions ---- */

/* What they keep is the thread's: directives, tables of types, caches, connections. */
static const char *const of_threads[] = {
    "bcmath", "Core", "curl", "dba", "exif", "FFI", "fileinfo", "gd", "gettext", "hash", "iconv", "ldap", "lexbor",
    "mysqlnd", "odbc", "pcntl", "PDO", "PDO_DBLIB", "pdo_mysql", "pdo_pgsql", "pdo_sqlite", "Phar", "readline",
    "Reflection", "sodium", "SPL", "sqlite3", "standard", "tidy", "tokenizer", "uri", "xml", "xmlreader", "xmlwriter",
    "Zend OPcache", "zip",
};

static bool is_known(const char *name)
{
    for (size_t i = 0; i < sizeof(of_threads) / sizeof(of_threads[0]); i++) {
        if (strcasecmp(of_threads[i], name) == 0) {
            return true;
        }
    }
    return shim_modules_travel(name);
}

shim_view shim_state_stray(void)
{
    const char *stray = stray_of_executor();
    const char *module;
    for (size_t i = 0; stray == NULL && (module = shim_tsrm_module(i)) != NULL; i++) {
        if (!is_known(module)) {
            stray = module;
        }
    }
    return shim_view_of(stray, stray != NULL ? strlen(stray) : 0);
}
