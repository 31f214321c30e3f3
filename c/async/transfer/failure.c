/* The exception of a task, on its way to the awaiting request.
 *
 * A failure is: class, message, code, trace, and whether a payload with the object follows. The object is a separate
 * transfer, so that one that cannot be packed leaves nothing behind. */
#include "async/transfer/transfer.h"
#include "php/engine/engine.h"

#include <zend_smart_str.h>

/* Packs a text, shortened so that it never fills the transfer: the rest of the failure always fits. */
static void put_text(shim_packer *packer, const char *text, size_t length)
{
    shim_pack_bytes(packer, text, MIN(length, packer->bytes_max / 4));
}

static void put_string(shim_packer *packer, const zend_string *text)
{
    put_text(packer, ZSTR_VAL(text), ZSTR_LEN(text));
}

/* Returns the trace in the form of getTraceAsString(), without the arguments of calls. */
static zend_string *trace_of(zend_object *exception)
{
    zval *trace = shim_exception_member(exception, ZSTR_KNOWN(ZEND_STR_TRACE));
    if (Z_TYPE_P(trace) != IS_ARRAY) {
        return ZSTR_EMPTY_ALLOC();
    }
    HashTable *bare = shim_trace_without_arguments(Z_ARRVAL_P(trace));
    zend_string *text = zend_trace_to_string(bare, true);
    zend_array_release(bare);
    return text;
}

static void put_head(shim_packer *packer, zend_object *exception)
{
    put_string(packer, exception->ce->name);
    const zval *message = shim_exception_member(exception, ZSTR_KNOWN(ZEND_STR_MESSAGE));
    put_string(packer, Z_TYPE_P(message) == IS_STRING ? Z_STR_P(message) : ZSTR_EMPTY_ALLOC());
    const zval *code = shim_exception_member(exception, ZSTR_KNOWN(ZEND_STR_CODE));
    shim_pack_number(packer, Z_TYPE_P(code) == IS_LONG ? (uint64_t)Z_LVAL_P(code) : 0);
    zend_string *trace = trace_of(exception);
    put_string(packer, trace);
    zend_string_release(trace);
}

/* Packs the codes that are not numbers, such as those of PDO: PHP drops them when it wakes an exception up. For each
 * exception of the chain, its code, or null for a number. */
static bool pack_codes(shim_packer *packer, zend_object *exception)
{
    const size_t count = shim_exception_chain(exception);
    zend_object *one = exception;
    shim_pack_number(packer, count);
    for (size_t i = 0; i < count && one != NULL; i++, one = shim_exception_previous(one)) {
        zval none;
        ZVAL_NULL(&none);
        zval *code = shim_exception_member(one, ZSTR_KNOWN(ZEND_STR_CODE));
        if (!shim_pack_value(packer, "the code of the exception", Z_TYPE_P(code) == IS_STRING ? code : &none)) {
            return false;
        }
    }
    return true;
}

static bool unpack_codes(shim_unpacker *unpacker, zval *codes)
{
    uint64_t count = 0;
    array_init(codes);
    bool is_whole = shim_unpack_number(unpacker, &count);
    for (uint64_t i = 0; is_whole && i < count; i++) {
        zval code;
        is_whole = shim_unpack_value(unpacker, &code);
        if (is_whole) {
            zend_hash_next_index_insert(Z_ARRVAL_P(codes), &code);
        }
    }
    return is_whole;
}

static void restore_codes(zend_object *exception, HashTable *codes)
{
    zend_object *one = exception;
    zval *code;
    ZEND_HASH_FOREACH_VAL(codes, code) {
        if (one == NULL) {
            return;
        }
        if (Z_TYPE_P(code) == IS_STRING) {
            zend_update_property(instanceof_function(one->ce, zend_ce_exception) ? zend_ce_exception : zend_ce_error, one,
                                 ZEND_STRL("code"), code);
        }
        one = shim_exception_previous(one);
    } ZEND_HASH_FOREACH_END();
}

/* Returns a transfer with the object and its chain; NULL if it cannot be packed. */
static shim_payload *pack_original(zend_object *exception, size_t bytes_max)
{
    shim_packer packer;
    zval value;
    ZVAL_OBJ(&value, exception);
    shim_packer_begin(&packer, bytes_max);
    if (!shim_pack_value(&packer, "the exception", &value) || !pack_codes(&packer, exception)) {
        shim_packer_abandon(&packer);
        return NULL;
    }
    return shim_packer_finish(&packer);
}

/* Drops a thrown exception, but not the end of a fiber. Returns whether none is left. */
static bool drop_thrown(void)
{
    if (EG(exception) == NULL) {
        return true;
    }
    if (zend_is_graceful_exit(EG(exception))) {
        return false;
    }
    zend_clear_exception();
    return true;
}

bool shim_pack_failure(shim_packer *packer, zend_object *exception)
{
    GC_ADDREF(exception);
    put_head(packer, exception);
    /* With a tag and the longest varint in front. */
    const size_t used = packer->length + 11;
    shim_payload *original = pack_original(exception, packer->bytes_max - MIN(used, packer->bytes_max));
    OBJ_RELEASE(exception);
    if (original == NULL) {
        shim_pack_bytes(packer, NULL, 0);
        return drop_thrown();
    }
    shim_pack_bytes(packer, original->bytes, original->length);
    free(original);
    return true;
}

void shim_pack_failure_text(shim_packer *packer, shim_view message)
{
    shim_pack_bytes(packer, NULL, 0);
    put_text(packer, message.bytes, message.length);
    shim_pack_number(packer, 0);
    shim_pack_bytes(packer, NULL, 0);
    shim_pack_bytes(packer, NULL, 0);
}

/* Returns the object; NULL if it cannot be unpacked here, and NULL with an exception if the thread's fiber is to end. */
static zend_object *unpack_original(shim_view bytes)
{
    shim_unpacker unpacker;
    zval value, codes;
    ZVAL_UNDEF(&codes);
    if (bytes.length == 0) {
        return NULL;
    }
    shim_unpacker_begin_view(&unpacker, bytes);
    bool is_whole = shim_unpack_value(&unpacker, &value) && unpack_codes(&unpacker, &codes);
    is_whole = shim_unpacker_end(&unpacker) && is_whole;
    if (is_whole && Z_TYPE(value) == IS_OBJECT && instanceof_function(Z_OBJCE(value), zend_ce_throwable)) {
        restore_codes(Z_OBJ(value), Z_ARRVAL(codes));
        zval_ptr_dtor(&codes);
        return Z_OBJ(value);
    }
    zval_ptr_dtor(&codes);
    zval_ptr_dtor(&value);
    if (EG(exception) != NULL && !shim_is_exit(EG(exception))) {
        zend_clear_exception();
    }
    return NULL;
}

void shim_throw_failure(shim_unpacker *unpacker)
{
    shim_view class_name, message, trace, original;
    uint64_t code;
    if (!shim_unpack_bytes(unpacker, &class_name) || !shim_unpack_bytes(unpacker, &message) ||
        !shim_unpack_number(unpacker, &code) || !shim_unpack_bytes(unpacker, &trace) ||
        !shim_unpack_bytes(unpacker, &original)) {
        return;
    }
    zend_object *previous = unpack_original(original);
    if (EG(exception) == NULL) {
        shim_task_exception_throw(message, (zend_long)code, class_name, trace, previous);
    }
}
