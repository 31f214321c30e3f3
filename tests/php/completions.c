/* Waits for sets as the shim's functions do, and completes on separate threads. */
#include <php.h>

#include <pthread.h>
#include <unistd.h>

#include "worker/stack/stack.h"
#include "inside.h"
#include "shim.h"

typedef shim_woken park(const shim_wait_set *set);

static const shim_completion_callbacks *host(void)
{
    return &((const shim_callbacks *)(base() + SHIM_HOST))->completion;
}

/* test_make(): array of the ends of a new completion. */
PHP_FUNCTION(test_make)
{
    ZEND_PARSE_PARAMETERS_NONE();
    shim_completion *completion;
    shim_completer *completer;
    if (!host()->make(&completion, &completer)) {
        RETURN_FALSE;
    }
    array_init(return_value);
    add_next_index_long(return_value, (zend_long)completion);
    add_next_index_long(return_value, (zend_long)completer);
}

PHP_FUNCTION(test_drop)
{
    zend_long completion;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(completion)
    ZEND_PARSE_PARAMETERS_END();
    host()->drop((shim_completion *)completion);
}

PHP_FUNCTION(test_is_complete)
{
    zend_long completion;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(completion)
    ZEND_PARSE_PARAMETERS_END();
    RETURN_BOOL(host()->is_complete((shim_completion *)completion));
}

typedef struct job {
    shim_completer *completer;
    int64_t moment;
    char file[];
} job;

static int completed;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Spins for the last millisecond, to return at the exact nanosecond. */
static void wait_until(int64_t moment)
{
    const int64_t left_us = (moment - now_ns()) / 1000;
    if (left_us > 1000) {
        usleep((useconds_t)left_us - 1000);
    }
    while (now_ns() < moment) {
    }
}

static void *complete(void *argument)
{
    job *job = argument;
    while (job->file[0] != '\0' && access(job->file, F_OK) != 0) {
        usleep(1000);
    }
    wait_until(job->moment);
    host()->complete(job->completer);
    free(job);
    __atomic_fetch_add(&completed, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* test_complete(int $completer, string $file = '', int $moment = 0): a thread completes it once the file exists and
 * hrtime() has reached the moment; without either, the call waits for that thread. */
PHP_FUNCTION(test_complete)
{
    zend_long completer, moment = 0;
    zend_string *file = ZSTR_EMPTY_ALLOC();
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_LONG(completer)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR(file)
        Z_PARAM_LONG(moment)
    ZEND_PARSE_PARAMETERS_END();
    job *job = malloc(sizeof(*job) + ZSTR_LEN(file) + 1);
    job->completer = (shim_completer *)completer;
    job->moment = moment;
    memcpy(job->file, ZSTR_VAL(file), ZSTR_LEN(file) + 1);
    const bool is_now = ZSTR_LEN(file) == 0 && moment == 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, complete, job) != 0) {
        abort();
    }
    if (is_now) {
        pthread_join(thread, NULL);
    } else {
        pthread_detach(thread);
    }
}

/* The number of completions by threads. */
PHP_FUNCTION(test_completed)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG(__atomic_load_n(&completed, __ATOMIC_SEQ_CST));
}

enum { MEMBERS_MAX = 16 };

static int descriptor_of(zval *value)
{
    int descriptor = -1;
    php_stream *stream = NULL;
    if (Z_TYPE_P(value) == IS_RESOURCE) {
        php_stream_from_zval_no_verify(stream, value);
        (void)php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&descriptor, 0);
    } else {
        descriptor = (int)Z_LVAL_P(value);
    }
    return descriptor;
}

/* test_park(array $watches, ?float $timeout, array $completions): array of the reason why the wait ended, and the index of
 * what ended it. A watch is a stream or a number, and the events of poll(). */
PHP_FUNCTION(test_park)
{
    zval *watches, *completions, *entry;
    double timeout = 0;
    bool is_forever;
    ZEND_PARSE_PARAMETERS_START(3, 3)
        Z_PARAM_ARRAY(watches)
        Z_PARAM_DOUBLE_OR_NULL(timeout, is_forever)
        Z_PARAM_ARRAY(completions)
    ZEND_PARSE_PARAMETERS_END();
    shim_watch own_watches[MEMBERS_MAX];
    shim_completion *own_completions[MEMBERS_MAX];
    shim_wait_set set = {.watches = own_watches, .completions = own_completions};
    /* The shim must not read members that are not set. */
    memset(own_watches, 0xff, sizeof(own_watches));
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(watches), entry) {
        shim_watch *watch = &own_watches[set.watch_count++];
        watch->descriptor = descriptor_of(zend_hash_index_find(Z_ARRVAL_P(entry), 0));
        watch->events = (short)Z_LVAL_P(zend_hash_index_find(Z_ARRVAL_P(entry), 1));
        watch->is_in_use = false;
    } ZEND_HASH_FOREACH_END();
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(completions), entry) {
        own_completions[set.completion_count++] = (shim_completion *)Z_LVAL_P(entry);
    } ZEND_HASH_FOREACH_END();
    if (!is_forever) {
        set.deadline = now_ns() + (int64_t)(timeout * 1e9);
    }
    const shim_woken woken = ((park *)(base() + SHIM_PARK))(&set);
    static const char *const reasons[] = {"never", "descriptor", "time", "close", "completion"};
    array_init(return_value);
    add_next_index_string(return_value, reasons[woken.by]);
    add_next_index_long(return_value, woken.member);
}

static const zend_function_entry functions[] = {
    PHP_FE(test_make, arginfo_any)
    PHP_FE(test_drop, arginfo_any)
    PHP_FE(test_is_complete, arginfo_any)
    PHP_FE(test_complete, arginfo_any)
    PHP_FE(test_completed, arginfo_any)
    PHP_FE(test_park, arginfo_any)
    PHP_FE_END
};

static zend_module_entry completions_module_entry = {
    STANDARD_MODULE_HEADER, "completions", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES
};
ZEND_GET_MODULE(completions)
