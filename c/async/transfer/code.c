/* Closures on their way to another thread.
 *
 * Functions in OPcache's memory are the same in all threads, and are sent as an address. Any other function belongs to
 * its thread: its references are counted without atomics. It is sent as bytes, and the other thread makes its own
 * function. Functions of PHP itself, and static methods, are sent by name. Classes are always found by name. */
#include "async/transfer/code.h"
#include "async/transfer/code_copy.h"
#include "async/transfer/code_image.h"
#include "async/transfer/code_needs.h"
#include "async/transfer/code_origin.h"
#include "async/transfer/code_refusals.h"
#include "async/transfer/code_walk.h"
#include "async/transfer/exceptions.h"
#include "async/transfer/shared_code.h"
#include "php/opcache/opcache.h"

#include <zend_closures.h>

/* How a function is sent. */
typedef enum way {
    BY_ADDRESS,
    BY_NAME,
    BY_IMAGE,
} way;

static void pack_string(shim_packer *packer, const zend_string *string)
{
    shim_pack_bytes(packer, ZSTR_VAL(string), ZSTR_LEN(string));
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

/* ---- packing ---- */

/* Refuses a function without an image. The initial value of a static variable is lost if the function has run and its
 * declaring function or file is gone. */
static void refuse_image(const zend_op_array *code, const zend_string *lost)
{
    if (lost != NULL) {
        shim_code_refuse("static variable $%s has changed, and OPcache does not hold what it begins with: %s:%u",
            ZSTR_VAL(lost), ZSTR_VAL(code->filename), code->line_start);
    } else {
        shim_code_refuse("OPcache does not hold the function, and it cannot be copied: %s:%u", ZSTR_VAL(code->filename), code->line_start);
    }
}

static bool pack_image(shim_packer *packer, const zend_op_array *code)
{
    shim_buffer image = {.bytes_max = UINT32_MAX};
    const zend_string *lost;
    bool is_whole = shim_image_write(&image, code, &lost);
    const zend_op_array *origin = lost != NULL ? shim_code_origin(code) : NULL;
    if (origin != NULL) {
        image.length = 0;
        is_whole = shim_image_write(&image, origin, &lost);
    }
    if (is_whole) {
        shim_pack_bytes(packer, image.bytes, image.length);
    } else {
        refuse_image(code, lost);
    }
    shim_buffer_free(&image);
    return is_whole;
}

/* Returns the next opcode that binds a captured variable, or NULL. Both sides walk through the same opcodes. */
static const zend_op *next_captured(const zend_op_array *code, const zend_op *after)
{
    const zend_op *end = code->opcodes + code->last;
    for (const zend_op *opline = after != NULL ? after + 1 : code->opcodes; opline < end; opline++) {
        if (opline->opcode == ZEND_BIND_STATIC && (opline->extended_value & (ZEND_BIND_IMPLICIT | ZEND_BIND_EXPLICIT)) != 0) {
            return opline;
        }
    }
    return NULL;
}

static Bucket *bucket_of(HashTable *variables, const zend_op *opline)
{
    const uint32_t flags = ZEND_BIND_REF | ZEND_BIND_IMPLICIT | ZEND_BIND_EXPLICIT;
    return (Bucket *)((char *)variables->arData + (opline->extended_value & ~flags));
}

/* Packs the captured variables. An arrow function may have captured a variable that was not defined. */
static bool pack_captured(shim_packer *packer, const zend_op_array *code)
{
    HashTable *variables = ZEND_MAP_PTR_GET(code->static_variables_ptr);
    for (const zend_op *opline = NULL; (opline = next_captured(code, opline)) != NULL;) {
        Bucket *bucket = bucket_of(variables, opline);
        shim_pack_number(packer, Z_TYPE(bucket->val) != IS_UNDEF);
        if (Z_TYPE(bucket->val) == IS_UNDEF) {
            continue;
        }
        char *place;
        spprintf(&place, 0, "captured variable $%s", ZSTR_VAL(bucket->key));
        const bool is_packed = shim_pack_value(packer, place, &bucket->val);
        efree(place);
        if (!is_packed) {
            return false;
        }
    }
    return true;
}

static bool pack_user_code(shim_packer *packer, const shim_closure *closure)
{
    const zend_op_array *code = &closure->function->op_array;
    const zend_op_array *shared = shim_shared_code(code);
    if (shared != NULL) {
        shim_pack_number(packer, BY_ADDRESS);
        shim_pack_number(packer, (uintptr_t)shared);
        shim_pack_number(packer, shim_shared_map_ptrs());
    } else {
        shim_pack_number(packer, BY_IMAGE);
        if (!pack_image(packer, code)) {
            return false;
        }
    }
    shim_needs_pack(packer, code, closure->scope);
    return pack_captured(packer, code);
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
    return pack_user_code(packer, &closure);
}

bool shim_code_is_shared(zend_object *object)
{
    const shim_closure closure = shim_closure_of(object);
    return closure.function->type == ZEND_USER_FUNCTION && !is_by_name(&closure) &&
           shim_shared_code(&closure.function->op_array) != NULL;
}

/* ---- unpacking ---- */

static bool unpack_class(shim_unpacker *unpacker, zend_class_entry **class)
{
    shim_view name;
    *class = NULL;
    if (!shim_unpack_bytes(unpacker, &name)) {
        return false;
    }
    if (name.length == 0) {
        return true;
    }
    zend_string *string = zend_string_init(name.bytes, name.length, false);
    *class = zend_lookup_class(string);
    zend_string_release(string);
    if (*class == NULL || EG(exception) != NULL) {
        shim_code_refuse("class \"%.*s\" of the task cannot be loaded in the task's thread", (int)name.length, name.bytes);
        return false;
    }
    return true;
}

/* Returns a copy of a function that belongs to this thread. It makes no assumptions about called functions: its
 * handlers are the generic ones. */
static zend_op_array *copy_of(const zend_op_array *code, zend_class_entry *scope)
{
    shim_buffer image = {.bytes_max = UINT32_MAX};
    const zend_string *lost;
    zend_op_array *copy = NULL;
    if (shim_image_write(&image, code, &lost)) {
        copy = shim_code_copy((shim_view){.bytes = image.bytes, .length = image.length}, scope);
        shim_needs_adapt(copy);
    } else {
        refuse_image(code, lost);
    }
    shim_buffer_free(&image);
    return copy;
}

/* Makes the closure. A function that is not a closure in the source needs a fake closure: machine code for such
 * functions does not release the closure that it was called through. A fake closure shares the static variables of its
 * function, so the closure is made from a copy if there are any. */
static bool make_closure(zval *closure, zend_function *function, zend_class_entry *scope, zend_class_entry *called_scope)
{
    const bool is_user = function->type == ZEND_USER_FUNCTION, is_closure = (function->common.fn_flags & ZEND_ACC_CLOSURE) != 0;
    if (is_user && !is_closure && function->op_array.static_variables != NULL) {
        function = (zend_function *)copy_of(&function->op_array, scope);
        if (function == NULL) {
            return false;
        }
    } else if (!is_closure) {
        zend_create_fake_closure(closure, function, scope, called_scope, NULL);
        return true;
    }
    zend_create_closure(closure, function, scope, called_scope, NULL);
    return true;
}

static bool make_by_name(shim_unpacker *unpacker, zend_class_entry *scope, zend_class_entry *called_scope, zval *closure)
{
    shim_view name;
    if (!shim_unpack_bytes(unpacker, &name)) {
        return false;
    }
    zend_string *string = zend_string_init(name.bytes, name.length, false);
    zend_function *function = shim_closure_named(scope, string);
    zend_string_release(string);
    if (function == NULL) {
        shim_code_refuse("%s%s%.*s() is not declared in the task's thread", scope != NULL ? ZSTR_VAL(scope->name) : "function ",
            scope != NULL ? "::" : "", (int)name.length, name.bytes);
        return false;
    }
    if (scope != NULL && (function->common.fn_flags & (ZEND_ACC_STATIC | ZEND_ACC_ABSTRACT)) != ZEND_ACC_STATIC) {
        shim_code_refuse("%s::%.*s() is not static in the task's thread", ZSTR_VAL(scope->name), (int)name.length, name.bytes);
        return false;
    }
    return make_closure(closure, function, function->common.scope, called_scope);
}

static zend_op_array *unpack_image(shim_unpacker *unpacker, zend_class_entry *scope)
{
    shim_view image;
    if (!shim_unpack_bytes(unpacker, &image)) {
        return NULL;
    }
    zend_op_array *code = shim_code_copy(image, scope);
    if (shim_needs_check(unpacker, code, scope) == SHIM_NEEDS_MISSING) {
        return NULL;
    }
    shim_needs_adapt(code);
    return code;
}

/* Unpacks a function of OPcache. It relies on the other functions of its file, of which this thread may have another
 * version. A thread that runs without the cache must not keep any part of it, not even a literal in a static property. */
static zend_op_array *unpack_address(shim_unpacker *unpacker, zend_class_entry *scope)
{
    uint64_t address, map_ptrs;
    if (!shim_unpack_number(unpacker, &address) || !shim_unpack_number(unpacker, &map_ptrs)) {
        return NULL;
    }
    zend_op_array *code = (zend_op_array *)(uintptr_t)address;
    shim_shared_map_ptrs_extend((size_t)map_ptrs);
    switch (shim_needs_check(unpacker, code, scope)) {
        case SHIM_NEEDS_MET:
            return shim_cache_is_used() ? code : copy_of(code, scope);
        case SHIM_NEEDS_OTHERS:
            return copy_of(code, scope);
        default:
            return NULL;
    }
}

static bool unpack_captured(shim_unpacker *unpacker, zval *closure)
{
    zend_op_array *code = &shim_closure_of(Z_OBJ_P(closure)).function->op_array;
    HashTable *variables = ZEND_MAP_PTR_GET(code->static_variables_ptr);
    for (const zend_op *opline = NULL; (opline = next_captured(code, opline)) != NULL;) {
        zval *variable = &bucket_of(variables, opline)->val;
        uint64_t is_defined;
        if (!shim_unpack_number(unpacker, &is_defined)) {
            return false;
        }
        zval value;
        ZVAL_UNDEF(&value);
        if (is_defined != 0 && !shim_unpack_value(unpacker, &value)) {
            return false;
        }
        zval_ptr_dtor(variable);
        ZVAL_COPY_VALUE(variable, &value);
    }
    return true;
}

static bool make(shim_unpacker *unpacker, uint64_t way, zend_class_entry *scope, zend_class_entry *called_scope, zval *closure)
{
    if (way == BY_NAME) {
        return make_by_name(unpacker, scope, called_scope, closure);
    }
    zend_op_array *code = way == BY_ADDRESS ? unpack_address(unpacker, scope) : unpack_image(unpacker, scope);
    return code != NULL && make_closure(closure, (zend_function *)code, scope, called_scope) && unpack_captured(unpacker, closure);
}

bool shim_unpack_code(shim_unpacker *unpacker, zval *closure)
{
    zend_class_entry *scope, *called_scope;
    uint64_t way;
    ZVAL_UNDEF(closure);
    if (unpack_class(unpacker, &scope) && unpack_class(unpacker, &called_scope) && shim_unpack_number(unpacker, &way) &&
        make(unpacker, way, scope, called_scope, closure)) {
        return true;
    }
    zval_ptr_dtor(closure);
    ZVAL_UNDEF(closure);
    return false;
}

void shim_code_end(void)
{
    shim_code_copies_free();
}
