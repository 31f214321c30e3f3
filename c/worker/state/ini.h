/* Directives that the request has changed. */
#ifndef SVC_SHIM_INI_H
#define SVC_SHIM_INI_H

#include "compat.h"

typedef struct shim_ini_value {
    zend_ini_entry *entry;
    zend_string *value;
    uint8_t modifiable;
} shim_ini_value;
typedef struct shim_ini_state {
    HashTable *modified;
    /* Allocated by malloc, and reused by later waits. */
    shim_ini_value *values;
    uint32_t count;
    uint32_t room;
} shim_ini_state;

void shim_ini_capture(void);
void shim_ini_release(void);
/* Makes room for the values that the next suspend saves. Returns false if out of memory. */
bool shim_ini_prepare(shim_ini_state *state);
void shim_ini_free(shim_ini_state *state);
void shim_ini_suspend(shim_ini_state *state);
void shim_ini_resume(shim_ini_state *state);
void shim_ini_end(void);

#endif
