/* PHP's socket streams, as far as several requests can reach one: the boot script has opened it, or it is persistent. Also
 * streams of large objects, which belong to a connection.
 *
 * The safety net (worker/connections/owners/sockets.c) stops bytes where they pass through libc, which is too late
 * here. A stream has a buffer: the next request would read the response of an earlier one from it without a call to
 * libc, and no request may use it while another is filling it. And OpenSSL reads and writes a TLS stream itself. So a
 * request takes the socket of a stream before it uses the stream.
 *
 * PHP's functions wait before they check their arguments: if the stream is closed meanwhile, they report that. Other users
 * of a stream (SplFileObject) are stopped where streams read and write: the executable interposes those functions of
 * libphp. A SoapClient closes its stream itself, so it is a connection (connection.c). */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"

#include <main/php_network.h>

/* Functions that use a stream passed as their first argument, or as their second one too; not stream_select(). */
static const char *const functions[] = {
    "feof",
    "fflush",
    "fgetc",
    "fgetcsv",
    "fgets",
    "fpassthru",
    "fprintf",
    "fputcsv",
    "fputs",
    "fread",
    "fscanf",
    "fseek",
    "fwrite",
    "rewind",
    "socket_set_blocking",
    "socket_set_timeout",
    "stream_copy_to_stream",
    "stream_filter_append",
    "stream_filter_prepend",
    "stream_get_contents",
    "stream_get_line",
    "stream_set_blocking",
    "stream_set_chunk_size",
    "stream_set_read_buffer",
    "stream_set_timeout",
    "stream_set_write_buffer",
    "stream_socket_enable_crypto",
    "stream_socket_recvfrom",
    "stream_socket_sendto",
    "stream_socket_shutdown",
    "vfprintf",
};

/* Labels of the streams whose data begins with php_netstream_data_t. */
static const char *const labels[] = {"generic_socket", "tcp_socket", "tcp_socket/ssl", "unix_socket"};

/* Returns -1 if the stream has no socket. */
static int socket_of(const php_stream *stream)
{
    const php_netstream_data_t *data = stream->abstract;
    for (size_t i = 0; data != NULL && i < SHIM_COUNT(labels); i++) {
        if (strcmp(stream->ops->label, labels[i]) == 0) {
            return data->socket;
        }
    }
    return -1;
}

/* ---- PHP's functions ---- */

/* Returns NULL if the argument is not an open stream. */
static php_stream *stream_of(zend_execute_data *execute_data, uint32_t number)
{
    if (ZEND_CALL_NUM_ARGS(execute_data) < number) {
        return NULL;
    }
    const zval *argument = ZEND_CALL_ARG(execute_data, number);
    ZVAL_DEREF(argument);
    const bool is_stream =
        Z_TYPE_P(argument) == IS_RESOURCE &&
        (Z_RES_TYPE_P(argument) == php_file_le_stream() || Z_RES_TYPE_P(argument) == php_file_le_pstream());
    return is_stream ? Z_RES_VAL_P(argument) : NULL;
}

/* Resources taken for the arguments of a function. */
typedef struct needs {
    /* Calls on the connections of large objects. */
    shim_call calls[2];
    unsigned count;
} needs;

/* Returns false if the function must not use the stream. If the stream was closed meanwhile, returns true: the function
 * reports that. */
static bool take(needs *needs, zend_execute_data *execute_data, uint32_t number)
{
    const php_stream *stream = stream_of(execute_data, number);
    if (stream == NULL) {
        return true;
    }
    zend_object *connection = shim_large_object_connection(stream);
    if (connection != NULL) {
        const bool is_taken = shim_call_begin(&needs->calls[needs->count], connection);
        needs->count += is_taken;
        return is_taken;
    }
    const int descriptor = socket_of(stream);
    return descriptor < 0 || shim_socket_take(descriptor) || stream_of(execute_data, number) != stream;
}

/* Whether the request is over; its time limit may have ended the wait before the timer has fired. */
static bool is_over(void)
{
    const int64_t limit = shim_timer_deadline();
    return shim_is_over() || (limit > 0 && limit <= shim_now());
}

/* Fails the function: its request is over and about to be interrupted, or it cannot wait. */
static void refuse(zend_execute_data *execute_data, zval *return_value)
{
    RETVAL_BOOL(zend_string_equals_literal(EX(func)->common.function_name, "feof"));
    if (EG(exception) != NULL) {
        return;
    }
    if (shim_is_cancelled()) {
        shim_throw_cancelled();
    } else if (!is_over()) {
        shim_busy_error_throw("Stream is used by another request of the same thread, and this call cannot wait for it");
    }
}

static ZEND_NAMED_FUNCTION(call_with_streams)
{
    zif_handler php = shim_call_handler(EX(func));
    if (!shim_hook_is_on(SHIM_HOOK_NET)) {
        php(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    /* If a callback of a connection's library uses a stream, that is not a call on the connection. */
    shim_use *apart = shim_use_here() != NULL ? shim_use_begin(NULL) : NULL;
    needs own = {.count = 0};
    if (take(&own, execute_data, 1) && take(&own, execute_data, 2)) {
        php(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    } else {
        refuse(execute_data, return_value);
    }
    while (own.count > 0) {
        shim_call_end(&own.calls[--own.count]);
    }
    if (apart != NULL) {
        shim_use_end(apart);
    }
}

void shim_streams_follow(void)
{
    for (size_t i = 0; i < SHIM_COUNT(functions); i++) {
        zend_function *function = zend_hash_str_find_ptr(CG(function_table), functions[i], strlen(functions[i]));
        if (function != NULL && function->type == ZEND_INTERNAL_FUNCTION) {
            shim_call_wrap(function, call_with_streams);
        }
    }
}

/* ---- libphp's functions ---- */

static bool may_use(const php_stream *stream)
{
    const int descriptor = shim_hook_is_on(SHIM_HOOK_NET) ? socket_of(stream) : -1;
    return descriptor < 0 || shim_socket_take(descriptor);
}

ssize_t _php_stream_read(php_stream *stream, char *buffer, size_t size)
{
    return may_use(stream) ? NEXT(_php_stream_read)(stream, buffer, size) : -1;
}

zend_result _php_stream_fill_read_buffer(php_stream *stream, size_t size)
{
    return may_use(stream) ? NEXT(_php_stream_fill_read_buffer)(stream, size) : FAILURE;
}

ssize_t _php_stream_write(php_stream *stream, const char *bytes, size_t count)
{
    return may_use(stream) ? NEXT(_php_stream_write)(stream, bytes, count) : -1;
}

/* Whether a stream option talks to the peer. */
static bool is_talk(int option, const void *argument)
{
    switch (option) {
    case PHP_STREAM_OPTION_CRYPTO_API:
        return true;
    case PHP_STREAM_OPTION_XPORT_API: {
        const php_stream_xport_param *call = argument;
        return call->op == STREAM_XPORT_OP_RECV || call->op == STREAM_XPORT_OP_SEND || call->op == STREAM_XPORT_OP_SHUTDOWN;
    }
    }
    return false;
}

/* Whether another request has the stream. It is reported as alive then: PHP frees a persistent stream that it finds dead. */
static bool is_used_by_another(const php_stream *stream)
{
    const int descriptor = shim_hook_is_on(SHIM_HOOK_NET) ? socket_of(stream) : -1;
    return descriptor >= 0 && !shim_socket_is_free(descriptor);
}

int _php_stream_set_option(php_stream *stream, int option, int value, void *argument)
{
    if (option == PHP_STREAM_OPTION_CHECK_LIVENESS && is_used_by_another(stream)) {
        return PHP_STREAM_OPTION_RETURN_OK;
    }
    return !is_talk(option, argument) || may_use(stream) ? NEXT(_php_stream_set_option)(stream, option, value, argument)
                                                         : PHP_STREAM_OPTION_RETURN_ERR;
}
