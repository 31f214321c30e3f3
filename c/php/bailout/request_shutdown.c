/* PHP's own end of a request, and bailouts out of it.
 *
 * php_request_shutdown() catches bailouts where script code runs, but not where objects are freed. If an extension runs
 * out of memory there (mysqlnd reads the rest of an unbuffered result), all later steps are skipped. The thread would
 * keep the script's functions and classes, and no script could declare them again. A php-fpm process ends in that case.
 *
 * Promises: the remaining steps run nevertheless, so that the thread can be freed. Because the state after the bailout
 * is unknown, that of persistent connections included, the thread is spent, and the host replaces it. */
#include "compat.h"
#include "php/bailout/request_shutdown.h"
#include "php/engine/execution_timer.h"
#include "php/libc/libc.h"
#include "shim.h"

DECLARE_LIBC(zend_objects_store_free_object_storage);

static __thread bool is_shutting_down;
static __thread bool is_spent;

bool shim_is_spent(void)
{
    return is_spent;
}

/* Frees the contents of all objects. An object that a bailout has interrupted is not tried again: it is marked before
 * it is freed. */
void ZEND_FASTCALL zend_objects_store_free_object_storage(zend_objects_store *objects, bool fast_shutdown)
{
    volatile bool ended = false;
    if (!is_shutting_down) {
        LIBC(zend_objects_store_free_object_storage)(objects, fast_shutdown);
        return;
    }
    while (!ended) {
        zend_try {
            LIBC(zend_objects_store_free_object_storage)(objects, fast_shutdown);
            ended = true;
        } zend_catch {
            is_spent = true;
        } zend_end_try();
    }
}

/* Drops the entries that the end of the thread would otherwise free one by one, after the memory of the request. */
static void discard(void)
{
    zend_hash_discard(EG(function_table), EG(persistent_functions_count));
    zend_hash_discard(EG(class_table), EG(persistent_classes_count));
    zend_hash_discard(EG(zend_constants), EG(persistent_constants_count));
    zend_try {
        zend_ini_deactivate();
    } zend_end_try();
}

void shim_request_shutdown(void)
{
    volatile bool ended = false;
    is_shutting_down = true;
    shim_execution_timer_hold();
    zend_try {
        php_request_shutdown(NULL);
        ended = true;
    } zend_end_try();
    shim_execution_timer_release();
    is_shutting_down = false;
    if (!ended) {
        is_spent = true;
        discard();
    }
}
