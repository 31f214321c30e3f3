/* What extensions keep for a request, and what they keep for a thread.
 *
 * An extension's struct is found by its entry in the table of modules, so none is needed at link time. Where a part of
 * it is a request's, that part travels; `start` and `stop` say whether the extension's own request start-up and
 * shut-down run for each request. Extensions whose structs are threads' are listed in state_audit.c. */
#include "state.h"
#include "internal.h"

#include <dlfcn.h>
#include <ext/date/php_date.h>
#include <ext/filter/php_filter.h>
#include <ext/json/php_json.h>
#include <ext/pcre/php_pcre.h>
#include <ext/random/php_random.h>
#include <ext/session/php_session.h>
#include <zend_smart_str.h>
#if __has_include(<ext/mbstring/mbstring.h>)
#define HAVE_MBSTRING_HEADER 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <ext/mbstring/mbstring.h>
#pragma GCC diagnostic pop
#endif

typedef struct range {
    size_t offset;
    size_t size;
} range;

enum { RANGES_MAX = 9 };

typedef struct part {
    const char *module;
    /* What travels, up to the first empty one; none: the whole struct. Memory that belongs to a directive's handler must
     * not travel: the handler frees it when the directive changes. */
    range ranges[RANGES_MAX];
    /* On a copy of the struct, whose ranges become the neutral image. */
    void (*make_neutral)(void *globals);
    /* On the struct in place, when a request begins, and after the extension's own shut-down. */
    void (*begin)(void *globals);
    void (*end)(void *globals);
    bool start;
    bool stop;
    /* The size of its struct, if the table of modules does not tell of it. */
    size_t hidden_size;
} part;

/* ---- date ---- */

static void date_begin(void *globals)
{
    zend_date_globals *date = globals;
    if (date->timezone != NULL) {
        date->timezone = estrdup(date->timezone);
    }
}

static void date_end(void *globals)
{
    zend_date_globals *date = globals;
    if (date->timezone != NULL) {
        efree(date->timezone);
        date->timezone = NULL;
    }
}

/* ---- libxml ---- */

/* The beginning of zend_libxml_globals, whose header wants libxml2's. What follows, the loader of external entities,
 * stays the thread's. */
typedef struct libxml_globals {
    zval stream_context;
    smart_str error_buffer;
    zend_llist *error_list;
} libxml_globals;

static void libxml_make_neutral(void *globals)
{
    libxml_globals *libxml = globals;
    ZVAL_UNDEF(&libxml->stream_context);
    memset(&libxml->error_buffer, 0, sizeof(libxml->error_buffer));
    libxml->error_list = NULL;
}

/* libxml2 knows, for each thread, whom it tells of errors: a function of PHP's while libxml_use_internal_errors() is on.
 * That function is hidden; libxml2 is asked for it. */
static void libxml_report(bool to_php)
{
    static __thread void *reporter;
    void **(*current)(void) = (void **(*)(void))dlsym(RTLD_DEFAULT, "__xmlStructuredError");
    void (*set)(void *, void *) = (void (*)(void *, void *))dlsym(RTLD_DEFAULT, "xmlSetStructuredErrorFunc");
    if (current == NULL || set == NULL) {
        return;
    }
    if (*current() != NULL) {
        reporter = *current();
    }
    set(NULL, to_php ? reporter : NULL);
}

static void libxml_end(void *globals)
{
    libxml_globals *libxml = globals;
    zval_ptr_dtor(&libxml->stream_context);
    smart_str_free(&libxml->error_buffer);
    if (libxml->error_list != NULL) {
        libxml_report(false);
        zend_llist_destroy(libxml->error_list);
        efree(libxml->error_list);
        libxml->error_list = NULL;
    }
}

/* ---- mbstring ---- */

#ifdef HAVE_MBSTRING_HEADER
static void mbstring_make_neutral(void *globals)
{
    zend_mbstring_globals *mbstring = globals;
    mbstring->all_encodings_list = NULL;
    mbstring->last_used_encoding_name = NULL;
    mbstring->last_used_encoding = NULL;
}

static void mbstring_begin(void *globals)
{
    zend_mbstring_globals *mbstring = globals;
    if (mbstring->current_detect_order_list != NULL) {
        size_t size = mbstring->current_detect_order_list_size * sizeof(*mbstring->current_detect_order_list);
        const mbfl_encoding **copy = emalloc(size);
        memcpy(copy, mbstring->current_detect_order_list, size);
        mbstring->current_detect_order_list = copy;
    }
}

static void mbstring_end(void *globals)
{
    zend_mbstring_globals *mbstring = globals;
    if (mbstring->current_detect_order_list != NULL) {
        efree((void *)mbstring->current_detect_order_list);
    }
    if (mbstring->all_encodings_list != NULL) {
        zend_array_release(mbstring->all_encodings_list);
    }
    if (mbstring->last_used_encoding_name != NULL) {
        zend_string_release(mbstring->last_used_encoding_name);
    }
}
#endif

/* ---- random ---- */

static void random_make_neutral(void *globals)
{
    zend_random_globals *random = globals;
    random->combined_lcg_seeded = false;
    random->mt19937_seeded = false;
}

/* ---- session ---- */

static void session_make_neutral(void *globals)
{
    php_ps_globals *session = globals;
    session->id = NULL;
    session->session_status = php_session_none;
    session->mod_data = NULL;
    session->mod_user_is_open = 0;
    session->session_vars = NULL;
    session->session_started_filename = NULL;
    ZVAL_UNDEF(&session->http_session_vars);
}

/* Handlers that the boot script has set are every request's; each frees its own. */
static void session_begin(void *globals)
{
    php_ps_globals *session = globals;
    zval *handlers = (zval *)&session->mod_user_names;
    for (size_t i = 0; i < sizeof(session->mod_user_names) / sizeof(zval); i++) {
        Z_TRY_ADDREF(handlers[i]);
    }
    if (session->mod_user_class_name != NULL) {
        zend_string_addref(session->mod_user_class_name);
    }
}

/* ---- assert() and opendir(), parts of the standard extension ---- */

/* As in assert.c and dir.c, which have no headers. */
typedef struct assert_globals {
    zval callback;
    char *cb;
    bool active;
    bool bail;
    bool warning;
    bool exception;
} assert_globals;

static void assert_begin(void *globals)
{
    Z_TRY_ADDREF(((assert_globals *)globals)->callback);
}

static void assert_end(void *globals)
{
    zval_ptr_dtor(&((assert_globals *)globals)->callback);
}

typedef struct dir_globals {
    zend_resource *default_dir;
} dir_globals;

static void dir_begin(void *globals)
{
    if (((dir_globals *)globals)->default_dir != NULL) {
        GC_ADDREF(((dir_globals *)globals)->default_dir);
    }
}

static void dir_end(void *globals)
{
    if (((dir_globals *)globals)->default_dir != NULL) {
        zend_list_delete(((dir_globals *)globals)->default_dir);
    }
}

#define MEMBER(type, member) {offsetof(type, member), sizeof(((type *)0)->member)}
#define MEMBERS(type, first, last) \
    {offsetof(type, first), offsetof(type, last) + sizeof(((type *)0)->last) - offsetof(type, first)}

static const part parts[] = {
    {"standard", {MEMBER(assert_globals, callback)}, NULL, assert_begin, assert_end, false, false, sizeof(assert_globals)},
    {"standard", {{0}}, NULL, dir_begin, dir_end, false, false, sizeof(dir_globals)},
    {"date", {MEMBER(zend_date_globals, timezone)}, NULL, date_begin, date_end, false, false, 0},
    {"filter", {{0}}, NULL, NULL, NULL, false, true, sizeof(zend_filter_globals)},
    {"json", {{0}}, NULL, NULL, NULL, false, false, 0},
    {"libxml", {{0, sizeof(libxml_globals)}}, libxml_make_neutral, NULL, libxml_end, false, false, 0},
#ifdef HAVE_MBSTRING_HEADER
    {"mbstring",
     {MEMBER(zend_mbstring_globals, current_internal_encoding),
      MEMBERS(zend_mbstring_globals, current_http_output_encoding, http_input_identify_string),
      MEMBERS(zend_mbstring_globals, current_detect_order_list, current_detect_order_list_size),
      MEMBER(zend_mbstring_globals, all_encodings_list),
      MEMBERS(zend_mbstring_globals, current_filter_illegal_mode, current_filter_illegal_substchar),
      MEMBERS(zend_mbstring_globals, illegalchars, outconv_state),
      MEMBERS(zend_mbstring_globals, last_used_encoding_name, http_input_set)},
     mbstring_make_neutral, mbstring_begin, mbstring_end, false, false, 0},
#endif
    {"pcre", {MEMBER(zend_pcre_globals, error_code)}, NULL, NULL, NULL, false, false, 0},
    {"random", {{0}}, random_make_neutral, NULL, NULL, false, false, 0},
    {"session", {{0}}, session_make_neutral, session_begin, NULL, true, true, 0},
    {"zlib", {{0}}, NULL, NULL, NULL, true, true, 0},
};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

static __thread struct {
    zend_module_entry *entry;
    char *globals;
    /* In the block of a request's state. */
    size_t at;
    size_t globals_size;
} found[PARTS];
static __thread char *neutral;
static __thread size_t block_size;

static bool libxml_collects(void)
{
    for (int i = 0; i < PARTS; i++) {
        if (parts[i].end == libxml_end && found[i].entry != NULL) {
            return ((libxml_globals *)found[i].globals)->error_list != NULL;
        }
    }
    return false;
}

bool shim_modules_travel(const char *name)
{
    for (int i = 0; i < PARTS; i++) {
        if (strcasecmp(parts[i].module, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The range of a part; an empty one is behind the last. */
static range range_of(int part, int index)
{
    if (index == 0 && parts[part].ranges[0].size == 0) {
        return (range){0, found[part].globals_size};
    }
    return index < RANGES_MAX ? parts[part].ranges[index] : (range){0, 0};
}

static void find_parts(void)
{
    block_size = 0;
    for (int i = 0; i < PARTS; i++) {
        zend_module_entry *entry = zend_hash_str_find_ptr(&module_registry, parts[i].module, strlen(parts[i].module));
        ts_rsrc_id id = 0;
        if (entry != NULL && parts[i].hidden_size > 0) {
            id = shim_tsrm_place(parts[i].module, parts[i].hidden_size);
        } else if (entry != NULL && entry->globals_size > 0) {
            id = *entry->globals_id_ptr;
        }
        found[i].entry = id != 0 ? entry : NULL;
        if (id == 0) {
            continue;
        }
        found[i].globals = TSRMG_BULK(id, char *);
        found[i].globals_size = parts[i].hidden_size > 0 ? parts[i].hidden_size : entry->globals_size;
        found[i].at = block_size;
        for (int r = 0; range_of(i, r).size > 0; r++) {
            block_size += range_of(i, r).size;
        }
    }
}

/* From a struct to the part's place in a block. */
static void read_part(int part, const char *globals, char *block)
{
    char *to = block + found[part].at;
    for (int r = 0; range_of(part, r).size > 0; r++) {
        memcpy(to, globals + range_of(part, r).offset, range_of(part, r).size);
        to += range_of(part, r).size;
    }
}

static void read_parts(char *block)
{
    for (int i = 0; i < PARTS; i++) {
        if (found[i].entry != NULL) {
            read_part(i, found[i].globals, block);
        }
    }
}

static void write_parts(const char *block)
{
    for (int i = 0; i < PARTS; i++) {
        const char *from = block + found[i].at;
        for (int r = 0; found[i].entry != NULL && range_of(i, r).size > 0; r++) {
            memcpy(found[i].globals + range_of(i, r).offset, from, range_of(i, r).size);
            from += range_of(i, r).size;
        }
    }
}

void shim_modules_capture(void)
{
    find_parts();
    neutral = emalloc(block_size);
    for (int i = 0; i < PARTS; i++) {
        if (found[i].entry == NULL) {
            continue;
        }
        char *copy = emalloc(found[i].globals_size);
        memcpy(copy, found[i].globals, found[i].globals_size);
        if (parts[i].make_neutral != NULL) {
            parts[i].make_neutral(copy);
        }
        read_part(i, copy, neutral);
        efree(copy);
    }
}

void shim_modules_neutral(void)
{
    write_parts(neutral);
}

void shim_modules_release(void)
{
    efree(neutral);
    neutral = NULL;
}

void shim_modules_begin(void)
{
    for (int i = 0; i < PARTS; i++) {
        if (found[i].entry == NULL) {
            continue;
        }
        if (parts[i].begin != NULL) {
            parts[i].begin(found[i].globals);
        }
        if (parts[i].start && found[i].entry->request_startup_func != NULL) {
            (void)found[i].entry->request_startup_func(found[i].entry->type, found[i].entry->module_number);
        }
    }
}

void shim_modules_suspend(char **block)
{
    if (*block == NULL) {
        *block = malloc(block_size);
        if (*block == NULL) {
            zend_error_noreturn(E_ERROR, "Out of memory");
        }
    }
    read_parts(*block);
    if (libxml_collects()) {
        libxml_report(false);
    }
    write_parts(neutral);
}

void shim_modules_resume(const char *block)
{
    write_parts(block);
    if (libxml_collects()) {
        libxml_report(true);
    }
}

void shim_modules_end(void)
{
    for (int i = PARTS - 1; i >= 0; i--) {
        if (found[i].entry != NULL && parts[i].stop && found[i].entry->request_shutdown_func != NULL) {
            (void)found[i].entry->request_shutdown_func(found[i].entry->type, found[i].entry->module_number);
        }
    }
}

void shim_modules_clean(void)
{
    for (int i = 0; i < PARTS; i++) {
        if (found[i].entry != NULL && parts[i].end != NULL) {
            parts[i].end(found[i].globals);
        }
    }
    write_parts(neutral);
}
