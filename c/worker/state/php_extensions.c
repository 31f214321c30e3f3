/* The per-request parts of PHP's own extensions. Extensions whose structs belong to threads are listed in
 * worker/state/audit.c. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "worker/state/state.h"

#include <dlfcn.h>
#include <ext/date/php_date.h>
#include <ext/filter/php_filter.h>
#include <ext/json/php_json.h>
#include <ext/pcre/php_pcre.h>
#include <ext/random/php_random.h>
#include <ext/session/php_session.h>
#include <ext/standard/php_array.h>
#if __has_include(<ext/mbstring/mbstring.h>)
#define HAVE_MBSTRING_HEADER 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <ext/mbstring/mbstring.h>
#pragma GCC diagnostic pop
#endif

/* ---- date ---- */

static void date_begin(void *globals)
{
    zend_date_globals *date = globals;
    if (date->timezone != NULL) {
        date->timezone = estrdup(date->timezone);
    }
}

static void date_make_baseline(void *globals)
{
    ((zend_date_globals *)globals)->last_errors = NULL;
}

static void free_messages(timelib_error_message *messages, int count)
{
    for (int i = 0; i < count; i++) {
        efree(messages[i].message);
    }
    if (messages != NULL) {
        efree(messages);
    }
}

static void date_end(void *globals)
{
    zend_date_globals *date = globals;
    if (date->timezone != NULL) {
        efree(date->timezone);
        date->timezone = NULL;
    }
    if (date->last_errors != NULL) {
        free_messages(date->last_errors->warning_messages, date->last_errors->warning_count);
        free_messages(date->last_errors->error_messages, date->last_errors->error_count);
        efree(date->last_errors);
        date->last_errors = NULL;
    }
}

/* ---- mbstring ---- */

#ifdef HAVE_MBSTRING_HEADER
static void mbstring_make_baseline(void *globals)
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

#ifdef HAVE_MBREGEX
/* Behind a pointer in mbstring's struct. A search refers to an expression of the table, which an expression of another
 * request may replace, so the table belongs to the request too. */
typedef struct mb_regex_globals {
    void *default_mbctype;
    void *current_mbctype;
    const void *current_mbctype_mbfl_encoding;
    HashTable expressions;
    zval search_str;
    zval *search_str_val;
    size_t search_pos;
    void *search_re;
    void *search_regs;
    unsigned int regex_default_options;
    void *regex_default_syntax;
} mb_regex_globals;

static void *mb_regex_find(void *globals)
{
    bool can_free = dlsym(RTLD_DEFAULT, "onig_region_free") != NULL;
    return can_free ? ((zend_mbstring_globals *)globals)->mb_regex_globals : NULL;
}

static void mb_regex_make_baseline(void *globals)
{
    mb_regex_globals *regex = globals;
    zend_hash_init(&regex->expressions, 0, NULL, regex->expressions.pDestructor, 0);
    ZVAL_UNDEF(&regex->search_str);
    regex->search_str_val = NULL;
    regex->search_pos = 0;
    regex->search_re = NULL;
    regex->search_regs = NULL;
}

static void mb_regex_end(void *globals)
{
    mb_regex_globals *regex = globals;
    zval_ptr_dtor(&regex->search_str);
    ZVAL_UNDEF(&regex->search_str);
    if (regex->search_regs != NULL) {
        ((void (*)(void *, int))dlsym(RTLD_DEFAULT, "onig_region_free"))(regex->search_regs, 1);
        regex->search_regs = NULL;
    }
    zend_hash_destroy(&regex->expressions);
}
#endif
#endif

/* ---- random ---- */

static void random_make_baseline(void *globals)
{
    zend_random_globals *random = globals;
    random->combined_lcg_seeded = false;
    random->mt19937_seeded = false;
}

#ifdef SHIM_RANDOM_IS_BEHIND_POINTER
static void *random_find_state(void *globals)
{
    return ((zend_random_globals *)globals)->mt19937->state;
}
#endif

/* ---- filter ---- */

/* The arrays belong to the boot script. */
static void filter_make_baseline(void *globals)
{
    zend_filter_globals *filter = globals;
    ZVAL_UNDEF(&filter->post_array);
    ZVAL_UNDEF(&filter->get_array);
    ZVAL_UNDEF(&filter->cookie_array);
    ZVAL_UNDEF(&filter->env_array);
    ZVAL_UNDEF(&filter->server_array);
}

/* ---- session ---- */

static void session_make_baseline(void *globals)
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

/* Adds references to the boot script's session handlers, which every request uses; each request frees its own. */
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

/* ---- array_multisort() (the objects that it compares may run code), assert() and opendir(), parts of the standard
 * extension ---- */

/* Copied from assert.c and dir.c, which have no headers. */
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
    zval callback = ((assert_globals *)globals)->callback;
    ZVAL_UNDEF(&((assert_globals *)globals)->callback);
    zval_ptr_dtor(&callback);
}

typedef struct dir_globals {
    zend_resource *default_dir;
} dir_globals;

static void dir_end(void *globals)
{
    if (((dir_globals *)globals)->default_dir != NULL) {
        zend_list_delete(((dir_globals *)globals)->default_dir);
    }
}

const shim_part shim_php_extensions[] = {
    {
        .module = "standard",
        .size = sizeof(zend_array_globals),
        .hidden = true,
        .of_stack = {{0, sizeof(zend_array_globals)}},
        .blank = true,
    },
    {
        .module = "standard",
        .size = sizeof(assert_globals),
        .directives =
            {SHIM_DIRECTIVE(assert_globals, active, "assert.active"),
             SHIM_DIRECTIVE(assert_globals, bail, "assert.bail"),
             SHIM_DIRECTIVE(assert_globals, warning, "assert.warning"),
             SHIM_DIRECTIVE(assert_globals, exception, "assert.exception")},
        .hidden = true,
        .ranges = {SHIM_MEMBER(assert_globals, callback)},
        .begin = assert_begin,
        .end = assert_end,
    },
    /* Reading a directory advances it for all its readers: a request has no default directory until it opens one. */
    {.module = "standard", .size = sizeof(dir_globals), .hidden = true, .blank = true, .end = dir_end},
    {
        .module = "date",
        .size = sizeof(zend_date_globals),
        .directives = {SHIM_DIRECTIVE(zend_date_globals, default_timezone, "date.timezone")},
        .ranges = {SHIM_MEMBER(zend_date_globals, timezone), SHIM_MEMBER(zend_date_globals, last_errors)},
        .make_baseline = date_make_baseline,
        .begin = date_begin,
        .end = date_end,
    },
    {
        .module = "filter",
        .size = sizeof(zend_filter_globals),
        .hidden = true,
        .make_baseline = filter_make_baseline,
        .stop = true,
    },
    {.module = "json", .size = sizeof(zend_json_globals)},
#ifdef HAVE_MBSTRING_HEADER
    {
        .module = "mbstring",
        .size = sizeof(zend_mbstring_globals),
        .directives =
            {SHIM_DIRECTIVE(zend_mbstring_globals, internal_encoding_name, "mbstring.internal_encoding"),
             SHIM_DIRECTIVE(zend_mbstring_globals, encoding_translation, "mbstring.encoding_translation"),
             SHIM_DIRECTIVE(zend_mbstring_globals, strict_detection, "mbstring.strict_detection")},
        .ranges =
            {SHIM_MEMBER(zend_mbstring_globals, current_internal_encoding),
             SHIM_MEMBERS(zend_mbstring_globals, current_http_output_encoding, http_input_identify_string),
             SHIM_MEMBERS(zend_mbstring_globals, current_detect_order_list, current_detect_order_list_size),
             SHIM_MEMBER(zend_mbstring_globals, all_encodings_list),
             SHIM_MEMBERS(zend_mbstring_globals, current_filter_illegal_mode, current_filter_illegal_substchar),
             SHIM_MEMBERS(zend_mbstring_globals, illegalchars, outconv_state),
             SHIM_MEMBERS(zend_mbstring_globals, last_used_encoding_name, http_input_set)},
        .make_baseline = mbstring_make_baseline,
        .begin = mbstring_begin,
        .end = mbstring_end,
    },
#ifdef HAVE_MBREGEX
    {
        .module = "mbstring",
        .size = sizeof(mb_regex_globals),
        .inner = mb_regex_find,
        .make_baseline = mb_regex_make_baseline,
        .end = mb_regex_end,
    },
#endif
#endif
    {
        .module = "pcre",
        .size = sizeof(zend_pcre_globals),
        .directives =
            {SHIM_DIRECTIVE(zend_pcre_globals, backtrack_limit, "pcre.backtrack_limit"),
             SHIM_DIRECTIVE(zend_pcre_globals, recursion_limit, "pcre.recursion_limit")},
        .ranges = {SHIM_MEMBER(zend_pcre_globals, error_code)},
    },
    {.module = "random", .size = sizeof(zend_random_globals), .make_baseline = random_make_baseline},
#ifdef SHIM_RANDOM_IS_BEHIND_POINTER
    {.module = "random", .size = sizeof(php_random_status_state_mt19937), .inner = random_find_state},
#endif
    {
        .module = "session",
        .size = sizeof(php_ps_globals),
        .directives =
            {SHIM_DIRECTIVE(php_ps_globals, save_path, "session.save_path"),
             SHIM_DIRECTIVE(php_ps_globals, gc_probability, "session.gc_probability"),
             SHIM_DIRECTIVE(php_ps_globals, cookie_lifetime, "session.cookie_lifetime"),
             SHIM_DIRECTIVE(php_ps_globals, cookie_path, "session.cookie_path"),
             SHIM_DIRECTIVE(php_ps_globals, use_trans_sid, "session.use_trans_sid"),
             SHIM_DIRECTIVE(php_ps_globals, lazy_write, "session.lazy_write"),
             SHIM_DIRECTIVE(php_ps_globals, rfc1867_min_freq, "session.upload_progress.min_freq")},
        .make_baseline = session_make_baseline,
        .begin = session_begin,
        .end = shim_session_close,
        .start = true,
        .stop = true,
    },
    {.module = "zlib", .start = true, .stop = true},
};
const size_t shim_php_extensions_count = SHIM_COUNT(shim_php_extensions);
