/* fclose() and pclose(), for streams that scripts must not close, and for streams that share their descriptor with a Socket.
 *
 * get_resources() gives scripts every stream of the thread. Some of them are in use at a lower level: the file of the
 * script, which PHP closes when the script has ended, and the request's body, which every php://input reads. In a
 * worker, another request may also be waiting for a lock while it holds the stream, or in the middle of reading it.
 *
 * socket_import_stream() and socket_export_stream() make two objects with one descriptor. After fclose(), the Socket would
 * still have its number, which all requests share: the next socket or file of another request gets it. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/request/request.h"
#include "php/sapi/sapi.h"

#include <zend_llist.h>
#if __has_include(<ext/sockets/php_sockets.h>)
#include <ext/sockets/php_sockets.h>
#define SOCKETS_H_IS_KNOWN
#endif

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

/* ---- sockets with the descriptor of a stream ---- */

/* Whether the thread has ever made one. */
static __thread bool has_shared_descriptors;

static zif_handler php_socket_import_stream;
static zif_handler php_socket_export_stream;

static ZEND_FUNCTION(noted_socket_import_stream)
{
    has_shared_descriptors = true;
    php_socket_import_stream(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(noted_socket_export_stream)
{
    has_shared_descriptors = true;
    php_socket_export_stream(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Marks the sockets whose stream has been closed as closed. */
static void close_sockets_of(const zend_resource *stream)
{
#ifdef SOCKETS_H_IS_KNOWN
    const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("socket"));
    for (uint32_t handle = 1; class != NULL && handle < EG(objects_store).top; handle++) {
        zend_object *object = EG(objects_store).object_buckets[handle];
        if (IS_OBJ_VALID(object) && object->ce == class) {
            php_socket *socket = socket_from_obj(object);
            if (Z_TYPE(socket->zstream) == IS_RESOURCE && Z_RES(socket->zstream) == stream) {
                socket->bsd_socket = -1;
            }
        }
    }
#else
    (void)stream;
#endif
}

/* ---- functions that close ---- */

static ZEND_FUNCTION(guarded_fclose)
{
    if (!may_close(execute_data)) {
        RETURN_FALSE;
    }
    const zval *stream = ZEND_NUM_ARGS() > 0 ? ZEND_CALL_ARG(execute_data, 1) : NULL;
    const bool may_be_shared = has_shared_descriptors && stream != NULL && Z_TYPE_P(stream) == IS_RESOURCE;
    php_fclose(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (may_be_shared && Z_RES_P(stream)->ptr == NULL) {
        close_sockets_of(Z_RES_P(stream));
    }
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
    php_socket_import_stream = shim_function_replace("socket_import_stream", ZEND_FN(noted_socket_import_stream));
    php_socket_export_stream = shim_function_replace("socket_export_stream", ZEND_FN(noted_socket_export_stream));
    php_pclose = shim_function_replace_aliases("pclose", ZEND_FN(guarded_pclose));
}
