/* What pcre keeps for whoever matches.
 *
 * PHP has one block of the thread for what an expression has matched; whoever needs it keeps in a variable of its own
 * whether it was taken, and puts that back at its end. So it is right only if they end in the reverse order of their
 * beginning, and while a callback of one of them waits (of a replacement, or __toString() below preg_grep()) others begin
 * and end: one whose expression is too large for the block gives it back, which another one is about to read. Fibers of a
 * script's own do the same to each other, and a jump leaves it taken.
 *
 * In a worker nobody has it: it is taken before the boot script runs, so that each call has a block of its own, from the
 * request's heap, and puts back what it has found. That costs a few nanoseconds a match, and nothing is left to be kept in
 * step: not with waits, not with jumps. */
#include "compat.h"
#include "engine/matching.h"

#include <ext/pcre/php_pcre.h>

static __thread pcre2_match_data *taken;

bool shim_matching_begin(void)
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

void shim_matching_end(void)
{
    if (taken != NULL) {
        php_pcre_free_match_data(taken);
        taken = NULL;
    }
}
