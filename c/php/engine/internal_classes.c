/* Classes that only svc instantiates.
 *
 * A private constructor prevents `new`, and nothing else: PDO, mysqli and pgsql create objects of any class that they
 * are given the name of, PDO::FETCH_CLASSTYPE takes that name from a row, and none of them checks the constructor
 * unless there is one to call. All of them, and unserialize(), reflection and the rest of the engine, create objects by
 * object_init_ex(), which refuses abstract classes. These classes are therefore flagged as abstract, and their objects
 * are created without that function: methods always find the state that svc has set. */
#include "compat.h"
#include "php/engine/engine.h"

static zend_object *create_plain(zend_class_entry *class)
{
    zend_object *object = zend_objects_new(class);
    object_properties_init(object, class);
    return object;
}

zend_class_entry *shim_sealed_class(const char *name, const zend_function_entry *methods,
                                    zend_object *(*create)(zend_class_entry *))
{
    zend_class_entry entry;
    INIT_CLASS_ENTRY_EX(entry, name, strlen(name), methods);
    zend_class_entry *class = zend_register_internal_class(&entry);
    /* Implicitly abstract, as if it had a method without a body. Only isAbstract() reveals it. */
    class->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_IMPLICIT_ABSTRACT_CLASS | ZEND_ACC_NO_DYNAMIC_PROPERTIES |
                       ZEND_ACC_NOT_SERIALIZABLE;
    class->create_object = create != NULL ? create : create_plain;
    return class;
}

void shim_sealed_make(zval *object, zend_class_entry *class)
{
    ZVAL_OBJ(object, class->create_object(class));
}
