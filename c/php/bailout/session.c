/* The session of a request that a bailout has interrupted. after_jump.c lists the flags and their effects. */
#include "compat.h"
#include "php/bailout/session.h"
#include "php/context/context.h"

#include <ext/session/php_session.h>

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
    bool has_jumped = CG(unclean_shutdown) || (shim_current != NULL && shim_current->fatal);
    return has_jumped && session->session_status == php_session_active && !session->auto_start &&
           session->session_started_filename == NULL;
}

/* Closes the session without writing it; may call the user's close handler. */
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

void shim_session_after_jump(void)
{
    php_ps_globals *session = session_of_thread();
    if (session == NULL) {
        return;
    }
    session->set_handler = 0;
    bool is_to_go = is_half_done(session);
    session->in_save_handler = 0;
    if (is_to_go) {
        let_go_of_session(session);
    }
}

bool shim_session_is_active(void)
{
    const php_ps_globals *session = session_of_thread();
    return session != NULL && session->session_status == php_session_active;
}
