/* The state of mysqli's objects. */
#ifndef SVC_SHIM_MYSQLI_H
#define SVC_SHIM_MYSQLI_H

#include "compat.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether the connection is open. */
bool shim_mysqli_is_open(zend_object *object);
bool shim_mysqli_in_transaction(zend_object *object);
/* Whether no reply is pending or partly unread. */
bool shim_mysqli_is_idle(zend_object *object);
/* Whether a query was sent whose response has not been read at all. */
bool shim_mysqli_awaits_answer(zend_object *object);
/* Marks the connection as lost: its next use fails with "server has gone away". */
void shim_mysqli_lose(zend_object *object);
/* Whether an unbuffered result has not been read to its end. */
bool shim_mysqli_is_unread(zend_object *result);

/* Returns mysqlnd's connection; NULL if it is not open. PDO has one, too. */
void *shim_mysqli_library_connection(zend_object *object);

/* The results of the last statement that mysqlnd keeps. */
typedef struct shim_mysqlnd_figures {
    uint64_t affected_rows;
    uint64_t last_insert_id;
    unsigned warning_count;
    unsigned field_count;
    /* 0 after success. */
    unsigned error;
    char sql_state[6];
    char message[513];
} shim_mysqlnd_figures;

/* Both do nothing if the connection is NULL. */
void shim_mysqlnd_read_figures(const void *connection, shim_mysqlnd_figures *figures);
void shim_mysqlnd_write_figures(void *connection, const shim_mysqlnd_figures *figures);
/* Whether no reply is pending or partly unread. */
bool shim_mysqlnd_is_idle(const void *connection);
/* The same as shim_mysqli_lose(). */
void shim_mysqlnd_lose(void *connection);

#endif
