/* Writes a function as bytes: the compiler's output for its source, without any data that belongs to a thread.
 *
 * Handlers, run-time caches, scopes and map pointers are left out; the reader makes its own. A constant is addressed
 * relative to its opcode, as if all literals followed all opcodes. */
#include "async/transfer/code_image.h"
#include "async/transfer/code_walk.h"

#include <zend_ast.h>
#include <zend_attributes.h>

/* ---- values ---- */

static bool put_number(shim_buffer *image, uint32_t number)
{
    return shim_buffer_put(image, &number, sizeof(number));
}

/* Writes a string, which may be NULL. */
static bool put_string(shim_buffer *image, const zend_string *string)
{
    if (string == NULL) {
        return put_number(image, UINT32_MAX);
    }
    return ZSTR_LEN(string) < UINT32_MAX && put_number(image, (uint32_t)ZSTR_LEN(string)) &&
           shim_buffer_put(image, ZSTR_VAL(string), ZSTR_LEN(string));
}

static bool put_value(shim_buffer *image, const zval *value);

static bool put_array(shim_buffer *image, HashTable *array)
{
    zend_ulong index;
    zend_string *key;
    zval *value;
    const zend_long next = array->nNextFreeElement;
    bool fits = put_number(image, zend_hash_num_elements(array)) && shim_buffer_put_byte(image, HT_IS_PACKED(array) != 0) &&
                shim_buffer_put(image, &next, sizeof(next));
    ZEND_HASH_FOREACH_KEY_VAL(array, index, key, value) {
        fits = fits && put_string(image, key) && shim_buffer_put(image, &index, sizeof(index)) && put_value(image, value);
    } ZEND_HASH_FOREACH_END();
    return fits;
}

static bool is_leaf(const zend_ast *ast)
{
    return ast->kind == ZEND_AST_ZVAL || ast->kind == ZEND_AST_CONSTANT;
}

/* Returns the children of a node. Those of a list follow its head; those of any other node follow a shorter one. */
static zend_ast **children_of(zend_ast *ast, uint32_t *count)
{
    if (zend_ast_is_list(ast)) {
        *count = zend_ast_get_list(ast)->children;
        return zend_ast_get_list(ast)->child;
    }
    *count = zend_ast_get_num_children(ast);
    return ast->child;
}

/* Returns the size of the tree in memory, in the layout of PHP's own copies; 0 if it contains a node that is not an
 * expression. */
static size_t size_of_tree(zend_ast *ast)
{
    if (is_leaf(ast)) {
        return sizeof(zend_ast_zval);
    }
    if (zend_ast_is_special(ast) || SHIM_AST_HOLDS_CODE(ast)) {
        return 0;
    }
    uint32_t count;
    zend_ast **children = children_of(ast, &count);
    size_t size = (size_t)((char *)children - (char *)ast) + count * sizeof(zend_ast *);
    for (uint32_t i = 0; i < count; i++) {
        const size_t more = children[i] != NULL ? size_of_tree(children[i]) : 0;
        if (children[i] != NULL && more == 0) {
            return 0;
        }
        size += more;
    }
    return size;
}

static bool put_tree(shim_buffer *image, zend_ast *ast)
{
    const uint16_t kind = ast->kind;
    if (!shim_buffer_put(image, &kind, sizeof(kind)) || !shim_buffer_put(image, &ast->attr, sizeof(ast->attr)) ||
        !put_number(image, zend_ast_get_lineno(ast))) {
        return false;
    }
    if (is_leaf(ast)) {
        return put_value(image, &((zend_ast_zval *)ast)->val);
    }
    uint32_t count;
    zend_ast **children = children_of(ast, &count);
    bool fits = put_number(image, count);
    for (uint32_t i = 0; i < count && fits; i++) {
        fits = shim_buffer_put_byte(image, children[i] != NULL) && (children[i] == NULL || put_tree(image, children[i]));
    }
    return fits;
}

static bool put_expression(shim_buffer *image, zend_ast *ast)
{
    const size_t size = size_of_tree(ast);
    return size > 0 && size < UINT32_MAX && put_number(image, (uint32_t)size) && put_tree(image, ast);
}

static bool put_value(shim_buffer *image, const zval *value)
{
    if (!shim_buffer_put_byte(image, Z_TYPE_P(value))) {
        return false;
    }
    switch (Z_TYPE_P(value)) {
        case IS_UNDEF:
        case IS_NULL:
        case IS_FALSE:
        case IS_TRUE:
            return true;
        case IS_LONG:
        case IS_DOUBLE:
            return shim_buffer_put(image, &value->value, sizeof(value->value));
        case IS_STRING:
            return put_string(image, Z_STR_P(value));
        case IS_ARRAY:
            return put_array(image, Z_ARRVAL_P(value));
        case IS_CONSTANT_AST:
            return put_expression(image, Z_ASTVAL_P(value));
        default:
            return false;
    }
}

/* ---- functions ---- */

static bool put_literals(shim_buffer *image, const zend_op_array *code)
{
    bool fits = true;
    for (int i = 0; i < code->last_literal && fits; i++) {
        fits = put_value(image, &code->literals[i]) && put_number(image, Z_EXTRA(code->literals[i]));
    }
    return fits;
}

/* Returns the offset of a constant if the literals followed the opcodes. */
static uint32_t move_constant(const zend_op_array *code, uint32_t index, const zval *constant)
{
    const size_t at = shim_image_literals_at(code->last) + sizeof(zval) * (size_t)(constant - code->literals);
    return (uint32_t)(at - sizeof(zend_op) * index);
}

static bool put_opcodes(shim_buffer *image, const zend_op_array *code)
{
    for (uint32_t i = 0; i < code->last; i++) {
        const zend_op *opline = &code->opcodes[i];
        zend_op copy = *opline;
        copy.handler = NULL;
        if (opline->op1_type == IS_CONST) {
            copy.op1.constant = move_constant(code, i, RT_CONSTANT(opline, opline->op1));
        }
        if (opline->op2_type == IS_CONST) {
            copy.op2.constant = move_constant(code, i, RT_CONSTANT(opline, opline->op2));
        }
        if (!shim_buffer_put(image, &copy, sizeof(copy))) {
            return false;
        }
    }
    return true;
}

static bool put_type(shim_buffer *image, zend_type type)
{
    const uint32_t mask = type.type_mask & ~(uint32_t)_ZEND_TYPE_ARENA_BIT;
    if (!put_number(image, mask)) {
        return false;
    }
    if (ZEND_TYPE_HAS_NAME(type)) {
        return put_string(image, ZEND_TYPE_NAME(type));
    }
    if (!ZEND_TYPE_HAS_LIST(type)) {
        return true;
    }
    const zend_type_list *list = ZEND_TYPE_LIST(type);
    bool fits = put_number(image, list->num_types);
    for (uint32_t i = 0; i < list->num_types && fits; i++) {
        fits = put_type(image, list->types[i]);
    }
    return fits;
}

static bool put_arg_infos(shim_buffer *image, const zend_op_array *code)
{
    if (code->arg_info == NULL) {
        return shim_buffer_put_byte(image, false);
    }
    const zend_arg_info *info = code->arg_info - ((code->fn_flags & ZEND_ACC_HAS_RETURN_TYPE) != 0);
    bool fits = shim_buffer_put_byte(image, true);
    for (uint32_t i = 0; i < shim_image_arg_infos(code->num_args, code->fn_flags) && fits; i++) {
        fits = put_string(image, info[i].name) && put_type(image, info[i].type);
    }
    return fits;
}

static bool put_attributes(shim_buffer *image, HashTable *attributes)
{
    const zend_attribute *attribute;
    bool fits = put_number(image, attributes != NULL ? zend_hash_num_elements(attributes) : 0);
    if (attributes == NULL) {
        return fits;
    }
    ZEND_HASH_FOREACH_PTR(attributes, attribute) {
        fits = fits && put_string(image, attribute->name) && put_number(image, attribute->flags) &&
               put_number(image, attribute->offset) && put_number(image, attribute->lineno) && put_number(image, attribute->argc);
        for (uint32_t i = 0; i < attribute->argc && fits; i++) {
            fits = put_string(image, attribute->args[i].name) && put_value(image, &attribute->args[i].value);
        }
    } ZEND_HASH_FOREACH_END();
    return fits;
}

/* Writes the declared value of a static variable. A closure's own table contains the current value: a reference once
 * the code has run. A variable that an opcode initializes begins with NULL. */
static bool put_static(shim_buffer *image, const zend_op_array *code, uint32_t index, const zend_string **lost)
{
    const Bucket *bucket = &code->static_variables->arData[index];
    const shim_static_kind kind = shim_static_kind_of(code, index);
    if (!put_string(image, bucket->key)) {
        return false;
    }
    if (kind != SHIM_STATIC_DECLARED) {
        return shim_buffer_put_byte(image, SHIM_IMAGE_NULL);
    }
    if (Z_TYPE(bucket->val) == IS_REFERENCE) {
        *lost = bucket->key;
        return false;
    }
    const size_t before = image->length;
    if (put_value(image, &bucket->val)) {
        return true;
    }
    /* Not a constant: a captured variable that is never read has lost its opcode. */
    image->length = before;
    return shim_buffer_put_byte(image, SHIM_IMAGE_NULL);
}

static bool put_statics(shim_buffer *image, const zend_op_array *code, const zend_string **lost)
{
    bool fits = put_number(image, code->static_variables->nNumUsed);
    for (uint32_t i = 0; i < code->static_variables->nNumUsed && fits; i++) {
        fits = put_static(image, code, i, lost);
    }
    return fits;
}

static bool put_head(shim_buffer *image, const zend_op_array *code)
{
    const uint32_t left_out = ZEND_ACC_IMMUTABLE | ZEND_ACC_HEAP_RT_CACHE | ZEND_ACC_FAKE_CLOSURE | ZEND_ACC_PRELOADED;
    shim_image_function head;
    /* Images are compared bytewise, padding included. */
    memset(&head, 0, sizeof(head));
    head.fn_flags = code->fn_flags & ~left_out;
    head.arguments = code->num_args;
    head.required_arguments = code->required_num_args;
    head.temporaries = code->T;
    head.cache_size = (uint32_t)code->cache_size;
    head.variables = (uint32_t)code->last_var;
    head.opcodes = code->last;
    head.literals = (uint32_t)code->last_literal;
    head.live_ranges = (uint32_t)code->last_live_range;
    head.try_catches = (uint32_t)code->last_try_catch;
    head.line_start = code->line_start;
    head.line_end = code->line_end;
    head.functions = code->num_dynamic_func_defs;
    memcpy(head.arg_flags, code->arg_flags, sizeof(head.arg_flags));
    head.has_statics = code->static_variables != NULL;
    return shim_buffer_put(image, &head, sizeof(head));
}

static bool put_function(shim_buffer *image, const zend_op_array *code, const zend_string **lost)
{
    bool fits = put_head(image, code) && put_string(image, code->function_name) && put_string(image, code->filename) &&
                put_string(image, code->doc_comment) && put_opcodes(image, code) && put_literals(image, code) &&
                shim_buffer_put(image, code->live_range, sizeof(*code->live_range) * (size_t)code->last_live_range) &&
                shim_buffer_put(image, code->try_catch_array, sizeof(*code->try_catch_array) * (size_t)code->last_try_catch);
    for (int i = 0; i < code->last_var && fits; i++) {
        fits = put_string(image, code->vars[i]);
    }
    fits = fits && put_arg_infos(image, code) && put_attributes(image, code->attributes) &&
           (code->static_variables == NULL || put_statics(image, code, lost));
    for (uint32_t i = 0; i < code->num_dynamic_func_defs && fits; i++) {
        fits = put_function(image, code->dynamic_func_defs[i], lost);
    }
    return fits;
}

static void count(const zend_op_array *code, shim_image_head *head)
{
    head->functions++;
    head->cache_bytes += (uint32_t)ZEND_MM_ALIGNED_SIZE_EX((size_t)code->cache_size, 8);
    for (uint32_t i = 0; i < code->num_dynamic_func_defs; i++) {
        count(code->dynamic_func_defs[i], head);
    }
}

bool shim_image_write(shim_buffer *image, const zend_op_array *code, const zend_string **lost)
{
    shim_image_head head = {0};
    *lost = NULL;
    count(code, &head);
    return shim_buffer_put(image, &head, sizeof(head)) && put_function(image, code, lost);
}
