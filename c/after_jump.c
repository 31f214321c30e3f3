/* What a jump leaves set behind it.
 *
 * A fatal error, the memory limit or the time limit leaves functions of PHP by a jump, and what they meant to put back
 * stays as it was. PHP puts most of it right when the next request starts; until then shutdown functions, output callbacks
 * and the write of the session run with it. This is done at the bottom of a request, where none of these functions can be
 * running: before its shutdown functions, and once more before extensions end it.
 *
 *   session   in_save_handler     handlers would be refused as recursive: a session's file would stay locked for ever
 *             set_handler         anybody could name the user's handlers in the directive
 *             session_status      a session that was not read would be written, empty
 *   standard  serialize_lock,     the session would be written with references to what somebody else had begun to write
 *             serialize, unserialize
 *   streams   user_stream_current_filename: the same name would be refused as recursive
 *   core      in_user_include     include of URLs would be refused
 *             in_error_log        nothing would be logged
 *   output    running             the next output would switch all of it off (shim_output_mend)
 *   engine    error_handling, exception_class: warnings would be thrown
 *             record_errors       errors would be kept for a class that is not being made any more
 *             in_autoload         the class would not be looked for again
 *             method caches       a method would run without the memory that it lacked (shim_callee_forget)
 *
 * What stays: flags of objects (generators that run, heaps and arrays that are being sorted, handles of curl in a
 * callback), which are no more than their objects; what soap keeps, which costs a request nothing but the message of its
 * next error. */
#include "internal.h"

#include <ext/session/php_session.h>
#include <ext/standard/file.h>

DECLARE_LIBC(zend_objects_store_mark_destructed);

/* Before the jump: whoever ends a script so, PHP or a debugger in its place, first marks every object of the thread as
 * destructed. In a worker that serves they are the application's and other requests' too, whose destructors are to run. */
void ZEND_FASTCALL zend_objects_store_mark_destructed(zend_objects_store *objects)
{
    if (shim_current == NULL || !shim_own_worker.serving) {
        LIBC(zend_objects_store_mark_destructed)(objects);
    }
}

/* Right after the jump: a callback that it has left is not called again, and what is in its buffer goes out as it is. */
void shim_output_mend(void)
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

/* Before the jump: a call of a method notes in the caller's cache which one it has found, and only then allocates that
 * one's own cache. If it cannot, whoever makes the same call next would run the method without. */
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

/* NULL: there is no such extension. */
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

/* Whether the session was left in the middle: what $_SESSION has is not what is to be written. */
static bool is_half_done(const php_ps_globals *session)
{
    if (session->in_save_handler || (shim_current != NULL && shim_current->lost_session)) {
        return true;
    }
    bool has_jumped = CG(unclean_shutdown) || (shim_current != NULL && shim_current->fatal);
    return has_jumped && session->session_status == php_session_active && !session->auto_start &&
           session->session_started_filename == NULL;
}

/* Closes the session without writing it; the user's handler for that runs. */
static void let_go_of_session(php_ps_globals *session)
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

/* The user's handler did not come to closing what it is built upon, by a jump or an exception, and is not called again.
 * When the directive has been put back, the two have changed places. */
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

void shim_after_jump(void)
{
    php_ps_globals *session = session_of_thread();
    BG(serialize_lock) = 0;
    memset(&BG(serialize), 0, sizeof(BG(serialize)));
    memset(&BG(unserialize), 0, sizeof(BG(unserialize)));
    FG(user_stream_current_filename) = NULL;
    PG(in_user_include) = false;
    PG(in_error_log) = false;
    shim_error_handling_reset();
    if (EG(in_autoload) != NULL) {
        zend_hash_clean(EG(in_autoload));
    }
    if (session != NULL) {
        session->set_handler = 0;
        bool is_to_go = is_half_done(session);
        session->in_save_handler = 0;
        if (is_to_go) {
            let_go_of_session(session);
        }
    }
}

bool shim_session_is_active(void)
{
    const php_ps_globals *session = session_of_thread();
    return session != NULL && session->session_status == php_session_active;
}
