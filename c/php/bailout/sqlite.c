/* Calls to SQLite, whose callbacks run script code: functions, aggregates, collations and authorizers.
 *
 * A bailout out of such a callback (memory limit, time limit, fatal error) would leave SQLite in the middle of its
 * function. A statement of sqlite3_exec() would never end, so that the connection could not be closed: its lock on the
 * file would be held until the process ends. The mutex of a shared cache would stay locked, and every thread that uses the
 * cache would block. The bailout therefore stops before it reaches SQLite, makes SQLite abandon the statement, and
 * continues when SQLite has returned.
 *
 * The executable's definitions precede those of SQLite, and wrap PHP's callbacks. SQLite's header is not needed: its
 * interface is stable.
 *
 * SQLite3::query() and querySingle() enter their statement into PHP's list after its first step. A bailout out of that
 * step leaves a statement that PHP never finalizes, and SQLite closes no connection with such a statement. It is
 * finalized when the objects of the request have been freed, as its object would reset it.
 *
 * Some pragmas change settings that SQLite keeps for the process: the limits of its memory, which a pragma cannot raise
 * again, and the folder of its temporary files. SQLite asks the authorizer of a connection about each pragma; one without
 * an authorizer gets `authorize`.
 *
 * Invariant. `running` is set while SQLite itself runs, and never while script code runs. A request that waits inside
 * SQLite (worker/hooks/sleeps.c) keeps its own value: other requests run SQLite meanwhile. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <link.h>
#include <stdlib.h>
#include <sys/queue.h>

typedef void sqlite3;
typedef void sqlite3_stmt;
typedef void sqlite3_context;
typedef void sqlite3_value;

enum { SQLITE_OK = 0, SQLITE_ERROR = 1 };
/* An action that an authorizer checks, and its results. */
enum { SQLITE_PRAGMA = 19, SQLITE_DENY = 1, SQLITE_IGNORE = 2 };

typedef void function(sqlite3_context *context, int count, sqlite3_value **values);
typedef void finish(sqlite3_context *context);
typedef int collation(void *data, int one_length, const void *one, int other_length, const void *other);
typedef int authorizer(void *data, int action, const char *first, const char *second, const char *database,
                       const char *origin);
typedef int row_reader(void *data, int count, char **values, char **names);

int sqlite3_open_v2(const char *name, sqlite3 **database, int flags, const char *system);
int sqlite3_create_function(sqlite3 *database, const char *name, int count, int flags, void *data, function *call,
                            function *step, finish *end);
int sqlite3_create_collation(sqlite3 *database, const char *name, int encoding, void *data, collation *compare);
int sqlite3_set_authorizer(sqlite3 *database, authorizer *php, void *data);
int sqlite3_exec(sqlite3 *database, const char *text, row_reader *read, void *data, char **error);
int sqlite3_prepare_v2(sqlite3 *database, const char *text, int length, sqlite3_stmt **statement, const char **rest);
int sqlite3_step(sqlite3_stmt *statement);
int sqlite3_reset(sqlite3_stmt *statement);
int sqlite3_finalize(sqlite3_stmt *statement);
int sqlite3_close(sqlite3 *database);
int sqlite3_close_v2(sqlite3 *database);
void sqlite3_interrupt(sqlite3 *database);
void sqlite3_result_error(sqlite3_context *context, const char *text, int length);
sqlite3 *sqlite3_db_handle(sqlite3_stmt *statement);

static void *function_of_sqlite(void **slot, const char *name)
{
    static const char *const files[] = {"libsqlite3.so.0"};
    return shim_library(slot, name, files, SHIM_COUNT(files));
}

#define SQLITE(name) ((__typeof__(&name))function_of_sqlite(SHIM_SLOT, #name))
/* Calls SQLite's function; `refusal` is the result if SQLite has an unknown name. */
#define CALL(name, refusal, ...)                              \
    __extension__({                                           \
        const __typeof__(&name) sqlite_s = SQLITE(name);      \
        sqlite_s != NULL ? sqlite_s(__VA_ARGS__) : (refusal); \
    })

/* ---- the call in progress ---- */

/* A call to SQLite that may call back. */
typedef struct {
    bool was_left;
    sqlite3 *database;
} query;

static __thread query *running;

void *shim_query_suspend(void)
{
    query *const suspended = running;
    running = NULL;
    return suspended;
}

void shim_query_resume(void *suspended)
{
    running = suspended;
}

/* SQLite calls its own functions, too: only the outermost call is one of PHP. */
static bool begins(query *own, sqlite3 *database)
{
    if (running != NULL) {
        return false;
    }
    *own = (query){.database = database};
    running = own;
    return true;
}

static sqlite3 *database_of(sqlite3_stmt *statement)
{
    return statement != NULL && running == NULL ? CALL(sqlite3_db_handle, NULL, statement) : NULL;
}

/* Returns whether a bailout was stopped, which continues from the caller. */
static bool was_left(const query *own, bool has_begun)
{
    if (has_begun) {
        running = NULL;
    }
    return has_begun && own->was_left;
}

static void end(const query *own, bool has_begun)
{
    if (was_left(own, has_begun)) {
        zend_bailout();
    }
}

/* ---- PHP's callbacks ---- */

/* Calls PHP, unless a bailout has ended the query `own` before. */
#define CALL_BACK(own, call)         \
    do {                             \
        if (!(own)->was_left) {      \
            running = NULL;          \
            zend_try {               \
                call;                \
            } zend_catch {           \
                (own)->was_left = true; \
            } zend_end_try();        \
            running = (own);         \
        }                            \
    } while (0)

static void refuse(sqlite3_context *context)
{
    CALL(sqlite3_result_error, (void)0, context, "the script has ended", -1);
}

static void call_function(function *php, sqlite3_context *context, int count, sqlite3_value **values)
{
    query *const own = running;
    if (own == NULL) {
        php(context, count, values);
        return;
    }
    CALL_BACK(own, php(context, count, values));
    if (own->was_left) {
        refuse(context);
    }
}

static void call_finish(finish *php, sqlite3_context *context)
{
    query *const own = running;
    if (own == NULL) {
        php(context);
        return;
    }
    CALL_BACK(own, php(context));
    if (own->was_left) {
        refuse(context);
    }
}

/* A collation cannot report an error. */
static int call_collation(collation *php, void *data, int one_length, const void *one, int other_length, const void *other)
{
    query *const own = running;
    volatile int order = 0;
    if (own == NULL) {
        return php(data, one_length, one, other_length, other);
    }
    CALL_BACK(own, order = php(data, one_length, one, other_length, other));
    if (own->was_left && own->database != NULL) {
        CALL(sqlite3_interrupt, (void)0, own->database);
    }
    return order;
}

/* Without a value, the pragma only reads the setting. */
static bool changes_process(int action, const char *pragma, const char *value)
{
    static const char *const pragmas[] = {"hard_heap_limit", "soft_heap_limit", "temp_store_directory"};
    if (action != SQLITE_PRAGMA || pragma == NULL || value == NULL || !shim_is_in_request()) {
        return false;
    }
    return SHIM_IS_LISTED(pragma, pragmas);
}

/* The authorizer of a connection without one of PHP. */
static int authorize(void *data, int action, const char *first, const char *second, const char *database, const char *origin)
{
    (void)data, (void)database, (void)origin;
    return changes_process(action, first, second) ? SQLITE_IGNORE : SQLITE_OK;
}

static int call_authorizer(authorizer *php, void *data, int action, const char *first, const char *second,
                           const char *database, const char *origin)
{
    query *const own = running;
    volatile int answer = SQLITE_DENY;
    if (changes_process(action, first, second)) {
        return SQLITE_IGNORE;
    }
    if (own == NULL) {
        return php(data, action, first, second, database, origin);
    }
    CALL_BACK(own, answer = php(data, action, first, second, database, origin));
    return answer;
}

/* Defines a wrapper, and the variable for the function of PHP that it calls. SQLite passes a callback nothing but PHP's own
 * data; hence each of PHP's few functions has its own wrapper. */
#define WRAPPER(kind, number, result, parameters, ...)                                         \
    static kind *php_##kind##_##number;                                                        \
    static result kind##_##number parameters                                                   \
    {                                                                                          \
        return call_##kind(__atomic_load_n(&php_##kind##_##number, __ATOMIC_RELAXED), __VA_ARGS__); \
    }
#define FUNCTION(number) \
    WRAPPER(function, number, void, (sqlite3_context *context, int count, sqlite3_value **values), context, count, values)
#define FINISH(number) WRAPPER(finish, number, void, (sqlite3_context *context), context)
#define COLLATION(number)                                                                                     \
    WRAPPER(collation, number, int, (void *data, int one_length, const void *one, int other_length, const void *other), \
            data, one_length, one, other_length, other)
#define AUTHORIZER(number)                                                                                     \
    WRAPPER(authorizer, number, int,                                                                           \
            (void *data, int action, const char *first, const char *second, const char *database, const char *origin), \
            data, action, first, second, database, origin)

/* PDO and SQLite3 have one function and one step of an aggregate each, */
FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
/* and one function of every other kind each. */
FINISH(1)
FINISH(2)
COLLATION(1)
COLLATION(2)
AUTHORIZER(1)
AUTHORIZER(2)

typedef struct {
    void **php;
    void *ours;
} wrapper;

#define ENTRY(kind, number) {(void **)&php_##kind##_##number, (void *)kind##_##number}
static const wrapper functions[] = {ENTRY(function, 1), ENTRY(function, 2), ENTRY(function, 3), ENTRY(function, 4)};
static const wrapper finishes[] = {ENTRY(finish, 1), ENTRY(finish, 2)};
static const wrapper collations[] = {ENTRY(collation, 1), ENTRY(collation, 2)};
static const wrapper authorizers[] = {ENTRY(authorizer, 1), ENTRY(authorizer, 2)};

/* The addresses of a library. */
typedef struct {
    uintptr_t begin, end;
} memory_range;

/* The libraries of PHP's extensions: libphp, or one for each. Only their callbacks are wrapped: other libraries may use SQLite on
 * threads without PHP. SQLite's own modules register about ten functions for each connection, and dladdr(), which searches
 * the symbol table of a library, would cost more than the rest of a request. */
static memory_range sqlite3_library, pdo_sqlite_library;

typedef struct {
    uintptr_t address;
    memory_range *found;
} library_search;

static int note_library(struct dl_phdr_info *library, size_t size, void *argument)
{
    const library_search *search = argument;
    memory_range range = {.begin = UINTPTR_MAX};
    (void)size;
    for (size_t i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD) {
            const uintptr_t begin = library->dlpi_addr + segment->p_vaddr;
            range.begin = MIN(range.begin, begin);
            range.end = MAX(range.end, begin + segment->p_memsz);
        }
    }
    if (search->address < range.begin || search->address >= range.end) {
        return 0;
    }
    *search->found = range;
    return 1;
}

static void find_library(const char *extension, memory_range *found)
{
    const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, extension, strlen(extension));
    if (module != NULL) {
        library_search search = {.address = (uintptr_t)module->module_startup_func, .found = found};
        (void)dl_iterate_phdr(note_library, &search);
    }
}

void shim_queries_install(void)
{
    find_library("sqlite3", &sqlite3_library);
    find_library("pdo_sqlite", &pdo_sqlite_library);
}

static bool is_in(const void *address, const memory_range *range)
{
    return (uintptr_t)address >= range->begin && (uintptr_t)address < range->end;
}

static bool is_php_s(const void *callback)
{
    return is_in(callback, &sqlite3_library) || is_in(callback, &pdo_sqlite_library);
}

/* Returns the function that SQLite receives instead of `php`. */
static void *in_place_of(void *php, const wrapper *wrappers, size_t count)
{
    for (size_t i = 0; php != NULL && i < count; i++) {
        void *first = __atomic_load_n(wrappers[i].php, __ATOMIC_RELAXED);
        if (first == NULL && is_php_s(php) &&
            __atomic_compare_exchange_n(wrappers[i].php, &first, php, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            first = php;
        }
        if (first == php) {
            return wrappers[i].ours;
        }
    }
    return php;
}

int sqlite3_create_function(sqlite3 *database, const char *name, int count, int flags, void *data, function *call,
                            function *step, finish *end_of_rows)
{
    return CALL(sqlite3_create_function, SQLITE_ERROR, database, name, count, flags, data,
                in_place_of((void *)call, functions, SHIM_COUNT(functions)),
                in_place_of((void *)step, functions, SHIM_COUNT(functions)),
                in_place_of((void *)end_of_rows, finishes, SHIM_COUNT(finishes)));
}

int sqlite3_create_collation(sqlite3 *database, const char *name, int encoding, void *data, collation *compare)
{
    return CALL(sqlite3_create_collation, SQLITE_ERROR, database, name, encoding, data,
                in_place_of((void *)compare, collations, SHIM_COUNT(collations)));
}

int sqlite3_set_authorizer(sqlite3 *database, authorizer *php, void *data)
{
    return CALL(sqlite3_set_authorizer, SQLITE_ERROR, database,
                php != NULL ? in_place_of((void *)php, authorizers, SHIM_COUNT(authorizers)) : (void *)authorize, data);
}

int sqlite3_open_v2(const char *name, sqlite3 **database, int flags, const char *system)
{
    const int code = CALL(sqlite3_open_v2, SQLITE_ERROR, name, database, flags, system);
    if (code == SQLITE_OK) {
        (void)sqlite3_set_authorizer(*database, NULL, NULL);
    }
    return code;
}

/* ---- statements that PHP may not finalize ---- */

typedef struct cut_statement {
    sqlite3_stmt *statement;
    sqlite3 *database;
    LIST_ENTRY(cut_statement) link;
} cut_statement;

/* The statements of this thread that a bailout has left in a step. */
static __thread LIST_HEAD(, cut_statement) cut_statements;

static void strike(const sqlite3_stmt *statement)
{
    cut_statement *one = LIST_FIRST(&cut_statements);
    while (one != NULL && one->statement != statement) {
        one = LIST_NEXT(one, link);
    }
    if (one != NULL) {
        LIST_REMOVE(one, link);
        free(one);
    }
}

static void note(sqlite3_stmt *statement, sqlite3 *database)
{
    strike(statement);
    cut_statement *one = malloc(sizeof(*one));
    if (one != NULL) {
        *one = (cut_statement){.statement = statement, .database = database};
        LIST_INSERT_HEAD(&cut_statements, one, link);
    }
}

static bool has_cut_statements(const sqlite3 *database)
{
    const cut_statement *one = LIST_FIRST(&cut_statements);
    while (one != NULL && one->database != database) {
        one = LIST_NEXT(one, link);
    }
    return one != NULL;
}

void shim_queries_end(void)
{
    while (!LIST_EMPTY(&cut_statements)) {
        (void)sqlite3_finalize(LIST_FIRST(&cut_statements)->statement);
    }
}

/* ---- SQLite's functions that call back ---- */

int sqlite3_exec(sqlite3 *database, const char *text, row_reader *read, void *data, char **error)
{
    query own;
    const bool has_begun = begins(&own, database);
    const int code = CALL(sqlite3_exec, SQLITE_ERROR, database, text, read, data, error);
    end(&own, has_begun);
    return code;
}

int sqlite3_prepare_v2(sqlite3 *database, const char *text, int length, sqlite3_stmt **statement, const char **rest)
{
    query own;
    const bool has_begun = begins(&own, database);
    const int code = CALL(sqlite3_prepare_v2, SQLITE_ERROR, database, text, length, statement, rest);
    if (was_left(&own, has_begun)) {
        if (code == SQLITE_OK) {
            (void)sqlite3_finalize(*statement);
        }
        zend_bailout();
    }
    return code;
}

int sqlite3_step(sqlite3_stmt *statement)
{
    query own;
    sqlite3 *const database = database_of(statement);
    const bool has_begun = begins(&own, database);
    const int code = CALL(sqlite3_step, SQLITE_ERROR, statement);
    if (was_left(&own, has_begun)) {
        note(statement, database);
        zend_bailout();
    }
    return code;
}

/* Aggregates that are not complete are ended by these two. */
int sqlite3_reset(sqlite3_stmt *statement)
{
    query own;
    const bool has_begun = begins(&own, database_of(statement));
    const int code = CALL(sqlite3_reset, SQLITE_ERROR, statement);
    end(&own, has_begun);
    return code;
}

int sqlite3_finalize(sqlite3_stmt *statement)
{
    query own;
    const bool has_begun = begins(&own, database_of(statement));
    strike(statement);
    const int code = CALL(sqlite3_finalize, SQLITE_ERROR, statement);
    end(&own, has_begun);
    return code;
}

/* SQLite closes the connection when its last statement is finalized. */
int sqlite3_close(sqlite3 *database)
{
    if (!has_cut_statements(database)) {
        return CALL(sqlite3_close, SQLITE_ERROR, database);
    }
    (void)CALL(sqlite3_exec, SQLITE_ERROR, database, "ROLLBACK", NULL, NULL, NULL);
    return CALL(sqlite3_close_v2, SQLITE_ERROR, database);
}
