/* The extension `svc`: its registrations when PHP starts, and its part of the end of each request.
 *
 * The name. Up to PHP 8.4, OPcache works only under SAPI names that it knows, and it checks the name once, while
 * extensions start. The SAPI module is therefore called `svc` (for php-svc.ini, PHP_SAPI and php_sapi_name()), has a
 * name from OPcache's list from the startup of this extension until all others have started (sapi_module.c), and is
 * called `svc` again from then on. */
#include "async/task/task.h"
#include "async/transfer/transfer.h"
#include "compat.h"
#include "main/main.h"
#include "php/bailout/bailout.h"
#include "php/request/request.h"
#include "php/sapi/sapi.h"
#include "trace/apm/apm.h"
#include "worker/connections/connections.h"
#include "worker/connections/instances/instances.h"
#include "worker/state/state.h"

bool shim_superglobals_hidden;
bool shim_has_tasks;

static char name_known_to_opcache[] = "fpm-fcgi";

static PHP_MINIT_FUNCTION(svc)
{
    (void)type;
    shim_classes_register(&shim_module);
    shim_frankenphp_register(module_number);
    if (shim_superglobals_hidden) {
        /* Each thread copies the table of superglobals once all extensions have started. */
        shim_superglobals_hide();
    }
    shim_missing_script_install();
    /* Before OPcache preloads files. */
    if (shim_has_tasks && !shim_marks_install()) {
        return FAILURE;
    }
    sapi_module.name = name_known_to_opcache;
    return SUCCESS;
}

/* Calls the callback of header_register_callback(). If there was no output, PHP would call it after extensions have
 * ended their request, although it may use values that they have freed. A bailout must not prevent the other
 * extensions' shutdown. */
static void send_head_by_callback(void)
{
    if (!SG(headers_sent) && Z_TYPE(SG(callback_func)) != IS_UNDEF) {
        zend_try {
            (void)sapi_send_headers();
        } zend_end_try();
    }
}

/* Closes the request's own instances in classic mode; in worker mode, requests do it (worker/request/ending.c). Destructors
 * have been called. */
static void end_instances(void)
{
    shim_context *context = shim_current;
    if (context == NULL || context->owner != NULL) {
        return;
    }
    shim_own_instances_close(context);
    while (shim_own_instances_are_open(context)) {
        zend_object *volatile proxy = NULL;
        zend_try {
            shim_own_instance_end(context);
        } zend_end_try();
        proxy = shim_own_instance_forget(context);
        zend_try {
            OBJ_RELEASE(proxy);
        } zend_end_try();
    }
    shim_own_instances_free(context);
}

/* Extensions end a request in the reverse order of their startup: this one before the session extension. */
static PHP_RSHUTDOWN_FUNCTION(svc)
{
    (void)type;
    (void)module_number;
    send_head_by_callback();
    if (CG(unclean_shutdown)) {
        shim_after_jump();
    }
    shim_tasks_end();
    end_instances();
    return SUCCESS;
}

/* Called after all extensions have ended the request. */
static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(svc)
{
    shim_session_close(NULL);
    shim_sources_free();
    shim_connections_stop();
    shim_apm_forget();
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
    shim_worker_functions,
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
