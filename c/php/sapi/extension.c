/* The extension `svc`: its registrations when PHP starts, and its part of the end of each request.
 *
 * The name. Up to PHP 8.4, OPcache works only under SAPI names that it knows, and it checks the name once, while
 * extensions start. The SAPI module is therefore called `svc` (for php-svc.ini, PHP_SAPI and php_sapi_name()), has a
 * name from OPcache's list from the startup of this extension until all others have started (sapi_module.c), and is
 * called `svc` again from then on. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "php/request/request.h"
#include "php/sapi/sapi.h"

bool shim_superglobals_hidden;
bool shim_has_tasks;

/* ---- without superglobals ---- */

/* $_ENV describes no request. */
static const char *const names[] = {"_GET", "_POST", "_COOKIE", "_FILES", "_SERVER", "_REQUEST"};
enum { HIDDEN = SHIM_COUNT(names) };

/* The variables of $_SERVER that describe the server and not the request, in addition to the environment of the process. */
static const char *const of_server[] = {
    "DOCUMENT_ROOT", "GATEWAY_INTERFACE", "SCRIPT_FILENAME",   "SERVER_ADDR",
    "SERVER_PORT",   "SERVER_SOFTWARE",   "FRANKENPHP_WORKER",
};

static zend_auto_global_callback hidden[HIDDEN];

/* Lets PHP build the array, for filter_input() and Svc\Request, and gives scripts a different one. */
static bool build_hidden(zend_string *name)
{
    int index = 0;
    while (index < HIDDEN - 1 && !zend_string_equals_cstr(name, names[index], strlen(names[index]))) {
        index++;
    }
    bool armed = hidden[index] != NULL && hidden[index](name);
    zval left;
    ZVAL_EMPTY_ARRAY(&left);
    if (strcmp(names[index], "_SERVER") == 0 && Z_TYPE(PG(http_globals)[TRACK_VARS_SERVER]) == IS_ARRAY) {
        ZVAL_ARR(&left, shim_process_variables_copy());
        for (size_t i = 0; i < SHIM_COUNT(of_server); i++) {
            size_t length = strlen(of_server[i]);
            zval *value = zend_hash_str_find(Z_ARRVAL(PG(http_globals)[TRACK_VARS_SERVER]), of_server[i], length);
            if (value != NULL) {
                Z_TRY_ADDREF_P(value);
                zend_hash_str_update(Z_ARRVAL(left), of_server[i], length, value);
            }
        }
    }
    zend_hash_update(&EG(symbol_table), name, &left);
    return armed;
}

static void hide_superglobals(void)
{
    for (int i = 0; i < HIDDEN; i++) {
        zend_auto_global *known = zend_hash_str_find_ptr(CG(auto_globals), names[i], strlen(names[i]));
        if (known != NULL) {
            hidden[i] = known->auto_global_callback;
            known->auto_global_callback = build_hidden;
        }
    }
}

/* ---- the extension ---- */

static char name_known_to_opcache[] = "fpm-fcgi";

static PHP_MINIT_FUNCTION(svc)
{
    (void)type;
    shim_request_class_register();
    (void)zend_register_functions(NULL, shim_cache_functions, NULL, MODULE_PERSISTENT);
    for (size_t at = 0; shim_request_hooks_of.declare[at] != NULL; at++) {
        if (!shim_request_hooks_of.declare[at](&shim_module)) {
            return FAILURE;
        }
    }
    shim_frankenphp_register(module_number);
    if (shim_superglobals_hidden) {
        /* Each thread copies the table of superglobals once all extensions have started. */
        hide_superglobals();
    }
    shim_missing_script_install();
    shim_header_lines_install();
    shim_overflow_prepare();
    sapi_module.name = name_known_to_opcache;
    return SUCCESS;
}

/* Extensions end a request in the reverse order of their startup: this one before the session extension. */
static PHP_RSHUTDOWN_FUNCTION(svc)
{
    (void)type;
    (void)module_number;
    if (shim_current != NULL) {
        SHIM_CALL_REQUEST_HOOKS(end, shim_current);
    }
    return SUCCESS;
}

/* Called after all extensions have ended the request. */
static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(svc)
{
    shim_session_close(NULL);
    SHIM_CALL_REQUEST_HOOKS(ended);
    return SUCCESS;
}

static PHP_MINFO_FUNCTION(svc)
{
    (void)zend_module;
    php_info_print_table_start();
    php_info_print_table_row(2, "svc", "enabled");
    php_info_print_table_end();
}

zend_module_entry shim_module = {
    STANDARD_MODULE_HEADER,
    "svc",
    NULL,
    PHP_MINIT(svc),
    NULL,
    NULL,
    PHP_RSHUTDOWN(svc),
    PHP_MINFO(svc),
    SVC_VERSION,
    NO_MODULE_GLOBALS,
    ZEND_MODULE_POST_ZEND_DEACTIVATE_N(svc),
    STANDARD_MODULE_PROPERTIES_EX,
};
