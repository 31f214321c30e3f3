/* The memory that pcre shares among matches.
 *
 * PHP has one block per thread for the results of a match. Each user records in a local variable whether the block was
 * in use, and restores that at its end. This is correct only if uses end in the reverse order of their beginnings.
 * While a callback of one use waits (of a replacement, or __toString() below preg_grep()), others begin and end: one
 * whose expression is too large for the block frees it, although another one is about to read it. The same happens
 * between a script's own fibers, and a bailout leaves the block marked as in use.
 *
 * In a worker, the block is therefore marked as in use before the boot script runs, so that each call allocates its own
 * from the request's heap, and restores the mark that it found. This costs a few nanoseconds per match, and leaves no
 * state that waits or bailouts could corrupt. */
#include "compat.h"
#include "worker/engine/engine.h"

#include <ext/pcre/php_pcre.h>

static __thread pcre2_match_data *taken;

bool shim_pcre_match_data_begin(void)
{
    zend_try {
        zend_string *expression = ZSTR_INIT_LITERAL("/x/", false);
        uint32_t captures = 0;
        pcre2_code *code = pcre_get_compiled_regex(expression, &captures);
        zend_string_release(expression);
        taken = code != NULL ? php_pcre_create_match_data(captures, code) : NULL;
    } zend_end_try();
    return taken != NULL;
}

void shim_pcre_match_data_end(void)
{
    if (taken != NULL) {
        php_pcre_free_match_data(taken);
        taken = NULL;
    }
}
