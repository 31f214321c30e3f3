/* OPcache's own functions, found where the extension lists them: disable_functions takes them from scripts only. */
#include "opcache/functions.h"

zif_handler shim_opcache_function(const char *name)
{
    const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
    const zend_function_entry *function = module != NULL ? module->functions : NULL;
    while (function != NULL && function->fname != NULL && strcmp(function->fname, name) != 0) {
        function++;
    }
    return function != NULL && function->fname != NULL ? function->handler : NULL;
}
