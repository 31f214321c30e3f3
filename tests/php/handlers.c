/* The locations of PHP functions' handlers: in the server, or in PHP and its extensions. */
#define _GNU_SOURCE
#include "inside.h"

#include <ext/standard/php_fopen_wrappers.h>
#include <zend_observer.h>

#include <dlfcn.h>

static bool is_in_server(const void *code)
{
    Dl_info info;
    return dladdr(code, &info) != 0 && (uintptr_t)info.dli_fbase == base();
}

static void add(zval *list, const zend_class_entry *class, const char *name)
{
    char text[256];
    snprintf(text, sizeof(text), "%s%s%s", class != NULL ? ZSTR_VAL(class->name) : "", class != NULL ? "::" : "", name);
    add_next_index_string(list, text);
}

static void look_at(zval *list, HashTable *functions, const zend_class_entry *class)
{
    zend_function *function;
    ZEND_HASH_FOREACH_PTR(functions, function) {
        if (function->type == ZEND_INTERNAL_FUNCTION && is_in_server((const void *)(uintptr_t)function->internal_function.handler)) {
            add(list, class, ZSTR_VAL(function->common.function_name));
        }
    } ZEND_HASH_FOREACH_END();
}

/* Lists the functions, methods and object handlers that belong to the server. */
PHP_FUNCTION(test_handlers)
{
    zend_class_entry *class;
    const char *const schemes[] = {"http", "https"};
    array_init(return_value);
    look_at(return_value, CG(function_table), NULL);
    ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
        look_at(return_value, &class->function_table, class);
        if (class->default_object_handlers != NULL && is_in_server((const void *)(uintptr_t)class->default_object_handlers->clone_obj)) {
            add(return_value, class, "(clone)");
        }
    } ZEND_HASH_FOREACH_END();
    for (size_t i = 0; i < 2; i++) {
        const php_stream_wrapper *wrapper = zend_hash_str_find_ptr(php_stream_get_url_stream_wrappers_hash_global(), schemes[i], strlen(schemes[i]));
        if (wrapper != NULL && (is_in_server(wrapper) || is_in_server((const void *)(uintptr_t)wrapper->wops->stream_opener))) {
            add(return_value, NULL, schemes[i]);
        }
    }
    /* The engine calls observers in every function, if there are any. */
    if (ZEND_OBSERVER_ENABLED) {
        add(return_value, NULL, "(observers)");
    }
}

static const zend_function_entry test_functions[] = {
    PHP_FE(test_handlers, arginfo_any)
    PHP_FE_END
};

static zend_module_entry handlers_module_entry = {
    STANDARD_MODULE_HEADER, "test_handlers", test_functions, NULL, NULL, NULL, NULL, NULL, "1",
    STANDARD_MODULE_PROPERTIES,
};
ZEND_GET_MODULE(handlers)
