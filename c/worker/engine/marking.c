/* Marks that the engine leaves on values while it walks them.
 *
 * Functions that print, encode, compare or sort values mark each array and object that they are inside of
 * (GC_PROTECTED, the guards ZEND_GUARD_RECURSION_*, the locks of ArrayObject and SplHeap), and so detect one that
 * contains itself. In between, they call script code: __debugInfo(), jsonSerialize(), __toString(), getters, callbacks.
 * A mark does not record its owner: any other function that finds it takes the value for one that contains itself. Only
 * the C frames know the values that they have marked, but the functions are known: those listed here, by the files of
 * php-src that mark, and the opcodes that compare.
 *
 * Functions that mark only private copies are not listed (filters in ext/filter/filter.c), nor are functions that call
 * no script while values are marked (count() with COUNT_RECURSIVE, compact(), array_merge_recursive()), nor is
 * array_walk_recursive() in ext/standard/array.c: it also marks arrays inside of a static variable that it walks in
 * place, but its callback may wait, which is more common than a second request that follows the same variable.
 * ext/soap/php_encoding.c calls only the functions of a type map while it marks, and Zend/zend_constants.c only an
 * error handler, without whose mark a deprecation is not reported a second time. A test compares the files named here
 * with those that mark. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/engine/engine.h"

#include <zend_vm_opcodes.h>

/* ---- sets of PHP's functions ---- */

/* A function is identified by the address of its name, which all threads share, and by the class that declares it: a
 * method that a subclass inherits is the same function. */

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

/* ---- marks ---- */

static const shim_function_names marking_names[] = {
    /* Zend/zend.c */
    {NULL, "print_r debug_print_backtrace"},
    /* Zend/zend_builtin_functions.c: define(), which calls no script */
    /* Zend/zend_exceptions.c */
    {"exception", "__tostring"},
    {"error", "__tostring"},
    /* Zend/zend_hash.c, Zend/zend_object_handlers.c: comparisons */
    {NULL, "array_keys array_multisort array_search array_unique arsort asort in_array krsort ksort max min rsort sort"},
    /* ext/json/json_encoder.c */
    {NULL, "json_encode"},
    /* ext/mbstring/mbstring.c */
    {NULL, "mb_check_encoding mb_convert_encoding mb_convert_variables"},
    /* ext/spl/spl_array.c: nApplyCount */
    {"arrayobject", "asort ksort natcasesort natsort uasort uksort"},
    {"arrayiterator", "asort ksort natcasesort natsort uasort uksort"},
    /* ext/spl/spl_heap.c: SPL_HEAP_WRITE_LOCKED */
    {"splheap", "extract insert next"},
    {"splpriorityqueue", "extract insert next"},
    /* ext/standard/http.c */
    {NULL, "http_build_query"},
    /* ext/standard/var.c */
    {NULL, "debug_zval_dump var_dump var_export"},
};

static shim_function_set markers;

static const zend_string *json_encode_name;

bool shim_frame_encodes(const zend_execute_data *frame)
{
    const zend_function *function = frame->func;
    return json_encode_name != NULL && function != NULL && function->type == ZEND_INTERNAL_FUNCTION &&
           function->common.function_name == json_encode_name && function->common.scope == NULL;
}

void shim_marking_install(void)
{
    const zend_function *encode = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("json_encode"));
    json_encode_name = encode != NULL ? encode->common.function_name : NULL;
    shim_function_set_fill(&markers, marking_names, SHIM_COUNT(marking_names));
}

static bool opcode_marks(const zend_op *opline)
{
    switch (opline->opcode) {
        case ZEND_CASE:
        case ZEND_IS_EQUAL:
        case ZEND_IS_NOT_EQUAL:
        case ZEND_IS_SMALLER:
        case ZEND_IS_SMALLER_OR_EQUAL:
        case ZEND_SPACESHIP:
            return true;
        default: {
            const zend_function *function = SHIM_FRAMELESS_FUNCTION(opline);
            return function != NULL && shim_function_set_has(&markers, function);
        }
    }
}

bool shim_frame_marks(const zend_execute_data *frame)
{
    const zend_function *function = frame->func;
    if (function == NULL) {
        return false;
    }
    if (!ZEND_USER_CODE(function->type)) {
        return shim_function_set_has(&markers, function);
    }
    return frame->opline != NULL && opcode_marks(frame->opline);
}
