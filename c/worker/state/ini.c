/* Directives.
 *
 * The boot script's changes are the starting point of requests: while the worker serves, these values count as
 * unchanged. A request's changes move with it: PHP keeps a list of changed directives, and each directive may have a
 * handler that writes its value to the place where it is used.
 *
 * Handlers are code of extensions: they allocate, warn about deprecated directives, and refuse values. They are
 * therefore called without any reporting (worker/engine/guard.c), and only where necessary: structs that move as a
 * whole already contain the handlers' values. */
#include "compat.h"
#include "worker/engine/engine.h"
#include "worker/state/state.h"

/* A change by the boot script, with the previous value, which PHP restores when the boot request ends. */
typedef struct boot_value {
    zend_ini_entry *entry;
    zend_string *original;
    uint8_t modifiable;
} boot_value;

static __thread HashTable *boot_modified;
static __thread boot_value *boot_values;
static __thread uint32_t boot_count;

static uint32_t count_of(const HashTable *table)
{
    return table != NULL ? zend_hash_num_elements(table) : 0;
}

void shim_ini_capture(void)
{
    boot_values = safe_emalloc(count_of(EG(modified_ini_directives)) + 1, sizeof(*boot_values), 0);
    boot_modified = EG(modified_ini_directives);
    boot_count = 0;
    EG(modified_ini_directives) = NULL;
    if (boot_modified == NULL) {
        return;
    }
    zend_ini_entry *entry;
    ZEND_HASH_FOREACH_PTR(boot_modified, entry) {
        boot_values[boot_count++] = (boot_value){entry, entry->orig_value, entry->orig_modifiable};
        entry->modified = 0;
        entry->orig_value = NULL;
        entry->orig_modifiable = 0;
    } ZEND_HASH_FOREACH_END();
}

void shim_ini_release(void)
{
    for (uint32_t i = 0; i < boot_count; i++) {
        zend_ini_entry *entry = boot_values[i].entry;
        entry->modified = 1;
        entry->orig_value = boot_values[i].original;
        entry->orig_modifiable = boot_values[i].modifiable;
    }
    EG(modified_ini_directives) = boot_modified;
    efree(boot_values);
    boot_modified = NULL;
    boot_values = NULL;
    boot_count = 0;
}

/* ---- handlers ---- */

/* Their directives are stored in a struct that moves as a whole (worker/state/php_extensions.c). Directives of the session
 * extension cannot be changed during a session, and its save handler has state beyond the directive. */
static const char *const whole_modules[] = {"session", "zlib"};

/* The values that these handlers write move too, and the handlers free the previous value, which may belong to the boot
 * script. The memory limit is set together with the rest of the request (state.c). */
static const char *const carried[] = {"assert.callback", "memory_limit", "open_basedir"};

static bool is_of_module(const zend_ini_entry *entry, const char *name)
{
    const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, name, strlen(name));
    return module != NULL && module->module_number == entry->module_number;
}

static bool calls_handler(const zend_ini_entry *entry)
{
    if (entry->on_modify == NULL || SHIM_IS_LISTED(ZSTR_VAL(entry->name), carried)) {
        return false;
    }
    for (size_t i = 0; i < SHIM_COUNT(whole_modules); i++) {
        if (is_of_module(entry, whole_modules[i])) {
            return false;
        }
    }
    return true;
}

static void call_handler(zend_ini_entry *entry, zend_string *value, int stage)
{
    if (zend_string_equals_literal(entry->name, "max_execution_time")) {
        /* The handler would arm the timer. */
        EG(timeout_seconds) = value != NULL ? ZEND_ATOL(ZSTR_VAL(value)) : 0;
    } else if (calls_handler(entry)) {
        (void)entry->on_modify(entry, value, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3, stage);
    }
}

typedef struct changes {
    HashTable *modified;
    HashPosition at;
} changes;

/* Calls the handlers with the values of the starting point. A handler that has bailed out is not called again. */
static void tell_of_starting_point(void *argument)
{
    changes *all = argument;
    zend_ini_entry *entry;
    while ((entry = zend_hash_get_current_data_ptr_ex(all->modified, &all->at)) != NULL) {
        (void)zend_hash_move_forward_ex(all->modified, &all->at);
        if (entry->modified) {
            call_handler(entry, entry->orig_value, ZEND_INI_STAGE_DEACTIVATE);
        }
    }
}

typedef struct values {
    const shim_ini_state *state;
    uint32_t next;
} values;

static void tell_of_own(void *argument)
{
    values *all = argument;
    while (all->next < all->state->count) {
        const shim_ini_value *own = &all->state->values[all->next++];
        /* Not the stage of ini_set(), which has side effects. */
        call_handler(own->entry, own->value, ZEND_INI_STAGE_ACTIVATE);
    }
}

/* ---- switching ---- */

bool shim_ini_prepare(shim_ini_state *state)
{
    const uint32_t count = count_of(EG(modified_ini_directives));
    if (count <= state->room) {
        return true;
    }
    shim_ini_value *larger = realloc(state->values, count * sizeof(*larger));
    if (larger == NULL) {
        return false;
    }
    state->values = larger;
    state->room = count;
    return true;
}

void shim_ini_free(shim_ini_state *state)
{
    free(state->values);
    *state = (shim_ini_state){0};
}

/* Puts the starting point in place; returns the request's value, which the caller then owns. */
static shim_ini_value take_back(zend_ini_entry *entry)
{
    shim_ini_value own = {entry, entry->value, entry->modifiable};
    if (own.value == entry->orig_value && own.value != NULL) {
        zend_string_addref(own.value);
    }
    entry->value = entry->orig_value;
    entry->modifiable = entry->orig_modifiable;
    entry->modified = 0;
    entry->orig_value = NULL;
    entry->orig_modifiable = 0;
    return own;
}

/* Removes and returns the list of the request's changes, and calls the handlers. */
static HashTable *take_modified(void)
{
    changes all = {.modified = EG(modified_ini_directives)};
    EG(modified_ini_directives) = NULL;
    if (all.modified != NULL) {
        zend_hash_internal_pointer_reset_ex(all.modified, &all.at);
        while (!shim_call_suppressed(tell_of_starting_point, &all)) {
        }
    }
    return all.modified;
}

void shim_ini_suspend(shim_ini_state *state)
{
    state->count = 0;
    state->modified = take_modified();
    if (state->modified == NULL) {
        return;
    }
    zend_ini_entry *entry;
    ZEND_HASH_FOREACH_PTR(state->modified, entry) {
        if (entry->modified && state->count < state->room) {
            state->values[state->count++] = take_back(entry);
        }
    } ZEND_HASH_FOREACH_END();
}

void shim_ini_resume(shim_ini_state *state)
{
    values all = {.state = state};
    while (state->count > 0 && !shim_call_suppressed(tell_of_own, &all)) {
    }
    for (uint32_t i = 0; i < state->count; i++) {
        const shim_ini_value *own = &state->values[i];
        zend_ini_entry *entry = own->entry;
        entry->orig_value = entry->value;
        entry->orig_modifiable = entry->modifiable;
        entry->modified = 1;
        entry->value = own->value;
        entry->modifiable = own->modifiable;
        if (own->value == entry->orig_value && own->value != NULL) {
            zend_string_release(own->value);
        }
    }
    EG(modified_ini_directives) = state->modified;
    state->modified = NULL;
    state->count = 0;
}

void shim_ini_end(void)
{
    HashTable *modified = take_modified();
    if (modified == NULL) {
        return;
    }
    zend_ini_entry *entry;
    ZEND_HASH_FOREACH_PTR(modified, entry) {
        if (entry->modified) {
            zend_string *value = take_back(entry).value;
            if (value != NULL) {
                zend_string_release(value);
            }
        }
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(modified);
    FREE_HASHTABLE(modified);
}
