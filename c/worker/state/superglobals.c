/* $_GET, $_POST, $_COOKIE, $_FILES, $_SERVER, $_ENV, $_REQUEST and $_SESSION.
 *
 * Scripts reach them through their entries in the symbol table, so these are rebound at each switch. All of them are
 * built when the request begins: the engine would build some of them only when it compiles a file that names them, and
 * a worker's files are already compiled. $_ENV begins as the boot script left it, because loaders of .env files write
 * to it. */
#include "compat.h"
#include "worker/engine/engine.h"
#include "worker/state/state.h"

static const char *const names[SHIM_SUPERGLOBALS] = {"_GET", "_POST", "_COOKIE", "_FILES", "_SERVER", "_ENV", "_REQUEST"};
enum { ENVIRONMENT = 5 };

static __thread zend_string *keys[SHIM_SUPERGLOBALS];
static __thread zend_string *session_key;
/* $_SESSION while the worker serves: the symbol table refers to this, so that a session begins and ends without
 * changing the table. */
static __thread zval session;
static __thread zval boot_environment;

static zval *entry(int index)
{
    zval *found = zend_hash_find(&EG(symbol_table), keys[index]);
    if (found == NULL) {
        zval empty;
        ZVAL_EMPTY_ARRAY(&empty);
        found = zend_hash_add_new(&EG(symbol_table), keys[index], &empty);
    }
    return found;
}

static zend_string *key_of(const char *name)
{
    zend_auto_global *known = zend_hash_str_find_ptr(CG(auto_globals), name, strlen(name));
    return known != NULL ? zend_string_copy(known->name) : zend_string_init(name, strlen(name), 0);
}

/* Prevents the engine from building it when it compiles a file that names it. */
static void disarm(zend_string *name)
{
    zend_auto_global *known = zend_hash_find_ptr(CG(auto_globals), name);
    if (known != NULL) {
        known->armed = 0;
    }
}

/* Limits the recursion: an array may contain itself by a reference. */
enum { LEVELS_MAX = 16 };

/* Copies a value without references: a write through a reference by one request would be visible to all. */
static void copy_without_references(zval *copy, const zval *value, int level)
{
    ZVAL_DEREF(value);
    if (Z_TYPE_P(value) != IS_ARRAY || level == LEVELS_MAX) {
        ZVAL_COPY(copy, value);
        return;
    }
    ZVAL_ARR(copy, zend_array_dup(Z_ARRVAL_P(value)));
    zval *entry;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(copy), entry) {
        if (Z_TYPE_P(entry) == IS_REFERENCE || Z_TYPE_P(entry) == IS_ARRAY) {
            zval old = *entry;
            copy_without_references(entry, &old, level + 1);
            zval_ptr_dtor(&old);
        }
    } ZEND_HASH_FOREACH_END();
}

void shim_superglobals_capture(void)
{
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        keys[i] = key_of(names[i]);
        /* PHP would build the boot script's own on first use, but requests have used up the callbacks by then. */
        (void)zend_is_auto_global(keys[i]);
    }
    session_key = key_of("_SESSION");
    copy_without_references(&boot_environment, entry(ENVIRONMENT), 0);
    zval *own = zend_hash_find(&EG(symbol_table), session_key);
    zval lead;
    ZVAL_UNDEF(&session);
    ZVAL_INDIRECT(&lead, &session);
    if (own != NULL) {
        ZVAL_COPY_VALUE(&session, own);
        ZVAL_COPY_VALUE(own, &lead);
    } else {
        zend_hash_add_new(&EG(symbol_table), session_key, &lead);
    }
    HT_FLAGS(&EG(symbol_table)) |= HASH_FLAG_HAS_EMPTY_IND;
}

void shim_superglobals_release(void)
{
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        zend_string_release(keys[i]);
    }
    zval *lead = zend_hash_find(&EG(symbol_table), session_key);
    if (Z_TYPE(session) == IS_UNDEF) {
        zend_hash_del(&EG(symbol_table), session_key);
    } else if (lead != NULL) {
        ZVAL_COPY_VALUE(lead, &session);
        ZVAL_UNDEF(&session);
    }
    zend_string_release(session_key);
    zval_ptr_dtor(&boot_environment);
    ZVAL_UNDEF(&boot_environment);
}

/* Whether the name is that of a superglobal. Call while the worker serves. */
static bool is_superglobal(const zend_string *name)
{
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        if (zend_string_equals(keys[i], name)) {
            return true;
        }
    }
    return zend_string_equals(session_key, name);
}

static void set(int index, const zval *value)
{
    zval *at = entry(index);
    zval old = *at;
    ZVAL_COPY_VALUE(at, value);
    zval_ptr_dtor(&old);
}

void shim_superglobals_begin(void)
{
    for (int i = 0; i < NUM_TRACK_VARS; i++) {
        ZVAL_UNDEF(&PG(http_globals)[i]);
    }
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        if (i == ENVIRONMENT) {
            disarm(keys[i]);
            continue;
        }
        zend_auto_global *known = zend_hash_find_ptr(CG(auto_globals), keys[i]);
        if (known != NULL && known->auto_global_callback != NULL) {
            known->armed = known->auto_global_callback(known->name);
        }
    }
    zval environment;
    ZVAL_COPY(&environment, &boot_environment);
    set(ENVIRONMENT, &environment);
    ZVAL_COPY(&PG(http_globals)[TRACK_VARS_ENV], &boot_environment);
}

static void make_entries(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        (void)entry(i);
    }
}

bool shim_superglobals_prepare(void)
{
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        if (zend_hash_find(&EG(symbol_table), keys[i]) == NULL) {
            return shim_call_suppressed(make_entries, NULL);
        }
    }
    return true;
}

void shim_superglobals_suspend(shim_superglobals_state *state)
{
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        zval *at = entry(i);
        ZVAL_COPY_VALUE(&state->values[i], at);
        ZVAL_EMPTY_ARRAY(at);
    }
    ZVAL_COPY_VALUE(&state->session, &session);
    ZVAL_UNDEF(&session);
}

/* The entries exist: the previously active request has left them there when it was suspended or ended. */
void shim_superglobals_resume(shim_superglobals_state *state)
{
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        ZVAL_COPY_VALUE(entry(i), &state->values[i]);
    }
    ZVAL_COPY_VALUE(&session, &state->session);
    ZVAL_UNDEF(&state->session);
}

void shim_superglobals_end(void)
{
    zval empty;
    ZVAL_EMPTY_ARRAY(&empty);
    for (int i = 0; i < SHIM_SUPERGLOBALS; i++) {
        set(i, &empty);
    }
    zval own = session;
    ZVAL_UNDEF(&session);
    zval_ptr_dtor(&own);
    for (int i = 0; i < NUM_TRACK_VARS; i++) {
        zval old = PG(http_globals)[i];
        ZVAL_EMPTY_ARRAY(&PG(http_globals)[i]);
        zval_ptr_dtor(&old);
    }
}

/* ---- the global variables of a task ---- */

/* Requests of a worker share the worker's global variables, like its static ones: the booted application is stored in
 * them. A task has no application around it: it begins with the variables that the entry file has left, and its
 * additions and changes end with it. Each task has its own symbol table, which is in place while the task runs. The
 * superglobals are entries of that table, too; superglobals.c manages their values. */

/* The baseline's table: in place between tasks, and stored here while a task's own table is in place. */
static __thread HashTable baseline;

void shim_variables_begin(shim_variables_state *state)
{
    HashTable own;
    zend_string *name;
    zval *value;
    zend_hash_init(&own, zend_hash_num_elements(&EG(symbol_table)) + 8, NULL, ZVAL_PTR_DTOR, 0);
    ZEND_HASH_FOREACH_STR_KEY_VAL(&EG(symbol_table), name, value) {
        zval copy;
        if (Z_TYPE_P(value) == IS_INDIRECT) {
            /* $_SESSION, whose value is stored elsewhere. */
            ZVAL_COPY_VALUE(&copy, value);
        } else {
            ZVAL_COPY_DEREF(&copy, value);
        }
        zend_hash_add_new(&own, name, &copy);
    } ZEND_HASH_FOREACH_END();
    HT_FLAGS(&own) |= HASH_FLAG_HAS_EMPTY_IND;
    baseline = EG(symbol_table);
    EG(symbol_table) = own;
    state->begun = true;
}

void shim_variables_suspend(shim_variables_state *state)
{
    if (state->begun) {
        state->own = EG(symbol_table);
        EG(symbol_table) = baseline;
    }
}

void shim_variables_resume(shim_variables_state *state)
{
    if (state->begun) {
        baseline = EG(symbol_table);
        EG(symbol_table) = state->own;
    }
}

/* Returns the name of the last variable that is not a superglobal: the newest one is freed first, as at the end of a
 * script. */
static zend_string *last_name(void)
{
    zend_string *name;
    zval *value;
    ZEND_HASH_REVERSE_FOREACH_STR_KEY_VAL(&EG(symbol_table), name, value) {
        if (name != NULL && Z_TYPE_P(value) != IS_UNDEF && !is_superglobal(name)) {
            return name;
        }
    } ZEND_HASH_FOREACH_END();
    return NULL;
}

bool shim_variables_hold(const shim_variables_state *state)
{
    return state->begun && last_name() != NULL;
}

void shim_variables_drop(const shim_variables_state *state)
{
    for (zend_string *name = state->begun ? last_name() : NULL; name != NULL; name = last_name()) {
        zend_hash_del(&EG(symbol_table), name);
    }
}

void shim_variables_end(shim_variables_state *state)
{
    if (!state->begun) {
        return;
    }
    state->begun = false;
    HashTable own = EG(symbol_table);
    EG(symbol_table) = baseline;
    zend_hash_destroy(&own);
}
