/* The SAPI module: passes PHP's calls for output, headers, body and variables on to the host. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/request/request.h"
#include "php/sapi/sapi.h"
#include "shim.h"

static char own_name[] = "svc";

static int start_modules(sapi_module_struct *module)
{
    int result = php_module_startup(module, &shim_module);
    /* See extension.c. */
    sapi_module.name = own_name;
    return result;
}

static void connection_aborted(void)
{
    shim_current->client_gone = true;
    if (shim_own_worker.host != NULL) {
        /* A bailout would leave a half-finished operation of this request to the worker's other requests. The script
         * continues, and connection_aborted() reports the disconnect. */
        PG(connection_status) |= PHP_CONNECTION_ABORTED;
        php_output_set_status(PHP_OUTPUT_DISABLED);
        return;
    }
    if (shim_is_inside_writer()) {
        PG(connection_status) |= PHP_CONNECTION_ABORTED;
        php_output_set_status(PHP_OUTPUT_DISABLED);
        shim_current->aborts_later = true;
        zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
        return;
    }
    /* May bail out of the script; no frame of the host is on the stack here. */
    php_handle_aborted_connection();
}

/* The bytes that a fiber writes at once: less than the host buffers in one piece, so that a long output waits here,
 * where the thread is free meanwhile, and not inside the host. Not much less, so that a page is written in one piece. */
#define FIBER_WRITE_MAX ((size_t)1024 * 1024)

/* Whether the thread has other requests, which run while this one waits. */
static bool is_beside_others(void)
{
    return shim_wait_hooks.for_client != NULL && shim_current->owner != NULL;
}

/* Lets other requests of the worker run while the client of this one reads too slowly. */
static void wait_for_reader(void)
{
    int64_t pause = 0;
    while (is_beside_others() && shim_host.io.is_full(shim_current->host) && shim_wait_hooks.for_client(&pause)) {
    }
}

static size_t write_output(const char *bytes, size_t length)
{
    if (shim_request_host() == NULL || length == 0) {
        return length;
    }
    if (shim_current->finished) {
        return length;
    }
    size_t step = is_beside_others() && length > FIBER_WRITE_MAX ? FIBER_WRITE_MAX : length;
    for (size_t done = 0; done < length; done += step) {
        size_t count = length - done < step ? length - done : step;
        wait_for_reader();
        if (!shim_host.io.write(shim_current->host, shim_view_of(bytes + done, count))) {
            connection_aborted();
            return 0;
        }
    }
    return length;
}

static void flush_output(void *server_context)
{
    (void)server_context;
    if (shim_request_host() == NULL || shim_current->finished) {
        return;
    }
    if (!SG(headers_sent)) {
        if (sapi_send_headers() == FAILURE) {
            return;
        }
        SG(headers_sent) = 1;
    }
    if (!shim_host.io.flush(shim_current->host)) {
        connection_aborted();
    }
}

/* Collects PHP's list of header lines into `lines`, which has room for all of them. */
static size_t collect_lines(sapi_headers_struct *headers, shim_view *lines)
{
    size_t count = 0;
    zend_llist_position position;
    for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &position); header != NULL;
         header = zend_llist_get_next_ex(&headers->headers, &position)) {
        if (header->header_len > 0) {
            lines[count++] = shim_view_of(header->header, header->header_len);
        }
    }
    return count;
}

static void pass_head(sapi_headers_struct *headers, int status, void (*send)(void *, const shim_head *))
{
    shim_view few[32];
    size_t room = zend_llist_count(&headers->headers);
    shim_view *lines = room <= SHIM_COUNT(few) ? few : emalloc(room * sizeof(*lines));
    const char *line = headers->http_status_line;
    shim_head head = {
        .status = status,
        .status_line = shim_view_of(line, line != NULL ? strlen(line) : 0),
        .lines = lines,
        .count = collect_lines(headers, lines),
    };
    send(shim_current->host, &head);
    if (lines != few) {
        efree(lines);
    }
}

static int send_headers(sapi_headers_struct *headers)
{
    if (shim_request_host() != NULL && !shim_current->finished) {
        pass_head(headers, headers->http_response_code, shim_host.io.send_head);
    }
    return SAPI_HEADER_SENT_SUCCESSFULLY;
}

/* headers_send(103): sends the fields set so far as an informational response, and keeps them. */
void shim_send_interim(int status)
{
    if (shim_request_host() != NULL && !shim_current->finished) {
        pass_head(&SG(sapi_headers), status, shim_host.io.send_interim);
    }
}

static size_t read_post(char *buffer, size_t size)
{
    size_t total = 0;
    while (shim_request_host() != NULL && total < size) {
        size_t count = shim_host.io.read_body(shim_current->host, buffer + total, size - total);
        if (count == 0) {
            break;
        }
        total += count;
    }
    return total;
}

static char *read_cookies(void)
{
    if (shim_current == NULL || shim_current->request == NULL || !shim_current->request->has_cookies) {
        return NULL;
    }
    /* PHP keeps the pointer, and does not free the string. */
    const shim_view *cookies = &shim_current->request->cookies;
    return estrndup(cookies->bytes, cookies->length);
}

static int forget_cookies(void)
{
    if (SG(request_info).cookie_data != NULL) {
        efree(SG(request_info).cookie_data);
        SG(request_info).cookie_data = NULL;
    }
    return SUCCESS;
}

static zend_result request_time(double *seconds)
{
    if (shim_current == NULL) {
        return FAILURE;
    }
    *seconds = shim_current->time;
    return SUCCESS;
}

sapi_module_struct shim_sapi = {
    .name = own_name,
    .pretty_name = "svc",
    .startup = start_modules,
    .deactivate = forget_cookies,
    .shutdown = php_module_shutdown_wrapper,
    .ub_write = write_output,
    .flush = flush_output,
    .getenv = shim_server_variable,
    .sapi_error = php_error,
    .send_headers = send_headers,
    .read_post = read_post,
    .read_cookies = read_cookies,
    .register_server_variables = shim_server_variables_register,
    .log_message = shim_log_message,
    .get_request_time = request_time,
    .php_ini_ignore_cwd = 1,
};
