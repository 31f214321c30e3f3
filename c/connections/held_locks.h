/* Locks that a session of a database keeps until it ends, whatever becomes of transactions. */
#ifndef SVC_SHIM_HELD_LOCKS_H
#define SVC_SHIM_HELD_LOCKS_H

#include "compat.h"
#include "connections/connection.h"

/* A call on the connection begins: notes whether one of its arguments is a statement that asks for such a lock. */
void shim_held_locks_note(shim_connection *connection, zend_execute_data *execute_data);

#endif
