/* Makes a function from its image: reads what code_image.c has written, in the same order. An image comes from this
 * process and is complete, so nothing is checked. */
#include "async/transfer/code_build.h"
#include "async/transfer/code_image.h"

#include <zend_ast.h>
#include <zend_attributes.h>
#include <zend_extensions.h>
#include <zend_vm.h>

typedef struct reader {
    const char *at;
    /* The places of the next function and of the next run-time cache. */
    zend_op_array *function;
    char *cache;
    zend_class_entry *scope;
} reader;

static void take(reader *reader, void *target, size_t size)
{
    if (size > 0) {
        memcpy(target, reader->at, size);
        reader->at += size;
    }
}

static uint32_t take_number(reader *reader)
{
    uint32_t number;
    take(reader, &number, sizeof(number));
    return number;
}

static uint8_t take_byte(reader *reader)
{
    return (uint8_t)*reader->at++;
}

static void *take_copy(reader *reader, size_t size)
{
    if (size == 0) {
        return NULL;
    }
    void *copy = emalloc(size);
    take(reader, copy, size);
    return copy;
}

/* ---- values ---- */

/* Returns an interned string, like the compiler's: the engine expects the hash of a name to be computed. */
static zend_string *take_string(reader *reader)
{
    const uint32_t length = take_number(reader);
    if (length == UINT32_MAX) {
        return NULL;
    }
    zend_string *string = zend_string_init(reader->at, length, false);
    reader->at += length;
    (void)zend_string_hash_val(string);
    return zend_new_interned_string(string);
}

static void take_value(reader *reader, zval *value);

static void take_array(reader *reader, zval *value)
{
    const uint32_t count = take_number(reader);
    const bool is_packed = take_byte(reader) != 0;
    zend_long next;
    take(reader, &next, sizeof(next));
    HashTable *array = zend_new_array(count);
    if (!is_packed) {
        zend_hash_real_init_mixed(array);
    }
    for (uint32_t i = 0; i < count; i++) {
        zend_string *key = take_string(reader);
        zend_ulong index;
        zval element;
        take(reader, &index, sizeof(index));
        take_value(reader, &element);
        if (key != NULL) {
            zend_hash_add_new(array, key, &element);
            zend_string_release(key);
        } else {
            zend_hash_index_add_new(array, index, &element);
        }
    }
    array->nNextFreeElement = next;
    ZVAL_ARR(value, array);
}

/* Reads a tree into `memory`; returns the first byte after it. */
static char *take_tree(reader *reader, char *memory)
{
    zend_ast *ast = (zend_ast *)memory;
    uint16_t kind;
    take(reader, &kind, sizeof(kind));
    ast->kind = kind;
    take(reader, &ast->attr, sizeof(ast->attr));
    const uint32_t line = take_number(reader);
    if (kind == ZEND_AST_ZVAL || kind == ZEND_AST_CONSTANT) {
        zend_ast_zval *leaf = (zend_ast_zval *)memory;
        take_value(reader, &leaf->val);
        Z_LINENO(leaf->val) = line;
        return memory + sizeof(*leaf);
    }
    const uint32_t count = take_number(reader);
    zend_ast **children = ast->child;
    if (zend_ast_is_list(ast)) {
        zend_ast_list *list = (zend_ast_list *)memory;
        list->lineno = line;
        list->children = count;
        children = list->child;
    } else {
        ast->lineno = line;
    }
    char *end = (char *)(children + count);
    for (uint32_t i = 0; i < count; i++) {
        children[i] = NULL;
        if (take_byte(reader) != 0) {
            children[i] = (zend_ast *)end;
            end = take_tree(reader, end);
        }
    }
    return end;
}

static void take_expression(reader *reader, zval *value)
{
    zend_ast_ref *tree = emalloc(sizeof(*tree) + take_number(reader));
    GC_SET_REFCOUNT(tree, 1);
    GC_TYPE_INFO(tree) = GC_CONSTANT_AST;
    (void)take_tree(reader, (char *)GC_AST(tree));
    ZVAL_AST(value, tree);
}

static void take_value(reader *reader, zval *value)
{
    const uint8_t type = take_byte(reader);
    ZVAL_UNDEF(value);
    Z_EXTRA_P(value) = 0;
    switch (type) {
        case SHIM_IMAGE_LONG:
        case SHIM_IMAGE_DOUBLE:
            take(reader, &value->value, sizeof(value->value));
            Z_TYPE_INFO_P(value) = type;
            break;
        case SHIM_IMAGE_STRING: {
            zend_string *string = take_string(reader);
            ZVAL_STR(value, string);
            break;
        }
        case SHIM_IMAGE_ARRAY:
            take_array(reader, value);
            break;
        case SHIM_IMAGE_EXPRESSION:
            take_expression(reader, value);
            break;
        default:
            Z_TYPE_INFO_P(value) = type;
            break;
    }
}

/* ---- functions ---- */

static void take_opcodes(reader *reader, zend_op_array *code)
{
    const size_t literals_at = shim_image_literals_at(code->last);
    code->opcodes = emalloc(literals_at + sizeof(zval) * (size_t)code->last_literal);
    code->literals = code->last_literal > 0 ? (zval *)((char *)code->opcodes + literals_at) : NULL;
    take(reader, code->opcodes, sizeof(zend_op) * code->last);
    for (int i = 0; i < code->last_literal; i++) {
        take_value(reader, &code->literals[i]);
        Z_EXTRA(code->literals[i]) = take_number(reader);
    }
    for (uint32_t i = 0; i < code->last; i++) {
        ZEND_VM_SET_OPCODE_HANDLER(&code->opcodes[i]);
    }
}

static zend_type take_type(reader *reader)
{
    zend_type type = {.type_mask = take_number(reader)};
    if (ZEND_TYPE_HAS_NAME(type)) {
        type.ptr = take_string(reader);
    } else if (ZEND_TYPE_HAS_LIST(type)) {
        const uint32_t count = take_number(reader);
        zend_type_list *list = emalloc(ZEND_TYPE_LIST_SIZE(count));
        list->num_types = count;
        for (uint32_t i = 0; i < count; i++) {
            list->types[i] = take_type(reader);
        }
        type.ptr = list;
    }
    return type;
}

static void take_arg_infos(reader *reader, zend_op_array *code)
{
    if (take_byte(reader) == 0) {
        return;
    }
    const uint32_t count = shim_image_arg_infos(code->num_args, code->fn_flags);
    zend_arg_info *info = ecalloc(count, sizeof(*info));
    for (uint32_t i = 0; i < count; i++) {
        info[i].name = take_string(reader);
        info[i].type = take_type(reader);
    }
    code->arg_info = info + ((code->fn_flags & ZEND_ACC_HAS_RETURN_TYPE) != 0);
}

static void take_attributes(reader *reader, zend_op_array *code)
{
    const uint32_t count = take_number(reader);
    for (uint32_t i = 0; i < count; i++) {
        zend_string *name = take_string(reader);
        const uint32_t flags = take_number(reader), offset = take_number(reader), line = take_number(reader);
        const uint32_t arguments = take_number(reader);
        zend_attribute *attribute = zend_add_attribute(&code->attributes, name, arguments, flags, offset, line);
        zend_string_release(name);
        for (uint32_t j = 0; j < arguments; j++) {
            attribute->args[j].name = take_string(reader);
            take_value(reader, &attribute->args[j].value);
        }
    }
}

/* Reads the static variables. The opcodes know the positions of their slots: in a new table, these are in order. */
static void take_statics(reader *reader, zend_op_array *code)
{
    const uint32_t count = take_number(reader);
    code->static_variables = zend_new_array(count);
    for (uint32_t i = 0; i < count; i++) {
        zend_string *name = take_string(reader);
        zval value;
        take_value(reader, &value);
        zend_hash_add_new(code->static_variables, name, &value);
        zend_string_release(name);
    }
}

static shim_image_function take_head(reader *reader, zend_op_array *code)
{
    shim_image_function head;
    take(reader, &head, sizeof(head));
    memset(code, 0, sizeof(*code));
    code->type = ZEND_USER_FUNCTION;
    code->fn_flags = head.fn_flags;
    code->num_args = head.arguments;
    code->required_num_args = head.required_arguments;
    code->T = head.temporaries;
    code->cache_size = (int)head.cache_size;
    code->last_var = (int)head.variables;
    code->last = head.opcodes;
    code->last_literal = (int)head.literals;
    code->last_live_range = (int)head.live_ranges;
    code->last_try_catch = (int)head.try_catches;
    code->line_start = head.line_start;
    code->line_end = head.line_end;
    code->num_dynamic_func_defs = head.functions;
    memcpy(code->arg_flags, head.arg_flags, sizeof(head.arg_flags));
    code->scope = reader->scope;
    code->refcount = emalloc(sizeof(*code->refcount));
    *code->refcount = 1;
    ZEND_MAP_PTR_INIT(code->static_variables_ptr, NULL);
    ZEND_MAP_PTR_INIT(code->run_time_cache, (void **)reader->cache);
    reader->cache += ZEND_MM_ALIGNED_SIZE_EX((size_t)head.cache_size, 8);
    return head;
}

static void tell_constructor(zend_extension *extension, void *code)
{
    if (extension->op_array_ctor != NULL) {
        extension->op_array_ctor(code);
    }
}

static zend_op_array *take_function(reader *reader)
{
    zend_op_array *code = reader->function++;
    const shim_image_function head = take_head(reader, code);
    if (zend_extension_flags & ZEND_EXTENSIONS_HAVE_OP_ARRAY_CTOR) {
        zend_llist_apply_with_argument(&zend_extensions, (llist_apply_with_arg_func_t)tell_constructor, code);
    }
    code->function_name = take_string(reader);
    code->filename = take_string(reader);
    code->doc_comment = take_string(reader);
    take_opcodes(reader, code);
    code->live_range = take_copy(reader, sizeof(*code->live_range) * head.live_ranges);
    code->try_catch_array = take_copy(reader, sizeof(*code->try_catch_array) * head.try_catches);
    code->vars = head.variables > 0 ? emalloc(sizeof(*code->vars) * head.variables) : NULL;
    for (uint32_t i = 0; i < head.variables; i++) {
        code->vars[i] = take_string(reader);
    }
    take_arg_infos(reader, code);
    take_attributes(reader, code);
    if (head.has_statics) {
        take_statics(reader, code);
    }
    code->dynamic_func_defs = head.functions > 0 ? emalloc(sizeof(*code->dynamic_func_defs) * head.functions) : NULL;
    for (uint32_t i = 0; i < head.functions; i++) {
        code->dynamic_func_defs[i] = take_function(reader);
    }
    return code;
}

uint32_t shim_code_functions(shim_view image)
{
    shim_image_head head;
    memcpy(&head, image.bytes, sizeof(head));
    return head.functions;
}

zend_op_array *shim_code_build(shim_view image, zend_class_entry *scope)
{
    shim_image_head head;
    memcpy(&head, image.bytes, sizeof(head));
    const size_t structs = sizeof(zend_op_array) * head.functions;
    char *memory = emalloc(structs + head.cache_bytes);
    memset(memory, 0, structs + head.cache_bytes);
    reader reader = {
        .at = image.bytes + sizeof(head),
        .function = (zend_op_array *)memory,
        .cache = memory + structs,
        .scope = scope,
    };
    return take_function(&reader);
}
