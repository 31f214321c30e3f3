/* Replaces the handlers of PHP's functions and methods, and calls them.
 *
 * A replacement calls the handler that it receives here, so replacements of the same function stack. Functions are
 * replaced once, before any thread runs a script: each thread copies the function table of the process. Only a
 * function that an object creates for a single call is replaced later (worker/connections/calls.c). */
#include "compat.h"
#include "php/engine/engine.h"

zend_function *shim_function_find(const HashTable *functions, const char *name)
{
    zend_function *function = zend_hash_str_find_ptr(functions, name, strlen(name));
    return function != NULL && function->type == ZEND_INTERNAL_FUNCTION ? function : NULL;
}

zif_handler shim_handler_replace(zend_function *function, zif_handler handler)
{
    if (function == NULL || function->type != ZEND_INTERNAL_FUNCTION) {
        return NULL;
    }
    zif_handler own = function->internal_function.handler;
    function->internal_function.handler = handler;
    return own;
}

zif_handler shim_function_replace(const char *name, zif_handler handler)
{
    return shim_handler_replace(shim_function_find(CG(function_table), name), handler);
}

zif_handler shim_function_replace_aliases(const char *name, zif_handler handler)
{
    zif_handler own = shim_function_replace(name, handler);
    zend_function *function;
    ZEND_HASH_FOREACH_PTR(CG(function_table), function) {
        if (own != NULL && function->type == ZEND_INTERNAL_FUNCTION && function->internal_function.handler == own) {
            function->internal_function.handler = handler;
        }
    } ZEND_HASH_FOREACH_END();
    return own;
}

bool shim_builtin_call(const char *class_name, const char *name, zend_object *object, zval *result, zval *arguments,
                       uint32_t count)
{
    const zend_class_entry *class =
        class_name != NULL ? zend_hash_str_find_ptr(CG(class_table), class_name, strlen(class_name)) : NULL;
    const HashTable *functions = class_name == NULL ? CG(function_table) : class != NULL ? &class->function_table : NULL;
    zend_function *function = functions != NULL ? shim_function_find(functions, name) : NULL;
    ZVAL_UNDEF(result);
    if (function == NULL || EG(exception) != NULL) {
        return false;
    }
    zend_call_known_function(function, object, object != NULL ? object->ce : NULL, result, count, arguments, NULL);
    return EG(exception) == NULL;
}
