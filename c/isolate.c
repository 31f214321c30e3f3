/* What a process shares and PHP's requests must not: environment, locale, working directory and file mode mask.
 *
 * PHP's putenv() and setlocale() are libc's, and libc's act on the process. The executable's definitions of these
 * functions take precedence over libc's in libphp and everything that it loads. On a thread that runs a request they
 * act on that request; on any other thread they are libc's own.
 *
 * - Environment: putenv, setenv and unsetenv write to an overlay of the request; getenv reads it first. Programs that
 *   the request starts (proc_open, exec, popen) get the overlay in their environment.
 * - Locale: setlocale builds a locale object for the thread (uselocale), which all of libc's locale functions honour.
 * - Working directory and umask: each PHP thread leaves the process's (unshare(CLONE_FS)). PHP's own chdir() is
 *   virtual and per request anyway.
 *
 * In worker mode what the boot script has set lies below what a request sets. */
#include "internal.h"
#include "state.h"

#include <langinfo.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>

extern char **environ;

/* ---- the overlay ---- */

typedef struct overlay_entry {
    struct overlay_entry *next;
    size_t name_length;
    /* NULL: unset. Points behind the name in the same block. */
    const char *value;
    char name[];
} overlay_entry;

static __thread overlay_entry *overlay;
/* What the boot script of this worker has set. */
static __thread overlay_entry *boot_overlay;

static overlay_entry *find_in(overlay_entry *list, const char *name, size_t length)
{
    for (overlay_entry *entry = list; entry != NULL; entry = entry->next) {
        if (entry->name_length == length && memcmp(entry->name, name, length) == 0) {
            return entry;
        }
    }
    return NULL;
}

static overlay_entry *overlay_find(const char *name, size_t length)
{
    overlay_entry *entry = find_in(overlay, name, length);
    return entry != NULL ? entry : find_in(boot_overlay, name, length);
}

/* The entry behind `entry` that is in force; begins with NULL, ends with NULL. */
static const overlay_entry *overlay_next(const overlay_entry *entry)
{
    const overlay_entry *next = entry != NULL ? entry->next : overlay;
    bool in_own = entry == NULL || find_in(overlay, entry->name, entry->name_length) == entry;
    if (next == NULL && in_own) {
        next = boot_overlay;
        in_own = false;
    }
    while (next != NULL && find_in(overlay, next->name, next->name_length) != NULL &&
           find_in(overlay, next->name, next->name_length) != next) {
        next = next->next;
    }
    return next;
}

static bool overlay_is_empty(void)
{
    return overlay == NULL && boot_overlay == NULL;
}

static void overlay_remove(const char *name, size_t length)
{
    for (overlay_entry **at = &overlay; *at != NULL; at = &(*at)->next) {
        overlay_entry *entry = *at;
        if (entry->name_length == length && memcmp(entry->name, name, length) == 0) {
            *at = entry->next;
            free(entry);
            return;
        }
    }
}

static int overlay_put(const char *name, size_t length, const char *value)
{
    size_t value_size = value != NULL ? strlen(value) + 1 : 0;
    overlay_entry *entry = malloc(sizeof(*entry) + length + 1 + value_size);
    if (entry == NULL) {
        return -1;
    }
    memcpy(entry->name, name, length);
    entry->name[length] = '\0';
    entry->name_length = length;
    entry->value = NULL;
    if (value != NULL) {
        memcpy(entry->name + length + 1, value, value_size);
        entry->value = entry->name + length + 1;
    }
    overlay_remove(name, length);
    entry->next = overlay;
    overlay = entry;
    return 0;
}

static void overlay_clear(void)
{
    while (overlay != NULL) {
        overlay_entry *next = overlay->next;
        free(overlay);
        overlay = next;
    }
}

void shim_environment_each(void (*visit)(const char *, size_t, const char *, void *), void *data)
{
    for (const overlay_entry *entry = overlay_next(NULL); entry != NULL; entry = overlay_next(entry)) {
        visit(entry->name, entry->name_length, entry->value, data);
    }
}

/* ---- libc's own ---- */

DECLARE_LIBC(getenv);
DECLARE_LIBC(putenv);
DECLARE_LIBC(setenv);
DECLARE_LIBC(unsetenv);
DECLARE_LIBC(setlocale);
DECLARE_LIBC(popen);
DECLARE_LIBC(posix_spawn);
DECLARE_LIBC(posix_spawnp);

/* ---- environment ---- */

char *getenv(const char *name)
{
    if (!overlay_is_empty()) {
        const overlay_entry *entry = overlay_find(name, strlen(name));
        if (entry != NULL) {
            return (char *)entry->value;
        }
    }
    return LIBC(getenv)(name);
}

int setenv(const char *name, const char *value, int overwrite)
{
    if (shim_current == NULL) {
        return LIBC(setenv)(name, value, overwrite);
    }
    if (!overwrite && getenv(name) != NULL) {
        return 0;
    }
    return overlay_put(name, strlen(name), value);
}

int unsetenv(const char *name)
{
    return shim_current == NULL ? LIBC(unsetenv)(name) : overlay_put(name, strlen(name), NULL);
}

int putenv(char *setting)
{
    if (shim_current == NULL) {
        return LIBC(putenv)(setting);
    }
    const char *equals = strchr(setting, '=');
    if (equals == NULL) {
        return unsetenv(setting);
    }
    return overlay_put(setting, (size_t)(equals - setting), equals + 1);
}

/* The process's environment with the overlay on top. The array and nothing else is to be freed, with `block`. */
static char **merged_environment(char **block)
{
    size_t count = 0;
    size_t size = 0;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        count++;
    }
    for (const overlay_entry *entry = overlay_next(NULL); entry != NULL; entry = overlay_next(entry)) {
        count++;
        size += entry->name_length + (entry->value != NULL ? strlen(entry->value) : 0) + 2;
    }
    char **merged = malloc((count + 1) * sizeof(*merged));
    char *text = malloc(size + 1);
    if (merged == NULL || text == NULL) {
        free(merged);
        free(text);
        return NULL;
    }
    *block = text;
    size_t used = 0;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        if (equals == NULL || overlay_find(*at, (size_t)(equals - *at)) == NULL) {
            merged[used++] = *at;
        }
    }
    for (const overlay_entry *entry = overlay_next(NULL); entry != NULL; entry = overlay_next(entry)) {
        if (entry->value != NULL) {
            merged[used++] = text;
            text += sprintf(text, "%s=%s", entry->name, entry->value) + 1;
        }
    }
    merged[used] = NULL;
    return merged;
}

/* ---- programs that a request starts ---- */

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const[], char *const[]);

/* Adds to the caller's attributes that the child's signal mask is empty: ours blocks the control signals. */
static int spawn(spawn_function *function, pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    if (shim_current == NULL) {
        return function(pid, path, actions, attributes, arguments, environment);
    }
    posix_spawnattr_t own;
    short flags = 0;
    sigset_t none;
    sigemptyset(&none);
    if (attributes != NULL) {
        own = *attributes;
        posix_spawnattr_getflags(&own, &flags);
    } else {
        posix_spawnattr_init(&own);
    }
    if ((flags & POSIX_SPAWN_SETSIGMASK) == 0) {
        posix_spawnattr_setsigmask(&own, &none);
        posix_spawnattr_setflags(&own, (short)(flags | POSIX_SPAWN_SETSIGMASK));
    }
    char *block = NULL;
    char **merged = environment == environ && !overlay_is_empty() ? merged_environment(&block) : NULL;
    int result = function(pid, path, actions, &own, arguments, merged != NULL ? merged : environment);
    free(merged);
    free(block);
    if (attributes == NULL) {
        posix_spawnattr_destroy(&own);
    }
    return result;
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return spawn(LIBC(posix_spawn), pid, path, actions, attributes, arguments, environment);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return spawn(LIBC(posix_spawnp), pid, file, actions, attributes, arguments, environment);
}

/* Whether the shell takes `name` as the name of a variable. */
static bool is_shell_name(const char *name)
{
    if (!(*name == '_' || (*name >= 'A' && *name <= 'Z') || (*name >= 'a' && *name <= 'z'))) {
        return false;
    }
    for (; *name != '\0'; name++) {
        if (!(*name == '_' || (*name >= 'A' && *name <= 'Z') || (*name >= 'a' && *name <= 'z') ||
              (*name >= '0' && *name <= '9'))) {
            return false;
        }
    }
    return true;
}

/* popen's shell command, after commands that bring the overlay into the shell's environment. To be freed. */
static char *command_with_environment(const char *command)
{
    size_t size = strlen(command) + 1;
    for (const overlay_entry *entry = overlay_next(NULL); entry != NULL; entry = overlay_next(entry)) {
        size += entry->name_length + sizeof("export =''; ");
        for (const char *at = entry->value; at != NULL && *at != '\0'; at++) {
            size += *at == '\'' ? 4 : 1;
        }
    }
    char *text = malloc(size);
    char *to = text;
    for (const overlay_entry *entry = overlay; text != NULL && entry != NULL; entry = entry->next) {
        if (!is_shell_name(entry->name)) {
            continue;
        }
        if (entry->value == NULL) {
            to += sprintf(to, "unset %s; ", entry->name);
            continue;
        }
        to += sprintf(to, "export %s='", entry->name);
        for (const char *at = entry->value; *at != '\0'; at++) {
            if (*at == '\'') {
                to += sprintf(to, "'\\''");
            } else {
                *to++ = *at;
            }
        }
        to += sprintf(to, "'; ");
    }
    if (text != NULL) {
        strcpy(to, command);
    }
    return text;
}

FILE *popen(const char *command, const char *mode)
{
    if (overlay_is_empty()) {
        return LIBC(popen)(command, mode);
    }
    char *text = command_with_environment(command);
    FILE *pipe = text != NULL ? LIBC(popen)(text, mode) : NULL;
    free(text);
    return pipe;
}

/* ---- locale ---- */

static __thread locale_t own_locale;
/* What the boot script of this worker has set. */
static __thread locale_t boot_locale;

static locale_t base_locale(void)
{
    return boot_locale != (locale_t)0 ? boot_locale : LC_GLOBAL_LOCALE;
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
enum { CATEGORIES = sizeof(categories) / sizeof(categories[0]) };

static const char *locale_name(locale_t locale, int category)
{
    return nl_langinfo_l(NL_LOCALE_NAME(category), locale);
}

/* What setlocale(LC_ALL, NULL) answers: one name, or `LC_CTYPE=...;LC_NUMERIC=...` where they differ. */
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
        return LIBC(setlocale)(category, name);
    }
    locale_t now = own_locale != (locale_t)0 ? own_locale : base_locale();
    if (name == NULL && now == LC_GLOBAL_LOCALE) {
        return LIBC(setlocale)(category, NULL);
    }
    if (name != NULL) {
        locale_t base = duplocale(now);
        locale_t next = base != (locale_t)0 ? newlocale(mask, name, base) : (locale_t)0;
        if (next == (locale_t)0) {
            if (base != (locale_t)0) {
                freelocale(base);
            }
            return NULL;
        }
        uselocale(next);
        if (own_locale != (locale_t)0) {
            freelocale(own_locale);
        }
        own_locale = next;
    }
    now = own_locale != (locale_t)0 ? own_locale : now;
    return category == LC_ALL ? all_names(now) : (char *)locale_name(now, category);
}

/* ---- threads and requests ---- */

void shim_isolate_thread(void)
{
    /* Refused in some sandboxes: then umask() and chdir() of extensions are shared, as under any threaded server. */
    (void)unshare(CLONE_FS);
}

void shim_isolate_begin(void)
{
    overlay_clear();
}

void shim_isolate_end(void)
{
    overlay_clear();
    if (own_locale != (locale_t)0) {
        uselocale(base_locale());
        freelocale(own_locale);
        own_locale = (locale_t)0;
    }
}

/* ---- worker mode ---- */

void shim_process_capture(void)
{
    boot_overlay = overlay;
    overlay = NULL;
    boot_locale = own_locale;
    own_locale = (locale_t)0;
}

void shim_process_release(void)
{
    overlay = boot_overlay;
    boot_overlay = NULL;
    own_locale = boot_locale;
    boot_locale = (locale_t)0;
}

void shim_process_suspend(shim_process_state *state)
{
    *state = (shim_process_state){.overlay = overlay, .locale = own_locale};
    overlay = NULL;
    if (own_locale != (locale_t)0) {
        uselocale(base_locale());
        own_locale = (locale_t)0;
    }
}

void shim_process_resume(const shim_process_state *state)
{
    overlay = state->overlay;
    own_locale = state->locale;
    if (own_locale != (locale_t)0) {
        uselocale(own_locale);
    }
}

void shim_process_end(void)
{
    shim_isolate_end();
}
