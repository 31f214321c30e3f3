/* The fonts of GD.
 *
 * libgd has one cache of fonts for the process (ext/gd/libgd/gdft.c), and GD frees it at the end of each request. A call
 * that has not found its font reads the cache after it has released its lock, and then accesses freed memory; and since the
 * lock is held while text is drawn or a font is opened, the end of every request waits for that. The cache is therefore
 * freed by requests that have drawn text, once no thread draws.
 *
 * Another thread may draw for long, or wait for the disk that holds a font: waits for libgd's lock end at the time limit.
 *
 * Invariant. `drawing` is the number of calls in progress, in all threads; `FREEING` while a thread frees the cache, and no
 * call begins then. If a stack is dropped while the script's error handler runs inside a call, the call stays counted, and
 * the cache stays in memory. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/engine/engine.h"

#include <pthread.h>
#include <sched.h>

enum { FREEING = -1 };

static int drawing;
/* Whether the request of this thread has drawn text. */
static __thread bool has_drawn;

static int (*php_gd_request_shutdown)(int type, int module);

/* Changes `drawing` from `from` to `to`. Returns false if it had another value. */
static bool change(int from, int to)
{
    return __atomic_compare_exchange_n(&drawing, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static void begin_call(void)
{
    int count;
    has_drawn = true;
    while ((count = __atomic_load_n(&drawing, __ATOMIC_RELAXED)) == FREEING || !change(count, count + 1)) {
        sched_yield();
    }
}

static void end_call(void)
{
    __atomic_sub_fetch(&drawing, 1, __ATOMIC_SEQ_CST);
}

static void draw(INTERNAL_FUNCTION_PARAMETERS, zif_handler php)
{
    begin_call();
    zend_try {
        php(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    } zend_catch {
        end_call();
        zend_bailout();
    } zend_end_try();
    end_call();
}

#define FUNCTION(name)                                     \
    static zif_handler php_##name;                         \
    static void name(INTERNAL_FUNCTION_PARAMETERS)         \
    {                                                      \
        draw(INTERNAL_FUNCTION_PARAM_PASSTHRU, php_##name); \
    }

FUNCTION(imagettftext)
FUNCTION(imagettfbbox)
FUNCTION(imagefttext)
FUNCTION(imageftbbox)

static int request_shutdown(int type, int module)
{
    if (!has_drawn || !change(0, FREEING)) {
        return SUCCESS;
    }
    has_drawn = false;
    const int result = php_gd_request_shutdown(type, module);
    __atomic_store_n(&drawing, 0, __ATOMIC_SEQ_CST);
    return result;
}

/* In a child, no other thread is left to draw. */
static void become_child(void)
{
    __atomic_store_n(&drawing, 0, __ATOMIC_RELAXED);
}

static zend_module_entry *gd;

static void free_cache(void)
{
    (void)php_gd_request_shutdown(gd->type, gd->module_number);
}

void shim_fonts_install(void)
{
    gd = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("gd"));
    php_imagettftext = shim_function_replace("imagettftext", imagettftext);
    if (gd == NULL || gd->request_shutdown_func == NULL || php_imagettftext == NULL) {
        return;
    }
    php_imagettfbbox = shim_function_replace("imagettfbbox", imagettfbbox);
    php_imagefttext = shim_function_replace("imagefttext", imagefttext);
    php_imageftbbox = shim_function_replace("imageftbbox", imageftbbox);
    php_gd_request_shutdown = gd->request_shutdown_func;
    gd->request_shutdown_func = request_shutdown;
    shim_mutexes_bound(free_cache);
    pthread_atfork(NULL, NULL, become_child);
}
