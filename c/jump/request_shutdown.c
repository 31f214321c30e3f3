/* PHP's own end of a request, and bailouts out of it.
 *
 * php_request_shutdown() takes bailouts into account where scripts' code runs, but not where objects are freed: an
 * extension that runs out of memory there (mysqlnd reads what is left of an unbuffered result) leaves everything that
 * follows undone. The thread would keep the script's functions and classes, and no script could declare them again. A
 * process of php-fpm ends in that case.
 *
 * Promises. The rest is done nevertheless, so that the thread can be freed. What the bailout has left is in an unknown
 * state, persistent connections too: the thread is spent, and the host replaces it. */
#include "compat.h"
#include "engine/execution_timer.h"
#include "jump/request_shutdown.h"
#include "libc/libc.h"
#include "shim.h"

DECLARE_LIBC(zend_objects_store_free_object_storage);

static __thread bool is_shutting_down;
static __thread bool is_spent;

bool shim_is_spent(void)
{
    return is_spent;
}

/* Frees the contents of all objects. What a bailout has left is not tried again: an object is marked before it is freed. */
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

/* What the end of the thread would free individually, after the memory of the request. */
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
