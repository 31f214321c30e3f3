/* A request as PHP sees it: its script, $_SERVER, Svc\Request. */
#ifndef SVC_PHP_REQUEST_H
#define SVC_PHP_REQUEST_H

#include "compat.h"
#include "php/context/context.h"

/* ---- Svc\Request (request_object.c) ---- */

/* The request ends: detaches its object from it. */
void shim_request_object_detach(shim_context *context);
void shim_request_class_register(void);

/* ---- One script (script.c) ---- */

/* A script as a regular PHP request, from startup to shutdown: for a client in classic mode, or to boot a worker.
 *
 * Every bailout of PHP ends here; php_request_shutdown runs whatever happened before it. */

/* The file of the running script; NULL if none is running. */
extern __thread zend_file_handle *shim_script;

/* Called while extensions start, before OPcache saves the function that opens files. */
void shim_missing_script_install(void);

/* The boot of a worker by a script, which lives as long as the worker. */
typedef struct shim_boot_steps {
    /* PHP has started the request of the script. Returns false if out of memory. */
    bool (*started)(void);
    /* The script has ended. NULL if it serves by itself. */
    void (*serve)(void);
    /* The worker serves no more, and PHP is about to shut the request down. */
    void (*stop)(void);
    /* PHP has shut it down. */
    void (*stopped)(void);
} shim_boot_steps;

/* Runs a script as a request of PHP, from startup to shutdown: for a client if `boot` is NULL. */
shim_outcome shim_script_run(const shim_request *request, void *host, const shim_boot_steps *boot);

/* ---- $_SERVER (server_variables.c) ---- */

/* Call after all extensions have started. */
void shim_server_variables_install(void);
void shim_server_variables_register(zval *array);
/* Adds the variables of the request, if there is one. */
void shim_server_variables_add(zend_array *array);
/* Returns the variable of the request as getenv() does, as CGI programs expect: an emalloc'ed string, or NULL. */
char *shim_server_variable(const char *name, size_t length);

/* Builds $_SERVER from that of an earlier request, unless the input filter may change values. Returns false if that is not
 * possible. NULL if it is unused. */
extern bool (*shim_server_variables_reuse)(zval *array, const shim_pairs *variables);
/* Adds the variables from `first` on to an array that the caller owns alone. */
void shim_server_variables_put(zend_array *array, const shim_pairs *variables, size_t first);
/* Makes filter_input(INPUT_SERVER) read `array`, and takes over a reference to it. */
void shim_filter_set_server(zend_array *array);

#endif
