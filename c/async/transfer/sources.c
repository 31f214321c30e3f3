/* Files that this thread has compiled to take functions from them.
 *
 * Compiling a file in tables of its own declares nothing. If OPcache holds the file, that loads the cached script, whose
 * functions are in shared memory. OPcache has optimized them for the functions and classes of that file, so they are
 * used only if these are what the thread has under their names. Otherwise the file is compiled without OPcache and
 * without regard to what is declared: the code then looks up all names when it runs.
 *
 * Files are kept, because a function that is made anew for each task would begin with a cold run-time cache. */
#include "async/transfer/transfer.h"
#include "php/opcache/opcache.h"

#include <zend_compile.h>
#include <zend_language_scanner.h>

enum {
    /* Unused files are freed when there are more than this. */
    SOURCES_MAX = 64,
    ARENA_BYTES = 16 * 1024,
};

/* A file; the list begins with the newest one. */
typedef struct source {
    struct source *next;
    /* The mark of its first function: the file itself. */
    shim_mark mark;
    /* Whether the cached script was asked for. */
    bool is_cached;
    zend_op_array *main;
    HashTable functions;
    HashTable classes;
    /* All functions, by the numbers of their marks. */
    HashTable by_number;
    /* The memory of functions, classes and run-time caches. */
    zend_arena *arena;
    /* The references to all functions before closures were made. */
    uint64_t references;
} source;

static __thread source *sources;
static __thread uint32_t count;

/* ---- its functions ---- */

static void collect(source *source, zend_op_array *code)
{
    const shim_mark mark = shim_mark_of(code);
    /* A class may have inherited methods of other files. */
    if (mark == 0 || !shim_mark_is_of_file(mark, source->mark)) {
        return;
    }
    zend_hash_index_add_ptr(&source->by_number, shim_mark_number(mark), code);
    if (code->refcount != NULL && (code->fn_flags & ZEND_ACC_HEAP_RT_CACHE) == 0 && ZEND_MAP_PTR(code->run_time_cache) == NULL) {
        void *cache = zend_arena_calloc(&source->arena, 1, (size_t)code->cache_size);
        ZEND_MAP_PTR_INIT(code->run_time_cache, cache);
    }
    for (uint32_t i = 0; i < code->num_dynamic_func_defs; i++) {
        collect(source, code->dynamic_func_defs[i]);
    }
}

static void collect_table(source *source, HashTable *functions)
{
    zend_function *function;
    ZEND_HASH_MAP_FOREACH_PTR(functions, function) {
        if (function->type == ZEND_USER_FUNCTION) {
            collect(source, &function->op_array);
        }
    } ZEND_HASH_FOREACH_END();
}

static void collect_class(source *source, zend_class_entry *class)
{
    zend_property_info *property;
    collect_table(source, &class->function_table);
    ZEND_HASH_MAP_FOREACH_PTR(&class->properties_info, property) {
        for (uint32_t i = 0; i < SHIM_PROPERTY_HOOKS && SHIM_HOOKS_OF(property) != NULL; i++) {
            if (SHIM_HOOKS_OF(property)[i] != NULL) {
                collect(source, &SHIM_HOOKS_OF(property)[i]->op_array);
            }
        }
    } ZEND_HASH_FOREACH_END();
}

static uint64_t references_to(source *source)
{
    uint64_t references = 0;
    const zend_op_array *code;
    ZEND_HASH_FOREACH_PTR(&source->by_number, code) {
        references += code->refcount != NULL ? *code->refcount : 0;
    } ZEND_HASH_FOREACH_END();
    return references;
}

static void collect_all(source *source)
{
    zend_class_entry *class;
    collect(source, source->main);
    collect_table(source, &source->functions);
    ZEND_HASH_MAP_FOREACH_PTR(&source->classes, class) {
        collect_class(source, class);
    } ZEND_HASH_FOREACH_END();
    source->references = references_to(source);
}

/* ---- compiling ---- */

typedef __typeof__(*zend_compile_file) compiler;

/* Fills a table with PHP's own functions, for which the compiler has opcodes of their own. */
static void add_internal_functions(HashTable *functions)
{
    zend_string *name;
    zend_function *function;
    zend_hash_init(functions, zend_hash_num_elements(CG(function_table)), NULL, NULL, false);
    ZEND_HASH_MAP_FOREACH_STR_KEY_PTR(CG(function_table), name, function) {
        if (function->type == ZEND_INTERNAL_FUNCTION) {
            zend_hash_add_new_ptr(functions, name, function);
        }
    } ZEND_HASH_FOREACH_END();
}

static void move_user_functions(HashTable *to, HashTable *from)
{
    zend_string *name;
    zend_function *function;
    ZEND_HASH_MAP_FOREACH_STR_KEY_PTR(from, name, function) {
        if (function->type == ZEND_USER_FUNCTION) {
            zend_hash_add_ptr(to, name, function);
        }
    } ZEND_HASH_FOREACH_END();
    zend_hash_destroy(from);
}

/* The engine finds a loaded class through a cache at its name, in which the compiler and OPcache have put theirs. */
static void restore_class_caches(HashTable *classes)
{
    zend_string *name;
    zend_class_entry *class;
    ZEND_HASH_MAP_FOREACH_STR_KEY_PTR(classes, name, class) {
        if (ZSTR_HAS_CE_CACHE(class->name) && ZSTR_VAL(name)[0] != '\0') {
            ZSTR_SET_CE_CACHE_EX(class->name, zend_hash_find_ptr(EG(class_table), name), false);
        }
    } ZEND_HASH_FOREACH_END();
}

/* Compiles the file into `source`, and reports nothing: the sender's thread has. A bailout passes through. */
static void compile(source *source, compiler *compiler, zend_file_handle *file, uint32_t options)
{
    HashTable functions, *const real_functions = CG(function_table), *const real_classes = CG(class_table);
    zend_arena *const real_arena = CG(arena);
    const uint32_t real_options = CG(compiler_options), real_counter = CG(rtd_key_counter);
    const int reporting = EG(error_reporting);
    const zval handler = EG(user_error_handler);
    volatile bool is_jump = false;
    add_internal_functions(&functions);
    ZVAL_UNDEF(&EG(user_error_handler));
    EG(error_reporting) = 0;
    CG(function_table) = &functions;
    CG(class_table) = &source->classes;
    CG(arena) = source->arena;
    CG(compiler_options) |= options;
    /* The names of classes that are declared at run time contain it, and are interned: they are to be the same again. */
    CG(rtd_key_counter) = 0;
    zend_try {
        source->main = compiler(file, ZEND_INCLUDE);
    } zend_catch {
        is_jump = true;
    } zend_end_try();
    source->arena = CG(arena);
    CG(function_table) = real_functions;
    CG(class_table) = real_classes;
    CG(arena) = real_arena;
    CG(compiler_options) = real_options;
    CG(rtd_key_counter) = real_counter;
    EG(error_reporting) = reporting;
    EG(user_error_handler) = handler;
    restore_class_caches(&source->classes);
    move_user_functions(&source->functions, &functions);
    if (is_jump) {
        zend_bailout();
    }
}

/* Loads the script that OPcache holds, even if the file has changed since: closures have outlived the change. */
static void compile_cached(source *source, zend_file_handle *file)
{
    zend_string *path = file->filename;
    const bool was_validated = shim_cache_validate(false);
    if (shim_cache_holds(path)) {
        const bool was_included = zend_hash_exists(&EG(included_files), path);
        compile(source, zend_compile_file, file, 0);
        if (!was_included) {
            zend_hash_del(&EG(included_files), path);
        }
    }
    (void)shim_cache_validate(was_validated);
}

/* Compiles the file, unless it has changed. */
static void compile_plain(source *source, zend_file_handle *file)
{
    char *text;
    size_t length;
    const uint32_t options = ZEND_COMPILE_IGNORE_USER_FUNCTIONS | ZEND_COMPILE_IGNORE_INTERNAL_CLASSES |
                             ZEND_COMPILE_IGNORE_OTHER_FILES | ZEND_COMPILE_NO_CONSTANT_SUBSTITUTION;
    if (php_stream_open_for_zend_ex(file, USE_PATH | STREAM_OPEN_FOR_INCLUDE) == SUCCESS && zend_stream_fixup(file, &text, &length) == SUCCESS &&
        shim_mark_is_of_file(shim_mark_of_file(file->filename, text, length), source->mark)) {
        compile(source, shim_compile_uncached, file, options);
    }
}

/* Whether the thread has the functions and classes of the file that OPcache relies on. */
static bool is_at_home(source *source)
{
    zend_string *name;
    void *declared;
    ZEND_HASH_MAP_FOREACH_STR_KEY_PTR(&source->functions, name, declared) {
        if (zend_hash_find_ptr(EG(function_table), name) != declared) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    ZEND_HASH_MAP_FOREACH_STR_KEY_PTR(&source->classes, name, declared) {
        /* Other keys are those of classes that are declared, or linked, when the script runs. */
        if (ZSTR_VAL(name)[0] != '\0' && zend_hash_find_ptr(EG(class_table), name) != declared) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

/* ---- the list ---- */

static source *begin_source(shim_mark mark, bool is_cached)
{
    source *source = ecalloc(1, sizeof(*source));
    source->mark = mark;
    source->is_cached = is_cached;
    source->arena = zend_arena_create(ARENA_BYTES);
    zend_hash_init(&source->functions, 0, NULL, ZEND_FUNCTION_DTOR, false);
    zend_hash_init(&source->classes, 0, NULL, ZEND_CLASS_DTOR, false);
    zend_hash_init(&source->by_number, 0, NULL, NULL, false);
    return source;
}

static void free_source(source *source)
{
    zend_hash_destroy(&source->by_number);
    zend_hash_graceful_reverse_destroy(&source->functions);
    zend_hash_graceful_reverse_destroy(&source->classes);
    if (source->main != NULL) {
        destroy_op_array(source->main);
        efree_size(source->main, sizeof(*source->main));
    }
    zend_arena_destroy(source->arena);
    efree(source);
}

/* Returns a source that has the function; NULL if there is none. */
static source *load(zend_string *path, shim_mark mark, bool is_cached, bool from_cache)
{
    zend_file_handle file;
    source *loaded = begin_source(mark, is_cached);
    zend_stream_init_filename_ex(&file, path);
    from_cache ? compile_cached(loaded, &file) : compile_plain(loaded, &file);
    zend_destroy_file_handle(&file);
    if (EG(exception) != NULL && !zend_is_unwind_exit(EG(exception)) && !zend_is_graceful_exit(EG(exception))) {
        zend_clear_exception();
    }
    if (loaded->main != NULL) {
        collect_all(loaded);
    }
    if (zend_hash_index_exists(&loaded->by_number, shim_mark_number(mark)) && (!from_cache || is_at_home(loaded))) {
        return loaded;
    }
    free_source(loaded);
    return NULL;
}

static void free_oldest(void)
{
    source **oldest = NULL;
    for (source **at = &sources; *at != NULL; at = &(*at)->next) {
        if (at != &sources && references_to(*at) == (*at)->references) {
            oldest = at;
        }
    }
    if (oldest != NULL) {
        source *unused = *oldest;
        *oldest = unused->next;
        count--;
        free_source(unused);
    }
}

static source *find(shim_mark mark, bool is_cached)
{
    for (source **at = &sources; *at != NULL; at = &(*at)->next) {
        source *found = *at;
        if (shim_mark_is_of_file(found->mark, mark) && found->is_cached == is_cached) {
            *at = found->next;
            found->next = sources;
            sources = found;
            return found;
        }
    }
    return NULL;
}

zend_op_array *shim_source_function(zend_string *path, shim_mark mark, bool is_cached)
{
    source *source = find(mark, is_cached);
    if (source == NULL) {
        source = is_cached ? load(path, mark, is_cached, true) : NULL;
        source = source != NULL ? source : load(path, mark, is_cached, false);
        if (source == NULL) {
            return NULL;
        }
        source->next = sources;
        sources = source;
        if (++count > SOURCES_MAX) {
            free_oldest();
        }
    }
    return zend_hash_index_find_ptr(&source->by_number, shim_mark_number(mark));
}

void shim_sources_free(void)
{
    while (sources != NULL) {
        source *next = sources->next;
        free_source(sources);
        sources = next;
    }
    count = 0;
}
