/* Packs closures into a table of the process, and creates closures from them in any thread, as the shim's functions do. The
 * server does not export the shim, so the test defines the addresses. */
#include <php.h>

#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include "transfer/packer.h"
#include "transfer/unpacker.h"

enum { PARCELS = 256 };
static struct {
    char key[64];
    shim_parcel *parcel;
} parcels[PARCELS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int take_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    /* The first entry is the program. */
    return 1;
}

static void *at(uintptr_t address)
{
    uintptr_t base = 0;
    dl_iterate_phdr(take_base, &base);
    return (void *)(base + address);
}

static shim_parcel *pack(zend_object *closure)
{
    shim_packer packer;
    ((void (*)(shim_packer *, size_t))at(SHIM_PACKER_BEGIN))(&packer, 1 << 20);
    if (!((bool (*)(shim_packer *, zend_object *))at(SHIM_PACK_CODE))(&packer, closure)) {
        ((void (*)(shim_packer *))at(SHIM_PACKER_ABANDON))(&packer);
        return NULL;
    }
    return ((shim_parcel * (*)(shim_packer *)) at(SHIM_PACKER_FINISH))(&packer);
}

static bool unpack(const shim_parcel *parcel, zval *closure)
{
    shim_unpacker unpacker;
    ((void (*)(shim_unpacker *, const shim_parcel *))at(SHIM_UNPACKER_BEGIN))(&unpacker, parcel);
    const bool is_made = ((bool (*)(shim_unpacker *, zval *))at(SHIM_UNPACK_CODE))(&unpacker, closure);
    ((bool (*)(shim_unpacker *))at(SHIM_UNPACKER_END))(&unpacker);
    return is_made;
}

/* test_pack(string $key, Closure $closure) */
PHP_FUNCTION(test_pack)
{
    zend_string *key;
    zval *closure;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OBJECT(closure)
    ZEND_PARSE_PARAMETERS_END();
    shim_parcel *parcel = pack(Z_OBJ_P(closure)), *old = NULL;
    if (parcel == NULL) {
        RETURN_FALSE;
    }
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < PARCELS; i++) {
        if (parcels[i].parcel == NULL || strcmp(parcels[i].key, ZSTR_VAL(key)) == 0) {
            old = parcels[i].parcel;
            snprintf(parcels[i].key, sizeof(parcels[i].key), "%s", ZSTR_VAL(key));
            parcels[i].parcel = parcel;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    free(old);
    RETURN_TRUE;
}

/* test_unpack(string $key): Closure */
PHP_FUNCTION(test_unpack)
{
    zend_string *key;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
    ZEND_PARSE_PARAMETERS_END();
    const shim_parcel *parcel = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < PARCELS && parcel == NULL; i++) {
        if (strcmp(parcels[i].key, ZSTR_VAL(key)) == 0) {
            parcel = parcels[i].parcel;
        }
    }
    pthread_mutex_unlock(&lock);
    if (parcel == NULL) {
        zend_throw_error(NULL, "no parcel %s", ZSTR_VAL(key));
        return;
    }
    zval closure;
    if (unpack(parcel, &closure)) {
        RETURN_COPY_VALUE(&closure);
    }
}

/* test_round(Closure $closure): Closure; packed and unpacked in this thread */
PHP_FUNCTION(test_round)
{
    zval *closure, made;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_OBJECT(closure)
    ZEND_PARSE_PARAMETERS_END();
    shim_parcel *parcel = pack(Z_OBJ_P(closure));
    if (parcel == NULL) {
        return;
    }
    const bool is_made = unpack(parcel, &made);
    free(parcel);
    if (is_made) {
        RETURN_COPY_VALUE(&made);
    }
}

/* test_is_shared(Closure $closure): bool */
PHP_FUNCTION(test_is_shared)
{
    zval *closure;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_OBJECT(closure)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_BOOL(((bool (*)(zend_object *))at(SHIM_CODE_IS_SHARED))(Z_OBJ_P(closure)));
}

/* test_hold(string $file): blocks the thread until the file exists. */
PHP_FUNCTION(test_hold)
{
    zend_string *file;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(file)
    ZEND_PARSE_PARAMETERS_END();
    while (access(ZSTR_VAL(file), F_OK) != 0) {
        usleep(1000);
    }
}

PHP_FUNCTION(test_thread)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG(gettid());
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_any, 0, 0, 0)
    ZEND_ARG_VARIADIC_INFO(0, arguments)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    PHP_FE(test_pack, arginfo_any)
    PHP_FE(test_unpack, arginfo_any)
    PHP_FE(test_round, arginfo_any)
    PHP_FE(test_is_shared, arginfo_any)
    PHP_FE(test_hold, arginfo_any)
    PHP_FE(test_thread, arginfo_any)
    PHP_FE_END
};

static zend_module_entry code_module_entry = {
    STANDARD_MODULE_HEADER, "code", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES
};
ZEND_GET_MODULE(code)
