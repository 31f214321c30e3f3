/* What the engine notes in objects about the calls that a stack is inside of. */
#ifndef SVC_SHIM_GUARDS_H
#define SVC_SHIM_GUARDS_H

#include "compat.h"

#include <stdbool.h>

/* The guards of the magic methods that a stack is inside of, while it is not running. */
typedef struct shim_guards {
    struct shim_guard *list;
    size_t count;
    size_t room;
} shim_guards;

/* Takes the guards away that the running stack holds, from its innermost frame out to `bottom`. Returns false if there is no
 * memory for them or too many frames; then all are in place. */
bool shim_guards_lift(shim_guards *guards, const zend_execute_data *bottom);
void shim_guards_put_back(shim_guards *guards);
void shim_guards_free(shim_guards *guards);
/* Whether there are marks on values that somebody else would take for his own: a function that leaves them calls what runs,
 * or a fiber of a script that is suspended. */
bool shim_values_are_marked(const zend_execute_data *bottom);
/* Has the fibers of scripts take theirs with them. After PHP has started. */
void shim_guards_follow_fibers(void);

#endif
