/* The request that runs on the current thread.
 *
 * Every function that PHP calls checks here first whether a request is active, and which one. */
#include "compat.h"
#include "php/context/context.h"
#include "shim.h"

ZEND_TSRMLS_CACHE_DEFINE()

__thread shim_context *shim_current;
bool shim_is_child;
__thread bool shim_in_switch;

/* A comparison for zend_llist: whether the line is a `Status` field, as CGI scripts send it, with a status below 500. */
static int is_status_below_500(void *header, void *unused)
{
    const sapi_header_struct *line = header;
    (void)unused;
    return line->header_len > 7 && strncasecmp(line->header, "status:", 7) == 0 && strtol(line->header + 7, NULL, 10) < 500;
}

/* PHP sets 500 only if the status is 200 and errors are not displayed (php_error_cb() in main/main.c). A shutdown
 * function may then set another status. Allocates no memory, which may be exhausted. */
static void set_status_of_failure(void)
{
    if (SG(headers_sent)) {
        return;
    }
    for (size_t i = zend_llist_count(&SG(sapi_headers).headers); i > 0; i--) {
        zend_llist_del_element(&SG(sapi_headers).headers, NULL, is_status_below_500);
    }
    if (SG(sapi_headers).http_response_code >= 500) {
        return;
    }
    if (SG(sapi_headers).http_status_line != NULL) {
        efree(SG(sapi_headers).http_status_line);
        SG(sapi_headers).http_status_line = NULL;
    }
    SG(sapi_headers).http_response_code = 500;
}

void shim_request_failed(bool is_lost)
{
    const bool is_first = !shim_current->fatal;
    shim_current->fatal = true;
    set_status_of_failure();
    /* A time limit is answered by time_limit(). */
    if (is_first && !shim_current->timed_out && shim_current->host != NULL) {
        shim_host.io.failed(shim_current->host, is_lost);
    }
}

void shim_answer_time_limit(shim_context *context)
{
    if (context->timed_out && context->fatal && !context->finished && context->host != NULL) {
        shim_host.io.time_limit(context->host);
        context->finished = true;
    }
}

shim_outcome shim_outcome_of(const shim_context *context)
{
    if (context->fatal) {
        return context->timed_out ? SHIM_TIME_LIMIT : SHIM_FATAL;
    }
    if (context->lacks_script) {
        return SHIM_NO_SCRIPT;
    }
    return context->client_gone ? SHIM_ABORTED : SHIM_COMPLETE;
}

/* ---- the span of the running script ---- */

__thread uint64_t shim_current_span;

/* ---- the worker of the current thread ---- */

__thread shim_worker shim_own_worker;

/* ---- the description of a request in PHP's form ---- */

static char *put(char **at, shim_view view)
{
    char *start = *at;
    if (view.length > 0) {
        memcpy(start, view.bytes, view.length);
    }
    start[view.length] = '\0';
    *at = start + view.length + 1;
    return start;
}

static bool reserve(shim_strings *strings, size_t size)
{
    if (size <= strings->size) {
        return true;
    }
    char *larger = realloc(strings->bytes, size);
    if (larger == NULL) {
        return false;
    }
    strings->bytes = larger;
    strings->size = size;
    return true;
}

bool shim_request_info_fill(shim_strings *strings, const shim_request *request, shim_files *files)
{
    size_t size = request->method.length + request->uri.length + request->query.length + request->content_type.length +
                  request->authorization.length + request->script.length + request->script_file.length +
                  request->folder.length + 8;
    if (!reserve(strings, size)) {
        return false;
    }
    char *at = strings->bytes;
    SG(request_info).request_method = put(&at, request->method);
    SG(request_info).request_uri = put(&at, request->uri);
    SG(request_info).query_string = put(&at, request->query);
    char *content_type = put(&at, request->content_type);
    SG(request_info).content_type = request->has_content_type ? content_type : NULL;
    SG(request_info).content_length = request->content_length;
    SG(request_info).proto_num = request->protocol;
    SG(request_info).path_translated = put(&at, request->script);
    files->script = put(&at, request->script_file);
    files->folder = request->folder.length > 0 ? put(&at, request->folder) : NULL;
    SG(sapi_headers).http_response_code = 200;
    char *authorization = put(&at, request->authorization);
    php_handle_auth_data(request->authorization.length > 0 ? authorization : NULL);
    return true;
}
