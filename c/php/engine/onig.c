/* Compiled patterns of mbstring, which live as long as the calls that use them.
 *
 * mb_ereg_replace_callback() (_php_mb_regex_ereg_replace_exec() in ext/mbstring/php_mbregex.c) uses its compiled pattern
 * again after each callback. If the callback compiles the same pattern with other options or in another encoding, PHP
 * replaces the entry in its cache, and frees the pattern that is in use. The executable therefore defines Oniguruma's
 * onig_free(), which postpones this until no such call is in progress on the thread. The calls of all requests and fibers of
 * a thread count together; a stack that is dropped without a bailout leaves its calls counted until the thread ends. */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

#include <stdlib.h>
#include <sys/queue.h>

void onig_free(void *pattern);

typedef struct postponed {
    void *pattern;
    SLIST_ENTRY(postponed) next;
} postponed;

static __thread unsigned calls_in_progress;
static __thread SLIST_HEAD(, postponed) patterns;

static void free_pattern(void *pattern)
{
    static const char *const files[] = {"libonig.so.5"};
    void (*const free_in_library)(void *) = shim_library(SHIM_SLOT, "onig_free", files, SHIM_COUNT(files));
    if (free_in_library != NULL) {
        free_in_library(pattern);
    }
}

void onig_free(void *pattern)
{
    if (calls_in_progress == 0) {
        free_pattern(pattern);
        return;
    }
    postponed *one = malloc(sizeof(*one));
    /* If there is no memory for the entry, the pattern leaks. */
    if (one != NULL) {
        one->pattern = pattern;
        SLIST_INSERT_HEAD(&patterns, one, next);
    }
}

static void free_postponed(void)
{
    while (!SLIST_EMPTY(&patterns)) {
        postponed *one = SLIST_FIRST(&patterns);
        SLIST_REMOVE_HEAD(&patterns, next);
        free_pattern(one->pattern);
        free(one);
    }
}

static void end_call(void)
{
    if (--calls_in_progress == 0) {
        free_postponed();
    }
}

static zif_handler php_replace;

static void replace(INTERNAL_FUNCTION_PARAMETERS)
{
    calls_in_progress++;
    zend_try {
        php_replace(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    } zend_catch {
        end_call();
        zend_bailout();
    } zend_end_try();
    end_call();
}

void shim_patterns_install(void)
{
    php_replace = shim_function_replace("mb_ereg_replace_callback", replace);
}

void shim_patterns_thread_stop(void)
{
    calls_in_progress = 0;
    free_postponed();
}
