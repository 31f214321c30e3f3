/* Waits of scripts for connections, and Svc\ConnectionBusyError. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "worker/connections/connections.h"
#include "worker/hooks/hooks.h"
#include "worker/stack/stack.h"

#include <sched.h>

static zend_class_entry *busy_error;

void shim_busy_error_throw(const char *message)
{
    zend_throw_error(busy_error, "%s", message);
}

/* The request is over: it must not continue without the connection. If its limit has passed, waits for the timer, which
 * fires within moments. */
static void end_of_wait(void)
{
    if (shim_is_cancelled()) {
        shim_throw_cancelled();
        return;
    }
    while (!zend_atomic_bool_load_ex(&EG(timed_out)) && shim_timer_deadline() > 0 && shim_timer_deadline() <= shim_now()) {
        sched_yield();
    }
    if (zend_atomic_bool_load_ex(&EG(timed_out))) {
        zend_timeout();
    }
    shim_busy_error_throw("Connection is used by another request");
}

bool shim_connections_have_owners(void)
{
    return shim_hook_is_on(SHIM_HOOK_NET) || (shim_running == NULL && shim_own_worker.serving && !shim_is_child);
}

static shim_acquisition take(shim_owned *resource)
{
    if (!shim_hook_is_on(SHIM_HOOK_NET)) {
        return shim_owned_is_free(resource) ? SHIM_ACQUIRED : SHIM_ACQUIRE_WOULD_BLOCK;
    }
    return shim_owned_acquire(resource);
}

shim_taken shim_connection_wait(shim_connection *connection)
{
    shim_connection *root = shim_connection_root(connection);
    if (root == NULL) {
        return (shim_taken){.result = take(shim_owner_shared())};
    }
    shim_connection_addref(root);
    const shim_kind kind = root->kind;
    const bool is_lease = shim_connection_is_lease(root);
    shim_owned *resource = NULL;
    shim_acquisition result = SHIM_ACQUIRED;
    /* Redis::pconnect() of another request may have made the connection one of the persistent ones meanwhile. */
    while (result == SHIM_ACQUIRED && resource != shim_connection_owned(root)) {
        resource = shim_connection_owned(root);
        result = take(resource);
    }
    if (result == SHIM_ACQUIRED && shim_running != NULL) {
        root->user = shim_running;
        if (root->kept != NULL) {
            shim_figures_restore(root);
        }
    }
    shim_connection_delref(root);
    return (shim_taken){.result = result, .lease = is_lease ? (kind == SHIM_KIND_SOAP_CLIENT ? "SOAP client" : "Curl handle") : NULL};
}

bool shim_connection_is_taken(shim_taken taken)
{
    const char *name = taken.lease != NULL ? taken.lease : "Connection";
    switch (taken.result) {
    case SHIM_ACQUIRED:
        return true;
    case SHIM_ACQUIRE_DESTROYED:
        zend_throw_error(busy_error, "%s has been closed by another request", name);
        return false;
    case SHIM_ACQUIRE_DEADLOCK:
        zend_throw_error(busy_error, "%s is used by a request that itself waits for this one, and %s", name,
                         taken.lease == NULL ? "cannot be lent: a transaction or a result is open on it, or its "
                                               "protocol is unknown"
                                             : "that has a call or a transfer in progress; let all requests use such objects in "
                                               "the same order, or give each request its own");
        return false;
    case SHIM_ACQUIRE_WOULD_BLOCK:
        zend_throw_error(busy_error, "%s is used by another request of the same thread, and this call cannot wait for it", name);
        return false;
    case SHIM_ACQUIRE_EXPIRED:
        break;
    }
    end_of_wait();
    return false;
}

bool shim_connection_take(shim_connection *connection)
{
    return shim_connection_is_taken(shim_connection_wait(connection));
}

bool shim_connection_take_shared(void)
{
    return shim_connection_is_taken((shim_taken){.result = take(shim_owner_shared())});
}

bool shim_connection_take_stores(shim_connection *store)
{
    if (!store->is_persistent) {
        if (!shim_connection_take(store)) {
            return false;
        }
        store->is_persistent = true;
        shim_owned_release(&store->owned);
    }
    return shim_connection_is_taken((shim_taken){.result = take(shim_connection_owned(store))});
}

/* An object without a record counts as one that the boot script has opened. */
static shim_owned *resource_of(const shim_connection *root)
{
    return root != NULL ? shim_connection_owned((shim_connection *)root) : shim_owner_shared();
}

bool shim_connection_is_free(shim_connection *connection)
{
    const shim_connection *root = shim_connection_root(connection);
    return shim_owned_is_free(resource_of(root));
}

bool shim_connection_try_take(shim_connection *connection)
{
    shim_connection *root = shim_connection_root(connection);
    shim_owned *resource = resource_of(root);
    if (!shim_owned_is_free(resource)) {
        return false;
    }
    if (!resource->is_leased && shim_running != NULL) {
        (void)shim_owned_acquire(resource);
    }
    return true;
}

void shim_busy_error_register(void)
{
    zend_class_entry entry;
    INIT_CLASS_ENTRY(entry, "Svc\\ConnectionBusyError", NULL);
    busy_error = zend_register_internal_class_ex(&entry, zend_ce_error);
    shim_deadlock_throw = shim_busy_error_throw;
}
