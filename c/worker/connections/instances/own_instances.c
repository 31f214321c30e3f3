/* A request's instances behind objects of Svc\per_request().
 *
 *   making ──the factory returns──▶ in use ──the request ends──▶ ending ──reset() is true──▶ kept ──▶ idle, for the next
 *      │                              ▲                            │                          │
 *      │ it throws                    └── a destructor uses it ────┼──────────────────────────┘
 *      ▼                                                           ▼ otherwise, or after a bailout
 *     none                                                       closed
 *
 * A factory may suspend the fiber that it runs in. Another fiber of the request that needs the instance meanwhile calls the
 * factory, too, and the first result becomes the request's instance. If the request ends before its factory returns, the
 * result is discarded.
 *
 * A request keeps its list outside of PHP's memory, so that it survives a bailout. Each entry holds a permit of its pool
 * and a reference to the proxy, from before the call of the factory until the instance is closed, or is passed on after the
 * request's connections have been cleaned. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/connections/connections.h"
#include "worker/connections/instances/instances.h"
#include "worker/connections/owners/owners.h"
#include "worker/engine/engine.h"
#include "worker/stack/stack.h"

#include <ext/spl/spl_exceptions.h>
#include <stdlib.h>

/* ---- the pool of instances ---- */

static const char *reason(shim_acquisition result)
{
    return result == SHIM_ACQUIRE_WOULD_BLOCK ? ", and the request cannot wait here"
                                   : ", and the request has waited until its time limit";
}

static bool throw_unserved(const shim_instance_pool *pool, shim_acquisition result)
{
    if (result == SHIM_ACQUIRE_EXPIRED && shim_is_cancelled()) {
        shim_throw_cancelled();
    } else if (result == SHIM_ACQUIRE_DEADLOCK) {
        zend_string *message = zend_strpprintf(0, "All %u instances of %s are in use by requests that wait for this one",
                                               pool->permits.max, ZSTR_VAL(pool->class->name));
        shim_busy_error_throw(ZSTR_VAL(message));
        zend_string_release(message);
    } else {
        zend_throw_exception_ex(spl_ce_RuntimeException, 0, "All %u instances of %s are in use%s", pool->permits.max,
                                ZSTR_VAL(pool->class->name), reason(result));
    }
    return false;
}

/* Takes a permit for an instance, and waits for it if necessary. Fills `instance` with an idle one, or with undefined if the
 * caller has to create one. Returns false if it has thrown. */
static bool take_from(shim_instance_pool *pool, zval *instance)
{
    const shim_acquisition result = shim_permit_acquire(&pool->permits);
    if (result != SHIM_ACQUIRED) {
        return throw_unserved(pool, result);
    }
    ZVAL_UNDEF(instance);
    if (pool->idle_count > 0) {
        ZVAL_COPY_VALUE(instance, &pool->idle[--pool->idle_count]);
    }
    return true;
}

/* Releases the permit, with a reusable instance or undefined. Runs no script code. */
static void give_back(shim_instance_pool *pool, zval *instance)
{
    if (!Z_ISUNDEF_P(instance)) {
        ZVAL_COPY_VALUE(&pool->idle[pool->idle_count++], instance);
    }
    shim_permit_release(&pool->permits);
}

/* ---- the instances of a request ---- */

typedef enum phase {
    MAKING = 0,
    IN_USE,
    ENDING,
    KEPT,
    CLOSED,
} phase;

/* A call of the factory. Its number is unique on the thread. */
typedef struct maker {
    struct maker *next;
    const zend_fiber_context *stack;
    uint64_t number;
} maker;

struct shim_own_instance {
    zend_object *proxy;
    shim_instance_pool *pool;
    phase phase;
    /* Undefined while the factory runs, and once the instance is closed. */
    zval instance;
    maker *makers;
};

/* Whether a request or a task runs, as opposed to the boot script of a worker, or the worker itself. */
static bool is_in_request(void)
{
    return shim_current != NULL && !shim_current->is_boot &&
           (shim_current->owner != NULL || shim_own_worker.host == NULL);
}

/* Returns the running request's entry for the proxy; NULL if it has none. */
static shim_own_instance *find(const zend_object *proxy)
{
    if (!is_in_request()) {
        return NULL;
    }
    for (size_t i = 0; i < shim_current->instances.count; i++) {
        if (shim_current->instances.list[i].proxy == proxy) {
            return &shim_current->instances.list[i];
        }
    }
    return NULL;
}

/* ---- calls of the factory ---- */

/* Returns the call's number; 0 if out of memory. */
static uint64_t begin_making(shim_own_instance *entry)
{
    static __thread uint64_t begun;
    maker *own = malloc(sizeof(*own));
    if (own == NULL) {
        return 0;
    }
    *own = (maker){.next = entry->makers, .stack = EG(current_fiber_context), .number = ++begun};
    entry->makers = own;
    return own->number;
}

/* Ends the call. Returns false if the entry does not belong to the call: another request runs, or none. */
static bool end_making(shim_own_instance *entry, uint64_t number)
{
    maker **link = entry != NULL ? &entry->makers : NULL;
    while (link != NULL && *link != NULL && (*link)->number != number) {
        link = &(*link)->next;
    }
    if (link == NULL || *link == NULL) {
        return false;
    }
    maker *own = *link;
    *link = own->next;
    free(own);
    return true;
}

static void forget_makers(shim_own_instance *entry)
{
    while (entry->makers != NULL) {
        maker *own = entry->makers;
        entry->makers = own->next;
        free(own);
    }
}

static bool is_making_on(const shim_own_instance *entry, const zend_fiber_context *stack)
{
    const maker *own = entry->makers;
    while (own != NULL && own->stack != stack) {
        own = own->next;
    }
    return own != NULL;
}

/* Whether the factory itself uses the proxy, on its stack or on one that it has started. */
static bool is_asked_by_factory(const shim_own_instance *entry)
{
    zend_fiber_context *stack = EG(current_fiber_context);
    while (stack != NULL && !is_making_on(entry, stack)) {
        stack = stack->kind == zend_ce_fiber ? zend_fiber_from_context(stack)->caller : NULL;
    }
    return stack != NULL;
}

/* Removes the entry and releases its permit without an instance. */
static void withdraw(const zend_object *proxy)
{
    shim_own_instance *entry = find(proxy);
    forget_makers(entry);
    shim_instance_pool *pool = entry->pool;
    zend_object *held = entry->proxy;
    zval none;
    ZVAL_UNDEF(&none);
    *entry = shim_current->instances.list[--shim_current->instances.count];
    give_back(pool, &none);
    OBJ_RELEASE(held);
}

static void check_made(const zval *made, const zend_object *proxy, const zend_class_entry *class)
{
    if (EG(exception) == NULL && (Z_TYPE_P(made) != IS_OBJECT || !instanceof_function(Z_OBJCE_P(made), class) ||
                                  Z_OBJ_P(made) == proxy)) {
        zend_type_error("The factory of Svc\\per_request() must return an instance of %s, %s returned",
                        ZSTR_VAL(class->name), zend_zval_value_name(made));
    }
}

static bool has_instance(const shim_own_instance *entry);
static zend_object *use(shim_own_instance *entry);
static zend_object *refuse(const zend_class_entry *class, const char *why);

/* Calls the factory. Meanwhile the list may grow, another fiber may create the instance, and the request may end. */
static zend_object *make(zend_object *proxy, shim_instance_pool *pool)
{
    zval made;
    ZVAL_UNDEF(&made);
    const zend_class_entry *class = pool->class;
    const uint64_t number = begin_making(find(proxy));
    if (number == 0) {
        withdraw(proxy);
        zend_throw_error(NULL, "Out of memory");
        return NULL;
    }
    (void)call_user_function(NULL, NULL, &pool->factory, &made, 0, NULL);
    shim_own_instance *entry = find(proxy);
    if (!end_making(entry, number)) {
        zval_ptr_dtor(&made);
        return EG(exception) != NULL ? NULL : refuse(class, "and the request that this one was made for has ended");
    }
    check_made(&made, proxy, class);
    if (EG(exception) == NULL && entry->phase == MAKING) {
        ZVAL_COPY_VALUE(&entry->instance, &made);
        entry->phase = IN_USE;
        return Z_OBJ(made);
    }
    const bool is_last = entry->phase == MAKING && entry->makers == NULL;
    zval_ptr_dtor(&made);
    if (EG(exception) != NULL) {
        if (is_last) {
            withdraw(proxy);
        }
        return NULL;
    }
    /* The release of `made` may have run a destructor. */
    entry = find(proxy);
    return has_instance(entry) ? use(entry) : refuse(class, "and that of this request is being closed");
}

static zend_object *take(zend_object *proxy, shim_instance_pool *pool)
{
    zval instance;
    shim_own_instances *own = &shim_current->instances;
    if (!SHIM_RESERVE(*own)) {
        zend_throw_error(NULL, "Out of memory");
        return NULL;
    }
    GC_ADDREF(proxy);
    if (!take_from(pool, &instance)) {
        OBJ_RELEASE(proxy);
        return NULL;
    }
    /* The room is still reserved: while the request waited, its destructors cannot have run. */
    const phase phase = Z_ISUNDEF(instance) ? MAKING : IN_USE;
    own->list[own->count++] = (shim_own_instance){.proxy = proxy, .pool = pool, .phase = phase, .instance = instance};
    return phase == MAKING ? make(proxy, pool) : Z_OBJ(instance);
}

/* Returns the instance. A kept one that is used again is reset again. */
static zend_object *use(shim_own_instance *entry)
{
    if (entry->phase == KEPT) {
        entry->phase = IN_USE;
    }
    return Z_OBJ(entry->instance);
}

static bool has_instance(const shim_own_instance *entry)
{
    return entry != NULL && entry->phase != MAKING && entry->phase != CLOSED &&
           !(entry->phase == KEPT && shim_current->instances.is_over);
}

static zend_object *refuse(const zend_class_entry *class, const char *why)
{
    zend_throw_exception_ex(spl_ce_LogicException, 0, "%s has an instance for each request, %s", ZSTR_VAL(class->name), why);
    return NULL;
}

zend_object *shim_own_instance_get(zend_object *proxy, shim_instance_pool *pool)
{
    shim_own_instance *entry = find(proxy);
    if (has_instance(entry)) {
        return use(entry);
    }
    if (entry != NULL && entry->phase == MAKING && !is_asked_by_factory(entry)) {
        return make(proxy, pool);
    }
    if (entry != NULL && entry->phase == MAKING) {
        zend_throw_error(NULL, "The factory of Svc\\per_request() uses the object that it makes an instance for");
        return NULL;
    }
    if (entry != NULL && entry->phase == CLOSED) {
        return refuse(pool->class, "and that of this request is being closed");
    }
    if (!is_in_request() || shim_current->instances.is_over) {
        return refuse(pool->class, "and can only be used inside a request or task");
    }
    return take(proxy, pool);
}

zend_object *shim_own_instance_find(const zend_object *proxy)
{
    shim_own_instance *entry = find(proxy);
    return has_instance(entry) ? use(entry) : NULL;
}

/* Whether the request has an instance of the pool. Entries that have released their permit are gone. */
static bool holds_permit(const shim_fiber *fiber, const shim_permits *permits)
{
    const shim_own_instances *own = &fiber->context.instances;
    size_t i = 0;
    while (i < own->count && &own->list[i].pool->permits != permits) {
        i++;
    }
    return i < own->count;
}

void shim_own_instances_install(void)
{
    shim_permit_is_held = holds_permit;
}

/* Returns the index of the most recent entry that passes the test; -1 if there is none. */
static ssize_t last(const shim_own_instances *own, bool (*test)(phase phase))
{
    ssize_t i = (ssize_t)own->count - 1;
    while (i >= 0 && !test(own->list[i].phase)) {
        i--;
    }
    return i;
}

static bool is_open(phase phase)
{
    return phase != KEPT && phase != CLOSED;
}

static bool is_closed(phase phase)
{
    return phase == CLOSED;
}

static bool is_any(phase phase)
{
    (void)phase;
    return true;
}

bool shim_own_instances_are_open(const shim_context *context)
{
    return last(&context->instances, is_open) >= 0;
}

static bool is_reset(shim_instance_pool *pool, zval *instance)
{
    zval result;
    ZVAL_UNDEF(&result);
    (void)call_user_function(NULL, NULL, &pool->reset, &result, 1, instance);
    const bool is_true = EG(exception) == NULL && Z_TYPE(result) == IS_TRUE;
    zval_ptr_dtor(&result);
    return is_true;
}

/* Resets the instance, unless that was tried before, and returns whether it can be reused. After a bailout, it may be in
 * middle of an operation. The list may grow and move meanwhile. */
static bool may_keep(shim_context *context, size_t at)
{
    shim_own_instance *entry = &context->instances.list[at];
    const bool is_first_time = entry->phase == IN_USE;
    entry->phase = ENDING;
    return is_first_time && !Z_ISUNDEF(entry->pool->reset) && !context->bailed_out && context->owner != NULL &&
           is_reset(entry->pool, &entry->instance);
}

/* Releases the instance. If it is part of a cycle, collects garbage: its connections must close now, not at PHP's next
 * collection. */
static void close_instance(shim_context *context, zval *instance)
{
    const bool remains = Z_REFCOUNT_P(instance) > 1;
    zval_ptr_dtor(instance);
    if (remains && context->owner != NULL) {
        shim_collector_collect();
    }
}

void shim_own_instance_end(shim_context *context)
{
    const size_t at = (size_t)last(&context->instances, is_open);
    if (may_keep(context, at)) {
        context->instances.list[at].phase = KEPT;
        shim_connections_set_exclusive(Z_OBJ(context->instances.list[at].instance));
        return;
    }
    shim_own_instance *entry = &context->instances.list[at];
    zval instance;
    ZVAL_COPY_VALUE(&instance, &entry->instance);
    ZVAL_UNDEF(&entry->instance);
    entry->phase = CLOSED;
    if (!Z_ISUNDEF(instance)) {
        close_instance(context, &instance);
    }
}

/* Removes the entry and releases its permit, with the instance if that is kept. Returns the proxy; NULL if `at` is
 * negative. */
static zend_object *forget(shim_own_instances *own, ssize_t at)
{
    if (at < 0) {
        return NULL;
    }
    forget_makers(&own->list[at]);
    const shim_own_instance entry = own->list[at];
    own->count--;
    memmove(&own->list[at], &own->list[at + 1], (own->count - (size_t)at) * sizeof(entry));
    zval kept;
    ZVAL_UNDEF(&kept);
    if (entry.phase == KEPT) {
        ZVAL_COPY_VALUE(&kept, &entry.instance);
    }
    give_back(entry.pool, &kept);
    return entry.proxy;
}

zend_object *shim_own_instance_forget(shim_context *context)
{
    return forget(&context->instances, last(&context->instances, is_closed));
}

zend_object *shim_own_instance_hand_on(shim_context *context)
{
    return forget(&context->instances, last(&context->instances, is_any));
}

void shim_own_instances_close(shim_context *context)
{
    context->instances.is_over = true;
}

void shim_own_instances_free(shim_context *context)
{
    free(context->instances.list);
    context->instances = (shim_own_instances){.is_over = true};
}
