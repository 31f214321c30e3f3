/* The environment of a request.
 *
 * PHP's putenv() calls that of libc, which changes the environment of the process. The executable's definitions of
 * these functions precede those of libc (libc.c): on a thread that runs a request, putenv, setenv and unsetenv write to
 * an overlay of the request, and getenv reads the overlay first; on any other thread they are libc's own. In worker
 * mode, the overlay of the boot script is below that of a request. Child processes receive the overlay in their
 * environment (programs.c) and in no other way: command lines are readable by all users. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A variable of an overlay. */
struct shim_variable {
    struct shim_variable *next;
    size_t name_length;
    bool is_set;
    /* NAME=value; only the name if the variable is unset. */
    char setting[];
};
typedef struct shim_variable variable;

__thread shim_overlay shim_environment;

/* ---- the overlay ---- */

/* Returns the place of the variable in the list; that behind the last one if it is not there. */
static variable **place_in(variable **list, const char *name, size_t length)
{
    while (*list != NULL && ((*list)->name_length != length || memcmp((*list)->setting, name, length) != 0)) {
        list = &(*list)->next;
    }
    return list;
}

static const variable *find(const char *name, size_t length)
{
    const variable *own = *place_in(&shim_environment.own, name, length);
    return own != NULL ? own : *place_in(&shim_environment.boot, name, length);
}

static const char *value_of(const variable *variable)
{
    return variable->is_set ? variable->setting + variable->name_length + 1 : NULL;
}

static bool is_empty(void)
{
    return shim_environment.own == NULL && shim_environment.boot == NULL;
}

static int put(const char *name, size_t length, const char *value)
{
    const size_t size = value != NULL ? strlen(value) + 1 : 0;
    variable *added = malloc(sizeof(*added) + length + 1 + size);
    if (added == NULL) {
        return -1;
    }
    added->name_length = length;
    added->is_set = value != NULL;
    memcpy(added->setting, name, length);
    added->setting[length] = value != NULL ? '=' : '\0';
    if (value != NULL) {
        memcpy(added->setting + length + 1, value, size);
    }
    variable **former = place_in(&shim_environment.own, name, length), *removed = *former;
    if (removed != NULL) {
        *former = removed->next;
        free(removed);
    }
    added->next = shim_environment.own;
    shim_environment.own = added;
    return 0;
}

void shim_environment_clear(void)
{
    while (shim_environment.own != NULL) {
        variable *next = shim_environment.own->next;
        free(shim_environment.own);
        shim_environment.own = next;
    }
}

void shim_environment_each(void (*visit)(const char *, size_t, const char *, void *), void *data)
{
    for (const variable *own = shim_environment.own; own != NULL; own = own->next) {
        visit(own->setting, own->name_length, value_of(own), data);
    }
    for (const variable *boot = shim_environment.boot; boot != NULL; boot = boot->next) {
        if (*place_in(&shim_environment.own, boot->setting, boot->name_length) == NULL) {
            visit(boot->setting, boot->name_length, value_of(boot), data);
        }
    }
}

/* ---- replacements of libc functions ---- */

/* Whether it is a library that reads the environment once, for the process: the names of libxml2's catalogs, ICU's time
 * zone, libldap's settings. They are those of the server, not of the request that is the first to use the library. */
static bool reads_once(const void *caller)
{
    static const char *const libraries[] = {"libxml2", "libicu", "libldap"};
    const char *name = shim_library_at(caller);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0) {
            return true;
        }
    }
    return false;
}

char *getenv(const char *name)
{
    if (!is_empty()) {
        const variable *found = find(name, strlen(name));
        if (found != NULL && !reads_once(SHIM_CALLER)) {
            return (char *)value_of(found);
        }
    }
    return NEXT(getenv)(name);
}

int setenv(const char *name, const char *value, int overwrite)
{
    if (!shim_is_in_request()) {
        return NEXT(setenv)(name, value, overwrite);
    }
    if (!overwrite && getenv(name) != NULL) {
        return 0;
    }
    return put(name, strlen(name), value);
}

int unsetenv(const char *name)
{
    return shim_is_in_request() ? put(name, strlen(name), NULL) : NEXT(unsetenv)(name);
}

int putenv(char *setting)
{
    if (!shim_is_in_request()) {
        return NEXT(putenv)(setting);
    }
    const char *equals = strchr(setting, '=');
    if (equals == NULL) {
        return unsetenv(setting);
    }
    return put(setting, (size_t)(equals - setting), equals + 1);
}

/* ---- for child processes ---- */

typedef struct merging {
    char **settings;
    size_t count;
} merging;

static void count_setting(const char *name, size_t length, const char *value, void *data)
{
    (void)name;
    (void)length;
    ((merging *)data)->count += value != NULL;
}

static void add_setting(const char *setting, size_t length, const char *value, void *data)
{
    merging *merging = data;
    (void)length;
    if (value != NULL) {
        merging->settings[merging->count++] = (char *)setting;
    }
}

bool shim_environment_merge(char ***out)
{
    merging merging = {.count = 1};
    *out = NULL;
    if (is_empty()) {
        return true;
    }
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        merging.count++;
    }
    shim_environment_each(count_setting, &merging);
    *out = merging.settings = malloc(merging.count * sizeof(char *));
    if (merging.settings == NULL) {
        return false;
    }
    merging.count = 0;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        if (equals == NULL || find(*at, (size_t)(equals - *at)) == NULL) {
            merging.settings[merging.count++] = *at;
        }
    }
    shim_environment_each(add_setting, &merging);
    merging.settings[merging.count] = NULL;
    return true;
}

void shim_environment_become(void)
{
    char **merged;
    if (shim_environment_merge(&merged) && merged != NULL) {
        /* Its strings are those of the overlay. */
        environ = merged;
        shim_environment = (shim_overlay){0};
    }
}

/* ---- requests ---- */

void shim_environment_lend(const char *name, const char *value)
{
    if (getenv(name) == NULL) {
        (void)put(name, strlen(name), value);
    }
}

/* ---- the environment of the process, as $_SERVER has it ---- */

/* It is read once, into an immutable array of interned strings, so that a request gets a copy without counting a
 * reference or hashing a name. putenv() never changes the process's environment (php/libc/environment.c), so the array
 * stays valid. */

static zend_array variables;

/* See sapi/cgi.rs. */
static const char *const always_set[] = {"DOCUMENT_ROOT", "SERVER_SOFTWARE"};

static bool is_left_out(const char *name, size_t length)
{
    for (size_t i = 0; i < SHIM_COUNT(always_set); i++) {
        if (strlen(always_set[i]) == length && memcmp(always_set[i], name, length) == 0) {
            return true;
        }
    }
    /* The same condition as in php_import_environment_variables(). */
    return length == 0 || memchr(name, ' ', length) != NULL || memchr(name, '.', length) != NULL ||
           memchr(name, '[', length) != NULL || (length >= 5 && memcmp(name, "HTTP_", 5) == 0);
}

static zend_string *make_interned(const char *bytes, size_t length)
{
    zend_string *text = zend_string_init(bytes, length, 1);
    (void)zend_string_hash_val(text);
    GC_ADD_FLAGS(text, IS_STR_INTERNED | IS_STR_PERMANENT);
    return text;
}

void shim_process_variables_read(void)
{
    zend_hash_init(&variables, 64, NULL, NULL, 1);
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        const size_t length = equals != NULL ? (size_t)(equals - *at) : 0;
        if (equals == NULL || is_left_out(*at, length) || shim_process_variables_have(*at, length)) {
            continue;
        }
        zval value;
        ZVAL_INTERNED_STR(&value, make_interned(equals + 1, strlen(equals + 1)));
        zend_ulong number;
        if (ZEND_HANDLE_NUMERIC_STR(*at, length, number)) {
            zend_hash_index_add(&variables, number, &value);
        } else {
            zend_hash_add(&variables, make_interned(*at, length), &value);
        }
    }
    GC_ADD_FLAGS(&variables, GC_IMMUTABLE);
    GC_SET_REFCOUNT(&variables, 2);
}

zend_array *shim_process_variables_copy(void)
{
    return zend_array_dup(&variables);
}

uint32_t shim_process_variables_count(void)
{
    return zend_hash_num_elements(&variables);
}

bool shim_process_variables_have(const char *name, size_t length)
{
    return zend_symtable_str_exists(&variables, name, length);
}
