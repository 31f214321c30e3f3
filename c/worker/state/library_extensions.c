/* The per-request parts of extensions that wrap libraries, and the state that these libraries keep for a thread.
 *
 * The structs are declared here as the extensions define them. If the size differs in the running PHP, the struct stays
 * with the thread. Functions of libraries are looked up by name, so no library is needed at link time. All of it is for one
 * table, which ends the file. */
#include "compat.h"
#include "worker/state/state.h"

#include <dlfcn.h>
#include <zend_smart_str.h>

typedef void (*function)(void);

/* Returns the library's function of this name, looked up once; NULL if the library is not loaded. */
static function find(function *found, const char *name)
{
    if (*found == NULL) {
        *found = (function)dlsym(RTLD_DEFAULT, name);
    }
    return *found;
}

/* ---- libxml ---- */

typedef struct libxml_globals {
    zval stream_context;
    smart_str error_buffer;
    zend_llist *error_list;
    zend_fcall_info_cache entity_loader;
    bool entity_loader_disabled;
} libxml_globals;

/* The settings of the list in which the boot script collects errors; `dtor` is NULL if it collects none. */
static __thread zend_llist boot_list;

static void libxml_make_baseline(void *globals)
{
    libxml_globals *libxml = globals;
    boot_list = libxml->error_list != NULL ? *libxml->error_list : (zend_llist){0};
    memset(&libxml->error_buffer, 0, sizeof(libxml->error_buffer));
    libxml->error_list = NULL;
}

/* Makes libxml2 report errors to PHP or not. For each thread, libxml2 stores the function that it reports errors to:
 * one of PHP while libxml_use_internal_errors() is on. PHP does not export that function, so it is read from libxml2. */
static void libxml_report(bool to_php)
{
    static __thread void *reporter;
    static __thread function found[2];
    void **(*current)(void) = (void **(*)(void))find(&found[0], "__xmlStructuredError");
    void (*set)(void *, void *) = (void (*)(void *, void *))find(&found[1], "xmlSetStructuredErrorFunc");
    if (current == NULL || set == NULL) {
        return;
    }
    if (*current() != NULL) {
        reporter = *current();
    }
    set(NULL, to_php ? reporter : NULL);
}

/* Copies the context: PHP writes into the contexts that it uses (the name of a peer behind a proxy). */
static php_stream_context *libxml_copy_context(const zval *context)
{
    bool is_one = Z_TYPE_P(context) == IS_RESOURCE && Z_RES_P(context)->type == php_le_stream_context();
    return is_one ? shim_context_copy(Z_RES_P(context)->ptr) : NULL;
}

/* Copies the trampoline of a loader that is served by __call(): it is freed together with the loader. Returns NULL for
 * any other loader. */
static zend_function *libxml_copy_method(const zend_fcall_info_cache *loader)
{
    if (!ZEND_FCC_INITIALIZED(*loader) || (loader->function_handler->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) == 0) {
        return NULL;
    }
    zend_function *copy = emalloc(sizeof(zend_function));
    *copy = *loader->function_handler;
    return copy;
}

static void libxml_begin(void *globals)
{
    libxml_globals *libxml = globals;
    zend_function *const method = libxml_copy_method(&libxml->entity_loader);
    zend_llist *const errors = boot_list.dtor != NULL ? emalloc(sizeof(zend_llist)) : NULL;
    php_stream_context *const context = libxml_copy_context(&libxml->stream_context);
    /* Nothing is allocated from here on. */
    ZVAL_UNDEF(&libxml->stream_context);
    if (context != NULL) {
        ZVAL_RES(&libxml->stream_context, context->res);
    }
    if (ZEND_FCC_INITIALIZED(libxml->entity_loader)) {
        zend_fcc_addref(&libxml->entity_loader);
    }
    if (method != NULL) {
        zend_string_addref(method->common.function_name);
        libxml->entity_loader.function_handler = method;
    }
    if (errors != NULL) {
        zend_llist_init(errors, boot_list.size, boot_list.dtor, 0);
        libxml->error_list = errors;
        libxml_report(true);
    }
}

static void libxml_end(void *globals)
{
    libxml_globals *libxml = globals;
    zval context = libxml->stream_context;
    ZVAL_UNDEF(&libxml->stream_context);
    zval_ptr_dtor(&context);
    smart_str_free(&libxml->error_buffer);
    if (libxml->error_list != NULL) {
        libxml_report(false);
        zend_llist_destroy(libxml->error_list);
        efree(libxml->error_list);
        libxml->error_list = NULL;
    }
    if (ZEND_FCC_INITIALIZED(libxml->entity_loader)) {
        zend_fcc_dtor(&libxml->entity_loader);
    }
}

static void libxml_suspend(void *globals)
{
    if (((libxml_globals *)globals)->error_list != NULL) {
        libxml_report(false);
    }
}

static void libxml_resume(void *globals)
{
    if (((libxml_globals *)globals)->error_list != NULL) {
        libxml_report(true);
    }
}

/* The xmlError that libxml_get_last_error() reads for the thread. */
typedef struct libxml_error {
    int domain;
    int code;
    char *message;
    int level;
    char *file;
    int line;
    char *str1;
    char *str2;
    char *str3;
    int int1;
    int int2;
    void *ctxt;
    void *node;
} libxml_error;

static __thread function libxml_reset;

static void *libxml_find_error(void *globals)
{
    (void)globals;
    void *(*error)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "__xmlLastError");
    return error != NULL && find(&libxml_reset, "xmlResetLastError") != NULL ? error() : NULL;
}

static void libxml_end_error(void *error)
{
    if (((libxml_error *)error)->code != 0 || ((libxml_error *)error)->message != NULL) {
        libxml_reset();
    }
}

/* DOM sets it while it saves a document with LIBXML_NOEMPTYTAG. */
static void *libxml_find_no_empty_tags(void *globals)
{
    (void)globals;
    void *(*flag)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "__xmlSaveNoEmptyTags");
    return flag != NULL ? flag() : NULL;
}

/* ---- gmp ---- */

/* The state of gmp_random_bits(). */
typedef struct gmp_globals {
    bool rand_initialized;
    struct {
        struct {
            int allocated;
            int size;
            void *limbs;
        } seed;
        int algorithm;
        void *functions;
    } rand_state;
    SHIM_GMP_MEMBERS
} gmp_globals;

/* ---- dom, posix, snmp ---- */

typedef struct dom_globals {
    bool suppress_warnings;
} dom_globals;

typedef struct posix_globals {
    int last_error;
} posix_globals;

typedef struct snmp_globals {
    int valueretrieval;
} snmp_globals;

/* ---- intl ---- */

typedef struct intl_globals {
    void *current_collator;
    char *default_locale;
    void *compare_func;
    void *grapheme_iterator;
    /* Its contents differ between versions; the extension's own shutdown frees them. */
    struct {
        void *parts[2];
    } g_error;
    zend_long error_level;
    bool use_exceptions;
} intl_globals;

/* ---- mysqli ---- */

typedef struct mysqli_globals {
    zend_long num_links;
    zend_long max_links;
    zend_long num_active_persistent;
    zend_long num_inactive_persistent;
    zend_long max_persistent;
    bool allow_persistent;
    zend_ulong default_port;
    char *default_host;
    char *default_user;
    char *default_pw;
    char *default_socket;
    bool allow_local_infile;
    char *local_infile_directory;
    zend_long error_no;
    char *error_msg;
    zend_long report_mode;
    bool rollback_on_cached_plink;
} mysqli_globals;

static void mysqli_make_baseline(void *globals)
{
    mysqli_globals *mysqli = globals;
    mysqli->error_no = 0;
    mysqli->error_msg = NULL;
}

static void mysqli_end(void *globals)
{
    mysqli_globals *mysqli = globals;
    if (mysqli->error_msg != NULL) {
        efree(mysqli->error_msg);
        mysqli->error_msg = NULL;
    }
}

/* ---- openssl ---- */

enum { OPENSSL_ERRORS = 16 };
typedef struct openssl_errors {
    int buffer[OPENSSL_ERRORS];
    int top;
    int bottom;
} openssl_errors;

typedef struct openssl_globals {
    openssl_errors *errors;
    openssl_errors *errors_mark;
    SHIM_OPENSSL_MEMBERS
} openssl_globals;

/* Moves the errors that OpenSSL still keeps for the thread to where openssl_error_string() would move them. */
static void openssl_suspend(void *globals)
{
    openssl_globals *openssl = globals;
    static __thread function found;
    unsigned long (*next)(void) = (unsigned long (*)(void))find(&found, "ERR_get_error");
    int code = next != NULL ? (int)next() : 0;
    if (code == 0) {
        return;
    }
    if (openssl->errors == NULL) {
        openssl->errors = pecalloc(1, sizeof(*openssl->errors), 1);
    }
    for (openssl_errors *errors = openssl->errors; code != 0; code = (int)next()) {
        errors->top = (errors->top + 1) % OPENSSL_ERRORS;
        if (errors->top == errors->bottom) {
            errors->bottom = (errors->bottom + 1) % OPENSSL_ERRORS;
        }
        errors->buffer[errors->top] = code;
    }
}

static void openssl_end(void *globals)
{
    openssl_globals *openssl = globals;
    openssl_suspend(globals);
    free(openssl->errors);
    free(openssl->errors_mark);
    openssl->errors = NULL;
    openssl->errors_mark = NULL;
}

/* ---- pgsql ---- */

/* pg_connect() finds an open connection by the arguments that opened it; the names of types and tables are cached by
 * OID, whatever the database. */
typedef struct pgsql_globals {
    zend_long num_links;
    zend_long num_persistent;
    zend_long max_links;
    zend_long max_persistent;
    SHIM_PGSQL_MEMBERS
    HashTable field_oids;
    HashTable table_oids;
    HashTable connections;
} pgsql_globals;

static void pgsql_make_baseline(void *globals)
{
    pgsql_globals *pgsql = globals;
    zend_hash_init(&pgsql->field_oids, 0, NULL, pgsql->field_oids.pDestructor, 0);
    zend_hash_init(&pgsql->table_oids, 0, NULL, pgsql->table_oids.pDestructor, 0);
    zend_hash_init(&pgsql->connections, 0, NULL, NULL, 1);
}

static void pgsql_begin(void *globals)
{
    pgsql_globals *pgsql = globals;
    if (pgsql->default_link != NULL) {
        GC_ADDREF(pgsql->default_link);
    }
}

/* Adds a reference to each connection while its table is not in place. The table itself holds no references, and a
 * connection that ends removes itself from the current table, which may belong to another request. */
static void pgsql_suspend(void *globals)
{
    zval *connection;
    ZEND_HASH_FOREACH_VAL(&((pgsql_globals *)globals)->connections, connection) {
        Z_ADDREF_P(connection);
    } ZEND_HASH_FOREACH_END();
}

static void pgsql_resume(void *globals)
{
    zval *connection;
    ZEND_HASH_FOREACH_VAL(&((pgsql_globals *)globals)->connections, connection) {
        zend_object_release(Z_OBJ_P(connection));
    } ZEND_HASH_FOREACH_END();
}

static void pgsql_end(void *globals)
{
    pgsql_globals *pgsql = globals;
    if (pgsql->default_link != NULL) {
        zend_object_release(pgsql->default_link);
        pgsql->default_link = NULL;
    }
    zend_hash_destroy(&pgsql->field_oids);
    zend_hash_destroy(&pgsql->table_oids);
    zend_hash_destroy(&pgsql->connections);
}

/* ---- soap ---- */

/* The state of a SOAP server or client while its functions run code: above all, the object that reports errors. */
typedef struct soap_globals {
    SHIM_SOAP_ENCODINGS
    HashTable *typemap;
    int cur_uniq_ns;
    int soap_version;
    void *sdl;
    SHIM_SOAP_ERROR_MEMBERS
    char cache_mode;
    char cache_enabled;
    char *cache_dir;
    zend_long cache_ttl;
    zend_long cache_limit;
    HashTable *mem_cache;
    void *encoding;
    HashTable *class_map;
    int features;
    HashTable wsdl_cache;
    int cur_uniq_ref;
    HashTable *ref_map;
} soap_globals;

const size_t shim_soap_cache_offset = offsetof(soap_globals, mem_cache);

/* ---- sockets ---- */

typedef struct sockets_globals {
    int last_error;
    char *strerror_buf;
} sockets_globals;

const shim_part shim_library_extensions[] = {
    {.module = "dom", .size = sizeof(dom_globals)},
    {
        .module = "gmp",
        .size = sizeof(gmp_globals),
        .ranges = {SHIM_MEMBERS(gmp_globals, rand_initialized, rand_state)},
        .blank = true,
        .stop = true,
    },
    {
        .module = "intl",
        .size = sizeof(intl_globals),
        .directives =
            {SHIM_DIRECTIVE(intl_globals, default_locale, "intl.default_locale"),
             SHIM_DIRECTIVE(intl_globals, error_level, "intl.error_level"),
             SHIM_DIRECTIVE(intl_globals, use_exceptions, "intl.use_exceptions")},
        .ranges =
            {SHIM_MEMBER(intl_globals, current_collator), SHIM_MEMBER(intl_globals, compare_func),
             SHIM_MEMBER(intl_globals, g_error)},
        .of_stack = {SHIM_MEMBER(intl_globals, current_collator), SHIM_MEMBER(intl_globals, compare_func)},
        .blank = true,
        .stop = true,
    },
    {
        .module = "libxml",
        .size = sizeof(libxml_globals),
        .make_baseline = libxml_make_baseline,
        .begin = libxml_begin,
        .suspend = libxml_suspend,
        .resume = libxml_resume,
        .end = libxml_end,
    },
    {
        .module = "libxml",
        .size = sizeof(libxml_error),
        .inner = libxml_find_error,
        .blank = true,
        .end = libxml_end_error,
    },
    {.module = "libxml", .size = sizeof(int), .inner = libxml_find_no_empty_tags, .blank = true},
    {
        .module = "mysqli",
        .size = sizeof(mysqli_globals),
        .directives =
            {SHIM_DIRECTIVE(mysqli_globals, max_links, "mysqli.max_links"),
             SHIM_DIRECTIVE(mysqli_globals, max_persistent, "mysqli.max_persistent"),
             SHIM_DIRECTIVE(mysqli_globals, allow_persistent, "mysqli.allow_persistent"),
             SHIM_DIRECTIVE(mysqli_globals, default_port, "mysqli.default_port"),
             SHIM_DIRECTIVE(mysqli_globals, default_socket, "mysqli.default_socket"),
             SHIM_DIRECTIVE(mysqli_globals, local_infile_directory, "mysqli.local_infile_directory"),
             SHIM_DIRECTIVE(mysqli_globals, rollback_on_cached_plink, "mysqli.rollback_on_cached_plink")},
        .ranges = {SHIM_MEMBERS(mysqli_globals, error_no, report_mode)},
        .make_baseline = mysqli_make_baseline,
        .end = mysqli_end,
    },
    {
        .module = "openssl",
        .size = sizeof(openssl_globals),
        .ranges = {SHIM_MEMBERS(openssl_globals, errors, errors_mark)},
        .blank = true,
        .suspend = openssl_suspend,
        .end = openssl_end,
    },
    {
        .module = "pgsql",
        .size = sizeof(pgsql_globals),
        .directives =
            {SHIM_DIRECTIVE(pgsql_globals, max_links, "pgsql.max_links"),
             SHIM_DIRECTIVE(pgsql_globals, allow_persistent, "pgsql.allow_persistent"),
             SHIM_DIRECTIVE(pgsql_globals, auto_reset_persistent, "pgsql.auto_reset_persistent"),
             SHIM_DIRECTIVE(pgsql_globals, ignore_notices, "pgsql.ignore_notice"),
             SHIM_DIRECTIVE(pgsql_globals, log_notices, "pgsql.log_notice")},
        .ranges = {SHIM_MEMBER(pgsql_globals, default_link), SHIM_MEMBERS(pgsql_globals, field_oids, connections)},
        .make_baseline = pgsql_make_baseline,
        .begin = pgsql_begin,
        .suspend = pgsql_suspend,
        .resume = pgsql_resume,
        .end = pgsql_end,
    },
    {.module = "posix", .size = sizeof(posix_globals), .blank = true},
    {.module = "snmp", .size = sizeof(snmp_globals)},
    {
        .module = "soap",
        .size = sizeof(soap_globals),
        .directives =
            {SHIM_DIRECTIVE(soap_globals, cache_enabled, "soap.wsdl_cache_enabled"),
             SHIM_DIRECTIVE(soap_globals, cache_mode, "soap.wsdl_cache"),
             SHIM_DIRECTIVE(soap_globals, cache_dir, "soap.wsdl_cache_dir"),
             SHIM_DIRECTIVE(soap_globals, cache_ttl, "soap.wsdl_cache_ttl"),
             SHIM_DIRECTIVE(soap_globals, cache_limit, "soap.wsdl_cache_limit")},
        .hidden = true,
        .ranges =
            {SHIM_MEMBERS(soap_globals, typemap, sdl), SHIM_MEMBER(soap_globals, use_soap_error_handler),
             SHIM_MEMBERS(soap_globals, error_code, error_object), SHIM_MEMBERS(soap_globals, encoding, features),
             SHIM_MEMBERS(soap_globals, cur_uniq_ref, ref_map)},
    },
    {
        .module = "sockets",
        .size = sizeof(sockets_globals),
        .ranges = {SHIM_MEMBER(sockets_globals, last_error)},
        .blank = true,
    },
};
const size_t shim_library_extensions_count = SHIM_COUNT(shim_library_extensions);
