/* Svc\Task: the requester's handle of a task, as scripts see it.
 *
 * The object owns one handle of the task, and its answer once that has been requested: an answer is unpacked once, so
 * that all awaiting code receives the same object. */
#include "async/task/task.h"
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"

zend_class_entry *shim_class_task;
static zend_object_handlers handlers;

shim_task_object *shim_task_object_of(zend_object *object)
{
    return (shim_task_object *)((char *)object - XtOffsetOf(shim_task_object, std));
}

static zend_object *create(zend_class_entry *class)
{
    shim_task_object *own = zend_object_alloc(sizeof(*own), class);
    own->task = NULL;
    own->is_detached = false;
    own->failure = NULL;
    ZVAL_UNDEF(&own->result);
    zend_object_std_init(&own->std, class);
    object_properties_init(&own->std, class);
    own->std.handlers = &handlers;
    return &own->std;
}

static void free_object(zend_object *object)
{
    shim_task_object *own = shim_task_object_of(object);
    if (own->task != NULL) {
        shim_host.task.drop(own->task);
        own->task = NULL;
    }
    zval_ptr_dtor(&own->result);
    if (own->failure != NULL) {
        OBJ_RELEASE(own->failure);
    }
    zend_object_std_dtor(object);
}

static HashTable *list_references(zend_object *object, zval **table, int *count)
{
    shim_task_object *own = shim_task_object_of(object);
    zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
    zend_get_gc_buffer_add_zval(buffer, &own->result);
    if (own->failure != NULL) {
        zend_get_gc_buffer_add_obj(buffer, own->failure);
    }
    zend_get_gc_buffer_use(buffer, table, count);
    return zend_std_get_properties(object);
}

static const char *state_of(const shim_task_object *own)
{
    static const char *const names[] = {
        [SHIM_TASK_OPEN] = "open",     [SHIM_TASK_COMPLETED] = "completed", [SHIM_TASK_FAILED] = "failed",
        [SHIM_TASK_LOST] = "failed",   [SHIM_TASK_CANCELLED] = "cancelled",
    };
    const shim_payload *answer;
    shim_view why;
    return own->task != NULL ? names[shim_host.task.state(own->task, &answer, &why)] : "open";
}

/* Returns the properties for var_dump() and debuggers. */
static HashTable *describe(zend_object *object, int *is_temporary)
{
    const shim_task_object *own = shim_task_object_of(object);
    HashTable *table = zend_array_dup(zend_std_get_properties(object));
    zval value;
    ZVAL_STRING(&value, state_of(own));
    zend_hash_str_update(table, ZEND_STRL("state"), &value);
    ZVAL_BOOL(&value, own->is_detached);
    zend_hash_str_update(table, ZEND_STRL("detached"), &value);
    *is_temporary = 1;
    return table;
}

void shim_task_object_init(zend_object *object, shim_task *task, uint64_t id)
{
    shim_task_object_of(object)->task = task;
    ZVAL_LONG(OBJ_PROP_NUM(object, 0), (zend_long)id);
}

void shim_task_class_register(const zend_function_entry *methods)
{
    shim_class_task = shim_sealed_class("Svc\\Task", methods, create);
    zval undefined;
    ZVAL_UNDEF(&undefined);
    zend_string *name = zend_string_init("id", 2, true);
    zend_declare_typed_property(shim_class_task, name, &undefined, ZEND_ACC_PUBLIC | ZEND_ACC_READONLY, NULL,
                                (zend_type)ZEND_TYPE_INIT_MASK(MAY_BE_LONG));
    zend_string_release(name);
    memcpy(&handlers, &std_object_handlers, sizeof(handlers));
    handlers.offset = XtOffsetOf(shim_task_object, std);
    handlers.free_obj = free_object;
    handlers.clone_obj = NULL;
    handlers.get_gc = list_references;
    handlers.get_debug_info = describe;
}
