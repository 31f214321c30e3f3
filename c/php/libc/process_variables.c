/* The environment of the process, as $_SERVER has it.
 *
 * It is read once, into an immutable array of interned strings, so that a request gets a copy without counting a
 * reference or hashing a name. putenv() never changes the process's environment (php/libc/environment.c), so the array
 * stays valid. */
#include "compat.h"
#include "php/libc/process_variables.h"

#include <unistd.h>

static zend_array variables;

/* See sapi/cgi.rs. */
static const char *const always_set[] = {"DOCUMENT_ROOT", "SERVER_SOFTWARE"};

static bool is_left_out(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(always_set) / sizeof(always_set[0]); i++) {
        if (strlen(always_set[i]) == length && memcmp(always_set[i], name, length) == 0) {
            return true;
        }
    }
    /* The same condition as in php_import_environment_variables(). */
    return length == 0 || memchr(name, ' ', length) != NULL || memchr(name, '.', length) != NULL ||
           memchr(name, '[', length) != NULL || (length >= 5 && memcmp(name, "HTTP_", 5) == 0);
}

static zend_string *make_interned(const char *bytes, size_t length)
{
    zend_string *text = zend_string_init(bytes, length, 1);
    (void)zend_string_hash_val(text);
    GC_ADD_FLAGS(text, IS_STR_INTERNED | IS_STR_PERMANENT);
    return text;
}

void shim_process_variables_read(void)
{
    zend_hash_init(&variables, 64, NULL, NULL, 1);
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        const size_t length = equals != NULL ? (size_t)(equals - *at) : 0;
        if (equals == NULL || is_left_out(*at, length) || shim_process_variables_have(*at, length)) {
            continue;
        }
        zval value;
        ZVAL_INTERNED_STR(&value, make_interned(equals + 1, strlen(equals + 1)));
        zend_ulong number;
        if (ZEND_HANDLE_NUMERIC_STR(*at, length, number)) {
            zend_hash_index_add(&variables, number, &value);
        } else {
            zend_hash_add(&variables, make_interned(*at, length), &value);
        }
    }
    GC_ADD_FLAGS(&variables, GC_IMMUTABLE);
    GC_SET_REFCOUNT(&variables, 2);
}

zend_array *shim_process_variables_copy(void)
{
    return zend_array_dup(&variables);
}

uint32_t shim_process_variables_count(void)
{
    return zend_hash_num_elements(&variables);
}

bool shim_process_variables_have(const char *name, size_t length)
{
    return zend_symtable_str_exists(&variables, name, length);
}
