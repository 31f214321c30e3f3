/* Streams that scripts can reach but must not close.
 *
 * get_resources() gives scripts every stream of the thread. Some of them are in use at a lower level: the file of the
 * script, which PHP closes when the script has ended, and the request's body, which every php://input reads. In a
 * worker, another request may also be waiting for a lock while it holds the stream, or in the middle of reading it. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/request/request.h"
#include "php/sapi/sapi.h"

#include <zend_llist.h>

static zif_handler php_fclose;
static zif_handler php_pclose;

static void keep_source_open(zend_file_handle *file)
{
    if (file->type == ZEND_HANDLE_STREAM && file->handle.stream.handle != NULL) {
        shim_keep_open(file->handle.stream.handle);
    }
}

static void keep_own_open(void)
{
    if (SG(request_info).request_body != NULL) {
        shim_keep_open(SG(request_info).request_body);
    }
    if (shim_script != NULL) {
        keep_source_open(shim_script);
    }
    zend_llist_position position;
    for (zend_file_handle *file = zend_llist_get_first_ex(&CG(open_files), &position); file != NULL;
         file = zend_llist_get_next_ex(&CG(open_files), &position)) {
        keep_source_open(file);
    }
}

/* Whether another request of the thread waits for a lock on the stream, or in a call that continues to use it. */
static bool is_waited_for(php_stream *stream)
{
    return shim_wait_hooks.is_in_use != NULL && shim_wait_hooks.is_in_use(stream);
}

static bool may_close(const zend_execute_data *call)
{
    const zval *argument = ZEND_CALL_ARG(call, 1);
    if (ZEND_CALL_NUM_ARGS(call) == 0 || Z_TYPE_P(argument) != IS_RESOURCE || Z_RES_TYPE_P(argument) != php_file_le_stream()) {
        return true;
    }
    php_stream *stream = Z_RES_VAL_P(argument);
    keep_own_open();
    /* Closing an inner stream also closes the outer one. */
    php_stream *outer = stream->enclosing_stream != NULL ? stream->enclosing_stream : stream;
    if ((outer->flags & PHP_STREAM_FLAG_NO_FCLOSE) == 0 && !is_waited_for(stream)) {
        return true;
    }
    php_error_docref(NULL, E_WARNING, "cannot close the provided stream, as it is in use");
    return false;
}

static ZEND_FUNCTION(guarded_fclose)
{
    if (!may_close(execute_data)) {
        RETURN_FALSE;
    }
    php_fclose(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(guarded_pclose)
{
    if (!may_close(execute_data)) {
        RETURN_LONG(-1);
    }
    php_pclose(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

void shim_stream_guard_install(void)
{
    php_fclose = shim_function_replace_aliases("fclose", ZEND_FN(guarded_fclose));
    php_pclose = shim_function_replace_aliases("pclose", ZEND_FN(guarded_pclose));
}
