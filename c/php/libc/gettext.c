/* The text domain of a request, and the bindings of domains to folders.
 *
 * libc has one current domain for the process. Here each request has its own: functions that use the current domain call
 * those that name it. The bindings belong to the process, like the catalogs that libc keeps in memory. libc frees the
 * folder and the encoding of a binding when another thread changes it, possibly before PHP has copied them, so they are
 * copied under a lock. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <libintl.h>
#include <stdio.h>
#include <stdlib.h>

/* Macros of libintl.h. */
#undef gettext
#undef ngettext
#undef dcgettext
#undef dcngettext

__thread shim_text_domain_layers shim_text_domain;

/* Returns the current domain; NULL stands for that of the process. */
static const char *current(void)
{
    return shim_text_domain.own != NULL ? shim_text_domain.own : shim_text_domain.boot;
}

char *textdomain(const char *domain)
{
    if (domain != NULL && shim_is_in_request()) {
        /* An empty name stands for libc's default. */
        char *own = strdup(*domain != '\0' ? domain : "messages");
        if (own == NULL) {
            return NULL;
        }
        free(shim_text_domain.own);
        shim_text_domain.own = own;
    }
    return current() != NULL ? (char *)current() : NEXT(textdomain)(domain);
}

char *dcgettext(const char *domain, const char *text, int category)
{
    return NEXT(dcgettext)(domain != NULL ? domain : current(), text, category);
}

char *dcngettext(const char *domain, const char *one, const char *many, unsigned long count, int category)
{
    return NEXT(dcngettext)(domain != NULL ? domain : current(), one, many, count, category);
}

char *gettext(const char *text)
{
    return dcgettext(NULL, text, LC_MESSAGES);
}

char *ngettext(const char *one, const char *many, unsigned long count)
{
    return dcngettext(NULL, one, many, count, LC_MESSAGES);
}

#define BINDING(function, value) \
    char *function(const char *domain, const char *value) \
    { \
        static __thread char copy[PATH_MAX]; \
        shim_libc_lock(SHIM_LOCK_OF_BINDINGS); \
        const char *bound = NEXT(function)(domain, value); \
        if (bound != NULL) { \
            (void)snprintf(copy, sizeof(copy), "%s", bound); \
        } \
        shim_libc_unlock(SHIM_LOCK_OF_BINDINGS); \
        return bound != NULL ? copy : NULL; \
    }

BINDING(bindtextdomain, folder)
BINDING(bind_textdomain_codeset, encoding)

void shim_text_domain_end(void)
{
    free(shim_text_domain.own);
    shim_text_domain.own = NULL;
}
