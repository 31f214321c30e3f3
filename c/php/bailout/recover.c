/* The flags that a bailout leaves set.
 *
 * A fatal error, the memory limit and the time limit leave functions of PHP by longjmp(), so these functions do not
 * restore what they have changed. PHP resets most of it when the next request starts, but shutdown functions, output
 * callbacks and the write of the session run before that. Here it is reset at the bottom of a request, where none of
 * these functions can be running: before its shutdown functions, and again before extensions end the request.
 *
 *   session   in_save_handler     handlers would be refused as recursive: a session file would stay locked
 *             set_handler         scripts could name the user's handlers in the directive
 *             session_status      a session that was not read would be written, empty
 *   standard  serialize_lock,     the session would contain references into an unfinished serialize() call
 *             serialize, unserialize
 *   streams   user_stream_current_filename: the same name would be refused as recursive
 *   core      in_user_include     include of URLs would be refused
 *             in_error_log        nothing would be logged
 *             allow_url_fopen     include and fopen() of URLs would be allowed (soap, while it opens a WSDL)
 *   output    running             the next output would disable all output (shim_output_recover)
 *   engine    error_handling, exception_class: warnings would be thrown
 *             record_errors       errors would be recorded for a class that is no longer being linked
 *             error_reporting     later requests of the thread would report fatal errors only (highlight_string())
 *             in_autoload         the class would not be looked up again
 *             method caches       a method would run without the memory that could not be allocated (shim_callee_forget)
 *   libxml    xmlSaveNoEmptyTags  empty elements would be written in the long form (DOMDocument::save())
 *   standard  putenv_ht           the destructor of a variable without a value would follow a NULL pointer
 *
 * Not reset: flags of objects (running generators, heaps and arrays that are being sorted, curl handles in a callback),
 * which affect only these objects; and the state of soap, which affects only the message of the request's next error. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <ext/session/php_session.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/file.h>
#include <stdlib.h>

/* ---- the session ---- */

/* Returns NULL if the extension is not loaded. */
static php_ps_globals *session_of_thread(void)
{
    static const zend_module_entry *session;
    const zend_module_entry *entry = __atomic_load_n(&session, __ATOMIC_RELAXED);
    if (entry == NULL) {
        entry = zend_hash_str_find_ptr(&module_registry, "session", sizeof("session") - 1);
        if (entry == NULL || entry->globals_size != sizeof(php_ps_globals)) {
            return NULL;
        }
        __atomic_store_n(&session, entry, __ATOMIC_RELAXED);
    }
    return TSRMG_BULK(*entry->globals_id_ptr, php_ps_globals *);
}

/* Whether the session was interrupted, so that $_SESSION must not be written. */
static bool is_half_done(const php_ps_globals *session)
{
    if (session->in_save_handler || (shim_current != NULL && shim_current->lost_session)) {
        return true;
    }
    bool has_bailed_out = CG(unclean_shutdown) || (shim_current != NULL && shim_current->fatal);
    return has_bailed_out && session->session_status == php_session_active && !session->auto_start &&
           session->session_started_filename == NULL;
}

/* Closes the session without writing it; may call the user's close handler. */
static void close_session(php_ps_globals *session)
{
    zend_try {
        if (session->session_status == php_session_active && session->mod != NULL &&
            (session->mod_data != NULL || session->mod_user_implemented)) {
            session->mod->s_close(&session->mod_data);
        }
    } zend_end_try();
    session->in_save_handler = 0;
    session->session_status = php_session_none;
    shim_session_close(session);
}

static bool is_users(const ps_module *handler)
{
    return handler == NULL || strcmp(handler->s_name, "user") == 0;
}

/* Closes the wrapped handler if a bailout or an exception kept the user's handler from doing it; the user's handler is
 * not called again. After the directive has been restored, `mod` and `default_mod` have traded places. */
void shim_session_close(void *globals)
{
    php_ps_globals *session = globals != NULL ? globals : session_of_thread();
    if (session == NULL || !session->mod_user_is_open || session->session_status == php_session_active) {
        return;
    }
    const ps_module *handler = is_users(session->default_mod) ? session->mod : session->default_mod;
    session->mod_user_is_open = 0;
    if (!is_users(handler)) {
        handler->s_close(&session->mod_data);
    }
}

/* Resets the flags that a bailout has left set, and closes a half-open session without writing it. */
static void reset_session(void)
{
    php_ps_globals *session = session_of_thread();
    if (session == NULL) {
        return;
    }
    session->set_handler = 0;
    bool is_to_go = is_half_done(session);
    session->in_save_handler = 0;
    if (is_to_go) {
        close_session(session);
    }
}

bool shim_session_is_active(void)
{
    const php_ps_globals *session = session_of_thread();
    return session != NULL && session->session_status == php_session_active;
}

void shim_session_write(void)
{
    if (!shim_session_is_active()) {
        return;
    }
    const __typeof__(&php_session_flush) flush = NEXT(php_session_flush);
    if (flush != NULL) {
        zend_try {
            (void)flush(1);
        } zend_end_try();
    }
}

/* ---- flags ---- */

/* Called directly after the bailout. The output callback that was interrupted is not called again; the contents of its
 * buffer are sent unchanged. */
void shim_output_recover(void)
{
    if (OG(running) != NULL) {
        OG(running)->flags |= PHP_OUTPUT_HANDLER_DISABLED;
        OG(running) = NULL;
    }
}

void shim_error_handling_reset(void)
{
    EG(error_handling) = EH_NORMAL;
    EG(exception_class) = NULL;
    EG(record_errors) = false;
}

/* highlight_string() lowers the level without its directive, and a bailout skips the restoration. Where the directive was
 * modified, by ini_set() or `@`, PHP itself restores both. */
static void reset_error_reporting(void)
{
    const zend_ini_entry *level = zend_hash_str_find_ptr(EG(ini_directives), "error_reporting", sizeof("error_reporting") - 1);
    if (level != NULL && !level->modified) {
        EG(error_reporting) = level->value != NULL ? atoi(ZSTR_VAL(level->value)) : E_ALL;
    }
}

/* Called before the bailout. A method call stores the method that it found in the caller's cache before it allocates
 * the method's own cache. If that allocation fails, the next call from the same place would run the method without a
 * cache. */
void shim_callee_forget(void)
{
    const zend_execute_data *frame = EG(current_execute_data);
    if (frame == NULL || frame->func == NULL || !ZEND_USER_CODE(frame->func->type) || frame->opline == NULL) {
        return;
    }
    const zend_op *call = frame->opline;
    const bool is_method = call->opcode == ZEND_INIT_METHOD_CALL || call->opcode == ZEND_INIT_STATIC_METHOD_CALL;
    if (is_method && call->op2_type == IS_CONST && frame->run_time_cache != NULL) {
        void **slots = (void **)((char *)frame->run_time_cache + call->result.num);
        slots[0] = NULL;
        slots[1] = NULL;
    }
}

/* putenv() adds an entry to the table before it allocates the value of the entry. */
void shim_putenv_drop_unfinished(void)
{
    HashTable *variables = &BG(putenv_ht);
    const dtor_func_t restore = variables->pDestructor;
    zend_string *name;
    const void *entry;
    variables->pDestructor = NULL;
    ZEND_HASH_FOREACH_STR_KEY_PTR(variables, name, entry) {
        if (entry == NULL) {
            zend_hash_del(variables, name);
        }
    } ZEND_HASH_FOREACH_END();
    variables->pDestructor = restore;
}

/* The directive cannot be changed by scripts. */
static void reset_url_opening(void)
{
    const zend_ini_entry *allowed = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("allow_url_fopen"));
    if (allowed != NULL && allowed->value != NULL) {
        PG(allow_url_fopen) = zend_ini_parse_bool(allowed->value);
    }
}

static void reset_libxml(void)
{
    static const char *const files[] = {"libxml2.so.2"};
    int *(*no_empty_tags)(void) = shim_library(SHIM_SLOT, "__xmlSaveNoEmptyTags", files, SHIM_COUNT(files));
    if (no_empty_tags != NULL) {
        *no_empty_tags() = 0;
    }
}

void shim_bailout_recover(void)
{
    /* At the end of a stack, a bailout comes from inside a library. */
    (void)shim_transfer_suspend();
    (void)shim_query_suspend();
    BG(serialize_lock) = 0;
    memset(&BG(serialize), 0, sizeof(BG(serialize)));
    memset(&BG(unserialize), 0, sizeof(BG(unserialize)));
    FG(user_stream_current_filename) = NULL;
    PG(in_user_include) = false;
    PG(in_error_log) = false;
    reset_url_opening();
    reset_libxml();
    shim_error_handling_reset();
    reset_error_reporting();
    shim_putenv_drop_unfinished();
    if (EG(in_autoload) != NULL) {
        zend_hash_clean(EG(in_autoload));
    }
    reset_session();
}
