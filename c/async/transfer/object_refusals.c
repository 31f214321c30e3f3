/* Objects that cannot cross, whatever they contain. */
#include "async/transfer/object_refusals.h"

#include <ext/standard/php_incomplete_class.h>
#include <zend_closures.h>
#include <zend_generators.h>
#include <zend_smart_str.h>

static bool refuse_class(const shim_place *place, const char *before, const zend_string *name, const char *after)
{
    smart_str why = {0};
    smart_str_appends(&why, before);
    smart_str_append(&why, name);
    smart_str_appends(&why, after);
    smart_str_0(&why);
    shim_place_refuse(place, ZSTR_VAL(why.s));
    smart_str_free(&why);
    return false;
}

bool shim_object_refused(const shim_place *place, const zend_class_entry *class)
{
    if (class == zend_ce_closure) {
        shim_place_refuse(place, "a closure cannot be sent to a task");
    } else if (class == zend_ce_generator) {
        shim_place_refuse(place, "a generator cannot be sent to a task");
    } else if (class->ce_flags & ZEND_ACC_ANON_CLASS) {
        shim_place_refuse(place, "an object of an anonymous class cannot be sent to a task");
    } else if (class == php_ce_incomplete_class) {
        shim_place_refuse(place, "an object of a class that is not loaded cannot be sent to a task");
    } else if (zend_string_equals_literal_ci(class->name, "svc\\task")) {
        shim_place_refuse(place, "a Svc\\Task cannot be sent to a task");
    } else if (class->ce_flags & ZEND_ACC_NOT_SERIALIZABLE) {
        (void)refuse_class(place, "an object of the class ", class->name, " cannot be sent to a task");
    } else {
        return false;
    }
    return true;
}

bool shim_object_refuse(const shim_place *place, const zend_object *object)
{
    return refuse_class(place, "an object of the class ", object->ce->name, " could not be serialized");
}
