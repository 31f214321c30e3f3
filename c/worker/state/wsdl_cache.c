/* Descriptions of services (WSDL) that PHP caches in memory: soap.wsdl_cache, and the option `cache_wsdl`.
 *
 * PHP frees a cached description when it replaces it: after soap.wsdl_cache_ttl, beyond soap.wsdl_cache_limit, and when
 * two requests have loaded the same one at the same time. It does not check whether objects use it (get_sdl() in
 * ext/soap/php_sdl.c). Where requests overlap and objects outlive them, some do. The destructor of the cache therefore only
 * retires a description. It is freed when a client or server is made, provided that no object uses it any more. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/state/state.h"

#include <stdlib.h>

typedef struct retired {
    struct retired *next;
    /* PHP's record of the description, whose first member points to it. */
    zval record;
} retired;

static __thread retired *first;
/* PHP's destructor of the record; it is the same on all threads. */
static void (*free_record)(zval *);

/* If out of memory, the description is never freed. */
static void retire(zval *record)
{
    retired *one = malloc(sizeof(*one));
    if (one != NULL) {
        *one = (retired){.next = first, .record = *record};
        first = one;
    }
}

/* PHP makes the cache when the first description is cached. */
static void adopt(void)
{
    const char *globals = shim_modules_struct("soap");
    HashTable *cache = globals != NULL ? *(HashTable *const *)(globals + shim_soap_cache_offset) : NULL;
    if (cache != NULL && cache->pDestructor != retire) {
        __atomic_store_n(&free_record, cache->pDestructor, __ATOMIC_RELAXED);
        cache->pDestructor = retire;
    }
}

/* ---- users of a description ---- */

static bool is_named(const zend_class_entry *class, const char *name)
{
    return zend_string_equals_cstr(class->name, name, strlen(name));
}

/* Up to PHP 8.3, clients and servers refer to it through a resource. */
static bool has_own_class(void)
{
    return zend_hash_str_exists(CG(class_table), ZEND_STRL("soap\\sdl"));
}

static bool uses(const zend_object *object, const void *description)
{
    const zend_class_entry *class = object->ce;
    while (class->type == ZEND_USER_CLASS && class->parent != NULL) {
        class = class->parent;
    }
    void *const *own = (void *const *)((const char *)object - object->handlers->offset);
    if (is_named(class, "Soap\\Sdl")) {
        return own[0] == description;
    }
    if (is_named(class, "SoapServer") && has_own_class()) {
        /* The first member of a service. */
        return own[0] != NULL && *(void *const *)own[0] == description;
    }
    return (is_named(class, "SoapServer") || is_named(class, "SoapClient")) && !has_own_class();
}

static bool is_used(const void *description)
{
    const zend_objects_store *store = &EG(objects_store);
    for (uint32_t i = 1; i < store->top; i++) {
        if (IS_OBJ_VALID(store->object_buckets[i]) && uses(store->object_buckets[i], description)) {
            return true;
        }
    }
    return false;
}

static void free_unused(void)
{
    retired **link = &first;
    while (*link != NULL) {
        retired *one = *link;
        if (is_used(*(void **)Z_PTR(one->record))) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        free_record(&one->record);
        free(one);
    }
}

/* Call when all objects of the thread have been freed, and the cache with them. */
void shim_wsdl_cache_stop(void)
{
    while (first != NULL) {
        retired *one = first;
        first = one->next;
        free_record(&one->record);
        free(one);
    }
}

/* ---- the constructors, which fill the cache ---- */

static zif_handler php_client, php_server;

static void construct(zif_handler constructor, INTERNAL_FUNCTION_PARAMETERS)
{
    /* A bailout may have passed over the second call of an earlier constructor. */
    adopt();
    free_unused();
    constructor(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    adopt();
}

static ZEND_FUNCTION(construct_client)
{
    construct(php_client, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(construct_server)
{
    construct(php_server, INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void wrap(const char *class_name, zif_handler *php, zif_handler wrapper)
{
    const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), class_name, strlen(class_name));
    if (class != NULL) {
        *php = shim_handler_replace(class->constructor, wrapper);
    }
}

void shim_wsdl_cache_install(void)
{
    if (shim_modules_struct("soap") != NULL) {
        wrap("soapclient", &php_client, ZEND_FN(construct_client));
        wrap("soapserver", &php_server, ZEND_FN(construct_server));
    }
}
