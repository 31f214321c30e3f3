/* The SAPI module, the extension `svc`, and its functions. */
#ifndef SVC_PHP_SAPI_H
#define SVC_PHP_SAPI_H

#include "compat.h"

/* ---- Errors and the log (errors.c) ---- */

void shim_log_message(const char *message, int priority);
/* Call after all extensions have started. */
void shim_errors_install(void);

/* Until the end, turns PHP's messages about the syntax of ini files into log records. Returns false if out of memory. */
bool shim_ini_errors_begin(void);
void shim_ini_errors_end(void);

/* ---- The extension `svc` (extension.c) ---- */

extern zend_module_entry shim_module;
/* Set before PHP starts: superglobals are empty for scripts. */
extern bool shim_superglobals_hidden;
/* Set before PHP starts: threads may run tasks. */
extern bool shim_has_tasks;

/* ---- The functions that svc provides to scripts (functions.c) ---- */

extern const zend_function_entry shim_functions[];

/* ---- Compatibility with FrankenPHP (frankenphp.c) ---- */

void shim_frankenphp_register(int module_number);
PHP_FUNCTION(frankenphp_log);

/* ---- The functions of the namespace Svc\Cache (cache_functions.c) ---- */

extern const zend_function_entry shim_cache_functions[];

/* ---- PHP functions with replacements that use the host's knowledge (overrides.c) ---- */

void shim_functions_override(void);

/* ---- The SAPI module (sapi_module.c) ---- */

extern sapi_module_struct shim_sapi;
/* Sends an informational response with the fields set so far. */
void shim_send_interim(int status);

/* ---- Response headers without control characters (header_lines.c) ---- */

/* Call while extensions start. */
void shim_header_lines_install(void);

/* ---- Streams that scripts can reach but must not close (stream_guard.c) ---- */

void shim_stream_guard_install(void);

#endif
