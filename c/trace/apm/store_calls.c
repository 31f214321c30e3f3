/* Calls of phpredis and of memcached: commands, without their arguments.
 *
 * Neither extension has headers. The server of a connection is read from its object, by methods that send nothing. */
#include "compat.h"
#include "trace/apm/apm.h"

#include <ctype.h>

/* Methods that send nothing, or no command. */
static const char *const unobserved_in_redis[] = {
    "__construct", "__destruct", "_compress", "_pack", "_prefix", "_serialize", "_uncompress", "_unpack", "_unserialize",
    "_digest", "clearlasterror", "cleartransferredbytes", "close", "getauth", "getdbnum", "gethost",
    "getlasterror", "getmode", "getoption", "getpersistentid", "getport", "getreadtimeout", "gettimeout",
    "gettransferredbytes", "isconnected", "servername", "serverversion", "setoption", "_masters", "_redir",
};

static const char *const observed_in_memcached[] = {
    "add", "addbykey", "append", "appendbykey", "cas", "casbykey", "decrement", "decrementbykey", "delete", "deletebykey",
    "deletemulti", "deletemultibykey", "fetch", "fetchall", "flush", "get", "getallkeys", "getbykey", "getdelayed",
    "getdelayedbykey", "getmulti", "getmultibykey", "getstats", "getversion", "increment", "incrementbykey", "prepend",
    "prependbykey", "replace", "replacebykey", "set", "setbykey", "setmulti", "setmultibykey", "touch", "touchbykey",
};

/* Records the name of the function as a command; that of rawCommand() is its first argument, if it looks like one. */
static void put_command(shim_observed *observed, shim_client_call *call)
{
    const zend_string *name = observed->execute_data->func->common.function_name;
    shim_view command = shim_view_of_string(name);
    if (zend_string_equals_literal_ci(name, "rawcommand")) {
        command = shim_observed_text(observed, strcmp(observed->observer->class_name, "rediscluster") == 0 ? 2 : 1);
    } else if (zend_string_equals_literal_ci(name, "open") || zend_string_equals_literal_ci(name, "popen") ||
               zend_string_equals_literal_ci(name, "pconnect")) {
        command = shim_view_of("connect", sizeof("connect") - 1);
    }
    size_t length = 0;
    for (; length < command.length && length < sizeof(observed->text) &&
           (isalnum((unsigned char)command.bytes[length]) || command.bytes[length] == '_' || command.bytes[length] == '.');
         length++) {
        observed->text[length] = (char)toupper((unsigned char)command.bytes[length]);
    }
    call->operation = shim_view_of(observed->text, length);
}

static void describe_redis(shim_observed *observed, shim_client_call *call)
{
    static __thread char database[24];
    put_command(observed, call);
    zend_object *object = shim_observed_subject(observed);
    if (object == NULL) {
        return;
    }
    if (zend_string_equals_literal(observed->execute_data->func->common.function_name, "connect") ||
        memcmp(observed->text, "CONNECT", sizeof("CONNECT") - 1) == 0) {
        const zval *port = shim_observed_argument(observed, 2);
        call->host = shim_observed_text(observed, 1);
        call->port = port != NULL && Z_TYPE_P(port) == IS_LONG ? (uint16_t)Z_LVAL_P(port) : 0;
        return;
    }
    zval *host = &observed->held[0], number;
    /* The other methods declare a string or a number as their result, and have none without a connection. */
    shim_observed_call_method(object, "redis", "isconnected", &number);
    if (Z_TYPE(number) != IS_TRUE) {
        return;
    }
    shim_observed_call_method(object, "redis", "gethost", host);
    if (Z_TYPE_P(host) != IS_STRING) {
        return;
    }
    call->host = shim_view_of_string(Z_STR_P(host));
    shim_observed_call_method(object, "redis", "getport", &number);
    call->port = Z_TYPE(number) == IS_LONG ? (uint16_t)Z_LVAL(number) : 0;
    shim_observed_call_method(object, "redis", "getdbnum", &number);
    if (Z_TYPE(number) == IS_LONG) {
        call->database = shim_view_of(database, (size_t)snprintf(database, sizeof(database), ZEND_LONG_FMT, Z_LVAL(number)));
    }
}

static void judge_redis(shim_observed *observed, shim_client_end *end)
{
    (void)observed;
    (void)end;
}

/* Without an address for a pool of several servers. */
static void describe_memcached(shim_observed *observed, shim_client_call *call)
{
    const zend_string *name = observed->execute_data->func->common.function_name;
    zval *servers = &observed->held[0];
    zend_object *object = shim_observed_subject(observed);
    call->operation = shim_view_of_string(name);
    if (object == NULL) {
        return;
    }
    shim_observed_call_method(object, "memcached", "getserverlist", servers);
    const zval *server = Z_TYPE_P(servers) == IS_ARRAY && zend_hash_num_elements(Z_ARRVAL_P(servers)) == 1
                             ? zend_hash_index_find(Z_ARRVAL_P(servers), 0)
                             : NULL;
    if (server == NULL || Z_TYPE_P(server) != IS_ARRAY) {
        return;
    }
    const zval *host = zend_hash_str_find(Z_ARRVAL_P(server), ZEND_STRL("host"));
    const zval *port = zend_hash_str_find(Z_ARRVAL_P(server), ZEND_STRL("port"));
    if (host != NULL && Z_TYPE_P(host) == IS_STRING) {
        call->host = shim_view_of_string(Z_STR_P(host));
        call->port = port != NULL && Z_TYPE_P(port) == IS_LONG ? (uint16_t)Z_LVAL_P(port) : 0;
    }
}

/* A missing or existing key is not an error. */
static void judge_memcached(shim_observed *observed, shim_client_end *end)
{
    enum { DATA_EXISTS = 12, NOT_STORED = 14, NOT_FOUND = 16, END = 21 };
    zend_object *object = shim_observed_subject(observed);
    zval code;
    if (observed->thrown != NULL || Z_TYPE_P(observed->return_value) != IS_FALSE || object == NULL) {
        return;
    }
    shim_observed_call_method(object, "memcached", "getresultcode", &code);
    if (Z_TYPE(code) == IS_LONG && Z_LVAL(code) != 0 && Z_LVAL(code) != DATA_EXISTS && Z_LVAL(code) != NOT_STORED &&
        Z_LVAL(code) != NOT_FOUND && Z_LVAL(code) != END) {
        end->failed = true;
        end->code = shim_observed_number(observed, Z_LVAL(code));
    }
}

static const shim_observer redis = {"redis", NULL, SHIM_CLIENT_STORE, "redis", NULL, 0, false, describe_redis, judge_redis};
/* Without an address: only the cluster's client knows the server of each key. */
static const shim_observer cluster = {"rediscluster", NULL, SHIM_CLIENT_STORE, "redis", NULL, 0, false, put_command,
                                      judge_redis};
static const shim_observer memcached = {"memcached", NULL, SHIM_CLIENT_STORE, "memcached", NULL, 0, false,
                                        describe_memcached, judge_memcached};

static const shim_observer *observer_of(const char *class_name, const char *name)
{
    const bool is_redis = class_name != NULL && strcmp(class_name, "redis") == 0;
    const bool is_cluster = class_name != NULL && strcmp(class_name, "rediscluster") == 0;
    if (is_redis || is_cluster) {
        const bool is_silent = SHIM_IS_LISTED(name, unobserved_in_redis);
        return is_silent ? NULL : is_redis ? &redis : &cluster;
    }
    return class_name != NULL && strcmp(class_name, "memcached") == 0 &&
                   SHIM_IS_LISTED(name, observed_in_memcached)
               ? &memcached
               : NULL;
}

const shim_observers shim_store_calls = {NULL, 0, observer_of};
