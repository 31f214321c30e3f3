/* The state of SQLite connections.
 *
 * PHP has no function that reports whether a transaction is open, and does not install this extension's header. The
 * functions are looked up in the SQLite library that PHP uses, whose interface is stable. Without them, the state of a
 * connection is unknown, and nothing on it is ended. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/connections/connections.h"

#include <dlfcn.h>

enum { SQLITE_DONE_WELL = 0 };

/* Repeats a failed lookup: an extension that is loaded later may bring the library. RTLD_DEFAULT, unlike shim_library(),
 * finds the executable's replacements first: sqlite3_exec() and sqlite3_reset() go through php/bailout/sqlite.c. */
static void *function_of(void **slot, const char *name)
{
    void *function = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (function == NULL) {
        function = dlsym(RTLD_DEFAULT, name);
        void *library = function == NULL ? NEXT(dlopen)("libsqlite3.so.0", RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (library != NULL) {
            function = dlsym(library, name);
            dlclose(library);
        }
        __atomic_store_n(slot, function, __ATOMIC_RELAXED);
    }
    return function;
}

/* Calls a function of SQLite; evaluates to `otherwise` if it does not exist. */
#define SQLITE(type, name, otherwise, parameters, ...)                                              \
    __extension__({                                                                                 \
        static void *slot;                                                                          \
        type(*const function) parameters = (type(*) parameters)function_of(&slot, "sqlite3_" #name); \
        function != NULL ? function(__VA_ARGS__) : (otherwise);                                     \
    })

#define SQLITE_DO(name, parameters, ...)                                                            \
    do {                                                                                            \
        static void *slot;                                                                          \
        void(*const function) parameters = (void(*) parameters)function_of(&slot, "sqlite3_" #name); \
        if (function != NULL) {                                                                     \
            function(__VA_ARGS__);                                                                  \
        }                                                                                           \
    } while (0)

/* The extension's struct begins like this in all versions of PHP. */
typedef struct database_object {
    int is_open;
    void *database;
} database_object;

void *shim_sqlite_of(zend_object *object)
{
    const database_object *own = (const database_object *)((const char *)object - object->handlers->offset);
    return own->is_open != 0 ? own->database : NULL;
}

void *shim_sqlite_database(const shim_connection *connection)
{
    return connection->object == NULL             ? NULL
           : connection->kind == SHIM_KIND_SQLITE ? shim_sqlite_of(connection->object)
           : connection->kind == SHIM_KIND_PDO    ? shim_pdo_sqlite(connection->object)
                                                  : NULL;
}

int64_t shim_sqlite_row_id(void *database)
{
    return database != NULL ? SQLITE(int64_t, last_insert_rowid, 0, (void *), database) : 0;
}

void shim_sqlite_set_row_id(void *database, int64_t row_id)
{
    if (database != NULL) {
        SQLITE_DO(set_last_insert_rowid, (void *, int64_t), database, row_id);
    }
}

bool shim_sqlite_in_transaction(void *database)
{
    return database != NULL && SQLITE(int, get_autocommit, 1, (void *), database) == 0;
}

static bool execute(void *database, const char *command)
{
    return SQLITE(int, exec, -1, (void *, const char *, void *, void *, char **), database, command, NULL, NULL, NULL) ==
           SQLITE_DONE_WELL;
}

static void *next_busy(void *database, void *statement)
{
    do {
        statement = SQLITE(void *, next_stmt, NULL, (void *, void *), database, statement);
    } while (statement != NULL && SQLITE(int, stmt_busy, 0, (void *), statement) == 0);
    return statement;
}

bool shim_sqlite_is_busy(void *database)
{
    return database != NULL && next_busy(database, NULL) != NULL;
}

bool shim_sqlite_roll_back(void *database)
{
    return !shim_sqlite_in_transaction(database) ||
           (execute(database, "ROLLBACK") && !shim_sqlite_in_transaction(database));
}

/* A blob is a statement without text, and must not be reset. */
static bool has_text(void *statement)
{
    return SQLITE(const char *, sql, NULL, (void *), statement) != NULL;
}

void shim_sqlite_end_statements(void *database)
{
    for (void *one = NULL; database != NULL && (one = next_busy(database, one)) != NULL;) {
        if (has_text(one)) {
            (void)SQLITE(int, reset, 0, (void *), one);
        }
    }
}

void shim_sqlite_end_all(void *database)
{
    if (database != NULL && (shim_sqlite_in_transaction(database) || execute(database, "BEGIN"))) {
        (void)execute(database, "ROLLBACK");
    }
}
