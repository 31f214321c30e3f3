/* The engine's marks in objects for the calls that a stack is inside of. */
#ifndef SVC_SHIM_GUARDS_H
#define SVC_SHIM_GUARDS_H

#include "compat.h"

#include <stdbool.h>

/* The guards of the magic methods that a stack is inside of, while the stack is not running. */
typedef struct shim_guards {
    struct shim_guard *list;
    size_t count;
    size_t room;
} shim_guards;

/* Lifts the guards that the running stack has set, from its innermost frame out to `bottom`. Returns false if there is
 * no memory for them or there are too many frames; then all guards are in place. */
bool shim_guards_lift(shim_guards *guards, const zend_execute_data *bottom);
void shim_guards_put_back(shim_guards *guards);
void shim_guards_free(shim_guards *guards);
/* Whether values carry marks that another stack would mistake for its own: left by a function further out on the
 * running stack, or by a suspended fiber of a script. */
bool shim_values_are_marked(const zend_execute_data *bottom);
/* Makes suspended fibers of scripts take their guards along. Call after PHP has started. */
void shim_guards_follow_fibers(void);

#endif
