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

typedef struct overlay_entry {
    struct overlay_entry *next;
    size_t name_length;
    /* NULL means unset. Otherwise points past the name, in the same block. */
    const char *value;
    char name[];
} overlay_entry;

static __thread overlay_entry *overlay;
/* The variables that the boot script of this worker has set. */
static __thread overlay_entry *boot_overlay;

/* ---- the overlay ---- */

static overlay_entry *find_in(overlay_entry *list, const char *name, size_t length)
{
    for (overlay_entry *entry = list; entry != NULL; entry = entry->next) {
        if (entry->name_length == length && memcmp(entry->name, name, length) == 0) {
            return entry;
        }
    }
    return NULL;
}

static overlay_entry *find(const char *name, size_t length)
{
    overlay_entry *entry = find_in(overlay, name, length);
    return entry != NULL ? entry : find_in(boot_overlay, name, length);
}

static bool is_empty(void)
{
    return overlay == NULL && boot_overlay == NULL;
}

static void remove_own(const char *name, size_t length)
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

static int put(const char *name, size_t length, const char *value)
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
    remove_own(name, length);
    entry->next = overlay;
    overlay = entry;
    return 0;
}

static void free_list(overlay_entry **list)
{
    while (*list != NULL) {
        overlay_entry *next = (*list)->next;
        free(*list);
        *list = next;
    }
}

void shim_environment_each(void (*visit)(const char *, size_t, const char *, void *), void *data)
{
    for (const overlay_entry *entry = overlay; entry != NULL; entry = entry->next) {
        visit(entry->name, entry->name_length, entry->value, data);
    }
    for (const overlay_entry *entry = boot_overlay; entry != NULL; entry = entry->next) {
        if (find_in(overlay, entry->name, entry->name_length) == NULL) {
            visit(entry->name, entry->name_length, entry->value, data);
        }
    }
}

/* ---- replacements of libc functions ---- */

char *getenv(const char *name)
{
    if (!is_empty()) {
        const overlay_entry *entry = find(name, strlen(name));
        if (entry != NULL) {
            return (char *)entry->value;
        }
    }
    return LIBC(getenv)(name);
}

int setenv(const char *name, const char *value, int overwrite)
{
    if (!shim_is_in_request()) {
        return LIBC(setenv)(name, value, overwrite);
    }
    if (!overwrite && getenv(name) != NULL) {
        return 0;
    }
    return put(name, strlen(name), value);
}

int unsetenv(const char *name)
{
    return shim_is_in_request() ? put(name, strlen(name), NULL) : LIBC(unsetenv)(name);
}

int putenv(char *setting)
{
    if (!shim_is_in_request()) {
        return LIBC(putenv)(setting);
    }
    const char *equals = strchr(setting, '=');
    if (equals == NULL) {
        return unsetenv(setting);
    }
    return put(setting, (size_t)(equals - setting), equals + 1);
}

/* ---- for child processes ---- */

/* One block, produced in two passes: the first one writes nothing and computes the size. */
typedef struct merging {
    char **settings;
    char *text;
    size_t count;
    size_t size;
} merging;

static void merge_entry(const char *name, size_t length, const char *value, void *data)
{
    merging *merging = data;
    if (value == NULL) {
        return;
    }
    size_t value_size = strlen(value) + 1;
    if (merging->settings != NULL) {
        char *setting = merging->text + merging->size;
        memcpy(setting, name, length);
        setting[length] = '=';
        memcpy(setting + length + 1, value, value_size);
        merging->settings[merging->count] = setting;
    }
    merging->count++;
    merging->size += length + 1 + value_size;
}

static void merge(merging *merging)
{
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        if (equals != NULL && find(*at, (size_t)(equals - *at)) != NULL) {
            continue;
        }
        if (merging->settings != NULL) {
            merging->settings[merging->count] = *at;
        }
        merging->count++;
    }
    shim_environment_each(merge_entry, merging);
    if (merging->settings != NULL) {
        merging->settings[merging->count] = NULL;
    }
}

bool shim_environment_merge(char ***out)
{
    *out = NULL;
    if (is_empty()) {
        return true;
    }
    merging merging = {0};
    merge(&merging);
    size_t table = (merging.count + 1) * sizeof(char *);
    char **settings = malloc(table + merging.size);
    if (settings == NULL) {
        return false;
    }
    merging.settings = settings;
    merging.text = (char *)settings + table;
    merging.count = merging.size = 0;
    merge(&merging);
    *out = settings;
    return true;
}

void shim_environment_become(void)
{
    char **merged;
    if (shim_environment_merge(&merged) && merged != NULL) {
        environ = merged;
        free_list(&overlay);
        free_list(&boot_overlay);
    }
}

/* ---- requests ---- */

void shim_environment_lend(const char *name, const char *value)
{
    if (getenv(name) == NULL) {
        (void)put(name, strlen(name), value);
    }
}

void shim_environment_clear(void)
{
    free_list(&overlay);
}

void shim_environment_capture(void)
{
    boot_overlay = overlay;
    overlay = NULL;
}

void shim_environment_release(void)
{
    overlay = boot_overlay;
    boot_overlay = NULL;
}

void *shim_environment_take(void)
{
    overlay_entry *own = overlay;
    overlay = NULL;
    return own;
}

void shim_environment_give(void *own)
{
    overlay = own;
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
    for (size_t i = 0; i < sizeof(always_set) / sizeof(always_set[0]); i++) {
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
