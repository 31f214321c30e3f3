/* Calls on connections.
 *
 * The handler of each function and method of the extensions is replaced by one that first takes the connection: that of the
 * object on which the method is called, or that of the first argument. However a function is called (by any name, through a
 * subclass, as a closure, by reflection), its handler runs; the engine's copies of a function have the same handler, and
 * keep PHP's handler in the same slot.
 *
 * Objects that such a call returns belong to the connection. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"

/* The slot for PHP's handler among the reserved ones of a function. */
static int handle = -1;

zif_handler shim_call_handler(const zend_function *function)
{
    return (zif_handler)(uintptr_t)function->internal_function.reserved[handle];
}

void shim_call_wrap(zend_function *function, zif_handler wrapper)
{
    if (function->internal_function.reserved[handle] == NULL && (function->common.fn_flags & ZEND_ACC_ABSTRACT) == 0) {
        function->internal_function.reserved[handle] = (void *)(uintptr_t)shim_handler_replace(function, wrapper);
    }
}

/* ---- a call ---- */

/* Begins a call where connections have no owners: does not wait, and notes the user, so that the connection is cleaned up
 * at the end of the request. */
static void begin_without_owner(shim_call *call, zend_object *object)
{
    shim_connection *root = shim_user_now() != NULL ? shim_connection_addref(shim_connection_root(shim_connection_find(object)))
                                                    : NULL;
    if (root == NULL) {
        return;
    }
    shim_user_note(root);
    *call = (shim_call){.connection = root, .use = shim_use_begin(&root->owned)};
    if (call->use == NULL) {
        call->connection = NULL;
        shim_connection_delref(root);
    }
}

/* Waits for the object's connection, which is returned with a reference. An object that is being opened may turn out to have
 * the connection of another one meanwhile. */
static shim_connection *wait_for_connection(zend_object *object, shim_taken *taken)
{
    for (;;) {
        shim_connection *before = shim_connection_addref(shim_connection_root(shim_connection_find(object)));
        *taken = shim_connection_wait(before);
        shim_connection *root = shim_connection_addref(shim_connection_root(shim_connection_find(object)));
        const bool is_same = root == before;
        shim_connection_delref(before);
        if (is_same || taken->result != SHIM_ACQUIRED) {
            return root;
        }
        shim_connection_delref(root);
    }
}

bool shim_call_begin(shim_call *call, zend_object *object)
{
    *call = (shim_call){0};
    if (!shim_connections_have_owners()) {
        begin_without_owner(call, object);
        return true;
    }
    shim_taken taken;
    shim_connection *root = wait_for_connection(object, &taken);
    const bool is_taken = taken.result == SHIM_ACQUIRED;
    if (is_taken && root != NULL && root->is_left && root->owned.uses == 0) {
        root->is_left = false;
        shim_connection_close(root);
    }
    if (!is_taken || root == NULL) {
        shim_connection_delref(root);
        return shim_connection_is_taken(taken);
    }
    *call = (shim_call){.connection = root, .use = shim_use_begin(&root->owned)};
    if (call->use == NULL) {
        shim_connection_delref(root);
        shim_busy_error_throw("There is no memory for a call on a connection");
        return false;
    }
    if (shim_running != NULL) {
        call->request = shim_running->context.serial;
        call->refusals = shim_running->refusals;
    }
    return true;
}

void shim_call_end(const shim_call *call)
{
    if (call->use == NULL) {
        return;
    }
    const shim_fiber *fiber = shim_running;
    const bool is_same_request = fiber != NULL && fiber->context.serial == call->request;
    call->connection->is_cut = call->connection->is_cut || (is_same_request && fiber->refusals > call->refusals);
    shim_use_end(call->use);
}

/* Called when a call has ended; each noted call holds a reference to its connection. */
static void end_of_call(shim_owned *resource)
{
    shim_connection *connection = (shim_connection *)((char *)resource - XtOffsetOf(shim_connection, owned));
    if (resource->is_leased && resource->uses == 0 && connection->held == 0) {
        shim_socket_release(resource);
    }
    shim_connection_delref(connection);
}

/* ---- functions ---- */

static zend_object *tracked_argument(zend_execute_data *execute_data, uint32_t number)
{
    zend_object *object = shim_argument_object(execute_data, number);
    return object != NULL && shim_object_is_tracked(object, false) ? object : NULL;
}

/* `new mysqli_stmt($connection)`: the new object belongs to the argument. */
static bool is_being_made(const zend_object *object, const zend_execute_data *execute_data)
{
    const shim_connection *connection = shim_connection_find(object);
    return connection != NULL && !shim_kind_is_connection(connection->kind) && connection->parent == NULL &&
           shim_is_called(execute_data, ZEND_CONSTRUCTOR_FUNC_NAME);
}

/* Returns the object that the call concerns; NULL if it is not tracked. */
static zend_object *subject_of(zend_execute_data *execute_data)
{
    if (Z_TYPE(EX(This)) == IS_OBJECT && shim_object_is_tracked(Z_OBJ(EX(This)), false)) {
        zend_object *argument = is_being_made(Z_OBJ(EX(This)), execute_data) ? tracked_argument(execute_data, 1) : NULL;
        return argument != NULL ? argument : Z_OBJ(EX(This));
    }
    return tracked_argument(execute_data, 1);
}

/* Assigns an object that the call has created to the connection. */
static void adopt(shim_connection *root, zend_object *object)
{
    shim_connection *made = shim_object_is_tracked(object, true) ? shim_connection_find(object) : NULL;
    if (made != NULL && !shim_kind_is_connection(made->kind) && made->parent == NULL) {
        made->effects = root->effects;
        made->has_unread_try = root->has_unread_try;
        root->has_unread_try = false;
        shim_connection_set_parent(made, root);
    }
}

/* Whether rawCommand() sends a command that changes the state of the Redis connection; phpredis does not interpret it. */
static bool is_raw_state(zend_execute_data *execute_data)
{
    static const char *const commands[] = {"monitor", "multi", "psubscribe", "select", "ssubscribe", "subscribe", "watch"};
    const zval *command = shim_argument(execute_data, 1);
    return command != NULL && Z_TYPE_P(command) == IS_STRING && SHIM_IS_LISTED(Z_STRVAL_P(command), commands);
}

/* Notes a state that only particular commands end. Called before the command, which may be interrupted. */
static void note_state(shim_connection *root, zend_execute_data *execute_data)
{
    if (root->kind == SHIM_KIND_PGSQL && root->may_share_socket && shim_running != NULL && !shim_running->lends_nothing) {
        /* The script may drop the object before it ends. The calls that reset connections at its end do not count. */
        shim_user_note_persistent();
    }
    if (root->kind < SHIM_KIND_REDIS || root->kind > SHIM_KIND_REDIS_SENTINEL) {
        return;
    }
    if (shim_is_called(execute_data, "watch")) {
        root->is_watching = true;
    } else if (shim_is_called(execute_data, "unwatch") || shim_is_called(execute_data, "exec") ||
               shim_is_called(execute_data, "discard")) {
        root->is_watching = false;
    } else if (shim_is_called(execute_data, "subscribe") || shim_is_called(execute_data, "psubscribe") ||
               shim_is_called(execute_data, "ssubscribe") ||
               (shim_is_called(execute_data, "rawcommand") && is_raw_state(execute_data))) {
        root->is_subscribed = true;
    }
}

/* Whether a destructor would use another request's connection. Those of Redis send commands; the socket is closed without
 * them, too. */
static bool is_destructor_of_another(zend_execute_data *execute_data, zend_object *object)
{
    return shim_is_called(execute_data, ZEND_DESTRUCTOR_FUNC_NAME) && !shim_connection_is_free(shim_connection_find(object));
}

static void adopt_all(shim_connection *root, zend_execute_data *execute_data, const zval *return_value)
{
    if (Z_TYPE_P(return_value) == IS_OBJECT) {
        adopt(root, Z_OBJ_P(return_value));
    }
    if (Z_TYPE(EX(This)) == IS_OBJECT) {
        adopt(root, Z_OBJ(EX(This)));
    }
}

static void call_nothing(INTERNAL_FUNCTION_PARAMETERS)
{
    shim_call_handler(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) == IS_OBJECT) {
        (void)shim_object_is_tracked(Z_OBJ_P(return_value), true);
    }
}

static void call_without_owner(INTERNAL_FUNCTION_PARAMETERS)
{
    zend_object *object = shim_user_now() != NULL ? subject_of(execute_data) : NULL;
    shim_call call = {0};
    if (object != NULL) {
        begin_without_owner(&call, object);
    }
    if (call.connection == NULL) {
        call_nothing(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    note_state(call.connection, execute_data);
    shim_rest_note_locks(call.connection, shim_connection_find(object), execute_data);
    shim_call_handler(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    adopt_all(call.connection, execute_data, return_value);
    shim_call_end(&call);
}

ZEND_NAMED_FUNCTION(shim_call_on_connection)
{
    if (!shim_connections_have_owners()) {
        call_without_owner(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    zend_object *object = subject_of(execute_data);
    if (object == NULL) {
        call_nothing(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    shim_call call;
    if (is_destructor_of_another(execute_data, object) || !shim_call_begin(&call, object)) {
        return;
    }
    if (call.connection != NULL) {
        note_state(call.connection, execute_data);
        if (shim_running == NULL) {
            shim_user_note(call.connection);
        }
        if (!shim_rest_note(call.connection, shim_connection_find(object), execute_data)) {
            shim_call_end(&call);
            return;
        }
        if (shim_running != NULL && shim_kind_is_store(call.connection->kind)) {
            const zend_object *before = EG(exception);
            shim_store_enter(call.connection, execute_data);
            if (EG(exception) != before) {
                /* The command would be executed in the database of another request. */
                shim_call_end(&call);
                return;
            }
        }
    }
    shim_call_handler(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (call.connection != NULL) {
        if (shim_running != NULL && shim_kind_is_store(call.connection->kind)) {
            shim_store_leave(call.connection, execute_data, return_value);
        } else {
            shim_rest_note_rows(call.connection, shim_connection_find(object), execute_data, return_value);
        }
        adopt_all(call.connection, execute_data, return_value);
    }
    shim_call_end(&call);
}

ZEND_NAMED_FUNCTION(shim_call_on_two_connections)
{
    zend_object *other = shim_connections_have_owners() ? tracked_argument(execute_data, 1) : NULL;
    shim_call call = {0};
    if (other == NULL || shim_call_begin(&call, other)) {
        shim_call_on_connection(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        shim_call_end(&call);
    }
}

bool shim_calls_install(void)
{
    shim_use_is_over = end_of_call;
    const bool has_room = shim_uses_install();
    handle = shim_uses_handle();
    return has_room;
}
