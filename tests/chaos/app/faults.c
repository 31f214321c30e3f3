/* An extension for tests: fails the n-th allocation after a mark the way PHP's memory limit does. */
#include <php.h>
#include <zend_gc.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#if PHP_VERSION_ID >= 80400
#define PLACE_DC ZEND_FILE_LINE_DC ZEND_FILE_LINE_ORIG_DC
#define PLACE_CC ZEND_FILE_LINE_RELAY_CC ZEND_FILE_LINE_ORIG_RELAY_CC
#define HEAP_CC PLACE_CC
#else
#define PLACE_DC
#define PLACE_CC
#define HEAP_CC ZEND_FILE_LINE_CC ZEND_FILE_LINE_EMPTY_CC
#endif

typedef void *(*allocate_fn)(size_t PLACE_DC);
typedef void (*release_fn)(void * PLACE_DC);
typedef void *(*resize_fn)(void *, size_t PLACE_DC);

/* The heap's previous function; NULL stands for the heap's own one. */
static __thread allocate_fn own_allocate;
static __thread release_fn own_release;
static __thread resize_fn own_resize;
static __thread zend_long left;
static __thread char path[512];

/* PHP's own struct; faults_arm() checks the layout. */
typedef struct {
    int use_custom_heap;
    void *storage;
    size_t size;
    size_t peak;
#if PHP_VERSION_ID >= 80400
    uintptr_t shadow_key;
#endif
    void *free_slot[30];
    size_t real_size;
    size_t real_peak;
    size_t limit;
} heap_head;

static size_t limit(void)
{
    return ((heap_head *)zend_mm_get_heap())->limit;
}

static bool is_limit_found(void)
{
    size_t before = limit(), other = SIZE_MAX / 4;
    (void)zend_set_memory_limit(other);
    bool is_found = limit() == other;
    (void)zend_set_memory_limit(before);
    return is_found;
}

/* Whether the server has raised the limit, where a bailout would leave an operation incomplete. */
static bool is_raised(void)
{
    return limit() > (size_t)PG(memory_limit);
}

static void disarm(void)
{
    if (left > 0) {
        zend_mm_set_custom_handlers(zend_mm_get_heap(), own_allocate, own_release, own_resize);
        left = 0;
    }
}

static void count(size_t size)
{
    if (left > 1) {
        left--;
        return;
    }
    zend_gc_status collector;
    zend_gc_get_status(&collector);
    if (collector.active || is_raised()) {
        /* The collector suspends the limit because it must not be aborted: fail the next allocation instead. */
        return;
    }
    disarm();
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0) {
        (void)!write(file, "allocation", 10);
        close(file);
    }
    if (getenv("CHAOS_ABORT") != NULL) {
        abort();
    }
    zend_error_noreturn(E_ERROR, "Allowed memory size of 1 bytes exhausted (tried to allocate %zu bytes)", size);
}

static void *allocate(size_t size PLACE_DC)
{
    count(size);
    return own_allocate != NULL ? own_allocate(size PLACE_CC) : _zend_mm_alloc(zend_mm_get_heap(), size HEAP_CC);
}

static void release(void *block PLACE_DC)
{
    if (own_release != NULL) {
        own_release(block PLACE_CC);
    } else {
        _zend_mm_free(zend_mm_get_heap(), block HEAP_CC);
    }
}

static void *resize(void *block, size_t size PLACE_DC)
{
    count(size);
    return own_resize != NULL ? own_resize(block, size PLACE_CC) : _zend_mm_realloc(zend_mm_get_heap(), block, size HEAP_CC);
}

ZEND_BEGIN_ARG_INFO_EX(arguments_of_arm, 0, 0, 2)
    ZEND_ARG_TYPE_INFO(0, n, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, path, IS_STRING, 0)
ZEND_END_ARG_INFO()

PHP_FUNCTION(faults_arm)
{
    zend_long n;
    zend_string *marker;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_LONG(n)
        Z_PARAM_STR(marker)
    ZEND_PARSE_PARAMETERS_END();
    disarm();
    if (!is_limit_found()) {
        zend_throw_error(NULL, "the layout of PHP's heap is another one");
        RETURN_THROWS();
    }
    snprintf(path, sizeof(path), "%s", ZSTR_VAL(marker));
    zend_mm_heap *heap = zend_mm_get_heap();
    own_allocate = NULL;
    own_release = NULL;
    own_resize = NULL;
    if (zend_mm_is_custom_heap(heap)) {
        zend_mm_get_custom_handlers(heap, &own_allocate, &own_release, &own_resize);
    }
    left = n;
    zend_mm_set_custom_handlers(heap, allocate, release, resize);
}

ZEND_BEGIN_ARG_INFO_EX(arguments_of_disarm, 0, 0, 0)
ZEND_END_ARG_INFO()

PHP_FUNCTION(faults_disarm)
{
    ZEND_PARSE_PARAMETERS_NONE();
    disarm();
}

static const zend_function_entry functions[] = {
    PHP_FE(faults_arm, arguments_of_arm)
    PHP_FE(faults_disarm, arguments_of_disarm)
    PHP_FE_END
};

/* The heap is about to be destroyed. */
PHP_RSHUTDOWN_FUNCTION(faults)
{
    (void)type;
    (void)module_number;
    disarm();
    return SUCCESS;
}

zend_module_entry faults_module_entry = {
    STANDARD_MODULE_HEADER, "faults", functions, NULL, NULL, NULL, PHP_RSHUTDOWN(faults), NULL, "1", STANDARD_MODULE_PROPERTIES,
};

ZEND_GET_MODULE(faults)
