/* Exceptions as the engine sees them, and circular chains of them.
 *
 * `new` only creates chains that end. unserialize() and reflection write any value that a script supplies into
 * `previous`, a circle too. PHP appends a newly thrown exception at the end of such a chain, and searches for the end
 * in C without a bound: no time limit interrupts it. The executable's definition of the function that does so therefore
 * precedes that of libphp. */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

zval *shim_exception_member(zend_object *exception, zend_string *name)
{
    const zend_class_entry *base =
        instanceof_function(exception->ce, zend_ce_exception) ? zend_ce_exception : zend_ce_error;
    const zend_property_info *info = zend_hash_find_ptr(&base->properties_info, name);
    zval *value = OBJ_PROP(exception, info->offset);
    ZVAL_DEREF(value);
    return value;
}

zend_object *shim_exception_previous(zend_object *exception)
{
    const zval *previous = shim_exception_member(exception, ZSTR_KNOWN(ZEND_STR_PREVIOUS));
    return Z_TYPE_P(previous) == IS_OBJECT ? Z_OBJ_P(previous) : NULL;
}

static zend_object *nth(zend_object *exception, size_t n)
{
    while (n-- > 0) {
        exception = shim_exception_previous(exception);
    }
    return exception;
}

/* Returns the length of the circle that the chain runs into; 0 if it ends, and `count` is then its length. Uses R. P.
 * Brent's algorithm: the waiting pointer moves at distances that double each time. */
static size_t circle(zend_object *exception, size_t *count)
{
    zend_object *waits = exception, *walks = shim_exception_previous(exception);
    size_t distance = 1, wait = 1;
    *count = 1;
    while (walks != NULL && walks != waits) {
        if (distance == wait) {
            waits = walks;
            wait *= 2;
            distance = 0;
        }
        walks = shim_exception_previous(walks);
        distance++;
        ++*count;
    }
    return walks != NULL ? distance : 0;
}

size_t shim_exception_chain(zend_object *exception)
{
    size_t count;
    const size_t length = circle(exception, &count);
    if (length == 0) {
        return count;
    }
    size_t before = 0;
    zend_object *one = exception, *other = nth(exception, length);
    for (; one != other; before++) {
        one = shim_exception_previous(one);
        other = shim_exception_previous(other);
    }
    return before + length;
}

/* The objects that unwind a script for exit() are not Throwable. */
static bool is_endless(zend_object *exception)
{
    size_t count;
    return exception != NULL && instanceof_function(exception->ce, zend_ce_throwable) && circle(exception, &count) != 0;
}

ZEND_COLD void zend_exception_set_previous(zend_object *exception, zend_object *previous)
{
    if (exception != NULL && previous != NULL && (is_endless(exception) || is_endless(previous))) {
        OBJ_RELEASE(previous);
        return;
    }
    NEXT(zend_exception_set_previous)(exception, previous);
}
