/* The effects of statements on the session of a connection, guessed from their keywords. */
#ifndef SVC_SHIM_STATEMENTS_H
#define SVC_SHIM_STATEMENTS_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

typedef enum shim_effect {
    /* The results of later statements may differ. */
    SHIM_LEAVES_STATE = 1,
    /* It may generate an ID that later statements can read. */
    SHIM_LEAVES_ID = 2,
    /* A lock may be held until the session ends. */
    SHIM_LEAVES_LOCK = 4,
    /* It reads an ID that an earlier statement has generated. */
    SHIM_ASKS_FOR_ID = 8,
} shim_effect;

/* Returns the effects of a call that begins, from its text or from an earlier prepared statement. `subject` is the
 * connection itself, or the statement on which the call is made. Also records the effects of a statement that the call
 * prepares. With `locks_only`, effects other than locks may be missing. */
unsigned shim_statement_effects(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data,
                                bool locks_only);

#endif
