/* Scripts whose file is missing when PHP opens it: the host resolves the path again and runs the script that it finds.
 *
 * The host resolves a script shortly before it runs, or remembers the result from an earlier request. If a deployment removes
 * the file in between, PHP would report a fatal error. Instead, PHP reports nothing, no code runs, and the outcome is
 * SHIM_NO_SCRIPT. OPcache runs the cached code of a removed file until it checks the file again. */
#include "compat.h"
#include "php/context/context.h"
#include "php/request/missing_script.h"

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

__thread zend_file_handle *shim_script;

static zend_result (*open_script)(zend_file_handle *);
static void (*next_message)(zend_long, const void *);

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* PHP runs auto_prepend_file before it opens the script. */
static bool has_file_in_front(void)
{
    return PG(auto_prepend_file) != NULL && PG(auto_prepend_file)[0] != '\0';
}

bool shim_script_is_missing(void)
{
    shim_context *context = shim_current;
    if (context->is_boot || !has_file_in_front() || is_there(ZSTR_VAL(shim_script->filename))) {
        return false;
    }
    context->lacks_script = true;
    return true;
}

static zend_result open_script_or_note(zend_file_handle *file)
{
    shim_context *context = shim_current;
    if (file != shim_script || context == NULL || context->is_boot || has_file_in_front()) {
        return open_script(file);
    }
    const int error_reporting = EG(error_reporting);
    EG(error_reporting) = 0;
    zend_result result = open_script(file);
    EG(error_reporting) = error_reporting;
    if (result == SUCCESS) {
        return SUCCESS;
    }
    if (is_there(ZSTR_VAL(file->filename))) {
        /* The file exists: report the error that prevents PHP from opening it. */
        return open_script(file);
    }
    context->lacks_script = true;
    return FAILURE;
}

/* Takes precedence over the definition in libphp. */
ZEND_API ZEND_COLD void zend_message_dispatcher(zend_long message, const void *data)
{
    const bool is_noted = message == ZMSG_FAILED_REQUIRE_FOPEN && shim_current != NULL && shim_current->lacks_script;
    if (!is_noted && next_message != NULL) {
        next_message(message, data);
    }
}

bool shim_missing_script_prepare(void)
{
    next_message = (void (*)(zend_long, const void *))dlsym(RTLD_NEXT, "zend_message_dispatcher");
    return next_message != NULL;
}

void shim_missing_script_install(void)
{
    open_script = zend_stream_open_function;
    zend_stream_open_function = open_script_or_note;
}
