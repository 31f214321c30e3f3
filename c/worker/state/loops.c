/* The event loops of a request.
 *
 * Libraries that run an event loop in PHP code keep it in static properties, and expect one flow of control below it:
 * code outside a fiber runs the loop until the event that it waits for has happened. Requests that run side by side on
 * a thread would run each other's callbacks, with the superglobals and the output of the request that runs the loop,
 * and find the fiber of the loop in the middle of another request's wait. So each request has its own loops, as in
 * php-fpm: the static properties of these classes begin as declared, move with the request, and are freed at its end.
 * The boot script has its own loops, too.
 *
 * Invariant. While no request is active, the properties are as declared. A class is known at the latest when a request
 * waits or ends after using it for the first time, so no other request has changed a property that is not known. */
#include "compat.h"
#include "worker/engine/engine.h"
#include "worker/state/state.h"

#include <stdlib.h>

/* In lowercase. */
static const char *const names[] = {
    "react\\async\\fibermap",
    "react\\async\\simplefiber",
    "react\\eventloop\\loop",
    "revolt\\eventloop",
    "revolt\\eventloop\\fiberlocal",
};
enum { NAMES = SHIM_COUNT(names) };

typedef struct property {
    zval *value;
    const zval *declared;
} property;

static __thread struct {
    /* The classes whose properties are listed; the number of classes that were found but are not listed yet; and the
     * size of the class table at the last search. */
    bool is_listed[NAMES];
    uint32_t unlisted;
    uint32_t seen;
    zend_class_entry *found[NAMES];
    property *list;
    uint32_t count;
    uint32_t room;
} known;

static bool reserve(uint32_t more)
{
    if (known.room - known.count >= more) {
        return true;
    }
    const uint32_t room = known.count + more;
    property *list = realloc(known.list, room * sizeof(*list));
    if (list == NULL) {
        return false;
    }
    known.list = list;
    known.room = room;
    return true;
}

static bool is_constant(const zval *declared)
{
    return Z_TYPE_P(declared) != IS_CONSTANT_AST && Z_TYPE_P(declared) != IS_INDIRECT;
}

/* PHP makes a class's properties on first use. */
static bool list(unsigned index)
{
    const zend_class_entry *class = known.found[index];
    zval *values = CE_STATIC_MEMBERS(class);
    if (values == NULL) {
        return true;
    }
    if (!reserve((uint32_t)class->default_static_members_count)) {
        return false;
    }
    for (int i = 0; i < class->default_static_members_count; i++) {
        if (is_constant(&class->default_static_members_table[i])) {
            known.list[known.count++] = (property){&values[i], &class->default_static_members_table[i]};
        }
    }
    known.is_listed[index] = true;
    known.unlisted--;
    return true;
}

static bool has_class_table_grown(void)
{
    return EG(class_table)->nNumUsed != known.seen;
}

static bool search_class_table(void)
{
    const bool are_new = has_class_table_grown();
    known.seen = EG(class_table)->nNumUsed;
    for (unsigned i = 0; i < NAMES; i++) {
        if (are_new && known.found[i] == NULL) {
            known.found[i] = zend_hash_str_find_ptr(EG(class_table), names[i], strlen(names[i]));
            known.unlisted += known.found[i] != NULL;
        }
        if (known.found[i] != NULL && !known.is_listed[i] && !list(i)) {
            return false;
        }
    }
    return true;
}

/* Looks for classes that have been used for the first time. Returns false if out of memory. */
static bool find_classes(void)
{
    return (!has_class_table_grown() && known.unlisted == 0) || search_class_table();
}

bool shim_loops_prepare(shim_loops_state *state)
{
    if (!state->is_own) {
        return true;
    }
    if (!find_classes()) {
        return false;
    }
    if (state->room < known.count) {
        zval *values = realloc(state->values, known.count * sizeof(*values));
        if (values == NULL) {
            return false;
        }
        state->values = values;
        state->room = known.count;
    }
    return true;
}

static void declare(const property *property)
{
    ZVAL_COPY_OR_DUP(property->value, property->declared);
}

void shim_loops_suspend(shim_loops_state *state)
{
    state->count = state->is_own ? known.count : 0;
    for (uint32_t i = 0; i < state->count; i++) {
        ZVAL_COPY_VALUE(&state->values[i], known.list[i].value);
        declare(&known.list[i]);
    }
}

void shim_loops_resume(shim_loops_state *state)
{
    for (uint32_t i = 0; i < state->count; i++) {
        ZVAL_COPY_VALUE(known.list[i].value, &state->values[i]);
    }
    state->count = 0;
}

static bool is_as_declared(const property *property)
{
    const zval *value = property->value, *declared = property->declared;
    return Z_TYPE_P(value) == Z_TYPE_P(declared) &&
           (Z_TYPE_P(value) <= IS_TRUE || Z_COUNTED_P(value) == Z_COUNTED_P(declared));
}

bool shim_loops_hold(const shim_loops_state *state)
{
    if (!state->is_own || !find_classes()) {
        return false;
    }
    uint32_t i = 0;
    while (i < known.count && is_as_declared(&known.list[i])) {
        i++;
    }
    return i < known.count;
}

/* Removes a typed property from a reference to its former value, because the property has another value from now on. */
static void forget_source(const property *property, zend_reference *reference)
{
    const zend_property_info *source;
    ZEND_REF_FOREACH_TYPE_SOURCES(reference, source) {
        if ((source->flags & ZEND_ACC_STATIC) != 0 && CE_STATIC_MEMBERS(source->ce) + source->offset == property->value) {
            ZEND_REF_DEL_TYPE_SOURCE(reference, source);
            break;
        }
    } ZEND_REF_FOREACH_TYPE_SOURCES_END();
}

/* Frees the values that the request has left in its loops. They form cycles, and may be suspended in fibers with
 * `finally` blocks, which belong to the request: they are freed now, and not at the next garbage collection. */
void shim_loops_drop(const shim_loops_state *state)
{
    bool remains = false;
    for (uint32_t i = 0; state->is_own && i < known.count; i++) {
        zval value;
        ZVAL_COPY_VALUE(&value, known.list[i].value);
        declare(&known.list[i]);
        if (Z_ISREF(value)) {
            forget_source(&known.list[i], Z_REF(value));
        }
        remains = remains || (Z_TYPE(value) == IS_OBJECT && Z_REFCOUNT(value) > 1);
        zval_ptr_dtor(&value);
    }
    if (remains) {
        shim_collector_collect();
    }
}

void shim_loops_reset(const shim_loops_state *state)
{
    for (uint32_t i = 0; state->is_own && i < known.count; i++) {
        declare(&known.list[i]);
    }
}

void shim_loops_release(void)
{
    free(known.list);
    memset(&known, 0, sizeof(known));
}

void shim_loops_free(shim_loops_state *state)
{
    free(state->values);
    *state = (shim_loops_state){0};
}
