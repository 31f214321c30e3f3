/* Directives.
 *
 * What the boot script has changed is the requests' starting point: while the worker serves, these values count as
 * unchanged. A request's changes travel with it: PHP keeps the list of changed directives, and each directive has a
 * handler that writes its value to where it is used. */
#include "state.h"

/* What the boot script changed, with the values from before; PHP restores them when the boot request ends. */
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
    boot_modified = EG(modified_ini_directives);
    boot_count = 0;
    boot_values = safe_emalloc(count_of(boot_modified) + 1, sizeof(*boot_values), 0);
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

/* session_set_save_handler() sets a value that its directive refuses from everybody else. What it stands for is in the
 * session's struct, which travels whole. */
static bool is_told(const zend_ini_entry *entry)
{
    return entry->on_modify != NULL && !zend_string_equals_literal(entry->name, "session.save_handler");
}

static void tell(zend_ini_entry *entry, zend_string *value, int stage)
{
    if (!is_told(entry)) {
        return;
    }
    zend_try {
        (void)entry->on_modify(entry, value, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3, stage);
    } zend_end_try();
}

/* Puts the starting point in place; returns the request's value, which is the caller's then. */
static shim_ini_value take_back(zend_ini_entry *entry)
{
    shim_ini_value own = {entry, entry->value, entry->modifiable};
    if (own.value == entry->orig_value && own.value != NULL) {
        zend_string_addref(own.value);
    }
    tell(entry, entry->orig_value, ZEND_INI_STAGE_DEACTIVATE);
    entry->value = entry->orig_value;
    entry->modifiable = entry->orig_modifiable;
    entry->modified = 0;
    entry->orig_value = NULL;
    entry->orig_modifiable = 0;
    return own;
}

void shim_ini_suspend(shim_ini_state *state)
{
    *state = (shim_ini_state){.modified = EG(modified_ini_directives)};
    EG(modified_ini_directives) = NULL;
    if (state->modified == NULL) {
        return;
    }
    state->values = safe_emalloc(count_of(state->modified) + 1, sizeof(*state->values), 0);
    zend_ini_entry *entry;
    ZEND_HASH_FOREACH_PTR(state->modified, entry) {
        if (entry->modified) {
            state->values[state->count++] = take_back(entry);
        }
    } ZEND_HASH_FOREACH_END();
}

void shim_ini_resume(shim_ini_state *state)
{
    for (uint32_t i = 0; i < state->count; i++) {
        const shim_ini_value *own = &state->values[i];
        zend_ini_entry *entry = own->entry;
        entry->orig_value = entry->value;
        entry->orig_modifiable = entry->modifiable;
        entry->modified = 1;
        /* Not the stage of a call of ini_set(): that one has effects of its own (zlib.output_compression). */
        tell(entry, own->value, ZEND_INI_STAGE_ACTIVATE);
        entry->value = own->value;
        entry->modifiable = own->modifiable;
        if (own->value == entry->orig_value && own->value != NULL) {
            zend_string_release(own->value);
        }
    }
    EG(modified_ini_directives) = state->modified;
    if (state->values != NULL) {
        efree(state->values);
    }
    *state = (shim_ini_state){0};
}

void shim_ini_end(void)
{
    shim_ini_state state;
    shim_ini_suspend(&state);
    for (uint32_t i = 0; i < state.count; i++) {
        if (state.values[i].value != NULL) {
            zend_string_release(state.values[i].value);
        }
    }
    if (state.values != NULL) {
        efree(state.values);
    }
    if (state.modified != NULL) {
        zend_hash_destroy(state.modified);
        FREE_HASHTABLE(state.modified);
    }
}
