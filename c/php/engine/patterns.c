/* Patterns of mbstring, which live as long as a call that uses them.
 *
 * mb_ereg_replace_callback() (_php_mb_regex_ereg_replace_exec() in ext/mbstring/php_mbregex.c) continues with its pattern
 * after each call of the script. If the script has compiled the same pattern with other options or another encoding
 * meanwhile, PHP has replaced the pattern in its cache, and has freed it. The executable therefore defines Oniguruma's
 * onig_free(), which keeps patterns until no such call is in progress on the thread. */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

#include <stdlib.h>
#include <sys/queue.h>

void onig_free(void *pattern);

typedef struct kept {
    void *pattern;
    SLIST_ENTRY(kept) next;
} kept;

static __thread unsigned calls_in_progress;
static __thread SLIST_HEAD(, kept) all_kept;

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
    kept *one = malloc(sizeof(*one));
    /* Without memory, the pattern is lost. */
    if (one != NULL) {
        one->pattern = pattern;
        SLIST_INSERT_HEAD(&all_kept, one, next);
    }
}

static void end_call(void)
{
    if (--calls_in_progress > 0) {
        return;
    }
    while (!SLIST_EMPTY(&all_kept)) {
        kept *one = SLIST_FIRST(&all_kept);
        SLIST_REMOVE_HEAD(&all_kept, next);
        free_pattern(one->pattern);
        free(one);
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
