/* The options that libldap has for the process.
 *
 * For the first ldaps: connection of a request, ext/ldap replaces libldap's TLS context (LDAP_OPT_X_TLS_NEWCTX without a
 * handle), and libldap 2.4 to 2.6 free it without a lock while other threads connect with it. Here each handle for ldaps:
 * gets its own context, from the same options, as ext/ldap does for StartTLS (_php_ldap_tls_newctx(), because of
 * https://bugs.openldap.org/show_bug.cgi?id=10337). libldap also copies other options into a new handle without a lock
 * (ldap_create()), so that every access to them has one here. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <strings.h>

typedef struct ldap LDAP;

/* libldap's ABI: svc is built without ldap.h. */
enum {
    LDAP_SUCCESS = 0,
    LDAP_LOCAL_ERROR = -2,
    LDAP_OPT_X_TLS_CACERTFILE = 0x6002,
    LDAP_OPT_X_TLS_CACERTDIR = 0x6003,
    LDAP_OPT_X_TLS_CERTFILE = 0x6004,
    LDAP_OPT_X_TLS_KEYFILE = 0x6005,
    LDAP_OPT_X_TLS_PROTOCOL_MIN = 0x6007,
    LDAP_OPT_X_TLS_CIPHER_SUITE = 0x6008,
    LDAP_OPT_X_TLS_DHFILE = 0x600e,
    LDAP_OPT_X_TLS_NEWCTX = 0x600f,
    LDAP_OPT_X_TLS_CRLFILE = 0x6010,
    LDAP_OPT_X_TLS_ECNAME = 0x6012,
    LDAP_OPT_X_TLS_PROTOCOL_MAX = 0x601b,
};

int ldap_initialize(LDAP **handle, const char *url);
int ldap_get_option(LDAP *handle, int option, void *value);
int ldap_set_option(LDAP *handle, int option, const void *value);
int ldap_unbind_ext(LDAP *handle, void **server_controls, void **client_controls);
void ldap_memfree(void *text);

static void *libldap(void **slot, const char *name)
{
    static const char *const files[] = {"libldap-2.5.so.0", "libldap.so.2", "libldap_r-2.4.so.2", "libldap-2.4.so.2"};
    return shim_library(slot, name, files, SHIM_COUNT(files));
}

#define LIBLDAP(name) ((__typeof__(&name))libldap(SHIM_SLOT, #name))

/* Calls libldap's function, while no other thread accesses the options of the process. */
#define CALL_ALONE(name, ...) \
    __extension__({ \
        const __typeof__(&name) function = LIBLDAP(name); \
        shim_libc_lock(SHIM_LOCK_OF_LDAP); \
        const int result = function != NULL ? function(__VA_ARGS__) : LDAP_LOCAL_ERROR; \
        shim_libc_unlock(SHIM_LOCK_OF_LDAP); \
        result; \
    })

int ldap_get_option(LDAP *handle, int option, void *value)
{
    return handle != NULL ? LIBLDAP(ldap_get_option)(handle, option, value)
                          : CALL_ALONE(ldap_get_option, NULL, option, value);
}

int ldap_set_option(LDAP *handle, int option, const void *value)
{
    if (handle != NULL) {
        return LIBLDAP(ldap_set_option)(handle, option, value);
    }
    return option != LDAP_OPT_X_TLS_NEWCTX ? CALL_ALONE(ldap_set_option, NULL, option, value) : LDAP_SUCCESS;
}

/* Gives a new handle a TLS context. New handles have none of these options. Returns false if libldap refuses one of them. */
static bool create_context(LDAP *handle)
{
    static const int texts[] = {
        LDAP_OPT_X_TLS_CACERTFILE, LDAP_OPT_X_TLS_CACERTDIR, LDAP_OPT_X_TLS_CERTFILE, LDAP_OPT_X_TLS_KEYFILE,
        LDAP_OPT_X_TLS_CIPHER_SUITE, LDAP_OPT_X_TLS_DHFILE, LDAP_OPT_X_TLS_CRLFILE, LDAP_OPT_X_TLS_ECNAME,
    };
    static const int numbers[] = {LDAP_OPT_X_TLS_PROTOCOL_MIN, LDAP_OPT_X_TLS_PROTOCOL_MAX};
    for (size_t i = 0; i < SHIM_COUNT(texts); i++) {
        char *text = NULL;
        if (ldap_get_option(NULL, texts[i], &text) == LDAP_SUCCESS && text != NULL) {
            (void)ldap_set_option(handle, texts[i], text);
            LIBLDAP(ldap_memfree)(text);
        }
    }
    for (size_t i = 0; i < SHIM_COUNT(numbers); i++) {
        int number = 0;
        if (ldap_get_option(NULL, numbers[i], &number) == LDAP_SUCCESS && number > 0) {
            (void)ldap_set_option(handle, numbers[i], &number);
        }
    }
    const int is_server = 0;
    return ldap_set_option(handle, LDAP_OPT_X_TLS_NEWCTX, &is_server) == LDAP_SUCCESS;
}

int ldap_initialize(LDAP **handle, const char *url)
{
    const int code = CALL_ALONE(ldap_initialize, handle, url);
    if (code == LDAP_SUCCESS && url != NULL && strncasecmp(url, "ldaps:", 6) == 0 && !create_context(*handle)) {
        (void)LIBLDAP(ldap_unbind_ext)(*handle, NULL, NULL);
        *handle = NULL;
        return LDAP_LOCAL_ERROR;
    }
    return code;
}
