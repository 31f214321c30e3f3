/* The locale of a request.
 *
 * PHP's setlocale() calls that of libc, which changes the locale of the process. On a thread that runs a request, the
 * executable's definition builds a locale object for the thread (uselocale), which all of libc's locale functions
 * honour; on any other thread it is libc's own. In worker mode, a request starts with the locale that the boot script
 * has set. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <langinfo.h>
#include <locale.h>

__thread shim_locale_layers shim_locale;

static locale_t current_locale(void)
{
    return shim_locale.own != NULL ? shim_locale.own : shim_locale.boot != NULL ? shim_locale.boot : LC_GLOBAL_LOCALE;
}

void shim_locale_apply(void)
{
    (void)uselocale(current_locale());
}

static const struct {
    int category;
    int mask;
    const char *name;
} categories[] = {
    {LC_CTYPE, LC_CTYPE_MASK, "LC_CTYPE"},
    {LC_NUMERIC, LC_NUMERIC_MASK, "LC_NUMERIC"},
    {LC_TIME, LC_TIME_MASK, "LC_TIME"},
    {LC_COLLATE, LC_COLLATE_MASK, "LC_COLLATE"},
    {LC_MONETARY, LC_MONETARY_MASK, "LC_MONETARY"},
    {LC_MESSAGES, LC_MESSAGES_MASK, "LC_MESSAGES"},
    {LC_PAPER, LC_PAPER_MASK, "LC_PAPER"},
    {LC_NAME, LC_NAME_MASK, "LC_NAME"},
    {LC_ADDRESS, LC_ADDRESS_MASK, "LC_ADDRESS"},
    {LC_TELEPHONE, LC_TELEPHONE_MASK, "LC_TELEPHONE"},
    {LC_MEASUREMENT, LC_MEASUREMENT_MASK, "LC_MEASUREMENT"},
    {LC_IDENTIFICATION, LC_IDENTIFICATION_MASK, "LC_IDENTIFICATION"},
};
enum { CATEGORIES = SHIM_COUNT(categories) };

static const char *locale_name(locale_t locale, int category)
{
    return nl_langinfo_l(NL_LOCALE_NAME(category), locale);
}

/* Returns the answer to setlocale(LC_ALL, NULL): one name, or `LC_CTYPE=...;LC_NUMERIC=...` if the categories differ. */
static char *all_names(locale_t locale)
{
    static __thread char text[1024];
    const char *first = locale_name(locale, categories[0].category);
    bool same = true;
    size_t used = 0;
    for (size_t i = 0; i < CATEGORIES; i++) {
        const char *name = locale_name(locale, categories[i].category);
        same = same && strcmp(name, first) == 0;
        int written = snprintf(text + used, sizeof(text) - used, "%s%s=%s", i > 0 ? ";" : "", categories[i].name, name);
        if (written < 0 || (size_t)written >= sizeof(text) - used) {
            break;
        }
        used += (size_t)written;
    }
    return same ? (char *)first : text;
}

/* Returns the answer to setlocale(category, NULL). */
static char *names_of(locale_t locale, int category)
{
    return locale == LC_GLOBAL_LOCALE ? NEXT(setlocale)(category, NULL)
           : category == LC_ALL       ? all_names(locale)
                                      : (char *)locale_name(locale, category);
}

static int mask_of(int category)
{
    if (category == LC_ALL) {
        return LC_ALL_MASK;
    }
    for (size_t i = 0; i < CATEGORIES; i++) {
        if (categories[i].category == category) {
            return categories[i].mask;
        }
    }
    return 0;
}

char *setlocale(int category, const char *name)
{
    int mask = mask_of(category);
    if (shim_current == NULL || mask == 0) {
        return NEXT(setlocale)(category, name);
    }
    const locale_t now = current_locale(), former = shim_locale.own;
    char *current = names_of(now, category);
    /* As in libc, the name that it has already changes nothing: applications set and restore locales often. */
    if (name == NULL || (current != NULL && strcmp(current, name) == 0)) {
        return current;
    }
    const locale_t base = duplocale(now);
    const locale_t next = base != NULL ? newlocale(mask, name, base) : NULL;
    if (next == NULL) {
        if (base != NULL) {
            freelocale(base);
        }
        return NULL;
    }
    shim_locale.own = next;
    shim_locale_apply();
    if (former != NULL) {
        freelocale(former);
    }
    return names_of(next, category);
}

/* ---- requests ---- */

void shim_locale_end(void)
{
    const locale_t ended = shim_locale.own;
    if (ended != NULL) {
        shim_locale.own = NULL;
        shim_locale_apply();
        freelocale(ended);
    }
}
