/* Packs and unpacks as tasks do. A payload is a number, so that any thread can unpack it. */
#include <php.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inside.h"
#include "async/transfer/transfer.h"

#define CALL(address, type) ((type)(base() + (address)))

typedef bool packing(shim_packer *, const char *, zval *);
typedef void beginning(shim_packer *, size_t);
typedef shim_payload *finishing(shim_packer *);
typedef void abandoning(shim_packer *);
typedef void packing_number(shim_packer *, uint64_t);
typedef void packing_bytes(shim_packer *, const char *, size_t);
typedef bool failing(shim_packer *, zend_object *);
typedef void failing_text(shim_packer *, shim_view);
typedef void opening(shim_unpacker *, const shim_payload *);
typedef void opening_view(shim_unpacker *, shim_view);
typedef bool unpacking(shim_unpacker *, zval *);
typedef bool unpacking_number(shim_unpacker *, uint64_t *);
typedef bool unpacking_bytes(shim_unpacker *, shim_view *);
typedef bool ending(shim_unpacker *);
typedef void throwing(shim_unpacker *);

static int payloads;

static void return_payload(shim_packer *packer, zval *result)
{
    shim_payload *payload = CALL(SHIM_PACKER_FINISH, finishing *)(packer);
    if (payload != NULL) {
        __atomic_fetch_add(&payloads, 1, __ATOMIC_SEQ_CST);
        ZVAL_LONG(result, (zend_long)payload);
    }
}

/* test_pack(array $values, int $max = 64 MiB): int. The values are "argument 1" and so on. */
PHP_FUNCTION(test_pack)
{
    zval *values, *value;
    zend_long max = 64 << 20;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ARRAY(values)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(max)
    ZEND_PARSE_PARAMETERS_END();
    shim_packer packer;
    int number = 0;
    CALL(SHIM_PACKER_BEGIN, beginning *)(&packer, (size_t)max);
    CALL(SHIM_PACK_NUMBER, packing_number *)(&packer, zend_hash_num_elements(Z_ARRVAL_P(values)));
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(values), value) {
        char place[32];
        snprintf(place, sizeof(place), "argument %d", ++number);
        if (!CALL(SHIM_PACK_VALUE, packing *)(&packer, place, value)) {
            CALL(SHIM_PACKER_ABANDON, abandoning *)(&packer);
            if (EG(exception) == NULL) {
                abort();
            }
            RETURN_THROWS();
        }
        CALL(SHIM_PACK_BYTES, packing_bytes *)(&packer, place, strlen(place));
    } ZEND_HASH_FOREACH_END();
    return_payload(&packer, return_value);
}

static bool unpack_all(shim_unpacker *unpacker, zval *to)
{
    uint64_t count;
    int number = 0;
    if (!CALL(SHIM_UNPACK_NUMBER, unpacking_number *)(unpacker, &count)) {
        return false;
    }
    while (count-- > 0) {
        zval value;
        shim_view name;
        char place[32];
        if (!CALL(SHIM_UNPACK_VALUE, unpacking *)(unpacker, &value)) {
            if (Z_TYPE(value) != IS_UNDEF) {
                abort();
            }
            return false;
        }
        add_next_index_zval(to, &value);
        snprintf(place, sizeof(place), "argument %d", ++number);
        if (!CALL(SHIM_UNPACK_BYTES, unpacking_bytes *)(unpacker, &name)) {
            return false;
        }
        if (name.length != strlen(place) || memcmp(name.bytes, place, name.length) != 0) {
            zend_throw_error(NULL, "Not the bytes that were packed");
            return false;
        }
    }
    return true;
}

static void return_unpacked(shim_unpacker *unpacker, zval *return_value)
{
    zval values;
    array_init(&values);
    bool is_whole = unpack_all(unpacker, &values);
    is_whole = CALL(SHIM_UNPACKER_END, ending *)(unpacker) && is_whole;
    if (is_whole != (EG(exception) == NULL)) {
        abort();
    }
    if (!is_whole) {
        zval_ptr_dtor(&values);
        RETURN_THROWS();
    }
    RETURN_COPY_VALUE(&values);
}

/* test_unpack(int $payload): array */
PHP_FUNCTION(test_unpack)
{
    zend_long payload;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(payload)
    ZEND_PARSE_PARAMETERS_END();
    shim_unpacker unpacker;
    CALL(SHIM_UNPACKER_BEGIN, opening *)(&unpacker, (const shim_payload *)payload);
    return_unpacked(&unpacker, return_value);
}

/* test_read(string $bytes): array. The memory behind the bytes cannot be read. */
PHP_FUNCTION(test_read)
{
    zend_string *bytes;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(bytes)
    ZEND_PARSE_PARAMETERS_END();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = ZSTR_LEN(bytes);
    const size_t pages = (size + page - 1) / page * page;
    char *block = mmap(NULL, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED || mprotect(block + pages, page, PROT_NONE) != 0) {
        abort();
    }
    memcpy(block + pages - size, ZSTR_VAL(bytes), size);
    shim_unpacker unpacker;
    CALL(SHIM_UNPACKER_BEGIN_VIEW, opening_view *)(&unpacker, (shim_view){.bytes = block + pages - size, .length = size});
    return_unpacked(&unpacker, return_value);
    munmap(block, pages + page);
}

/* test_pack_failure(Throwable|string $failure, int $max = 64 MiB): int */
PHP_FUNCTION(test_pack_failure)
{
    zval *failure;
    zend_long max = 64 << 20;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ZVAL(failure)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(max)
    ZEND_PARSE_PARAMETERS_END();
    shim_packer packer;
    CALL(SHIM_PACKER_BEGIN, beginning *)(&packer, (size_t)max);
    if (Z_TYPE_P(failure) == IS_STRING) {
        CALL(SHIM_PACK_FAILURE_TEXT, failing_text *)(&packer, (shim_view){.bytes = Z_STRVAL_P(failure), .length = Z_STRLEN_P(failure)});
    } else if (!CALL(SHIM_PACK_FAILURE, failing *)(&packer, Z_OBJ_P(failure))) {
        CALL(SHIM_PACKER_ABANDON, abandoning *)(&packer);
        RETURN_THROWS();
    }
    return_payload(&packer, return_value);
}

/* test_throw_failure(int $payload): never */
PHP_FUNCTION(test_throw_failure)
{
    zend_long payload;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(payload)
    ZEND_PARSE_PARAMETERS_END();
    shim_unpacker unpacker;
    CALL(SHIM_UNPACKER_BEGIN, opening *)(&unpacker, (const shim_payload *)payload);
    CALL(SHIM_THROW_FAILURE, throwing *)(&unpacker);
    (void)CALL(SHIM_UNPACKER_END, ending *)(&unpacker);
}

PHP_FUNCTION(test_free)
{
    zend_long payload;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(payload)
    ZEND_PARSE_PARAMETERS_END();
    free((shim_payload *)payload);
    __atomic_fetch_sub(&payloads, 1, __ATOMIC_SEQ_CST);
}

PHP_FUNCTION(test_payloads)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG(__atomic_load_n(&payloads, __ATOMIC_SEQ_CST));
}

PHP_FUNCTION(test_bytes)
{
    zend_long payload;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(payload)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_STRINGL(((shim_payload *)payload)->bytes, ((shim_payload *)payload)->length);
}

/* test_payload(string $bytes): int */
PHP_FUNCTION(test_payload)
{
    zend_string *bytes;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(bytes)
    ZEND_PARSE_PARAMETERS_END();
    shim_payload *payload = malloc(sizeof(*payload) + ZSTR_LEN(bytes));
    payload->length = ZSTR_LEN(bytes);
    memcpy(payload->bytes, ZSTR_VAL(bytes), ZSTR_LEN(bytes));
    __atomic_fetch_add(&payloads, 1, __ATOMIC_SEQ_CST);
    RETURN_LONG((zend_long)payload);
}

static const zend_function_entry functions[] = {
    PHP_FE(test_pack, arginfo_any)
    PHP_FE(test_unpack, arginfo_any)
    PHP_FE(test_read, arginfo_any)
    PHP_FE(test_pack_failure, arginfo_any)
    PHP_FE(test_throw_failure, arginfo_any)
    PHP_FE(test_free, arginfo_any)
    PHP_FE(test_payloads, arginfo_any)
    PHP_FE(test_bytes, arginfo_any)
    PHP_FE(test_payload, arginfo_any)
    PHP_FE_END
};

static zend_module_entry async_transfer_module_entry = {
    STANDARD_MODULE_HEADER, "async_transfer", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES
};
ZEND_GET_MODULE(async_transfer)
