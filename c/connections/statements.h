/* What statements leave in the session of a connection, as far as their words tell. */
#ifndef SVC_SHIM_STATEMENTS_H
#define SVC_SHIM_STATEMENTS_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

typedef enum shim_effect {
    /* Later statements may find something else than before. */
    SHIM_LEAVES_STATE = 1,
    /* An ID may have been made that later statements can ask for. */
    SHIM_LEAVES_ID = 2,
    /* A lock may be held until the session ends. */
    SHIM_LEAVES_LOCK = 4,
    /* It asks for an ID that an earlier one has made. */
    SHIM_ASKS_FOR_ID = 8,
} shim_effect;

/* Those of a call that is about to be made: of its statement, or of the one that was prepared earlier. `subject` is what
 * the call is about, the connection itself or a statement of it. Keeps what a prepared one will leave. With
 * `locks_only`, others may be missing. */
unsigned shim_statement_effects(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data,
                                bool locks_only);

#endif
