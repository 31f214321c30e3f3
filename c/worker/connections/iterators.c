/* foreach over statements and results, which calls none of their methods.
 *
 * The class has a function that creates iterators, and these have a table of functions. Replaces both by versions that take
 * the connection first. */
#include "compat.h"
#include "worker/connections/connections.h"

#include <pthread.h>

/* The functions of an iterator, and PHP's, which they replace. Entries are only added. */
typedef struct functions {
    zend_object_iterator_funcs own;
    const zend_object_iterator_funcs *php;
} functions;
static functions table[SHIM_KINDS];
static unsigned table_size;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static const zend_object_iterator_funcs *php_functions(const zend_object_iterator *iterator)
{
    return ((const functions *)iterator->funcs)->php;
}

static bool begin_step(shim_call *call, zend_object_iterator *iterator)
{
    *call = (shim_call){0};
    return Z_TYPE(iterator->data) != IS_OBJECT || shim_call_begin(call, Z_OBJ(iterator->data));
}

/* Notes `count` more fetched rows; 0 means that none are left. */
static void note_rows(const zend_object_iterator *iterator, zend_long count)
{
    shim_connection *one = Z_TYPE(iterator->data) == IS_OBJECT ? shim_connection_find(Z_OBJ(iterator->data)) : NULL;
    if (one != NULL) {
        one->fetched = count > 0 ? one->fetched + count : 0;
        one->fetched_by = shim_running_serial();
    }
}

/* The return type depends on the version of PHP. */
typedef __typeof__(((const zend_object_iterator_funcs *)NULL)->valid(NULL)) validity;

static validity valid(zend_object_iterator *iterator)
{
    shim_call call;
    if (!begin_step(&call, iterator)) {
        return FAILURE;
    }
    const validity result = php_functions(iterator)->valid(iterator);
    if (result != SUCCESS) {
        note_rows(iterator, 0);
    }
    shim_call_end(&call);
    return result;
}

static zval *current(zend_object_iterator *iterator)
{
    shim_call call;
    if (!begin_step(&call, iterator)) {
        return &EG(uninitialized_zval);
    }
    zval *result = php_functions(iterator)->get_current_data(iterator);
    shim_call_end(&call);
    return result;
}

static void move_forward(zend_object_iterator *iterator)
{
    shim_call call;
    if (begin_step(&call, iterator)) {
        php_functions(iterator)->move_forward(iterator);
        note_rows(iterator, 1);
        shim_call_end(&call);
    }
}

static void begin_again(zend_object_iterator *iterator)
{
    shim_call call;
    if (begin_step(&call, iterator)) {
        php_functions(iterator)->rewind(iterator);
        note_rows(iterator, 1);
        shim_call_end(&call);
    }
}

static const zend_object_iterator_funcs *replacement(const zend_object_iterator_funcs *php)
{
    pthread_mutex_lock(&adding);
    unsigned i = 0;
    while (i < table_size && table[i].php != php) {
        i++;
    }
    if (i == table_size && table_size < SHIM_KINDS) {
        table[i] = (functions){.own = *php, .php = php};
        table[i].own.valid = valid;
        table[i].own.get_current_data = current;
        table[i].own.move_forward = move_forward;
        table[i].own.rewind = php->rewind != NULL ? begin_again : NULL;
        table_size++;
    }
    pthread_mutex_unlock(&adding);
    return i < SHIM_KINDS ? &table[i].own : php;
}

static zend_object_iterator *make_iterator(zend_class_entry *class, zval *object, int by_reference)
{
    shim_call call;
    zval held;
    ZVAL_OBJ(&held, Z_OBJ_P(object));
    if (!shim_object_hold(Z_OBJ(held))) {
        return NULL;
    }
    if (!shim_call_begin(&call, Z_OBJ(held))) {
        shim_object_release(Z_OBJ(held));
        return NULL;
    }
    zend_object_iterator *iterator = shim_tracked_class_of(class)->iterate(class, &held, by_reference);
    if (iterator != NULL) {
        iterator->funcs = replacement(iterator->funcs);
        if (php_functions(iterator)->rewind == NULL) {
            /* PDO has fetched the first row. */
            note_rows(iterator, 1);
        }
    }
    shim_call_end(&call);
    shim_object_release(Z_OBJ(held));
    return iterator;
}

void shim_iterators_track(zend_class_entry *class)
{
    const shim_tracked_class *row = shim_tracked_class_of(class);
    if (row != NULL && row->iterate != NULL && class->get_iterator == row->iterate) {
        class->get_iterator = make_iterator;
    }
}
