/* Marks that the engine leaves on values while it walks them.
 *
 * What prints, encodes, compares or sorts values marks each array and object that it is inside of (GC_PROTECTED, the
 * guards ZEND_GUARD_RECURSION_*, the locks of ArrayObject and SplHeap), and so notices one that contains itself. It calls a
 * script's code in between: __debugInfo(), jsonSerialize(), __toString(), getters, callbacks. A mark says "somebody is in
 * here", and not who: whatever else meets it takes the value for one that contains itself. Only the C frames know what they
 * have marked, but what they belong to is known: the functions listed here, by the files of php-src that mark, and the
 * opcodes that compare.
 *
 * Functions that mark only copies of their own are not listed (array_walk_recursive() in ext/standard/array.c, filters in
 * ext/filter/filter.c), nor are those that call no code of a script meanwhile (count() with COUNT_RECURSIVE, compact(),
 * array_merge_recursive()). ext/soap/php_encoding.c calls only the functions of a type map while it marks, and
 * Zend/zend_constants.c only an error handler, without whose mark a deprecation is not reported a second time. A test
 * compares the files named here with those that mark. */
#include "compat.h"
#include "engine/marking.h"

#include <zend_vm_opcodes.h>

typedef struct marking_name {
    /* NULL: a function. */
    const char *class;
    const char *names;
} marking_name;

/* In lower case; classes first. */
static const marking_name marking_names[] = {
    /* Zend/zend.c */
    {NULL, "print_r debug_print_backtrace"},
    /* Zend/zend_builtin_functions.c: define(), which calls nothing. */
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

/* Functions are told apart by the address of their name, which all threads share, and by the class that declares them. */
typedef struct marker {
    const zend_string *name;
    const zend_class_entry *class;
} marker;

/* Open addressing; at least half of it stays empty. */
enum { MARKERS_MAX = 256 };

static marker markers[MARKERS_MAX];

static size_t place_of(const zend_string *name)
{
    return ((uintptr_t)name >> 4) % MARKERS_MAX;
}

static bool is_marker(const zend_function *function)
{
    size_t i = place_of(function->common.function_name);
    for (; markers[i].name != NULL; i = (i + 1) % MARKERS_MAX) {
        if (markers[i].name == function->common.function_name && markers[i].class == function->common.scope) {
            return true;
        }
    }
    return false;
}

static void add(const HashTable *functions, const char *name, size_t length)
{
    const zend_function *function = zend_hash_str_find_ptr(functions, name, length);
    if (function == NULL || function->type != ZEND_INTERNAL_FUNCTION || is_marker(function)) {
        return;
    }
    size_t i = place_of(function->common.function_name);
    while (markers[i].name != NULL) {
        i = (i + 1) % MARKERS_MAX;
    }
    markers[i] = (marker){.name = function->common.function_name, .class = function->common.scope};
}

static void add_all(const marking_name *one)
{
    const HashTable *functions = CG(function_table);
    if (one->class != NULL) {
        const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), one->class, strlen(one->class));
        if (class == NULL) {
            return;
        }
        functions = &class->function_table;
    }
    for (const char *name = one->names; *name != '\0';) {
        const size_t length = strcspn(name, " ");
        add(functions, name, length);
        name += length + (name[length] == ' ');
    }
}

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
    for (size_t i = 0; i < sizeof(marking_names) / sizeof(marking_names[0]); i++) {
        add_all(&marking_names[i]);
    }
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
            return function != NULL && is_marker(function);
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
        return function->common.function_name != NULL && is_marker(function);
    }
    return frame->opline != NULL && opcode_marks(frame->opline);
}
