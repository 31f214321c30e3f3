/* All tables of parts as one, and whether a struct of the running PHP matches its table. */
#include "compat.h"
#include "worker/state/library_parts.h"
#include "worker/state/own_parts.h"
#include "worker/state/parts.h"

const shim_part *shim_part_at(size_t index)
{
    if (index < shim_library_parts_count) {
        return &shim_library_parts[index];
    }
    index -= shim_library_parts_count;
    return index < shim_own_parts_count ? &shim_own_parts[index] : NULL;
}

bool shim_part_fits(const shim_part *part)
{
    for (int i = 0; i < SHIM_DIRECTIVES_MAX && part->directives[i].name != NULL; i++) {
        const char *name = part->directives[i].name;
        const zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, strlen(name));
        if (entry != NULL && (size_t)(uintptr_t)entry->mh_arg1 != part->directives[i].offset) {
            return false;
        }
    }
    return true;
}
