/* Svc\sleep(), Svc\wait_readable() and Svc\wait_writable(): the functions that scripts call to wait. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/request/request.h"
#include "worker/stack/stack.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

/* Svc\sleep(float $seconds): void. Other requests of the worker run meanwhile. */
ZEND_NAMED_FUNCTION(shim_sleep)
{
    double seconds;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_DOUBLE(seconds)
    ZEND_PARSE_PARAMETERS_END();
    if (!(seconds >= 0)) {
        zend_argument_value_error(1, "must be greater than or equal to 0");
        RETURN_THROWS();
    }
    int64_t deadline = shim_deadline_after_seconds(seconds);
    const shim_woken_by woken = shim_park_until(deadline, SHIM_WAITS_FOR_TIME);
    if (woken == SHIM_WOKEN_BY_CANCEL) {
        shim_throw_cancelled();
        RETURN_THROWS();
    }
    if (woken != SHIM_NEVER_PARKED) {
        return;
    }
    const struct timespec moment = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR &&
           !zend_atomic_bool_load_ex(&EG(timed_out))) {
    }
}

static bool has_bytes(const php_stream *stream)
{
    return stream->writepos > stream->readpos;
}

static void wait_for(INTERNAL_FUNCTION_PARAMETERS, short events)
{
    zval *resource;
    double timeout = 0;
    bool is_forever = true;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_RESOURCE(resource)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(timeout, is_forever)
    ZEND_PARSE_PARAMETERS_END();
    int64_t deadline;
    if (!shim_deadline_of(&deadline, timeout, is_forever, 2)) {
        RETURN_THROWS();
    }
    php_stream *stream;
    php_stream_from_zval(stream, resource);
    if (events == POLLIN && has_bytes(stream)) {
        RETURN_TRUE;
    }
    php_socket_t descriptor = -1;
    if (php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&descriptor, 0) != SUCCESS) {
        zend_argument_value_error(1, "must be a stream with a file descriptor");
        RETURN_THROWS();
    }
    /* Casting the stream has buffered bytes that a TLS session has decrypted, which the descriptor does not indicate. */
    if (events == POLLIN && has_bytes(stream)) {
        RETURN_TRUE;
    }
    /* In most cases the stream is already ready, or the caller does not want to wait. */
    struct pollfd look = {.fd = descriptor, .events = events};
    if (poll(&look, 1, 0) != 0) {
        RETURN_TRUE;
    }
    shim_watch watch = {.descriptor = descriptor, .events = events};
    const shim_woken_by woken = shim_park(&(shim_wait_set){.watches = &watch, .watch_count = 1, .deadline = deadline}).by;
    if (woken == SHIM_WOKEN_BY_CANCEL) {
        shim_throw_cancelled();
        RETURN_THROWS();
    }
    if (woken != SHIM_NEVER_PARKED) {
        RETURN_BOOL(woken == SHIM_WOKEN_BY_DESCRIPTOR);
    }
    /* Casting the stream may have run script code, for longer than the timeout. */
    const int64_t left = is_forever ? -1 : deadline - shim_now();
    const int64_t left_ms = is_forever ? -1 : left > 0 ? (left + 999999) / 1000000 : 0;
    RETURN_BOOL(poll(&look, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms) > 0);
}

/* Svc\wait_readable(resource $stream, ?float $timeout = null): bool */
ZEND_NAMED_FUNCTION(shim_wait_readable)
{
    wait_for(INTERNAL_FUNCTION_PARAM_PASSTHRU, POLLIN);
}

/* Svc\wait_writable(resource $stream, ?float $timeout = null): bool */
ZEND_NAMED_FUNCTION(shim_wait_writable)
{
    wait_for(INTERNAL_FUNCTION_PARAM_PASSTHRU, POLLOUT);
}
