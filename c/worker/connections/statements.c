/* The effects of statements on a session.
 *
 * Servers do not report the state of a session, so the text of each statement is searched for keywords. A statement is
 * harmless if its first word is listed as such and no other word is known to have effects. A false positive for "leaves
 * state" costs time only. Effects that are hidden in a procedure, in a trigger or beyond WORDS_MAX bytes are missed.
 *
 * A prepared statement takes effect when it is executed, possibly in a later request, so its object keeps its effects.
 * PgSql has no objects for prepared statements: the connection keeps the effects of all of them. */
#include "compat.h"
#include "worker/connections/connections.h"

#include <ctype.h>
#include <string.h>

/* Only the beginning of a statement is searched. */
enum { WORDS_MAX = 1024, NAME_MAX_LENGTH = 64 };

static const char *const harmless[] = {
    "alter", "analyze", "begin", "commit", "create", "delete", "desc", "describe", "drop", "end", "explain", "insert",
    "merge", "release", "replace", "rollback", "savepoint", "select", "show", "start", "table", "truncate", "update",
    "values", "with",
};

/* Variables, and names that last until the session ends. */
static const char *const state_words[] = {"@", ";", "set_config", "temp"};
/* Statements and words that generate an ID (LAST_INSERT_ID() does if it has an argument), and words that read one
 * (PostgreSQL). */
static const char *const id_statements[] = {"insert", "merge", "replace"};
static const char *const id_words[] = {"insert into", "insert_id", "nextval", "setval"};
static const char *const asking_words[] = {"currval", "lastval"};
/* GET_LOCK(), LOCK TABLES, FLUSH TABLES … WITH READ LOCK and FOR EXPORT of MySQL; the pg_advisory_lock() functions. */
static const char *const lock_words[] = {"get_lock", "advisory_lock", "lock table", "read lock", "for export"};
/* Functions that return whether they have acquired the lock. */
static const char *const trying[] = {"get_lock", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"};

static bool is_one_of(const char *word, size_t length, const char *const *words, size_t count)
{
    size_t i = 0;
    while (i < count && !(strlen(words[i]) == length && memcmp(words[i], word, length) == 0)) {
        i++;
    }
    return i < count;
}

static bool has_one_of(const char *text, const char *const *words, size_t count)
{
    size_t i = 0;
    while (i < count && strstr(text, words[i]) == NULL) {
        i++;
    }
    return i < count;
}

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

/* Whether the text takes a lock. Functions that release one have the same names with "un" in front, and do not count. */
static bool asks_for_lock(const char *text)
{
    for (size_t i = 0; i < SHIM_COUNT(lock_words); i++) {
        const char *word = strstr(text, lock_words[i]);
        if (word != NULL && (word == text || word[-1] != 'n')) {
            return true;
        }
    }
    return false;
}

/* Returns the position after the closing parenthesis of a call; NULL if it is missing. */
static const char *end_of_call(const char *text)
{
    int depth = 0;
    for (char quote = '\0'; *text != '\0'; text++) {
        if (quote != '\0') {
            quote = *text == quote ? '\0' : quote;
        } else if (*text == '\'' || *text == '"') {
            quote = *text;
        } else if (*text == '(') {
            depth++;
        } else if (*text == ')' && --depth == 0) {
            return text + 1;
        }
    }
    return NULL;
}

/* Whether the statement is a single call of such a function, with or without an alias. */
static bool only_tries_lock(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const size_t select = strncmp(text, "select", 6) == 0 ? 6 : 0;
    const size_t space = strspn(text + select, " \t\r\n");
    if (select == 0 || space == 0) {
        return false;
    }
    text += select + space;
    text += strncmp(text, "pg_catalog.", 11) == 0 ? 11 : 0;
    const size_t length = strspn(text, letters);
    const char *rest = is_one_of(text, length, trying, SHIM_COUNT(trying)) && text[length] == '(' ? end_of_call(text + length) : NULL;
    if (rest == NULL) {
        return false;
    }
    rest += strspn(rest, " \t\r\n");
    rest += strncmp(rest, "as ", 3) == 0 ? 3 : 0;
    return rest[strspn(rest, letters)] == '\0';
}

/* Copies the beginning of the statement in lower case, without trailing spaces and semicolons. */
static void read_text(char text[WORDS_MAX + 1], const zend_string *sql)
{
    size_t length = MIN(ZSTR_LEN(sql), WORDS_MAX);
    zend_str_tolower_copy(text, ZSTR_VAL(sql), length);
    while (length > 0 && (isspace((unsigned char)text[length - 1]) || text[length - 1] == ';')) {
        text[--length] = '\0';
    }
}

static unsigned effects_of(const zend_string *sql, bool locks_only)
{
    char text[WORDS_MAX + 1];
    if (sql == NULL || (locks_only && strcasestr(ZSTR_VAL(sql), "lock") == NULL &&
                        strcasestr(ZSTR_VAL(sql), "export") == NULL)) {
        return 0;
    }
    read_text(text, sql);
    const char *first = skip(text);
    const unsigned lock = asks_for_lock(first) ? SHIM_LEAVES_LOCK : 0;
    if (locks_only) {
        return lock;
    }
    const size_t length = strspn(first, "abcdefghijklmnopqrstuvwxyz");
    const bool is_harmless =
        is_one_of(first, length, harmless, SHIM_COUNT(harmless)) && !has_one_of(first, state_words, SHIM_COUNT(state_words));
    const bool makes_id =
        is_one_of(first, length, id_statements, SHIM_COUNT(id_statements)) ||
        has_one_of(first, id_words, SHIM_COUNT(id_words));
    const bool tries = is_harmless && ZSTR_LEN(sql) <= WORDS_MAX && only_tries_lock(first);
    return lock | (tries ? SHIM_TRIES_LOCK : 0) | (is_harmless && lock == 0 ? 0 : SHIM_LEAVES_STATE) |
           (makes_id ? SHIM_LEAVES_ID : 0) |
           (has_one_of(first, asking_words, SHIM_COUNT(asking_words)) ? SHIM_READS_ID : 0);
}

/* ---- calls ---- */

/* Returns the first or the last string among the arguments; NULL if there is none. */
static const zend_string *text_of(zend_execute_data *execute_data, bool is_last)
{
    const zend_string *text = NULL;
    for (uint32_t i = 1; i <= ZEND_CALL_NUM_ARGS(execute_data) && (text == NULL || is_last); i++) {
        const zval *argument = ZEND_CALL_ARG(execute_data, i);
        ZVAL_DEREF(argument);
        text = Z_TYPE_P(argument) == IS_STRING ? Z_STR_P(argument) : text;
    }
    return text;
}

/* Functions that change the session, by parts of their names in lower case. */
static const char *const changing[] = {"select_db", "change_user", "charset", "autocommit",
                                       "setattribute", "encoding", "options"};

static bool is_statement(const shim_connection *one)
{
    return one->kind == SHIM_KIND_PDO_STATEMENT || one->kind == SHIM_KIND_MYSQLI_STATEMENT ||
           one->kind == SHIM_KIND_SQLITE_STATEMENT;
}

unsigned shim_statement_effects(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data,
                                bool locks_only)
{
    if (locks_only && subject->effects == 0 && text_of(execute_data, false) == NULL) {
        return 0;
    }
    char name[NAME_MAX_LENGTH];
    const zend_string *called = EX(func)->common.function_name;
    zend_str_tolower_copy(name, ZSTR_VAL(called), MIN(ZSTR_LEN(called), sizeof(name) - 1));
    const bool is_pg = root->kind == SHIM_KIND_PGSQL;
    if (strstr(name, "prepare") != NULL || strcmp(name, ZEND_CONSTRUCTOR_FUNC_NAME) == 0) {
        /* The first argument of pg_prepare() is a name. A call that executes the statement may need all effects. */
        const unsigned effects = effects_of(text_of(execute_data, is_pg), false);
        root->effects = is_pg ? root->effects | effects : effects;
        if (is_statement(subject)) {
            subject->effects = effects;
        }
        return 0;
    }
    if (is_pg && strstr(name, "execute") != NULL) {
        return root->effects;
    }
    if (is_statement(subject) && strstr(name, "execute") != NULL) {
        return subject->effects;
    }
    if (strstr(name, "query") != NULL || strstr(name, "exec") != NULL) {
        const unsigned effects = effects_of(text_of(execute_data, false), locks_only);
        root->effects = is_pg ? root->effects : effects;
        return effects;
    }
    return has_one_of(name, changing, SHIM_COUNT(changing)) ? SHIM_LEAVES_STATE
           : strcmp(name, "lastinsertid") == 0             ? SHIM_READS_ID
           : strcmp(name, "pg_insert") == 0                ? SHIM_LEAVES_ID
                                                           : 0;
}
