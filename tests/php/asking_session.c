/* A session handler that polls for its lock, as Redis' handler does. There is one session, in the memory of the process. */
#include <php.h>

#include <ext/session/php_session.h>
#include <unistd.h>

enum { TRIES = 5000, PAUSE_US = 1000 };

static int is_locked;
static char *_Atomic stored;

/* The module data of a request: whether it holds the lock. */
PS_OPEN_FUNC(asking)
{
    (void)save_path;
    (void)session_name;
    PS_SET_MOD_DATA(ecalloc(1, sizeof(bool)));
    return SUCCESS;
}

PS_READ_FUNC(asking)
{
    bool *holds = PS_GET_MOD_DATA();
    (void)key;
    for (int tries = 0; __atomic_exchange_n(&is_locked, 1, __ATOMIC_SEQ_CST) != 0; tries++) {
        if (tries == TRIES) {
            return FAILURE;
        }
        usleep(PAUSE_US);
    }
    *holds = true;
    *val = stored == NULL ? ZSTR_EMPTY_ALLOC() : zend_string_init(stored, strlen(stored), false);
    return SUCCESS;
}

PS_WRITE_FUNC(asking)
{
    bool *holds = PS_GET_MOD_DATA();
    (void)key;
    (void)maxlifetime;
    if (!*holds) {
        return FAILURE;
    }
    free(stored);
    stored = strdup(ZSTR_VAL(val));
    return SUCCESS;
}

PS_CLOSE_FUNC(asking)
{
    bool *holds = PS_GET_MOD_DATA();
    if (*holds) {
        __atomic_store_n(&is_locked, 0, __ATOMIC_SEQ_CST);
    }
    efree(holds);
    PS_SET_MOD_DATA(NULL);
    return SUCCESS;
}

PS_DESTROY_FUNC(asking)
{
    (void)mod_data;
    (void)key;
    return SUCCESS;
}

PS_GC_FUNC(asking)
{
    (void)mod_data;
    (void)maxlifetime;
    (void)nrdels;
    return 0;
}

static const ps_module ps_mod_asking = {PS_MOD(asking)};

static PHP_MINIT_FUNCTION(asking)
{
    (void)type;
    (void)module_number;
    return php_session_register_module(&ps_mod_asking);
}

static zend_module_entry asking_module_entry = {
    STANDARD_MODULE_HEADER, "test_asking", NULL, PHP_MINIT(asking), NULL, NULL, NULL, NULL, "1",
    STANDARD_MODULE_PROPERTIES,
};
ZEND_GET_MODULE(asking)
