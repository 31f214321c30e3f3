/* Multi handles of curl, which hold easy handles of a request.
 *
 * A call takes its handle, and releases it when it returns (calls.c). A multi handle stays with the request while it holds
 * easy handles, and so do these: a call on the multi handle affects all of them.
 *
 * Libraries keep one multi handle for all requests (Guzzle's CurlMultiHandler, Symfony's CurlHttpClient), and expect a
 * message for each easy handle that they have added. So a transfer that its request has left behind is not removed
 * silently: it is aborted, and the library gets its message (php/bailout/curl.c). */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/engine/engine.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"

static shim_connection *handle_at(zend_execute_data *execute_data, uint32_t number, shim_kind kind)
{
    zend_object *object = shim_hook_is_on(SHIM_HOOK_NET) ? shim_argument_object(execute_data, number) : NULL;
    shim_connection *connection = object != NULL && shim_object_is_tracked(object, false) ? shim_connection_find(object)
                                                                                          : NULL;
    return connection != NULL && connection->kind == kind ? connection : NULL;
}

static void put_in(shim_connection *multi, shim_connection *easy)
{
    if (easy->parent == NULL) {
        shim_connection_set_parent(easy, multi);
        easy->transfer = shim_transfer_last_added();
        easy->held = 1;
        multi->held++;
    }
}

static void take_out(shim_connection *multi, shim_connection *easy)
{
    if (easy->parent == multi) {
        easy->held = 0;
        multi->held--;
        shim_connection_set_parent(easy, NULL);
        if (easy->owned.uses == 0) {
            shim_socket_release(&easy->owned);
        }
    }
}

static bool is_in(const shim_connection *connection, const void *multi)
{
    return connection->kind == SHIM_KIND_CURL && connection->parent == multi;
}

static bool succeeded(const zval *result)
{
    return EG(exception) == NULL && Z_TYPE_P(result) == IS_LONG && Z_LVAL_P(result) == 0;
}

static void call_on_both(INTERNAL_FUNCTION_PARAMETERS, void (*change)(shim_connection *multi, shim_connection *easy))
{
    shim_connection *multi = handle_at(execute_data, 1, SHIM_KIND_CURL_MULTI);
    shim_connection *easy = handle_at(execute_data, 2, SHIM_KIND_CURL);
    shim_call call, easy_call;
    if (multi == NULL || easy == NULL) {
        shim_call_on_connection(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    } else if (shim_call_begin(&call, multi->object)) {
        if (shim_call_begin(&easy_call, easy->object)) {
            shim_call_handler(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
            if (succeeded(return_value)) {
                change(multi, easy);
            }
            shim_call_end(&easy_call);
        }
        shim_call_end(&call);
    }
}

static ZEND_NAMED_FUNCTION(call_that_adds)
{
    call_on_both(INTERNAL_FUNCTION_PARAM_PASSTHRU, put_in);
}

static ZEND_NAMED_FUNCTION(call_that_removes)
{
    call_on_both(INTERNAL_FUNCTION_PARAM_PASSTHRU, take_out);
}

static ZEND_NAMED_FUNCTION(call_that_closes)
{
    shim_connection *multi = handle_at(execute_data, 1, SHIM_KIND_CURL_MULTI);
    shim_call_on_connection(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (multi != NULL && EG(exception) == NULL) {
        shim_multi_empty(multi, true);
        shim_socket_release(&multi->owned);
    }
}

zif_handler shim_multi_wrapper(const char *name)
{
    return strcmp(name, "curl_multi_add_handle") == 0      ? call_that_adds
           : strcmp(name, "curl_multi_remove_handle") == 0 ? call_that_removes
           : strcmp(name, "curl_multi_close") == 0         ? call_that_closes
                                                           : NULL;
}

void shim_multi_empty(shim_connection *multi, bool was_interrupted)
{
    for (shim_connection *easy = NULL; (easy = shim_connection_find_if(is_in, multi)) != NULL;) {
        if (!was_interrupted && multi->object != NULL) {
            shim_transfer_abandon(easy->transfer);
        }
        take_out(multi, easy);
    }
    multi->held = 0;
}
