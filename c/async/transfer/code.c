/* Closures on their way to another thread.
 *
 * A function belongs to its thread: its references are counted without atomics. It is sent as its file and its ID, by
 * which the other thread finds its own (async/transfer/sources.c). Functions of PHP itself, and static methods, are sent by
 * name. Classes are always found by name. */
#include "async/transfer/transfer.h"

#include <zend_closures.h>

/* How a function is sent. */
typedef enum way {
    BY_NAME,
    BY_MARK,
} way;

/* A captured variable, or the end of the list. */
typedef enum captured {
    CAPTURED_END,
    CAPTURED_UNDEFINED,
    CAPTURED_VALUE,
} captured;

static void pack_string(shim_packer *packer, const zend_string *string)
{
    shim_pack_bytes(packer, ZSTR_VAL(string), ZSTR_LEN(string));
}

/* Unpacks a string; NULL if an exception is thrown. */
static zend_string *unpack_string(shim_unpacker *unpacker)
{
    shim_view view;
    return shim_unpack_bytes(unpacker, &view) ? zend_string_init(view.bytes, view.length, false) : NULL;
}

/* Packs the name of a class; an empty one for NULL. */
static void pack_class(shim_packer *packer, const zend_class_entry *class)
{
    pack_string(packer, class != NULL ? class->name : ZSTR_EMPTY_ALLOC());
}

/* Whether the function is sent by name. Closures that were made from a method by name have its scope, but are not
 * closures in the source. */
static bool is_by_name(const shim_closure *closure)
{
    return closure->function->type == ZEND_INTERNAL_FUNCTION ||
           (closure->scope != NULL && (closure->function->common.fn_flags & ZEND_ACC_FAKE_CLOSURE) != 0 &&
            strstr(ZSTR_VAL(closure->function->common.function_name), "{closure") == NULL);
}

static bool is_of_cache(const zend_op_array *code)
{
    return code->refcount == NULL;
}

/* ---- packing ---- */

static Bucket *bucket_of(HashTable *variables, const zend_op *opline)
{
    const uint32_t flags = ZEND_BIND_REF | ZEND_BIND_IMPLICIT | ZEND_BIND_EXPLICIT;
    return (Bucket *)((char *)variables->arData + (opline->extended_value & ~flags));
}

static bool pack_variable(shim_packer *packer, Bucket *variable)
{
    /* An arrow function may have captured a variable that was not defined. */
    const bool is_defined = Z_TYPE(variable->val) != IS_UNDEF;
    shim_pack_number(packer, is_defined ? CAPTURED_VALUE : CAPTURED_UNDEFINED);
    pack_string(packer, variable->key);
    if (!is_defined) {
        return true;
    }
    char *place;
    spprintf(&place, 0, "captured variable $%s", ZSTR_VAL(variable->key));
    const bool is_packed = shim_pack_value(packer, place, &variable->val);
    efree(place);
    return is_packed;
}

/* Packs the captured variables. OPcache may have removed the opcode of one that is never read. */
static bool pack_captured(shim_packer *packer, const zend_op_array *code)
{
    HashTable *variables = ZEND_MAP_PTR_GET(code->static_variables_ptr);
    for (uint32_t i = 0; i < code->last; i++) {
        const zend_op *opline = &code->opcodes[i];
        if (opline->opcode == ZEND_BIND_STATIC && (opline->extended_value & (ZEND_BIND_IMPLICIT | ZEND_BIND_EXPLICIT)) != 0 &&
            !pack_variable(packer, bucket_of(variables, opline))) {
            return false;
        }
    }
    shim_pack_number(packer, CAPTURED_END);
    return true;
}

bool shim_pack_code(shim_packer *packer, zend_object *object)
{
    const shim_closure closure = shim_closure_of(object);
    if (shim_code_refused(&closure)) {
        return false;
    }
    pack_class(packer, closure.scope);
    pack_class(packer, closure.called_scope);
    if (is_by_name(&closure)) {
        shim_pack_number(packer, BY_NAME);
        pack_string(packer, closure.function->common.function_name);
        return true;
    }
    const zend_op_array *code = &closure.function->op_array;
    if (shim_function_id_of(code) == 0) {
        return shim_transfer_throw("a task cannot be a function that comes from no file: %s:%u", ZSTR_VAL(code->filename),
                                   code->line_start);
    }
    shim_pack_number(packer, BY_MARK);
    pack_string(packer, code->filename);
    shim_pack_number(packer, shim_function_id_of(code));
    shim_pack_number(packer, is_of_cache(code));
    return pack_captured(packer, code);
}

bool shim_code_is_shared(zend_object *object)
{
    const shim_closure closure = shim_closure_of(object);
    return !is_by_name(&closure) && is_of_cache(&closure.function->op_array);
}

/* ---- unpacking ---- */

static bool unpack_class(shim_unpacker *unpacker, zend_class_entry **class)
{
    zend_string *name = unpack_string(unpacker);
    *class = NULL;
    if (name == NULL) {
        return false;
    }
    const bool is_named = ZSTR_LEN(name) > 0;
    *class = is_named ? zend_lookup_class(name) : NULL;
    const bool is_missing = is_named && (*class == NULL || EG(exception) != NULL);
    if (is_missing) {
        shim_transfer_throw("class \"%s\" of the task cannot be loaded in the task's thread", ZSTR_VAL(name));
    }
    zend_string_release(name);
    return !is_missing;
}

/* Makes a first-class callable of a named function. It would share the static variables of the function; it gets a copy of
 * them, which shim_code_release() frees. */
static void make_fake(zval *closure, zend_function *function, zend_class_entry *called_scope)
{
    zend_op_array *code = &function->op_array;
    const bool is_user = function->type == ZEND_USER_FUNCTION;
    if (is_user && !RUN_TIME_CACHE(code)) {
        zend_init_func_run_time_cache(code);
    }
    zend_create_fake_closure(closure, function, function->common.scope, called_scope, NULL);
    if (is_user && code->static_variables != NULL) {
        code = &shim_closure_of(Z_OBJ_P(closure)).function->op_array;
        ZEND_MAP_PTR_INIT(code->static_variables_ptr, zend_array_dup(code->static_variables));
    }
}

static bool make_by_name(shim_unpacker *unpacker, zend_class_entry *scope, zend_class_entry *called_scope, zval *closure)
{
    zend_string *name = unpack_string(unpacker);
    if (name == NULL) {
        return false;
    }
    zend_function *function = shim_closure_named(scope, name);
    if (function == NULL) {
        shim_transfer_throw("%s%s%s() is not declared in the task's thread",
                            scope != NULL ? ZSTR_VAL(scope->name) : "function ", scope != NULL ? "::" : "", ZSTR_VAL(name));
    } else if (scope != NULL && (function->common.fn_flags & (ZEND_ACC_STATIC | ZEND_ACC_ABSTRACT)) != ZEND_ACC_STATIC) {
        shim_transfer_throw("%s::%s() is not static in the task's thread", ZSTR_VAL(scope->name), ZSTR_VAL(name));
    } else {
        make_fake(closure, function, called_scope);
    }
    zend_string_release(name);
    return EG(exception) == NULL;
}

/* Prepares a closure's function, and those inside it, for the class of their first closure: the engine gives later
 * closures of the same class the same run-time cache. */
static void adopt(zend_op_array *code, zend_class_entry *scope)
{
    if (code->refcount != NULL && (code->fn_flags & ZEND_ACC_CLOSURE) != 0 && code->scope == NULL) {
        code->scope = scope;
    }
    for (uint32_t i = 0; i < code->num_dynamic_func_defs; i++) {
        adopt(code->dynamic_func_defs[i], scope);
    }
}

static zend_op_array *unpack_function(shim_unpacker *unpacker)
{
    uint64_t id, is_cached;
    zend_op_array *code = NULL;
    zend_string *path = unpack_string(unpacker);
    if (path == NULL) {
        return NULL;
    }
    if (shim_unpack_number(unpacker, &id) && shim_unpack_number(unpacker, &is_cached)) {
        code = shim_source_function(path, id, is_cached != 0);
        if (code == NULL && EG(exception) == NULL) {
            shim_transfer_throw("the task's function is not found in its file, which may have changed: %s", ZSTR_VAL(path));
        }
    }
    zend_string_release(path);
    return code;
}

static void set_variable(HashTable *variables, zend_string *name, zval *value)
{
    /* OPcache may have removed the variable here. */
    zval *variable = variables != NULL ? zend_hash_find(variables, name) : NULL;
    if (variable != NULL) {
        zval_ptr_dtor(variable);
        ZVAL_COPY_VALUE(variable, value);
    } else {
        zval_ptr_dtor(value);
    }
}

static bool unpack_variable(shim_unpacker *unpacker, HashTable *variables, uint64_t kind)
{
    zval value;
    zend_string *name = unpack_string(unpacker);
    if (name == NULL) {
        return false;
    }
    ZVAL_UNDEF(&value);
    const bool is_unpacked = kind != CAPTURED_VALUE || shim_unpack_value(unpacker, &value);
    if (is_unpacked) {
        set_variable(variables, name, &value);
    }
    zend_string_release(name);
    return is_unpacked;
}

static bool unpack_captured(shim_unpacker *unpacker, zval *closure)
{
    zend_op_array *code = &shim_closure_of(Z_OBJ_P(closure)).function->op_array;
    uint64_t kind;
    bool is_whole;
    while ((is_whole = shim_unpack_number(unpacker, &kind)) && kind != CAPTURED_END) {
        if (!unpack_variable(unpacker, ZEND_MAP_PTR_GET(code->static_variables_ptr), kind)) {
            return false;
        }
    }
    return is_whole;
}

static bool make_by_mark(shim_unpacker *unpacker, zend_class_entry *scope, zend_class_entry *called_scope, zval *closure)
{
    zend_op_array *code = unpack_function(unpacker);
    if (code == NULL) {
        return false;
    }
    if ((code->fn_flags & ZEND_ACC_CLOSURE) == 0) {
        make_fake(closure, (zend_function *)code, called_scope);
    } else {
        adopt(code, scope);
        zend_create_closure(closure, (zend_function *)code, scope, called_scope, NULL);
    }
    return unpack_captured(unpacker, closure);
}

bool shim_unpack_code(shim_unpacker *unpacker, zval *closure)
{
    zend_class_entry *scope, *called_scope;
    uint64_t way;
    ZVAL_UNDEF(closure);
    if (unpack_class(unpacker, &scope) && unpack_class(unpacker, &called_scope) && shim_unpack_number(unpacker, &way) &&
        (way == BY_NAME ? make_by_name : make_by_mark)(unpacker, scope, called_scope, closure)) {
        return true;
    }
    shim_code_release(closure);
    ZVAL_UNDEF(closure);
    return false;
}

void shim_code_release(zval *closure)
{
    if (Z_TYPE_P(closure) == IS_OBJECT) {
        zend_function *function = shim_closure_of(Z_OBJ_P(closure)).function;
        if (function->type == ZEND_USER_FUNCTION && function->op_array.static_variables != NULL) {
            /* Lets the engine free the static variables, too. */
            function->common.fn_flags &= ~(uint32_t)ZEND_ACC_FAKE_CLOSURE;
        }
    }
    zval_ptr_dtor(closure);
}
