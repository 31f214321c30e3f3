/* Classifies the state of each extension as belonging to a request or to a thread, and checks that the running PHP
 * keeps it where it is expected.
 *
 * Structs without a header are declared next to the tables of parts; a build of PHP may define them differently. Tests
 * compare them with PHP's sources, member by member. Without the sources, their sizes and directives are compared: the
 * extension tells where the value of a directive is stored, and a struct that does not match is not moved. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "shim.h"
#include "worker/state/state.h"

/* Extensions whose state belongs to the thread: directives, tables of types, caches, connections. */
static const char *const of_threads[] = {
    "bcmath", "Core", "curl", "dba", "exif", "FFI", "fileinfo", "gd", "gettext", "hash", "iconv", "ldap", "lexbor",
    "mysqlnd", "odbc", "pcntl", "PDO", "PDO_DBLIB", "pdo_mysql", "pdo_pgsql", "pdo_sqlite", "Phar", "readline",
    "Reflection", "sodium", "SPL", "sqlite3", "standard", "tidy", "tokenizer", "uri", "xml", "xmlreader", "xmlwriter",
    "Zend OPcache", "zip",
};

static bool is_known(const char *name)
{
    return SHIM_IS_LISTED(name, of_threads) || shim_modules_travel(name);
}

shim_view shim_state_unclassified(void)
{
    const char *module;
    for (size_t i = 0; (module = shim_tsrm_module(i)) != NULL; i++) {
        if (!is_known(module)) {
            return shim_view_of_cstr(module);
        }
    }
    return (shim_view){0};
}

/* Whether the extension requests storage of its own, as the tables assume. */
static bool is_loaded(const shim_part *part)
{
    const zend_module_entry *entry = zend_hash_str_find_ptr(&module_registry, part->module, strlen(part->module));
    return entry != NULL && (part->hidden || entry->globals_size > 0);
}

bool shim_state_mismatch(size_t index, shim_mismatch *mismatch)
{
    const shim_part *part;
    for (size_t i = 0; (part = shim_part_at(i)) != NULL; i++) {
        if (is_loaded(part) && part->inner == NULL && !shim_modules_hold(part) && index-- == 0) {
            *mismatch = (shim_mismatch){shim_view_of_cstr(part->module), i >= shim_library_extensions_count};
            return true;
        }
    }
    return false;
}

bool shim_state_range(size_t index, shim_state_part *out)
{
    const shim_part *part;
    for (size_t i = 0; (part = shim_part_at(i)) != NULL; i++) {
        for (int r = 0; r < SHIM_RANGES_MAX && (r == 0 || part->ranges[r].size > 0); r++) {
            if (index-- == 0) {
                bool whole = part->ranges[r].size == 0;
                *out = (shim_state_part){
                    .module = shim_view_of_cstr(part->module),
                    .struct_size = part->size,
                    .offset = whole ? 0 : part->ranges[r].offset,
                    .size = whole ? part->size : part->ranges[r].size,
                };
                return true;
            }
        }
    }
    return false;
}
