/* Whether a connection is at rest; and what a request has left in the session behind it.
 *
 * The extensions' structs and their libraries say whether something is under way, without a word to the server. What cannot
 * be seen counts as under way: a connection of a driver that is not known here is at rest while it has no statement that was
 * executed.
 *
 * The state of a session cannot be seen: the words of its statements say whether they may change what later statements find
 * (USE, SET, temporary tables, locks, variables). That is kept for the owner for as long as it waits for something that its
 * other requests need not know about (owners/turns.h), so a wrong guess for "changes" costs them time alone. A statement is
 * harmless if its first word is one of a list, and none of the words in it that are known to have effects. */
#include "compat.h"
#include "connections/mysqli.h"
#include "connections/pdo.h"
#include "connections/rest.h"
#include "connections/sqlite.h"
#include "fiber/fiber.h"
#include "owners/sockets.h"
#include "owners/turns.h"

#include <ctype.h>
#include <dlfcn.h>

/* ---- libraries ---- */

/* PGTransactionStatusType of libpq. */
enum { PG_IDLE = 0, PG_LOST = 4 };

static int (*pg_status)(const void *connection);

static bool is_pg_at_rest(const void *connection)
{
    if (connection == NULL) {
        return true;
    }
    const int status = pg_status != NULL ? pg_status(connection) : -1;
    return status == PG_IDLE || status == PG_LOST;
}

/* ---- kinds ---- */

static bool is_executed_statement(const shim_connection *one, const void *connection)
{
    return one->kind == SHIM_KIND_PDO_STATEMENT && one->object != NULL &&
           shim_pdo_of_statement(one->object) == ((const shim_connection *)connection)->object &&
           shim_pdo_has_result(one->object);
}

static bool is_pdo_at_rest(shim_connection *connection)
{
    void *library = shim_pdo_library_connection(connection->object);
    const char *driver = shim_pdo_driver(connection->object);
    if (library == NULL || driver == NULL) {
        return true;
    }
    if (strcmp(driver, "pgsql") == 0) {
        return is_pg_at_rest(library);
    }
    if (shim_pdo_in_transaction(connection->object)) {
        return false;
    }
    return strcmp(driver, "mysql") == 0    ? shim_mysqlnd_is_idle(library)
           : strcmp(driver, "sqlite") == 0 ? !shim_sqlite_is_busy(shim_pdo_sqlite(connection->object))
                                           : shim_connection_which(is_executed_statement, connection) == NULL;
}

/* The extension keeps libpq's connection first in what surrounds its object. */
static bool is_pgsql_at_rest(const zend_object *object)
{
    return is_pg_at_rest(*(void *const *)((const char *)object - object->handlers->offset));
}

bool shim_connection_is_at_rest(shim_connection *connection)
{
    if (connection->owned.uses > 0 || connection->held > 0) {
        return false;
    }
    if (connection->object == NULL) {
        return true;
    }
    switch (connection->kind) {
    case SHIM_KIND_PDO:
        return is_pdo_at_rest(connection);
    case SHIM_KIND_MYSQLI:
        return shim_mysqli_is_idle(connection->object) &&
               (!shim_mysqli_is_open(connection->object) || !shim_mysqli_in_transaction(connection->object));
    case SHIM_KIND_PGSQL:
        return is_pgsql_at_rest(connection->object);
    case SHIM_KIND_SQLITE: {
        void *const database = shim_sqlite_of(connection->object);
        return !shim_sqlite_in_transaction(database) && !shim_sqlite_is_busy(database);
    }
    case SHIM_KIND_REDIS:
    case SHIM_KIND_REDIS_ARRAY:
    case SHIM_KIND_REDIS_CLUSTER:
    case SHIM_KIND_REDIS_SENTINEL:
    case SHIM_KIND_MEMCACHED:
        return !connection->is_watching && !connection->is_subscribed && !connection->is_in_block;
    default:
        return false;
    }
}

/* ---- things, which may stand for several connections ---- */

typedef struct part {
    const shim_owned *thing;
    const shim_fiber *owner;
} part;

/* Whether what the owner has of the connection is what the thing stands for. */
static bool is_part(const shim_connection *one, const part *of)
{
    if (!shim_kind_is_connection(one->kind)) {
        return false;
    }
    const shim_owned *thing = shim_connection_thing((shim_connection *)one);
    return thing == of->thing || (of->thing == shim_turn_joint() && one->user == of->owner && thing->owner == NULL &&
                                  !thing->is_leased && !thing->is_apart);
}

static bool is_restless(const shim_connection *one, const void *of)
{
    if (!is_part(one, of)) {
        return false;
    }
    /* What is lent is a single connection, and the others of a socket would reach into its exchange. */
    const bool may_be_one_of_several =
        one->may_share_socket || (!shim_kind_is_store(one->kind) && shim_socket_is_shared(&one->owned));
    return may_be_one_of_several || !shim_connection_is_at_rest((shim_connection *)one);
}

static bool is_stateful(const shim_connection *one, const void *of)
{
    const part *part = of;
    return is_part(one, part) &&
           (one->stateful_for == part->owner->serial || one->identified_for == part->owner->serial);
}

static bool is_left_by(const shim_connection *one, const void *of)
{
    const part *part = of;
    return one->user == part->owner && is_part(one, part);
}

static bool is_at_rest(const shim_owned *thing, const shim_fiber *owner)
{
    const part of = {.thing = thing, .owner = owner};
    return !thing->is_unknown && !(thing == shim_turn_joint() && shim_turns_joint_is_unknown()) &&
           shim_connection_which(is_restless, &of) == NULL;
}

static bool keeps_state(const shim_owned *thing, const shim_fiber *owner)
{
    const part of = {.thing = thing, .owner = owner};
    return shim_connection_which(is_stateful, &of) != NULL;
}

static void is_left(const shim_owned *thing, const shim_fiber *owner)
{
    const part of = {.thing = thing, .owner = owner};
    for (shim_connection *one = NULL; (one = shim_connection_which(is_left_by, &of)) != NULL;) {
        one->user = NULL;
    }
}

/* ---- sessions ---- */

/* So much of a statement is looked at. */
enum { WORDS_MAX = 1024 };

static const char *const harmless[] = {
    "alter", "analyze", "begin", "commit", "create", "delete", "desc", "describe", "drop", "end", "explain", "insert",
    "merge", "release", "replace", "rollback", "savepoint", "select", "show", "start", "table", "truncate", "update",
    "values", "with",
};

/* Locks, variables, and names that live as long as a session. */
static const char *const effects[] = {
    "@", ";", "advisory", "currval", "get_lock", "insert_id", "lastval", "nextval", "set_config", "setval", "temp",
};

static bool is_one_of(const char *word, size_t length, const char *const *words, size_t count)
{
    size_t i = 0;
    while (i < count && !(strlen(words[i]) == length && memcmp(words[i], word, length) == 0)) {
        i++;
    }
    return i < count;
}

typedef struct statement {
    /* In lower case. */
    char text[WORDS_MAX + 1];
    const char *first;
    size_t first_length;
} statement;

/* Skips spaces, parentheses and comments. */
static const char *skip(const char *text)
{
    for (;;) {
        if (isspace((unsigned char)*text) || *text == '(') {
            text++;
        } else if (text[0] == '-' && text[1] == '-') {
            text += strcspn(text, "\n");
        } else if (text[0] == '/' && text[1] == '*' && text[2] != '!' && strstr(text, "*/") != NULL) {
            text = strstr(text, "*/") + 2;
        } else {
            return text;
        }
    }
}

static void read_statement(statement *one, const zend_string *sql)
{
    size_t length = MIN(ZSTR_LEN(sql), WORDS_MAX);
    zend_str_tolower_copy(one->text, ZSTR_VAL(sql), length);
    while (length > 0 && (isspace((unsigned char)one->text[length - 1]) || one->text[length - 1] == ';')) {
        one->text[--length] = '\0';
    }
    one->first = skip(one->text);
    one->first_length = strspn(one->first, "abcdefghijklmnopqrstuvwxyz");
}

static bool has_effects(const statement *one)
{
    if (!is_one_of(one->first, one->first_length, harmless, sizeof(harmless) / sizeof(harmless[0]))) {
        return true;
    }
    size_t i = 0;
    while (i < sizeof(effects) / sizeof(effects[0]) && strstr(one->first, effects[i]) == NULL) {
        i++;
    }
    return i < sizeof(effects) / sizeof(effects[0]);
}

static bool is_word(const statement *one, const char *word)
{
    return strlen(word) == one->first_length && memcmp(word, one->first, one->first_length) == 0;
}

/* The first argument that is a text: the statement, if the function takes one. */
static const zend_string *text_of(zend_execute_data *execute_data)
{
    for (uint32_t i = 1; i <= ZEND_CALL_NUM_ARGS(execute_data); i++) {
        const zval *argument = ZEND_CALL_ARG(execute_data, i);
        ZVAL_DEREF(argument);
        if (Z_TYPE_P(argument) == IS_STRING) {
            return Z_STR_P(argument);
        }
    }
    return NULL;
}

/* Functions that change what a session is, by parts of their names in lower case, and those that tell an ID. */
static bool changes_session(const char *name)
{
    return strstr(name, "select_db") != NULL || strstr(name, "change_user") != NULL || strstr(name, "charset") != NULL ||
           strstr(name, "autocommit") != NULL || strstr(name, "setattribute") != NULL || strstr(name, "encoding") != NULL ||
           strstr(name, "options") != NULL;
}

static bool takes_statement(const char *name)
{
    return strstr(name, "query") != NULL || strstr(name, "exec") != NULL || strstr(name, "prepare") != NULL;
}

static void note_statement(shim_connection *root, zend_execute_data *execute_data, uint64_t serial)
{
    char name[64];
    const zend_string *called = EX(func)->common.function_name;
    zend_str_tolower_copy(name, ZSTR_VAL(called), MIN(ZSTR_LEN(called), sizeof(name) - 1));
    if (changes_session(name)) {
        root->stateful_for = serial;
    } else if (strstr(name, "insert") != NULL) {
        /* lastInsertId(), mysqli_insert_id() */
        root->identified_for = 0;
    } else if (takes_statement(name)) {
        const zend_string *sql = text_of(execute_data);
        statement one;
        if (sql != NULL) {
            read_statement(&one, sql);
            root->stateful_for = has_effects(&one) ? serial : root->stateful_for;
            root->identified_for = is_word(&one, "insert") || is_word(&one, "replace") ? serial : 0;
        }
    }
}

void shim_rest_note(shim_connection *root, zend_execute_data *execute_data)
{
    shim_fiber *fiber = shim_running;
    if (shim_kind_is_store(root->kind)) {
        fiber->has_used_store = fiber->is_at_store = true;
    } else if (root->kind == SHIM_KIND_PDO || root->kind == SHIM_KIND_MYSQLI || root->kind == SHIM_KIND_PGSQL ||
               root->kind == SHIM_KIND_SQLITE) {
        fiber->is_at_store = false;
        note_statement(root, execute_data, fiber->serial);
    }
}

/* ---- rows ---- */

static bool is_method(const zend_execute_data *execute_data, const char *name)
{
    return strcasecmp(ZSTR_VAL(EX(func)->common.function_name), name) == 0;
}

void shim_rest_note_rows(const zend_execute_data *execute_data, const zval *result)
{
    shim_connection *statement =
        Z_TYPE(EX(This)) == IS_OBJECT ? shim_connection_find(Z_OBJ(EX(This))) : NULL;
    if (statement == NULL || statement->kind != SHIM_KIND_PDO_STATEMENT) {
        return;
    }
    if (is_method(execute_data, "fetch") || is_method(execute_data, "fetchobject")) {
        statement->fetched = Z_TYPE_P(result) == IS_FALSE ? 0 : statement->fetched + 1;
    } else if (is_method(execute_data, "fetchcolumn")) {
        statement->fetched++;
    } else if (is_method(execute_data, "execute") || is_method(execute_data, "fetchall") ||
               is_method(execute_data, "closecursor") || is_method(execute_data, "nextrowset")) {
        statement->fetched = 0;
    }
}

/* Drivers that do not know how many rows there are say 0. */
static bool is_in_the_middle(const shim_connection *one, const void *fiber)
{
    if (one->kind == SHIM_KIND_PDO_STATEMENT && one->object != NULL && one->fetched > 0 &&
        shim_pdo_has_result(one->object)) {
        const shim_connection *root = shim_connection_root((shim_connection *)one);
        return root->user == fiber && one->fetched < shim_pdo_row_count(one->object);
    }
    return one->user == fiber && shim_kind_is_connection(one->kind) && !one->owned.is_leased &&
           !shim_connection_is_at_rest((shim_connection *)one);
}

bool shim_rest_is_broken(const shim_fiber *fiber)
{
    return shim_connection_which(is_in_the_middle, fiber) != NULL;
}

void shim_rest_install(void)
{
    pg_status = (int (*)(const void *))dlsym(RTLD_DEFAULT, "PQtransactionStatus");
    shim_turns_ask = (shim_thing_questions){.is_at_rest = is_at_rest, .keeps_state = keeps_state, .is_left = is_left};
}
