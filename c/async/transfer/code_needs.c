/* The requirements of a function on the thread that runs it, because the compiler or OPcache saw it in the same file.
 *
 * ZEND_INIT_FCALL calls a function that is known to exist, and reserves the stack that this very function takes. A
 * thread that has not loaded the file may not have the function, and one that has loaded another version of the file
 * has a different function. OPcache also relies on the declared types of functions and classes of the same file. Other
 * opcodes look up names when they run. */
#include "async/transfer/code_needs.h"
#include "async/transfer/code_walk.h"
#include "async/transfer/exceptions.h"

#include <zend_vm.h>

/* ---- identities ---- */

static zend_function *function_of(const zend_op *opline)
{
    return zend_hash_find_ptr(EG(function_table), Z_STR_P(RT_CONSTANT(opline, opline->op2)));
}

/* Returns the identity of a function, which is the same in all threads that have it from OPcache. */
static uint64_t identity_of(const zend_function *function)
{
    return function != NULL && function->type == ZEND_USER_FUNCTION ? (uintptr_t)function->op_array.opcodes : 0;
}

/* An identity that never compares equal. */
enum { NOBODY = 1 };

/* Returns the identity of a class version, given by the first method that it declares. 0: a class of PHP's own, or none. */
static uint64_t identity_of_class(const zend_class_entry *class)
{
    const zend_function *method;
    if (class == NULL || class->type != ZEND_USER_CLASS) {
        return 0;
    }
    /* PHP 8.3 has no macro that reads a const table. */
    HashTable *methods = (HashTable *)&class->function_table;
    ZEND_HASH_MAP_FOREACH_PTR(methods, method) {
        if (method->type == ZEND_USER_FUNCTION && method->common.scope == class) {
            return (uintptr_t)method->op_array.opcodes;
        }
    } ZEND_HASH_FOREACH_END();
    return (class->ce_flags & ZEND_ACC_IMMUTABLE) != 0 ? (uintptr_t)class : NOBODY;
}

/* ---- the walk ---- */

/* Visits the dependencies of a function, in the same order on both sides: the functions that opcodes call, and the
 * names by which the code may know classes: its literals (in lowercase) and the types of its parameters. */
typedef struct needs_visitor {
    bool (*call)(const zend_op *opline, void *context);
    bool (*class)(const zend_op_array *code, const zend_class_entry *class, void *context);
    void *context;
} needs_visitor;

static bool visit_type(const zend_op_array *code, const zend_type type, const needs_visitor *visitor)
{
    if (ZEND_TYPE_HAS_NAME(type)) {
        const zend_class_entry *class = zend_lookup_class_ex(ZEND_TYPE_NAME(type), NULL, ZEND_FETCH_CLASS_NO_AUTOLOAD);
        return visitor->class(code, class, visitor->context);
    }
    if (ZEND_TYPE_HAS_LIST(type)) {
        const zend_type *each;
        ZEND_TYPE_LIST_FOREACH(ZEND_TYPE_LIST(type), each) {
            if (!visit_type(code, *each, visitor)) {
                return false;
            }
        } ZEND_TYPE_LIST_FOREACH_END();
    }
    return true;
}

static bool visit_names(const zend_op_array *code, const needs_visitor *visitor)
{
    for (int i = 0; i < code->last_literal; i++) {
        const zval *literal = &code->literals[i];
        if (Z_TYPE_P(literal) == IS_STRING &&
            !visitor->class(code, zend_hash_find_ptr(EG(class_table), Z_STR_P(literal)), visitor->context)) {
            return false;
        }
    }
    const uint32_t count = code->num_args + ((code->fn_flags & ZEND_ACC_VARIADIC) != 0);
    for (uint32_t i = 0; i < count; i++) {
        if (!visit_type(code, code->arg_info[i].type, visitor)) {
            return false;
        }
    }
    return true;
}

static bool visit(const zend_op_array *code, const zend_op *opline, void *context)
{
    const needs_visitor *visitor = context;
    return (opline != code->opcodes || visit_names(code, visitor)) &&
           (opline->opcode != ZEND_INIT_FCALL || visitor->call(opline, visitor->context));
}

/* ---- packing ---- */

static bool pack_call(const zend_op *opline, void *packer)
{
    shim_pack_number(packer, identity_of(function_of(opline)));
    return true;
}

/* Packs 0 for a class of another file: the code relies only on classes of its own file. */
static bool pack_class(const zend_op_array *code, const zend_class_entry *class, void *packer)
{
    const bool is_known = class != NULL && class->type == ZEND_USER_CLASS && class->info.user.filename != NULL &&
                          zend_string_equals(class->info.user.filename, code->filename);
    shim_pack_number(packer, is_known ? identity_of_class(class) : 0);
    return true;
}

void shim_needs_pack(shim_packer *packer, const zend_op_array *code, const zend_class_entry *scope)
{
    needs_visitor visitor = {.call = pack_call, .class = pack_class, .context = packer};
    shim_pack_number(packer, identity_of_class(scope));
    (void)shim_code_walk(code, visit, &visitor);
}

/* ---- checking ---- */

typedef struct check {
    shim_unpacker *unpacker;
    shim_needs needs;
} check;

static bool compare(check *check, uint64_t identity, uint64_t expected)
{
    if (identity != expected || expected == NOBODY) {
        check->needs = SHIM_NEEDS_OTHERS;
    }
    return true;
}

static bool take(check *check, uint64_t *expected)
{
    if (shim_unpack_number(check->unpacker, expected)) {
        return true;
    }
    check->needs = SHIM_NEEDS_MISSING;
    return false;
}

static bool check_call(const zend_op *opline, void *context)
{
    check *check = context;
    uint64_t expected;
    if (!take(check, &expected)) {
        return false;
    }
    zend_function *function = function_of(opline);
    if (function == NULL) {
        char *message;
        spprintf(&message, 0, "function %s() is not declared in the task's thread; declare it in ASYNC_ENTRY_FILE",
            Z_STRVAL_P(RT_CONSTANT(opline, opline->op2)));
        shim_transfer_throw(message);
        efree(message);
        check->needs = SHIM_NEEDS_MISSING;
        return false;
    }
    const bool fits = zend_vm_calc_used_stack(opline->extended_value, function) <= opline->op1.num;
    return compare(check, fits ? identity_of(function) : NOBODY, expected);
}

/* Compares a class. One that the thread has not loaded yet may come from another version of the file. */
static bool check_class(const zend_op_array *code, const zend_class_entry *class, void *context)
{
    uint64_t expected;
    (void)code;
    return take(context, &expected) && (expected == 0 || compare(context, identity_of_class(class), expected));
}

shim_needs shim_needs_check(shim_unpacker *unpacker, const zend_op_array *code, const zend_class_entry *scope)
{
    check check = {.unpacker = unpacker, .needs = SHIM_NEEDS_MET};
    needs_visitor visitor = {.call = check_call, .class = check_class, .context = &check};
    uint64_t expected;
    if (take(&check, &expected) && compare(&check, identity_of_class(scope), expected)) {
        (void)shim_code_walk(code, visit, &visitor);
    }
    return check.needs;
}

/* ---- adapting ---- */

/* Returns the opcode of the call that `init` begins: the first call opcode on the same level. */
static zend_op *call_of(const zend_op_array *code, const zend_op *init)
{
    uint32_t level = 0;
    for (uint32_t i = (uint32_t)(init - code->opcodes) + 1; i < code->last; i++) {
        zend_op *opline = &code->opcodes[i];
        switch (opline->opcode) {
            case ZEND_INIT_FCALL:
            case ZEND_INIT_FCALL_BY_NAME:
            case ZEND_INIT_NS_FCALL_BY_NAME:
            case ZEND_INIT_DYNAMIC_CALL:
            case ZEND_INIT_USER_CALL:
            case ZEND_INIT_METHOD_CALL:
            case ZEND_INIT_STATIC_METHOD_CALL:
            case ZEND_NEW:
                level++;
                break;
            case ZEND_DO_FCALL:
            case ZEND_DO_FCALL_BY_NAME:
            case ZEND_DO_ICALL:
            case ZEND_DO_UCALL:
            case ZEND_CALLABLE_CONVERT:
                if (level-- == 0) {
                    return opline;
                }
                break;
            default:
                break;
        }
    }
    return NULL;
}

static bool adapt_call(const zend_op_array *code, const zend_op *opline, void *context)
{
    (void)context;
    zend_function *function = opline->opcode == ZEND_INIT_FCALL ? function_of(opline) : NULL;
    if (function == NULL) {
        return true;
    }
    zend_op *init = (zend_op *)opline;
    init->op1.num = MAX(init->op1.num, zend_vm_calc_used_stack(init->extended_value, function));
    zend_op *call = call_of(code, opline);
    /* The generic opcode: the others require a certain kind of function. */
    if (call != NULL && call->opcode != ZEND_CALLABLE_CONVERT && call->opcode != ZEND_DO_FCALL) {
        call->opcode = ZEND_DO_FCALL;
        ZEND_VM_SET_OPCODE_HANDLER(call);
    }
    return true;
}

void shim_needs_adapt(zend_op_array *code)
{
    (void)shim_code_walk(code, adapt_call, NULL);
}
