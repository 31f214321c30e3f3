/* The instances that a request has of objects of Svc\per_request().
 *
 * A request keeps its list in memory that is not PHP's, so that a bailout leaves it whole. Each entry holds a place of its
 * source and a reference to the proxy, from before the factory is called until the end of the request. */
#include "compat.h"
#include "connections/busy.h"
#include "context/context.h"
#include "context/own_worker.h"
#include "instances/own_instances.h"

#include <ext/spl/spl_exceptions.h>
#include <stdlib.h>

struct shim_own_instance {
    zend_object *proxy;
    shim_source *source;
    /* Undefined while the factory runs. */
    zval instance;
    /* It can be used again. */
    bool is_kept;
};

/* Whether a request or a task runs, as opposed to the boot script of a worker, or the worker itself. */
static bool is_in_request(void)
{
    return shim_current != NULL && !shim_current->is_boot &&
           (shim_current->owner != NULL || shim_own_worker.host == NULL);
}

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

static bool reserve(shim_own_instances *own)
{
    if (own->count < own->room) {
        return true;
    }
    const size_t room = own->room > 0 ? own->room * 2 : 4;
    shim_own_instance *list = realloc(own->list, room * sizeof(*list));
    if (list == NULL) {
        return false;
    }
    own->list = list;
    own->room = room;
    return true;
}

/* Removes the entry, whose place is not needed. */
static void withdraw(const zend_object *proxy)
{
    shim_own_instance *entry = find(proxy);
    shim_source *source = entry->source;
    zend_object *held = entry->proxy;
    zval none;
    ZVAL_UNDEF(&none);
    *entry = shim_current->instances.list[--shim_current->instances.count];
    shim_source_give_back(source, &none);
    OBJ_RELEASE(held);
}

/* Calls the factory. The list may grow meanwhile. */
static zend_object *make(zend_object *proxy, shim_source *source)
{
    zval made;
    ZVAL_UNDEF(&made);
    (void)call_user_function(NULL, NULL, &source->factory, &made, 0, NULL);
    if (EG(exception) == NULL && (Z_TYPE(made) != IS_OBJECT || !instanceof_function(Z_OBJCE(made), source->class) ||
                                  Z_OBJ(made) == proxy)) {
        zend_type_error("The factory of Svc\\per_request() must return an instance of %s, %s returned",
                        ZSTR_VAL(source->class->name), zend_zval_value_name(&made));
    }
    if (EG(exception) != NULL) {
        zval_ptr_dtor(&made);
        withdraw(proxy);
        return NULL;
    }
    ZVAL_COPY_VALUE(&find(proxy)->instance, &made);
    return Z_OBJ(made);
}

static zend_object *take(zend_object *proxy, shim_source *source)
{
    zval instance;
    shim_own_instances *own = &shim_current->instances;
    if (!reserve(own)) {
        zend_throw_error(NULL, "Out of memory");
        return NULL;
    }
    GC_ADDREF(proxy);
    if (!shim_source_take(source, &instance)) {
        OBJ_RELEASE(proxy);
        return NULL;
    }
    /* While the request has waited, its own destructors cannot have run: the room is still there. */
    own->list[own->count++] = (shim_own_instance){.proxy = proxy, .source = source, .instance = instance};
    if (Z_ISUNDEF(instance)) {
        return make(proxy, source);
    }
    shim_connection_hand_over(Z_OBJ(instance));
    return Z_OBJ(instance);
}

zend_object *shim_own_instance_get(zend_object *proxy, shim_source *source)
{
    const shim_own_instance *entry = find(proxy);
    if (entry != NULL && !Z_ISUNDEF(entry->instance)) {
        return Z_OBJ(entry->instance);
    }
    if (entry != NULL) {
        zend_throw_error(NULL, "The factory of Svc\\per_request() uses the object that it makes an instance for");
        return NULL;
    }
    if (!is_in_request() || shim_current->instances.is_over) {
        zend_throw_exception_ex(spl_ce_LogicException, 0, "%s has an instance for each request, and can only be used inside a request or task",
                                ZSTR_VAL(source->class->name));
        return NULL;
    }
    return take(proxy, source);
}

zend_object *shim_own_instance_find(const zend_object *proxy)
{
    const shim_own_instance *entry = find(proxy);
    return entry != NULL && !Z_ISUNDEF(entry->instance) ? Z_OBJ(entry->instance) : NULL;
}

bool shim_own_instances_hold(const shim_context *context)
{
    return context->instances.count > 0;
}

static bool is_reset(shim_source *source, zval *instance)
{
    zval result;
    ZVAL_UNDEF(&result);
    (void)call_user_function(NULL, NULL, &source->reset, &result, 1, instance);
    const bool is_true = EG(exception) == NULL && Z_TYPE(result) == IS_TRUE;
    zval_ptr_dtor(&result);
    return is_true;
}

void shim_own_instance_end(shim_context *context)
{
    const size_t last = context->instances.count - 1;
    shim_source *source = context->instances.list[last].source;
    zval instance;
    ZVAL_COPY_VALUE(&instance, &context->instances.list[last].instance);
    ZVAL_UNDEF(&context->instances.list[last].instance);
    if (Z_ISUNDEF(instance)) {
        return;
    }
    /* What somebody else still holds would be shared. After a jump, it may be in the middle of something. */
    const bool may_keep = !Z_ISUNDEF(source->reset) && !context->jumped && context->owner != NULL && Z_REFCOUNT(instance) == 1;
    if (may_keep && is_reset(source, &instance) && Z_REFCOUNT(instance) == 1) {
        ZVAL_COPY_VALUE(&context->instances.list[last].instance, &instance);
        context->instances.list[last].is_kept = true;
        return;
    }
    zval_ptr_dtor(&instance);
}

zend_object *shim_own_instance_forget(shim_context *context)
{
    shim_own_instance *entry = &context->instances.list[--context->instances.count];
    zval kept;
    ZVAL_UNDEF(&kept);
    if (entry->is_kept) {
        ZVAL_COPY_VALUE(&kept, &entry->instance);
    }
    shim_source_give_back(entry->source, &kept);
    return entry->proxy;
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
