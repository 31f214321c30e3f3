/* Files that this thread has compiled to take functions from them.
 *
 * The compiler works in separate tables of functions and classes, so that nothing is declared. If OPcache holds the
 * file, it loads the cached script, whose functions are in shared memory. OPcache has optimized them for the functions
 * and classes of that file, so they are used only if the thread has the same ones under their names. Otherwise the file
 * is compiled without OPcache, and such that the code looks up all names when it runs.
 *
 * Files are kept, because a function that is made anew for each task would begin with a cold run-time cache. */
#include "async/transfer/transfer.h"
#include "php/engine/engine.h"
#include "worker/state/state.h"

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
    /* The ID of its first function: the file itself. */
    shim_function_id id;
    /* Whether the cached script was asked for. */
    bool is_cached;
    zend_op_array *main;
    HashTable functions;
    HashTable classes;
    /* All functions, by the numbers of their IDs. */
    HashTable by_number;
    /* The memory of functions, classes and run-time caches. */
    zend_arena *arena;
    /* The references to all functions before closures were made. */
    uint64_t references;
} source;

static __thread source *sources;
static __thread uint32_t count;

/* ---- its functions ---- */

static zend_ulong number_of(shim_function_id id)
{
    return id & ((1u << SHIM_FUNCTION_NUMBER_BITS) - 1);
}

static void collect(source *source, zend_op_array *code)
{
    const shim_function_id id = shim_function_id_of(code);
    /* A class may have inherited methods of other files. */
    if (id == 0 || !shim_function_id_is_of_file(id, source->id)) {
        return;
    }
    zend_hash_index_add_ptr(&source->by_number, number_of(id), code);
    if (code->refcount != NULL && (code->fn_flags & ZEND_ACC_HEAP_RT_CACHE) == 0 &&
        ZEND_MAP_PTR(code->run_time_cache) == NULL) {
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
        for (int i = 0; i < SHIM_PROPERTY_HOOKS && SHIM_HOOKS_OF(property) != NULL; i++) {
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

/* Fills a table with PHP's own functions: the compiler has special opcodes for some. */
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
            /* OPcache may have given the name, for another thread, a place that this thread does not have yet. */
            ZSTR_SET_CE_CACHE(class->name, zend_hash_find_ptr(EG(class_table), name));
        }
    } ZEND_HASH_FOREACH_END();
}

/* The settings and the last result of error reporting. */
typedef struct error_state {
    int level;
    zval handler;
    /* error_get_last() */
    int type;
    int line;
    zend_string *message;
    zend_string *file;
} error_state;

/* Silences the compiler: the sender's thread has reported its warnings. */
static error_state suppress_errors(void)
{
    const error_state before = {
        .level = EG(error_reporting),
        .handler = EG(user_error_handler),
        .type = PG(last_error_type),
        .line = PG(last_error_lineno),
        .message = PG(last_error_message),
        .file = PG(last_error_file),
    };
    EG(error_reporting) = SHIM_REPORTS_NOTHING;
    ZVAL_UNDEF(&EG(user_error_handler));
    PG(last_error_message) = PG(last_error_file) = NULL;
    return before;
}

static void restore_errors(const error_state *before)
{
    EG(error_reporting) = before->level;
    EG(user_error_handler) = before->handler;
    if (PG(last_error_message) != NULL) {
        zend_string_release(PG(last_error_message));
        zend_string_release(PG(last_error_file));
    }
    PG(last_error_type) = before->type;
    PG(last_error_lineno) = before->line;
    PG(last_error_message) = before->message;
    PG(last_error_file) = before->file;
}

/* Compiles the file into `source`. Returns false after a bailout. */
static bool compile(source *source, compiler *compiler, zend_file_handle *file, uint32_t options)
{
    HashTable functions, *const real_functions = CG(function_table), *const real_classes = CG(class_table);
    zend_arena *const real_arena = CG(arena);
    const uint32_t real_options = CG(compiler_options), real_counter = CG(rtd_key_counter);
    const error_state before = suppress_errors();
    volatile bool has_bailed_out = false;
    add_internal_functions(&functions);
    CG(function_table) = &functions;
    CG(class_table) = &source->classes;
    CG(arena) = source->arena;
    CG(compiler_options) |= options;
    /* Part of the names under which classes wait for their declaration. These names are interned, so that each new one
     * would stay until the thread's request ends. */
    CG(rtd_key_counter) = 0;
    zend_try {
        source->main = compiler(file, ZEND_INCLUDE);
    } zend_catch {
        has_bailed_out = true;
    } zend_end_try();
    source->arena = CG(arena);
    CG(function_table) = real_functions;
    CG(class_table) = real_classes;
    CG(arena) = real_arena;
    CG(compiler_options) = real_options;
    CG(rtd_key_counter) = real_counter;
    restore_errors(&before);
    restore_class_caches(&source->classes);
    move_user_functions(&source->functions, &functions);
    return !has_bailed_out;
}

/* Loads the script that OPcache holds, even if the file has changed since: closures have outlived the change. */
static bool compile_cached(source *source, zend_file_handle *file)
{
    zend_string *path = file->filename;
    const bool was_validated = shim_opcache_validate(false);
    bool is_done = true;
    if (shim_opcache_holds(path)) {
        const bool was_included = zend_hash_exists(&EG(included_files), path);
        is_done = compile(source, zend_compile_file, file, 0);
        if (!was_included) {
            zend_hash_del(&EG(included_files), path);
        }
    }
    (void)shim_opcache_validate(was_validated);
    return is_done;
}

/* Compiles the file, unless it has changed. */
static bool compile_plain(source *source, zend_file_handle *file)
{
    char *text;
    size_t length;
    const uint32_t options = ZEND_COMPILE_IGNORE_USER_FUNCTIONS | ZEND_COMPILE_IGNORE_INTERNAL_CLASSES |
                             ZEND_COMPILE_IGNORE_OTHER_FILES | ZEND_COMPILE_NO_CONSTANT_SUBSTITUTION;
    const bool is_same = php_stream_open_for_zend_ex(file, USE_PATH | STREAM_OPEN_FOR_INCLUDE) == SUCCESS &&
                         zend_stream_fixup(file, &text, &length) == SUCCESS &&
                         shim_function_id_is_of_file(shim_function_id_of_file(file->filename, text, length),
                                                     source->id);
    return !is_same || compile(source, shim_compile_uncached, file, options);
}

/* Whether the thread has the functions and classes of the file, of which OPcache may have inlined results. */
static bool has_same_declarations(source *source)
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

static source *begin_source(shim_function_id id, bool is_cached)
{
    source *source = ecalloc(1, sizeof(*source));
    source->id = id;
    source->is_cached = is_cached;
    source->arena = zend_arena_create(ARENA_BYTES);
    zend_hash_init(&source->functions, 0, NULL, ZEND_FUNCTION_DTOR, false);
    zend_hash_init(&source->classes, 0, NULL, ZEND_CLASS_DTOR, false);
    zend_hash_init(&source->by_number, 0, NULL, NULL, false);
    return source;
}

/* Frees functions of this thread: the engine has made static variables for those that were called by name. */
static void free_functions(source *source)
{
    zend_op_array *code;
    ZEND_HASH_FOREACH_PTR(&source->by_number, code) {
        if (code->refcount != NULL) {
            zend_destroy_static_vars(code);
        }
    } ZEND_HASH_FOREACH_END();
    zend_hash_graceful_reverse_destroy(&source->functions);
    zend_hash_graceful_reverse_destroy(&source->classes);
}

static void free_source(source *source)
{
    if (source->main == NULL || source->main->refcount != NULL) {
        free_functions(source);
    } else {
        /* OPcache owns the functions and classes. */
        source->functions.pDestructor = source->classes.pDestructor = NULL;
        zend_hash_destroy(&source->functions);
        zend_hash_destroy(&source->classes);
    }
    zend_hash_destroy(&source->by_number);
    if (source->main != NULL) {
        destroy_op_array(source->main);
        efree_size(source->main, sizeof(*source->main));
    }
    zend_arena_destroy(source->arena);
    efree(source);
}

/* Returns a source that has the function; NULL if there is none. A bailout passes through. */
static source *load(zend_string *path, shim_function_id id, bool is_cached, bool from_cache)
{
    zend_file_handle file;
    source *loaded = begin_source(id, is_cached);
    zend_stream_init_filename_ex(&file, path);
    const bool is_done = (from_cache ? compile_cached : compile_plain)(loaded, &file);
    zend_destroy_file_handle(&file);
    if (!is_done) {
        zend_bailout();
    }
    if (EG(exception) != NULL && !shim_is_exit(EG(exception))) {
        zend_clear_exception();
    }
    if (loaded->main != NULL) {
        collect_all(loaded);
    }
    if (zend_hash_index_exists(&loaded->by_number, number_of(id)) && (!from_cache || has_same_declarations(loaded))) {
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

static source *find(shim_function_id id, bool is_cached)
{
    for (source **at = &sources; *at != NULL; at = &(*at)->next) {
        source *found = *at;
        if (shim_function_id_is_of_file(found->id, id) && found->is_cached == is_cached) {
            *at = found->next;
            found->next = sources;
            sources = found;
            return found;
        }
    }
    return NULL;
}

zend_op_array *shim_source_function(zend_string *path, shim_function_id id, bool is_cached)
{
    source *source = find(id, is_cached);
    if (source == NULL) {
        source = is_cached ? load(path, id, is_cached, true) : NULL;
        source = source != NULL ? source : load(path, id, is_cached, false);
        if (source == NULL) {
            return NULL;
        }
        source->next = sources;
        sources = source;
        if (++count > SOURCES_MAX) {
            free_oldest();
        }
    }
    return zend_hash_index_find_ptr(&source->by_number, number_of(id));
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
