/* The object of Svc\per_request() that scripts have.
 *
 * Its class extends or implements the requested one, and the object has no state: its handlers pass every operation of the
 * engine to the running request's instance. A script that calls a method gets the instance to call it on. Where a method is
 * not called at once (a closure, a callable), and where the engine looks it up in the class, it is a method of the proxy,
 * which finds the instance when it runs (forwarding.c): so none is bound to the request that looked it up. */
#include "compat.h"
#include "worker/connections/instances/instances.h"

#include <ext/spl/spl_array.h>
#include <zend_vm_opcodes.h>

ZEND_NAMED_FUNCTION(shim_proxy_forward);

static shim_instance_pool *pool_of(const zend_object *proxy)
{
    return (shim_instance_pool *)((char *)(uintptr_t)proxy->handlers - XtOffsetOf(shim_instance_pool, handlers));
}

static void free_object(zend_object *object);

/* Returns the running request's instance; NULL if it has thrown. */
static zend_object *own_of(zend_object *proxy)
{
    return shim_own_instance_get(proxy, pool_of(proxy));
}

static const zend_op *asking(void)
{
    const zend_execute_data *frame = EG(current_execute_data);
    const bool is_script = frame != NULL && frame->func != NULL && ZEND_USER_CODE(frame->func->type);
    return is_script ? frame->opline : NULL;
}

/* Whether a script looks the method up in order to call it at once. */
static bool is_called_at_once(void)
{
    const zend_op *opline = asking();
    const bool is_call = opline != NULL && (opline->opcode == ZEND_INIT_METHOD_CALL ||
                                            opline->opcode == ZEND_INIT_DYNAMIC_CALL || opline->opcode == ZEND_INIT_USER_CALL);
    return is_call && opline[1].opcode != ZEND_CALLABLE_CONVERT;
}

/* Returns the forwarding method of the object's class; NULL if it has no public one of that name. */
static zend_function *public_method(const zend_object *object, zend_string *name, const zval *key)
{
    zend_string *lower = key != NULL ? zend_string_copy(Z_STR_P(key)) : zend_string_tolower(name);
    zend_function *method = zend_hash_find_ptr(&object->ce->function_table, lower);
    zend_string_release(lower);
    const bool is_fit = method != NULL && (method->common.fn_flags & (ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)) == ZEND_ACC_PUBLIC;
    const bool is_own = is_fit && method->type == ZEND_INTERNAL_FUNCTION &&
                        method->internal_function.handler == shim_proxy_forward;
    return is_own ? method : NULL;
}

ZEND_NAMED_FUNCTION(shim_proxy_forward)
{
    zend_object *proxy = Z_OBJ_P(ZEND_THIS);
    zend_object *own = own_of(proxy);
    if (own == NULL) {
        RETURN_THROWS();
    }
    zend_function *method = shim_forwarding_target(EX(func), own);
    if (method == NULL || (method->common.fn_flags & ZEND_ACC_ABSTRACT) != 0) {
        zend_throw_error(NULL, "Call to undefined method %s::%s()", ZSTR_VAL(own->ce->name),
                         ZSTR_VAL(EX(func)->common.function_name));
        RETURN_THROWS();
    }
    HashTable *named = (ZEND_CALL_INFO(execute_data) & ZEND_CALL_HAS_EXTRA_NAMED_PARAMS) != 0 ? EX(extra_named_params) : NULL;
    GC_ADDREF(own);
    zend_call_known_function(method, own, own->ce, return_value, ZEND_NUM_ARGS(), ZEND_CALL_ARG(execute_data, 1), named);
    if (Z_TYPE_P(return_value) == IS_OBJECT && Z_OBJ_P(return_value) == own) {
        zval_ptr_dtor(return_value);
        ZVAL_OBJ_COPY(return_value, proxy);
    }
    OBJ_RELEASE(own);
}

static zend_function *get_method(zend_object **object, zend_string *name, const zval *key)
{
    zend_function *method = is_called_at_once() ? NULL : public_method(*object, name, key);
    if (method != NULL) {
        return method;
    }
    zend_object *own = own_of(*object);
    if (own == NULL) {
        return NULL;
    }
    *object = own;
    return own->handlers->get_method(object, name, key);
}

/* The engine's cache slots are valid for the class of the proxy only, so these handlers pass NULL instead. */

static zval *read_property(zend_object *object, zend_string *name, int type, void **cache_slot, zval *room)
{
    (void)cache_slot;
    zend_object *own = own_of(object);
    return own != NULL ? own->handlers->read_property(own, name, type, NULL, room) : &EG(uninitialized_zval);
}

static zval *write_property(zend_object *object, zend_string *name, zval *value, void **cache_slot)
{
    (void)cache_slot;
    zend_object *own = own_of(object);
    return own != NULL ? own->handlers->write_property(own, name, value, NULL) : &EG(error_zval);
}

/* Returns the type of the declared property at `slot`; NULL if it has none. */
static zend_property_info *type_of(zend_object *own, zval *slot)
{
    const bool is_declared = slot >= own->properties_table && slot < own->properties_table + own->ce->default_properties_count;
    return is_declared ? zend_get_typed_property_info_for_slot(own, slot) : NULL;
}

/* Gives an uninitialized typed property the value that the engine would start with. Returns false if it has thrown. */
static bool initialize(zval *slot, const zend_property_info *info)
{
    if (Z_TYPE_P(slot) != IS_UNDEF) {
        return true;
    }
    if (ZEND_TYPE_ALLOW_NULL(info->type)) {
        ZVAL_NULL(slot);
    } else if ((ZEND_TYPE_FULL_MASK(info->type) & MAY_BE_ARRAY) != 0) {
        ZVAL_EMPTY_ARRAY(slot);
    } else {
        zend_throw_error(NULL, "Cannot access uninitialized non-nullable property %s::$%s by reference",
                         ZSTR_VAL(info->ce->name), zend_get_unmangled_property_name(info->name));
        return false;
    }
    return true;
}

/* The engine writes to the slot, or makes a reference of it, and looks up the property's type in the proxy. So a typed
 * property becomes a reference, which knows its type. */
static zval *point_to_property(zend_object *object, zend_string *name, int type, void **cache_slot)
{
    (void)cache_slot;
    zend_object *own = own_of(object);
    if (own == NULL) {
        return &EG(error_zval);
    }
    zval *slot = own->handlers->get_property_ptr_ptr(own, name, type, NULL);
    zend_property_info *info = slot != NULL ? type_of(own, slot) : NULL;
    if (info == NULL || Z_ISREF_P(slot) || type == BP_VAR_UNSET) {
        return slot;
    }
    if (!initialize(slot, info)) {
        return &EG(error_zval);
    }
    ZVAL_NEW_REF(slot, slot);
    ZEND_REF_ADD_TYPE_SOURCE(Z_REF_P(slot), info);
    return slot;
}

static int has_property(zend_object *object, zend_string *name, int how, void **cache_slot)
{
    (void)cache_slot;
    zend_object *own = own_of(object);
    return own != NULL && own->handlers->has_property(own, name, how, NULL);
}

static void unset_property(zend_object *object, zend_string *name, void **cache_slot)
{
    (void)cache_slot;
    zend_object *own = own_of(object);
    if (own != NULL) {
        own->handlers->unset_property(own, name, NULL);
    }
}

static zval *read_dimension(zend_object *object, zval *offset, int type, zval *room)
{
    zend_object *own = own_of(object);
    return own != NULL ? own->handlers->read_dimension(own, offset, type, room) : NULL;
}

static void write_dimension(zend_object *object, zval *offset, zval *value)
{
    zend_object *own = own_of(object);
    if (own != NULL) {
        own->handlers->write_dimension(own, offset, value);
    }
}

static int has_dimension(zend_object *object, zval *offset, int is_empty)
{
    zend_object *own = own_of(object);
    return own != NULL && own->handlers->has_dimension(own, offset, is_empty);
}

static void unset_dimension(zend_object *object, zval *offset)
{
    zend_object *own = own_of(object);
    if (own != NULL) {
        own->handlers->unset_dimension(own, offset);
    }
}

static zend_result cast(zend_object *object, zval *result, int type)
{
    zend_object *own = own_of(object);
    return own != NULL ? own->handlers->cast_object(own, result, type) : FAILURE;
}

/* Replaces an object of Svc\per_request() by its instance. Returns false if it has thrown. */
static bool unwrap(zval *value, zval *own)
{
    ZVAL_COPY_VALUE(own, value);
    if (Z_TYPE_P(value) != IS_OBJECT || Z_OBJ_HT_P(value)->free_obj != free_object) {
        return true;
    }
    zend_object *instance = own_of(Z_OBJ_P(value));
    if (instance != NULL) {
        ZVAL_OBJ(own, instance);
    }
    return instance != NULL;
}

/* Compares the instances. */
static int compare(zval *one, zval *other)
{
    zval own, others;
    return unwrap(one, &own) && unwrap(other, &others) ? zend_compare(&own, &others) : ZEND_UNCOMPARABLE;
}

static zend_object *clone_own(zend_object *object)
{
    zend_object *own = own_of(object);
    if (own == NULL || own->handlers->clone_obj == NULL) {
        if (own != NULL) {
            zend_throw_error(NULL, "Trying to clone an uncloneable object of class %s", ZSTR_VAL(own->ce->name));
        }
        /* The engine expects an object even then. */
        return zend_objects_new(zend_standard_class_def);
    }
    return own->handlers->clone_obj(own);
}

static zend_result closure_of(zend_object *object, zend_class_entry **class, zend_function **function, zend_object **bound,
                              bool check_only)
{
    zend_object *own = own_of(object);
    return own != NULL && own->handlers->get_closure != NULL
               ? own->handlers->get_closure(own, class, function, bound, check_only)
               : FAILURE;
}

/* foreach over an object that is not Traversable: iterates over the properties that are visible to the caller. */
static zend_object_iterator *iterate_properties(zend_object *own)
{
    zval properties, iterator, name;
    ZVAL_OBJ(&properties, own);
    ZVAL_STRING(&name, "get_object_vars");
    zval list;
    ZVAL_UNDEF(&list);
    (void)call_user_function(NULL, NULL, &name, &list, 1, &properties);
    zval_ptr_dtor(&name);
    if (EG(exception) != NULL || Z_TYPE(list) != IS_ARRAY) {
        zval_ptr_dtor(&list);
        return NULL;
    }
    object_init_ex(&iterator, spl_ce_ArrayIterator);
    zend_call_method_with_1_params(Z_OBJ(iterator), spl_ce_ArrayIterator, &spl_ce_ArrayIterator->constructor, "__construct",
                                   NULL, &list);
    zval_ptr_dtor(&list);
    zend_object_iterator *found = spl_ce_ArrayIterator->get_iterator(spl_ce_ArrayIterator, &iterator, 0);
    zval_ptr_dtor(&iterator);
    return found;
}

/* Whether foreach requests the iterator: all other callers take an object with an iterator for a Traversable. */
static bool is_foreach(void)
{
    const zend_op *opline = asking();
    return opline != NULL && (opline->opcode == ZEND_FE_RESET_R || opline->opcode == ZEND_FE_RESET_RW);
}

static zend_object_iterator *iterate(zend_class_entry *class, zval *object, int by_reference)
{
    (void)class;
    zend_object *own = own_of(Z_OBJ_P(object));
    if (own == NULL) {
        return NULL;
    }
    if (own->ce->get_iterator == NULL && !is_foreach()) {
        zend_throw_error(NULL, "Only arrays and Traversables can be unpacked");
        return NULL;
    }
    if (own->ce->get_iterator == NULL) {
        return iterate_properties(own);
    }
    zval instance;
    ZVAL_OBJ(&instance, own);
    return own->ce->get_iterator(own->ce, &instance, by_reference);
}

/* print_r() and debuggers do not create an instance; any other access to properties does.
 *
 * Returns copies: the engine would take a property for a slot of the proxy. */

static HashTable *copy_properties(zend_object *object, zend_prop_purpose purpose)
{
    zend_object *own = purpose == ZEND_PROP_PURPOSE_DEBUG ? shim_own_instance_find(object) : own_of(object);
    if (own == NULL) {
        return zend_new_array(0);
    }
    zval instance;
    ZVAL_OBJ(&instance, own);
    zend_array *properties = zend_get_properties_for(&instance, purpose);
    if (properties == NULL) {
        return zend_new_array(0);
    }
    zend_array *copy = zend_array_dup(properties);
    zend_release_properties(properties);
    return copy;
}

/* Removes protected and private properties, which the engine could not tell from undeclared ones. */
static zend_array *only_public(zend_array *properties)
{
    zend_string *name;
    ZEND_HASH_FOREACH_STR_KEY(properties, name) {
        if (name != NULL && ZSTR_VAL(name)[0] == '\0') {
            zend_hash_del(properties, name);
        }
    } ZEND_HASH_FOREACH_END();
    return properties;
}

static HashTable *list_properties(zend_object *object)
{
    shim_instance_pool *pool = pool_of(object);
    zend_array *properties = only_public(copy_properties(object, ZEND_PROP_PURPOSE_ARRAY_CAST));
    if (pool->properties == NULL || GC_REFCOUNT(pool->properties) > 1) {
        if (pool->properties != NULL) {
            zend_array_release(pool->properties);
        }
        pool->properties = properties;
        return properties;
    }
    /* array_walk() asks again after each element, and continues at its position only in the same table. */
    zend_hash_clean(pool->properties);
    zend_hash_copy(pool->properties, properties, zval_add_ref);
    zend_array_release(properties);
    return pool->properties;
}

static zend_array *list_properties_for(zend_object *object, zend_prop_purpose purpose)
{
    zend_array *properties = copy_properties(object, purpose);
    return purpose == ZEND_PROP_PURPOSE_DEBUG || purpose == ZEND_PROP_PURPOSE_ARRAY_CAST ||
                   purpose == ZEND_PROP_PURPOSE_VAR_EXPORT
               ? properties
               : only_public(properties);
}

/* ---- life cycle ---- */

static HashTable *list_references(zend_object *object, zval **table, int *table_count)
{
    shim_instance_pool *pool = pool_of(object);
    zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
    zend_get_gc_buffer_add_zval(buffer, &pool->factory);
    zend_get_gc_buffer_add_zval(buffer, &pool->reset);
    for (uint32_t i = 0; i < pool->idle_count; i++) {
        zend_get_gc_buffer_add_zval(buffer, &pool->idle[i]);
    }
    zend_get_gc_buffer_use(buffer, table, table_count);
    return NULL;
}

/* Does nothing: only instances have a destructor to run. */
static void destruct(zend_object *object)
{
    (void)object;
}

/* Frees the object as one of its class that was never constructed. */
static void free_object(zend_object *object)
{
    shim_instance_pool *pool = pool_of(object);
    const zend_object_handlers *real = pool->real;
    zval_ptr_dtor(&pool->factory);
    zval_ptr_dtor(&pool->reset);
    while (pool->idle_count > 0) {
        zval idle;
        ZVAL_COPY_VALUE(&idle, &pool->idle[--pool->idle_count]);
        zval_ptr_dtor(&idle);
    }
    efree(pool->idle);
    if (pool->properties != NULL) {
        zend_array_release(pool->properties);
    }
    object->handlers = real;
    real->free_obj(object);
    efree(pool);
}

/* C functions that get the object expect an object of the parent class that was never constructed, so it is created as one.
 * Both classes have the same properties; the parent's create_object may look up methods in its class. Returns NULL if the
 * default value of a property cannot be computed, which has thrown. */
static zend_object *allocate(zend_class_entry *class)
{
    zend_class_entry *above = class->parent != NULL ? class->parent : class;
    if (zend_update_class_constants(above) != SUCCESS) {
        return NULL;
    }
    zend_object *object;
    if (above != class && above->create_object != NULL) {
        object = above->create_object(above);
    } else {
        object = zend_objects_new(above);
        object_properties_init(object, above);
    }
    object->ce = class;
    return object;
}

/* Only allocate() creates objects of these classes, without this function; it also marks them (shim_proxy_class_is). */
static zend_object *refuse_creation(zend_class_entry *class)
{
    zend_throw_error(NULL, "Only Svc\\per_request() makes objects of %s", ZSTR_VAL(class->name));
    return zend_objects_new(zend_standard_class_def);
}

void shim_proxy_class_finish(zend_class_entry *class)
{
    shim_forwarding_define(class, shim_proxy_forward);
    class->create_object = refuse_creation;
    class->get_iterator = iterate;
    class->ce_flags |= ZEND_ACC_NOT_SERIALIZABLE | ZEND_ACC_FINAL;
}

bool shim_proxy_class_is(const zend_class_entry *class)
{
    return class->create_object == refuse_creation;
}

void shim_proxy_make(zval *result, zend_class_entry *class, zend_class_entry *wanted, zval *factory, zval *reset, uint32_t max)
{
    zend_object *proxy = allocate(class);
    if (proxy == NULL) {
        return;
    }
    shim_instance_pool *pool = ecalloc(1, sizeof(*pool));
    pool->class = wanted;
    pool->permits.max = max;
    pool->real = proxy->handlers;
    pool->idle = safe_emalloc(max, sizeof(zval), 0);
    ZVAL_COPY(&pool->factory, factory);
    if (reset != NULL) {
        ZVAL_COPY(&pool->reset, reset);
    }
    pool->handlers = (zend_object_handlers){
        .offset = proxy->handlers->offset,
        .free_obj = free_object,
        .dtor_obj = destruct,
        .clone_obj = clone_own,
        .read_property = read_property,
        .write_property = write_property,
        .read_dimension = read_dimension,
        .write_dimension = write_dimension,
        .get_property_ptr_ptr = point_to_property,
        .has_property = has_property,
        .unset_property = unset_property,
        .has_dimension = has_dimension,
        .unset_dimension = unset_dimension,
        .get_properties = list_properties,
        .get_method = get_method,
        .get_constructor = zend_std_get_constructor,
        .get_class_name = zend_std_get_class_name,
        .cast_object = cast,
        .get_debug_info = zend_std_get_debug_info,
        .get_closure = closure_of,
        .get_gc = list_references,
        .compare = compare,
        .get_properties_for = list_properties_for,
    };
    proxy->handlers = &pool->handlers;
    ZVAL_OBJ(result, proxy);
}
