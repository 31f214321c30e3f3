/* The pool of instances behind an object that has one for each request. */
#include "compat.h"
#include "worker/connections/busy.h"
#include "worker/connections/instances/source.h"
#include "worker/stack/cancel.h"

#include <ext/spl/spl_exceptions.h>

static const char *reason(shim_turn turn)
{
    return turn == SHIM_TURN_STUCK ? ", and the request cannot wait here"
                                   : ", and the request has waited until its time limit";
}

static bool throw_unserved(const shim_source *source, shim_turn turn)
{
    if (turn == SHIM_TURN_OVER && shim_is_cancelled()) {
        shim_throw_cancelled();
    } else if (turn == SHIM_TURN_REFUSED) {
        zend_string *message = zend_strpprintf(0, "All %u instances of %s are in use by requests that wait for this one",
                                               source->places.max, ZSTR_VAL(source->class->name));
        shim_busy_error_throw(ZSTR_VAL(message));
        zend_string_release(message);
    } else {
        zend_throw_exception_ex(spl_ce_RuntimeException, 0, "All %u instances of %s are in use%s", source->places.max,
                                ZSTR_VAL(source->class->name), reason(turn));
    }
    return false;
}

bool shim_source_take(shim_source *source, zval *instance)
{
    const shim_turn turn = shim_turn_take_place(&source->places);
    if (turn != SHIM_TURN_HERE) {
        return throw_unserved(source, turn);
    }
    ZVAL_UNDEF(instance);
    if (source->idle_count > 0) {
        ZVAL_COPY_VALUE(instance, &source->idle[--source->idle_count]);
    }
    return true;
}

void shim_source_give_back(shim_source *source, zval *instance)
{
    if (!Z_ISUNDEF_P(instance)) {
        ZVAL_COPY_VALUE(&source->idle[source->idle_count++], instance);
    }
    shim_turn_give_place(&source->places);
}
