/* Locks that a session of a database keeps until it ends: GET_LOCK() and LOCK TABLES of MySQL, pg_advisory_lock().
 *
 * Under php-fpm, the end of a request closes its connection and frees them. On a connection that goes on, whoever waits for
 * such a lock would wait for ever. No server tells a client what its session holds, so statements are looked at. A statement
 * that hides its lock, in a procedure or a text of more than STATEMENT_MAX bytes, is not noticed.
 *
 * What the boot script has locked is kept: it may guard the worker as a whole. */
#include "compat.h"
#include "connections/held_locks.h"
#include "context/own_worker.h"

#include <string.h>

enum { ARGUMENTS_MAX = 3, STATEMENT_MIN = sizeof("LOCK TABLES t") - 1, STATEMENT_MAX = 1024 };

static bool asks_for_lock(const char *statement)
{
    static const char *const words[] = {"get_lock", "advisory_lock", "lock table"};
    const char *lock = strcasestr(statement, "lock");
    for (size_t i = 0; lock != NULL && i < sizeof(words) / sizeof(words[0]); i++) {
        const char *word = strcasestr(statement, words[i]);
        if (word != NULL && (word == statement || (word[-1] != 'n' && word[-1] != 'N'))) {
            return true;
        }
    }
    return false;
}

void shim_held_locks_note(shim_connection *connection, zend_execute_data *execute_data)
{
    if (connection->kind != SHIM_KIND_PDO && connection->kind != SHIM_KIND_MYSQLI && connection->kind != SHIM_KIND_PGSQL) {
        return;
    }
    const uint32_t count = MIN(ZEND_CALL_NUM_ARGS(execute_data), ARGUMENTS_MAX);
    for (uint32_t i = 1; i <= count && !connection->holds_locks && !connection->keeps_locks; i++) {
        const zval *argument = ZEND_CALL_ARG(execute_data, i);
        if (Z_TYPE_P(argument) == IS_STRING && Z_STRLEN_P(argument) >= STATEMENT_MIN &&
            Z_STRLEN_P(argument) <= STATEMENT_MAX && asks_for_lock(Z_STRVAL_P(argument))) {
            connection->keeps_locks = !shim_own_worker.serving && shim_own_worker.requests == 0;
            connection->holds_locks = !connection->keeps_locks;
        }
    }
}
