/* Sets of PHP's functions; see function_set.h.
 *
 * A function is identified by the address of its name, which all threads share, and by the class that declares it: a method
 * that a subclass inherits is the same function. */
#include "compat.h"
#include "worker/engine/function_set.h"

typedef struct shim_function_key {
    const zend_string *name;
    const zend_class_entry *class;
} shim_function_key;

/* Open addressing: returns the key, or its empty place. */
static shim_function_key *find_key(const shim_function_set *set, const zend_function *function)
{
    size_t i = ((uintptr_t)function->common.function_name >> 4) % set->room;
    while (set->keys[i].name != NULL && (set->keys[i].name != function->common.function_name ||
                                         set->keys[i].class != function->common.scope)) {
        i = (i + 1) % set->room;
    }
    return &set->keys[i];
}

static size_t count_words(const shim_function_names *rows, size_t count)
{
    size_t words = 0;
    for (size_t i = 0; i < count; i++) {
        words++;
        for (const char *at = rows[i].names; *at != '\0'; at++) {
            words += *at == ' ';
        }
    }
    return words;
}

static void add_row(shim_function_set *set, const shim_function_names *row)
{
    const HashTable *functions = CG(function_table);
    if (row->class != NULL) {
        const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), row->class, strlen(row->class));
        if (class == NULL) {
            return;
        }
        functions = &class->function_table;
    }
    for (const char *name = row->names; *name != '\0';) {
        const size_t length = strcspn(name, " ");
        const zend_function *function = zend_hash_str_find_ptr(functions, name, length);
        if (function != NULL && function->type == ZEND_INTERNAL_FUNCTION) {
            *find_key(set, function) =
                (shim_function_key){.name = function->common.function_name, .class = function->common.scope};
        }
        name += length + (name[length] == ' ');
    }
}

void shim_function_set_fill(shim_function_set *set, const shim_function_names *rows, size_t count)
{
    /* At least half of the table stays empty. */
    set->room = 2 * count_words(rows, count);
    set->keys = pecalloc(set->room, sizeof(*set->keys), true);
    for (size_t i = 0; i < count; i++) {
        add_row(set, &rows[i]);
    }
}

bool shim_function_set_has(const shim_function_set *set, const zend_function *function)
{
    return set->room > 0 && function->common.function_name != NULL && find_key(set, function)->name != NULL;
}
