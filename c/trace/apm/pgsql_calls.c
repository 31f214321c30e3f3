/* Calls of pgsql, whose connection is the first argument, or omitted.
 *
 * PHP warns with the message of a failed result, frees the result and returns false, so that its SQLSTATE is lost.
 * Therefore, this file's PQclear() takes precedence over that of libpq, and records the SQLSTATE of the results that a
 * call frees. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "trace/apm/apm.h"

#include <dlfcn.h>

typedef struct pg_result PGresult;

void PQclear(PGresult *result);

/* ExecStatusType and a field of an error, in libpq's ABI. */
enum { PGRES_FATAL_ERROR = 7, PG_DIAG_SQLSTATE = 'C' };

/* Functions of libpq. The strings that they return belong to the connection or the result, and may be NULL. */
static struct {
    char *(*database)(const void *connection);
    char *(*host)(const void *connection);
    char *(*port)(const void *connection);
    const char *(*parameter)(const void *connection, const char *name);
    int (*status)(const PGresult *result);
    char *(*error_field)(const PGresult *result, int field);
} libpq;

static zend_class_entry *class;

/* The SQLSTATE of the last failed result that was freed, and the call that freed it. */
static __thread struct {
    const zend_execute_data *call;
    char code[6];
} failure;

static void note_failure(const PGresult *result)
{
    if (result == NULL || libpq.status == NULL || libpq.error_field == NULL || shim_request_host() == NULL ||
        libpq.status(result) != PGRES_FATAL_ERROR) {
        return;
    }
    const char *code = libpq.error_field(result, PG_DIAG_SQLSTATE);
    if (code != NULL && strlen(code) < sizeof(failure.code)) {
        failure.call = EG(current_execute_data);
        memcpy(failure.code, code, strlen(code) + 1);
    }
}

void PQclear(PGresult *result)
{
    note_failure(result);
    __typeof__(&PQclear) clear = (__typeof__(&PQclear))shim_libpq(SHIM_SLOT, "PQclear");
    if (clear != NULL) {
        clear(result);
    }
}

void shim_pgsql_calls_install(void)
{
    class = zend_hash_str_find_ptr(CG(class_table), "pgsql\\connection", sizeof("pgsql\\connection") - 1);
    libpq.database = (char *(*)(const void *))(uintptr_t)dlsym(RTLD_DEFAULT, "PQdb");
    libpq.host = (char *(*)(const void *))(uintptr_t)dlsym(RTLD_DEFAULT, "PQhost");
    libpq.port = (char *(*)(const void *))(uintptr_t)dlsym(RTLD_DEFAULT, "PQport");
    libpq.parameter =
        (const char *(*)(const void *, const char *))(uintptr_t)dlsym(RTLD_DEFAULT, "PQparameterStatus");
    libpq.status = (int (*)(const PGresult *))(uintptr_t)dlsym(RTLD_DEFAULT, "PQresultStatus");
    libpq.error_field = (char *(*)(const PGresult *, int))(uintptr_t)dlsym(RTLD_DEFAULT, "PQresultErrorField");
}

static zend_object *link_of(const shim_observed *observed)
{
    zend_object *object = shim_observed_subject(observed);
    return object != NULL && class != NULL && object->ce == class ? object : NULL;
}

static void describe(shim_observed *observed, shim_client_call *call)
{
    /* An earlier call may have had the same frame. */
    if (failure.call == observed->execute_data) {
        failure.call = NULL;
    }
    const zend_object *object = link_of(observed);
    /* The connection is the first member of the extension's struct, in all versions; NULL once it is closed. */
    const void *connection = object != NULL ? *(void *const *)((const char *)object - object->handlers->offset) : NULL;
    if (object == NULL && observed->observer->text > 0) {
        call->text = shim_observed_text(observed, observed->observer->text - 1);
    }
    if (connection != NULL && libpq.database != NULL && libpq.host != NULL && libpq.port != NULL) {
        const char *port = libpq.port(connection);
        call->database = shim_view_of_cstr(libpq.database(connection));
        call->host = shim_view_of_cstr(libpq.host(connection));
        call->port = port != NULL ? (uint16_t)strtoul(port, NULL, 10) : 0;
    }
    if (connection != NULL && libpq.parameter != NULL && shim_observed_has_backslash(call)) {
        const char *conforming = libpq.parameter(connection, "standard_conforming_strings");
        call->has_other_backslash = conforming != NULL && strcmp(conforming, "off") == 0;
    }
}

static void describe_connecting(shim_observed *observed, shim_client_call *call)
{
    const shim_view source = shim_observed_text(observed, 1);
    /* The host parses it as a data source of PDO, in which a semicolon ends a value; here, it may be part of a password. */
    if (source.length > 0 && memchr(source.bytes, ';', source.length) == NULL) {
        call->source = source;
    }
}

static void judge(shim_observed *observed, shim_client_end *end)
{
    end->failed = end->failed || Z_TYPE_P(observed->return_value) == IS_FALSE;
    if (end->failed && failure.call == observed->execute_data) {
        end->code = shim_view_of_cstr(failure.code);
    }
}

#define SQL(name, operation, text, is_prepared, describe) \
    {NULL, name, SHIM_CLIENT_SQL, "pgsql", operation, text, is_prepared, describe, judge}

static const shim_observer rows[] = {
    SQL("pg_connect", "CONNECT", 0, false, describe_connecting),
    SQL("pg_pconnect", "CONNECT", 0, false, describe_connecting),
    SQL("pg_query", NULL, 2, false, describe),
    SQL("pg_exec", NULL, 2, false, describe),
    SQL("pg_query_params", NULL, 2, true, describe),
    SQL("pg_prepare", "PREPARE", 3, true, describe),
    SQL("pg_execute", "EXECUTE", 0, false, describe),
    SQL("pg_insert", "INSERT", 0, false, describe),
    SQL("pg_select", "SELECT", 0, false, describe),
    SQL("pg_update", "UPDATE", 0, false, describe),
    SQL("pg_delete", "DELETE", 0, false, describe),
};

const shim_observers shim_pgsql_calls = {rows, SHIM_COUNT(rows), NULL};
