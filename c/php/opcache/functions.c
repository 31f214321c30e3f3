/* OPcache's own functions, found in the extension's list: disable_functions hides them from scripts only. */
#include "php/opcache/functions.h"

zif_handler shim_opcache_function(const char *name)
{
    const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
    const zend_function_entry *function = module != NULL ? module->functions : NULL;
    while (function != NULL && function->fname != NULL && strcmp(function->fname, name) != 0) {
        function++;
    }
    return function != NULL && function->fname != NULL ? function->handler : NULL;
}
