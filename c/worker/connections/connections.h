/* Which request may use a connection, and what is left on it. */
#ifndef SVC_WORKER_CONNECTIONS_H
#define SVC_WORKER_CONNECTIONS_H

#include "compat.h"
#include "php/bailout/bailout.h"
#include "worker/connections/owners/owners.h"
#include "worker/engine/engine.h"
#include "worker/stack/stack.h"

/* ---- The connections of an object that several requests use one after the other (exclusive.c) ---- */

/* Called when the running request passes the object on to a later request, which then uses it alone: makes every
 * connection that the request has opened and that the object refers to, directly or indirectly, exclusive. */
void shim_connections_set_exclusive(zend_object *object);

/* ---- Records of connections (connection.c) ---- */

/* Records of a thread's connections, and of the objects that belong to them: statements, results, rows.
 *
 * PHP's extensions have no notion of owners, so a record is kept for each of their objects, from its creation to its end;
 * it is found by the object's handle. An object without a record (out of memory) is treated like a connection that the boot
 * script opened: its users may wait longer than necessary, but never share it.
 *
 * All state is thread-local, as objects are. */

/* The kinds of objects; connection.c has a row for each. */
typedef enum shim_kind {
    SHIM_KIND_PDO = 0,
    SHIM_KIND_PDO_STATEMENT,
    SHIM_KIND_PDO_ROW,
    SHIM_KIND_MYSQLI,
    SHIM_KIND_MYSQLI_STATEMENT,
    SHIM_KIND_MYSQLI_RESULT,
    SHIM_KIND_PGSQL,
    SHIM_KIND_PGSQL_RESULT,
    SHIM_KIND_PGSQL_LOB,
    SHIM_KIND_REDIS,
    SHIM_KIND_REDIS_ARRAY,
    SHIM_KIND_REDIS_CLUSTER,
    SHIM_KIND_REDIS_SENTINEL,
    SHIM_KIND_MEMCACHED,
    SHIM_KIND_SQLITE,
    SHIM_KIND_SQLITE_STATEMENT,
    SHIM_KIND_SQLITE_RESULT,
    SHIM_KIND_CURL,
    SHIM_KIND_CURL_MULTI,
    SHIM_KIND_SOAP_CLIENT,
    SHIM_KINDS,
} shim_kind;

/* A request that uses a connection at the same time as others (users.c). */
typedef struct shim_user {
    const shim_fiber *fiber;
    struct shim_user *next;
} shim_user;

#define SHIM_SEVERAL UINT64_MAX

/* The head of a record that a connection keeps for a request. Freed with the connection. */
typedef struct shim_kept {
    uint64_t request;
    struct shim_kept *next;
} shim_kept;

typedef struct shim_connection {
    shim_owned owned;
    /* NULL once the object is freed: the records that belong to it may live longer. */
    zend_object *object;
    shim_kind kind;
    /* The connection of a statement or of an alias, or the multi handle that an easy handle has been added to. */
    struct shim_connection *parent;
    /* A persistent connection that several objects may have: the library's handle, which identifies it. */
    const void *handle;
    /* One more object of a persistent connection. Only connection.c sees such records. */
    bool is_alias;
    /* It was not at rest when its last object was freed. */
    bool is_left_open;
    /* The request that has used the connection since it was last free, and cleans it up. Without owners, the latest such
     * request; `earlier` lists the others. */
    const shim_fiber *user;
    shim_user *earlier;
    /* Its last user has ended in the middle of a call, which a suspended fiber may still continue. */
    bool is_left;
    /* A call was cut short: a refused wait made the library believe that its connection is lost. */
    bool is_cut;
    /* A multi handle: the number of its easy handles. */
    unsigned held;
    /* Calls have left a state that only particular commands end (Redis: a watch, a subscription, a block of commands;
     * Memcached: requested values that were not fetched). */
    bool is_watching;
    bool is_subscribed;
    bool is_in_block;
    /* A persistent store, of whose socket other objects may have a record of their own. */
    bool may_share_socket;
    /* A persistent store: all of a thread may be one connection. */
    bool is_persistent;
    /* Serial numbers of the request that has changed the session's state (statements.c), and of the one that has generated
     * the session's last ID (last_ids.c). */
    uint64_t session_state_request;
    uint64_t last_id_request;
    /* The request whose only change of the session is an attempt to acquire a lock, the outcome of which it has not
     * fetched; and whether `locked_by` was 0 before the attempt. */
    uint64_t lock_attempt_request;
    bool was_unlocked;
    /* The figures of requests that have lent the connection (statement_status.c). */
    shim_kept *kept;
    /* The effects of the prepared statement, or of the connection's latest statement (statements.c). */
    unsigned effects;
    /* A PDO statement that attempts to acquire a lock has been executed, and its outcome was not fetched. query() sets it on
     * the connection, from which the new statement takes it. */
    bool has_unread_try;
    /* The databases that requests have selected in a store (redis_memcached.c). */
    struct shim_selections *selections;
    /* A store's options that requests have changed (options.c); the former value of the one that the running call
     * changes. */
    shim_kept *options;
    zval option_before;
    /* svc is making a call on it, which leaves no trace in the records of requests (options.c, last_ids.c). */
    bool is_in_own_call;
    /* The number of rows fetched from a statement, and the serial number of the request that has fetched them. */
    zend_long fetched;
    uint64_t fetched_by;
    /* libcurl's handles: of an easy handle in a multi handle, and of that multi handle. */
    shim_transfer_pair transfer;
    /* The serial number of the request that may hold a session lock, SHIM_SEVERAL for more than one, 0 for none. */
    uint64_t locked_by;
    /* The boot script may hold a session lock, which is not released. */
    bool keeps_locks;
    bool is_destructed;
    /* One reference for the object, each record that belongs to it, each call in progress, and each function that works
     * with it. */
    unsigned references;
    struct shim_connection *next;
} shim_connection;

/* Returns the library's handle of a PgSql or Memcached object: the first member of the extension's struct. */
static inline void *shim_library_handle(const zend_object *object)
{
    return *(void *const *)((const char *)object - object->handlers->offset);
}

/* Whether it belongs to a request for a call only: a curl handle or a SOAP client. */
static inline bool shim_connection_is_lease(const shim_connection *connection)
{
    return connection->owned.is_leased && !connection->owned.is_passed_on;
}

/* Returns the record for a new object; NULL if out of memory. */
shim_connection *shim_connection_add(zend_object *object, shim_kind kind);
/* Returns the record of an object; NULL if it has none. The objects of a persistent connection have the same one. */
shim_connection *shim_connection_find(const zend_object *object);
/* Called when an object turns out to have a persistent connection: it gets the record of the connection's other objects.
 * Returns that. */
shim_connection *shim_connection_join(shim_connection *connection, const void *handle);
/* Whether the connection has no other object. */
bool shim_connection_has_one_object(const shim_connection *connection);
/* Notes that the object's destructor is called. Returns false if that has happened before. */
bool shim_connection_destruct(const zend_object *object);
/* Removes the record of an object that is being freed; that of a persistent connection stays for its other objects. */
void shim_connection_remove(const zend_object *object);
shim_connection *shim_connection_addref(shim_connection *connection);
void shim_connection_delref(shim_connection *connection);
/* Sets the parent of the record. */
void shim_connection_set_parent(shim_connection *connection, shim_connection *parent);
/* Whether the running call on it was made by svc itself. */
bool shim_connection_is_in_own_call(shim_connection *connection);
/* Returns the connection itself: for a statement, the one that has prepared it. */
shim_connection *shim_connection_root(shim_connection *connection);
/* Returns a record that passes the test; NULL if none does. The test must not change anything. */
shim_connection *shim_connection_find_if(bool (*test)(const shim_connection *connection, const void *argument),
                                       const void *argument);
/* Frees the records of persistent connections that have no object and keep nothing for a request. */
void shim_connections_forget_unused(void);
/* Frees this thread's records after its objects were destroyed. */
void shim_connections_forget(void);

/* Whether objects of the kind are connections, rather than part of one. */
bool shim_kind_is_connection(shim_kind kind);
/* Whether they are stores: connections without a session. */
bool shim_kind_is_store(shim_kind kind);
/* Returns the unit of ownership: the connection, or the placeholder for it and others. */
shim_owned *shim_connection_owned(shim_connection *root);
/* Whether they belong to a request for one call only. */
bool shim_kind_is_leased(shim_kind kind);
/* Returns the name of the class, in lower case. */
const char *shim_kind_class(shim_kind kind);

/* ---- Waits of scripts for connections, and Svc\ConnectionBusyError (busy.c) ---- */

/* Whether connections are taken before they are used: in a request that can wait, and in code that runs between requests. */
bool shim_connections_have_owners(void);
/* The result of a wait for a connection. */
typedef struct shim_taken {
    shim_acquisition result;
    /* The name of its kind if it is leased; otherwise NULL. */
    const char *lease;
} shim_taken;

/* shim_connection_take in two steps: between them, the caller releases what it holds, since the second may not return. */
shim_taken shim_connection_wait(shim_connection *connection);
bool shim_connection_is_taken(shim_taken taken);
/* Waits until the running request has the connection that the object belongs to; NULL stands for one without a record.
 * Returns false, with an exception thrown, if it must not be used. Does not return at the time limit of the request. */
bool shim_connection_take(shim_connection *connection);
/* Acquires the shared ownership before the caller opens a connection that falls under it. */
bool shim_connection_take_shared(void);
/* Acquires all persistent stores of the thread, which `store` is about to join. */
bool shim_connection_take_stores(shim_connection *store);
/* Whether the object may be used without waiting. */
bool shim_connection_is_free(shim_connection *connection);
/* Takes it if no wait is needed; never throws. Leases, and anything between requests, are only checked. */
bool shim_connection_try_take(shim_connection *connection);
/* Throws a Svc\ConnectionBusyError. */
void shim_busy_error_throw(const char *message);
void shim_busy_error_register(void);

/* ---- Calls on connections (calls.c) ---- */

/* A call in progress on a connection; on the caller's stack. */
typedef struct shim_call {
    /* NULL if the object has no record, or if the running code acquires nothing. */
    shim_connection *connection;
    shim_use *use;
    /* The serial number of the calling request, and its count of refused waits at that time. */
    uint64_t request;
    unsigned refusals;
} shim_call;

/* Begins a call on the connection that the object belongs to: waits until the running request has the connection. Returns
 * false, with an exception thrown, if the call must not be made. */
bool shim_call_begin(shim_call *call, zend_object *object);
/* Ends the call, even if another request runs by then. */
void shim_call_end(const shim_call *call);
/* Returns PHP's handler of a wrapped function. */
zif_handler shim_call_handler(const zend_function *function);
/* Makes the function take its connection first, unless it does already. `wrapper` finally calls shim_call_handler(). */
void shim_call_wrap(zend_function *function, zif_handler wrapper);
/* Returns false if PHP has no reserved slot left for functions. */
bool shim_calls_install(void);
/* The wrappers of ordinary functions, and of those whose first argument is a second connection. */
ZEND_NAMED_FUNCTION(shim_call_on_connection);
ZEND_NAMED_FUNCTION(shim_call_on_two_connections);

/* ---- The end of a request's use of connections (release.c) ---- */

/* Called when no script code of the request is left to run; again if later destructors have used connections. Cleans its
 * connections, closes those that cannot be cleaned, and releases all of them. May wait; runs no script code; changes the
 * request's time limit. Does nothing if the request has used none. */
void shim_connections_end(shim_fiber *fiber, const shim_checkpoint *here);
/* The same for the connections that the thread's own stack has used since it last waited for a request (users.c). */
void shim_connections_end_own_stack(void);
/* Releases what the request still owns, without cleaning: it will not run again. */
void shim_connections_leave(const shim_fiber *fiber);
/* Svc\release_connections(): void */
ZEND_NAMED_FUNCTION(shim_release_connections);

/* ---- Functions that open connections (connecting.c) ---- */

/* Returns the wrapper for a function of this name, in lower case; NULL if it opens no connection. */
zif_handler shim_connecting_wrapper(const char *name);

/* ---- The state of mysqli's objects (mysqli.c) ---- */

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

/* ---- The state of PDO's objects (pdo.c) ---- */

/* Return the connection of a statement, and the statement of a row; NULL if there is none. */
const zend_object *shim_pdo_of_statement(zend_object *statement);
const zend_object *shim_pdo_of_row(zend_object *row);
/* Whether PDO frees the connection with this object, its last one. */
bool shim_pdo_ends_with(zend_object *object);
/* Whether the driver is that of MySQL and MariaDB. */
bool shim_pdo_is_mysql(zend_object *object);
/* Whether a transaction is open. */
bool shim_pdo_in_transaction(zend_object *object);
/* Rolls an open transaction back. Returns false if that failed. */
bool shim_pdo_roll_back(zend_object *object);
/* Called when the socket has been shut down: the next use reports a lost connection, and no transaction. */
void shim_pdo_lose(zend_object *object);
/* The SQLSTATE of the last call on the connection, as PDO keeps it, and the attributes that PDO applies itself. */
typedef struct shim_pdo_state {
    char code[6];
    bool has_attributes;
    unsigned error_mode, desired_case, oracle_nulls, stringify, default_fetch_type;
} shim_pdo_state;
shim_pdo_state shim_pdo_state_of(zend_object *object);
void shim_pdo_set_state(zend_object *object, shim_pdo_state state);
/* Whether the statement has a result that may be unread. */
bool shim_pdo_has_result(zend_object *object);

/* Returns the name of the driver; NULL if there is none. */
const char *shim_pdo_driver(zend_object *object);
/* Returns the client library's connection, which drivers keep as the first member of their data. NULL if it is not open. */
void *shim_pdo_library_connection(zend_object *object);
/* Returns the number of rows in the statement's result, as far as the driver knows it. */
zend_long shim_pdo_row_count(zend_object *object);
/* Returns the sqlite3 object, if that is the driver; NULL otherwise. */
void *shim_pdo_sqlite(zend_object *object);

/* ---- Results of the last statement (statement_status.c) ---- */

/* Results of the last statement that later calls read from the connection: the generated ID, the number of affected rows,
 * the error. Each request reads those of its latest statement, even if another request has used the connection since.
 *
 * The figures on the client's side (IDs, counts and errors of mysqlnd, the row ID of SQLite, the SQLSTATE of PDO) are saved
 * when a request lends its connection, and restored when it gets the connection back. Neither sends anything to the server.
 * For IDs on the server's side, see last_ids.c. */

typedef struct shim_figures {
    shim_mysqlnd_figures mysqlnd;
    int64_t row_id;
    shim_pdo_state pdo;
} shim_figures;

/* The figures of a request that has lent the connection. */
typedef struct shim_saved_figures {
    shim_kept kept;
    shim_figures figures;
    /* The figures are saved, and not restored yet. */
    bool is_saved;
    /* The number of the session variable that holds its last ID, or 0; whether that ID is lost (last_ids.c). */
    unsigned id_kept_in;
    bool is_id_lost;
} shim_saved_figures;

/* Saves the figures of a running request that loses the connection. */
void shim_figures_save(shim_connection *connection, const shim_fiber *owner);
/* Makes the figures those of a new connection: they described a statement of a request that has ended. */
void shim_figures_clear(shim_connection *connection);
/* Restores the figures of the running request if they are saved. */
void shim_figures_restore(shim_connection *connection);
/* Frees the figures of a request that ends, on all connections. */
void shim_figures_end(const shim_fiber *fiber);
shim_figures shim_figures_read(const shim_connection *connection);
void shim_figures_write(const shim_connection *connection, const shim_figures *figures);
/* Returns the figures of a request; NULL if it has never lent the connection. */
shim_saved_figures *shim_figures_of(const shim_connection *connection, uint64_t request);
/* Returns the mysqlnd connection behind PDO or mysqli; NULL for other databases. */
void *shim_figures_mysqlnd(const shim_connection *connection);

/* ---- Generated IDs on the server (last_ids.c) ---- */

/* The last generated ID that the server keeps for a session: LAST_INSERT_ID(), lastval().
 *
 * MySQL and MariaDB can restore an earlier ID: before a request generates one, the ID of the request that has lent the
 * connection is saved in a session variable; before the lender's next statement, it is restored. PostgreSQL cannot restore
 * lastval() and currval(): a request whose ID is lost gets an error instead of another request's ID.
 *
 * FOUND_ROWS(), ROW_COUNT(), SHOW WARNINGS and changes() of SQLite are not restored: they describe the last statement of
 * any request. */

/* Saves and restores IDs before a call of the running request with these effects (statements.c). Returns false if the call
 * reads an ID that is lost. */
bool shim_last_id_is_available(shim_connection *connection, unsigned effects);

/* ---- Interception of classes and functions (intercept.c) ---- */

/* Follows the classes and functions of the loaded extensions; called before any thread runs PHP. Without owners, requests
 * do not wait for each other, but leave connections clean. Returns false if PHP has no reserved slot left for functions. */
bool shim_connections_install(bool have_owners);
/* Frees this thread's state after its objects were destroyed. */
void shim_connections_stop(void);

/* ---- foreach over statements and results, which calls none of their methods (iterators.c) ---- */

/* Makes the iterators of a class that is tracked, or of a subclass, take their connection. Called before any thread runs
 * PHP. */
void shim_iterators_track(zend_class_entry *class);

/* ---- Streams of SQLite's blobs (blobs.c) ---- */

/* Makes a stream that a call on the connection has just opened usable only for requests that own the connection. Ignores
 * other kinds of streams. */
void shim_blob_follow(php_stream *stream, shim_connection *connection);
/* Closes the connection's blobs. Their streams are empty from now on. */
void shim_blobs_end(const shim_connection *connection);
/* Returns the connection of such a stream; NULL for other streams, or once the connection is freed. */
zend_object *shim_blob_connection(const php_stream *stream);

/* ---- Streams of large objects (large_objects.c) ---- */

/* Returns the wrapper for a function of this name, in lower case; NULL if it opens no such stream. */
zif_handler shim_large_object_wrapper(const char *name);
/* Returns the connection of such a stream; NULL for other streams. */
zend_object *shim_large_object_connection(const php_stream *stream);
/* Whether it is such a stream, and another request uses its connection. */
bool shim_large_object_is_busy(const php_stream *stream);

/* ---- Operations that only libpq has (libpq.c) ---- */

/* PGTransactionStatusType, in libpq's ABI. */
enum { SHIM_PG_IDLE = 0, SHIM_PG_ACTIVE = 1, SHIM_PG_IN_TRANSACTION = 2, SHIM_PG_IN_FAILED = 3, SHIM_PG_LOST = 4 };

/* Returns the status of a connection of libpq; -1 if libpq is not loaded. */
int shim_libpq_status(const void *connection);
/* Rolls back open transactions on the connections that pg_pconnect() keeps for the thread, as ext/pgsql does at the end of
 * a request of classic mode (_rollback_transactions()). */
void shim_libpq_roll_back_persistent(void);
/* Whether one of these connections is in a transaction or an exchange. */
bool shim_libpq_persistent_is_in_transaction(void);
/* Ends what pg_trace() has begun: libpq has the FILE of a stream that is closed with its request. */
void shim_libpq_untrace_persistent(void);

/* ---- Multi handles of curl, which hold easy handles of a request (curl_multi.c) ---- */

/* Returns the wrapper for a function of this name; NULL if it needs none. */
zif_handler shim_multi_wrapper(const char *name);
/* Aborts the transfers in a multi handle whose request ends. If `was_interrupted`, because libcurl was interrupted in a
 * call or knows already, libcurl is not called. */
void shim_multi_empty(shim_connection *multi, bool was_interrupted);

/* ---- Creation, access and destruction of the objects of connections (objects.c) ---- */

/* A class of an extension whose objects have records, and PHP's functions that create objects and iterators. */
typedef struct shim_tracked_class {
    zend_class_entry *class;
    zend_object *(*create)(zend_class_entry *class);
    zend_object_iterator *(*iterate)(zend_class_entry *class, zval *object, int by_reference);
    shim_kind kind;
} shim_tracked_class;

/* Returns the row of the class that defines how objects of `class` are created; NULL if there is none. */
const shim_tracked_class *shim_tracked_class_of(const zend_class_entry *class);
/* Gives each object of the class, and of its subclasses, a record; `class` is the class of the kind itself. Called before
 * any thread runs PHP. */
void shim_objects_track(zend_class_entry *class, shim_kind kind);
/* The same for a subclass that was linked before, and so has inherited PHP's functions. */
void shim_objects_track_subclass(zend_class_entry *class);
/* Whether the object is of such a class. An object that its extension has created without calling the class's function gets
 * its record here: as the request's if `is_new`, as a free one otherwise. */
bool shim_object_is_tracked(zend_object *object, bool is_new);
/* Takes the connection for a handler that the engine calls without a reference to the object: while the request waits,
 * another one may assign to the variable that holds it. Returns with a reference; without one, and with an exception, if
 * the result is false. */
bool shim_object_hold(zend_object *object);
void shim_object_release(zend_object *object);
/* Releases unreferenced objects whose release was postponed because another request used their connection. */
void shim_objects_free_postponed(void);
void shim_objects_forget_postponed(void);
/* Called with each function that an object of such a class creates for a call, and with the record of each multi handle that
 * has been freed. Set by intercept.c. */
extern void (*shim_objects_on_function)(zend_function *function);
extern void (*shim_objects_on_multi_freed)(shim_connection *multi, bool was_interrupted);

/* ---- Options of stores (options.c) ---- */

/* Options of stores (setOption() of Redis and Memcached). A change applies to the request that has made it until that
 * request ends, and to all later calls afterwards, as if the requests of the thread ran one after the other. */

/* Applies the running request's options when it begins a call on a store that it owns. */
void shim_options_enter(shim_connection *store, zend_execute_data *execute_data);
/* Notes an option that the call has set. `is_for_all`: the option applies to all requests at once. */
void shim_options_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result, bool is_for_all);
/* Makes the changes of a request that ends apply to all requests. */
void shim_options_end(const shim_fiber *fiber);
/* Frees the changes of a store whose object is freed. */
void shim_options_forget(shim_connection *store);

/* ---- Whether a connection is at rest (at_rest.c) ---- */

/* Whether no call, unread result, copy, transaction or block of commands is under way on it. Sends nothing and runs no
 * script code: may be called at any time. */
bool shim_connection_is_at_rest(shim_connection *connection);
/* Called when a call begins: records its effects on the session, or that the request uses a store. `subject` is the
 * connection itself, or the statement on which the call is made. Returns false, with an exception thrown, if the call must
 * not be made. */
bool shim_rest_note(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data);
/* The same where connections have no owners: records locks only. */
void shim_rest_note_locks(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data);
/* Called when a call has returned: records the number of rows fetched from a statement, and whether a lock was refused. */
void shim_rest_note_rows(shim_connection *root, shim_connection *subject, const zend_execute_data *execute_data,
                         const zval *result);
/* Whether the request is in the middle of a result, or of a call, on a connection that it does not lease. */
bool shim_rest_is_broken(const shim_fiber *fiber);
/* Whether a connection of pg_pconnect() that the request has used is in a transaction: it need not have an object. */
bool shim_rest_is_in_persistent_transaction(const shim_fiber *fiber);
/* Called when the last object of a connection is being freed. The session of a persistent one goes on, and the request may
 * reach it again through a new object: until the request ends, its record stays. */
void shim_rest_note_end(shim_connection *connection);
void shim_rest_install(void);

/* ---- The state of SQLite connections (sqlite.c) ---- */

/* The state of SQLite connections, and how to end what is open on them. `database` is the sqlite3 object; NULL for one that
 * is not open. These functions call no extension; SQLite may call an authorizer of the script. */

/* Return the sqlite3 object of an SQLite3 object, and of a connection of SQLite3 or PDO; NULL for other databases. */
void *shim_sqlite_of(zend_object *object);
void *shim_sqlite_database(const shim_connection *connection);
/* Returns the row ID of the last insert. */
int64_t shim_sqlite_row_id(void *database);
void shim_sqlite_set_row_id(void *database, int64_t row_id);
bool shim_sqlite_in_transaction(void *database);
/* Whether a statement has begun and not ended. */
bool shim_sqlite_is_busy(void *database);
/* Rolls an open transaction back. Returns false if it is still open. */
bool shim_sqlite_roll_back(void *database);
/* Resets statements with unread rows; not blobs. */
void shim_sqlite_end_statements(void *database);
/* Rolls back everything that is open: a statement that a bailout has interrupted must not continue. */
void shim_sqlite_end_all(void *database);

/* ---- The effects of statements on the session of a connection, guessed from their keywords (statements.c) ---- */

typedef enum shim_effect {
    /* The results of later statements may differ. */
    SHIM_LEAVES_STATE = 1,
    /* It may generate an ID that later statements can read. */
    SHIM_LEAVES_ID = 2,
    /* A lock may be held until the session ends. */
    SHIM_LEAVES_LOCK = 4,
    /* It reads an ID that an earlier statement has generated. */
    SHIM_READS_ID = 8,
    /* It only attempts to acquire a lock, and returns a single value: the outcome. */
    SHIM_TRIES_LOCK = 16,
} shim_effect;

/* Returns the effects of a call that begins, from its text or from an earlier prepared statement. `subject` is the
 * connection itself, or the statement on which the call is made. Also records the effects of a statement that the call
 * prepares. With `locks_only`, effects other than locks may be missing. */
unsigned shim_statement_effects(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data,
                                bool locks_only);

/* ---- Stores (redis_memcached.c) ---- */

/* Called before the running request's call on a store that it has: selects the request's database, or the one from before
 * any request selected another. Waits. */
void shim_store_enter(shim_connection *store, zend_execute_data *execute_data);
/* Called when the call has returned. */
void shim_store_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result);
/* Forgets the selections of a request that has ended. */
void shim_stores_end(const shim_fiber *fiber);

/* ---- PHP's socket streams (streams.c) ---- */

/* Makes PHP's functions take the sockets of their streams. Called before any thread runs PHP. */
void shim_streams_follow(void);

/* ---- Resets a connection for the next request, by kind (reset.c) ---- */

/* Whether `one` is a PDO statement of the connection with a result that may be unread. For shim_connection_find_if(). */
bool shim_pdo_is_executed_statement(const shim_connection *one, const void *connection);

/* Rolls back an open transaction, drains or closes unread results. Returns whether the next request can use the connection.
 * Runs no script code; may throw, raise errors and bail out. */
bool shim_connection_reset(shim_connection *connection);
/* Executes a statement without rows. Returns whether it succeeded. May throw, raise errors and bail out, too. */
bool shim_connection_execute(shim_connection *connection, const char *statement);
/* Releases session locks that a request has left (statements.c). May throw, raise errors and bail out, too. */
bool shim_connection_unlock(shim_connection *connection);
/* Whether a transaction is open, or a state of a store that only particular commands end. */
bool shim_connection_in_transaction(shim_connection *connection);
/* Whether the server has closed the connection, as far as the library knows. Runs no script code. */
bool shim_connection_is_lost(const shim_connection *connection);
/* Whether the extension reconnects such a connection once it is closed. */
bool shim_connection_reconnects(const shim_connection *connection);
/* Closes the connection: a call on it was interrupted, or it could not be reset. */
void shim_connection_close(shim_connection *connection);

/* ---- Users of a connection (users.c) ---- */

/* Users of a connection, which have to leave it clean.
 *
 * With owners (owners/ownership.c), a connection has one user at a time. Without them, in worker mode and in tasks, requests
 * that wait (Svc\sleep(), a lock) may use one connection at the same time, and the last of them cleans up: what an earlier
 * one has left open may be part of the work of the others.
 *
 * The thread's own stack counts as one user, from one wait for a request to the next: the boot script and the code between
 * and in the requests of frankenphp_handle_request(), which may begin something in a request and end it afterwards. So do
 * destructors that the collector runs between requests. */

/* Returns the current user; NULL if PHP cleans up: in a request of classic mode, and in a forked child, which shares its
 * connections with the server. */
const shim_fiber *shim_user_now(void);
/* Returns the user that stands for the thread's own stack. */
const shim_fiber *shim_user_of_own_stack(void);
/* Notes the current user of a connection without an owner. */
void shim_user_note(shim_connection *connection);
/* Notes the current user of the connections that pg_pconnect() keeps, whose objects may be freed before the request ends. */
void shim_user_note_persistent(void);
bool shim_user_is_noted(const shim_connection *connection, const shim_fiber *user);
/* Forgets one user of the connection. Returns whether no other one is left. */
bool shim_user_leave(shim_connection *connection, const shim_fiber *user);
/* The same for the persistent connections; false if it has used none. */
bool shim_user_leave_persistent(const shim_fiber *user);
bool shim_user_has_used_persistent(const shim_fiber *user);
/* Whether the thread's own stack has used any connection since the last call of this function. */
bool shim_user_take_own_stack(void);

#endif
