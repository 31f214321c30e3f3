/* The global variables of a task.
 *
 * Requests of a worker share the worker's global variables, as they share its static ones: the application that has booted
 * lives in them. A task has no application around it: it begins with the variables that the entry file has left, and what
 * it adds or changes ends with it. Each task has a symbol table of its own, which is in place while the task runs. The
 * superglobals are entries of that table, too; superglobals.c looks after their values. */
#include "compat.h"
#include "state/superglobals.h"
#include "state/variables.h"

/* In place between tasks, and here while a task's own table is in place. */
static __thread HashTable baseline;

static void put_in_place(const HashTable *table)
{
    EG(symbol_table) = *table;
}

void shim_variables_begin(shim_variables_state *state)
{
    HashTable own;
    zend_string *name;
    zval *value;
    zend_hash_init(&own, zend_hash_num_elements(&EG(symbol_table)) + 8, NULL, ZVAL_PTR_DTOR, 0);
    ZEND_HASH_FOREACH_STR_KEY_VAL(&EG(symbol_table), name, value) {
        zval copy;
        if (Z_TYPE_P(value) == IS_INDIRECT) {
            /* $_SESSION, whose value is in another place. */
            ZVAL_COPY_VALUE(&copy, value);
        } else {
            ZVAL_COPY_DEREF(&copy, value);
        }
        zend_hash_add_new(&own, name, &copy);
    } ZEND_HASH_FOREACH_END();
    HT_FLAGS(&own) |= HASH_FLAG_HAS_EMPTY_IND;
    baseline = EG(symbol_table);
    put_in_place(&own);
    state->begun = true;
}

void shim_variables_suspend(shim_variables_state *state)
{
    if (state->begun) {
        state->own = EG(symbol_table);
        put_in_place(&baseline);
    }
}

void shim_variables_resume(shim_variables_state *state)
{
    if (state->begun) {
        baseline = EG(symbol_table);
        put_in_place(&state->own);
    }
}

/* The last one that is no superglobal: what was made last is freed first, as at the end of a script. */
static zend_string *last_name(void)
{
    zend_string *name;
    zval *value;
    ZEND_HASH_REVERSE_FOREACH_STR_KEY_VAL(&EG(symbol_table), name, value) {
        if (name != NULL && Z_TYPE_P(value) != IS_UNDEF && !shim_is_superglobal(name)) {
            return name;
        }
    } ZEND_HASH_FOREACH_END();
    return NULL;
}

bool shim_variables_hold(const shim_variables_state *state)
{
    return state->begun && last_name() != NULL;
}

void shim_variables_drop(const shim_variables_state *state)
{
    for (zend_string *name = state->begun ? last_name() : NULL; name != NULL; name = last_name()) {
        zend_hash_del(&EG(symbol_table), name);
    }
}

void shim_variables_end(shim_variables_state *state)
{
    if (!state->begun) {
        return;
    }
    state->begun = false;
    HashTable own = EG(symbol_table);
    put_in_place(&baseline);
    zend_hash_destroy(&own);
}
