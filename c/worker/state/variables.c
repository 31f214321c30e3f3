/* The global variables of a task.
 *
 * Requests of a worker share the worker's global variables, like its static ones: the booted application is stored in
 * them. A task has no application around it: it begins with the variables that the entry file has left, and its
 * additions and changes end with it. Each task has its own symbol table, which is in place while the task runs. The
 * superglobals are entries of that table, too; superglobals.c manages their values. */
#include "compat.h"
#include "worker/state/superglobals.h"
#include "worker/state/variables.h"

/* The baseline's table: in place between tasks, and stored here while a task's own table is in place. */
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
            /* $_SESSION, whose value is stored elsewhere. */
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

/* Returns the name of the last variable that is not a superglobal: the newest one is freed first, as at the end of a
 * script. */
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
