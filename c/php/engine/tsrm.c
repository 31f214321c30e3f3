/* The per-thread state of extensions.
 *
 * Most extensions declare it in their module entry; some (filter, assert(), the default directory handle) do not. All
 * of them request it from TSRM while they start. The executable's definition of that function precedes that of libphp,
 * and records the module and the size of each request. */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

#include <zend_virtual_cwd.h>

enum { PLACES_MAX = 256 };

static struct {
    const zend_module_entry *module;
    size_t size;
    ts_rsrc_id id;
} places[PLACES_MAX];
static size_t places_count;

/* Called only while PHP starts, on one thread. */
static void note(const zend_module_entry *module, size_t size, ts_rsrc_id id)
{
    if (places_count < PLACES_MAX) {
        places[places_count].module = module;
        places[places_count].size = size;
        places[places_count].id = id;
        places_count++;
    }
}

ts_rsrc_id ts_allocate_id(ts_rsrc_id *id, size_t size, ts_allocate_ctor make, ts_allocate_dtor free)
{
    ts_rsrc_id result = NEXT(ts_allocate_id)(id, size, make, free);
    if (executor_globals_id != 0) {
        note(EG(current_module), size, result);
    }
    return result;
}

static size_t directory_offset;

/* Records the structs of the engine itself and, from PHP 8.5 on, those of OPcache, which has become part of it. Most
 * declare their offset; that of the working directory does not, but no other one has its size. */
ts_rsrc_id ts_allocate_fast_id(ts_rsrc_id *id, size_t *offset, size_t size, ts_allocate_ctor make, ts_allocate_dtor free)
{
    ts_rsrc_id result = NEXT(ts_allocate_fast_id)(id, offset, size, make, free);
    if (size == sizeof(virtual_cwd_globals)) {
        directory_offset = *offset;
    }
    note(NULL, size, result);
    return result;
}

cwd_state *shim_directory(void)
{
    return &TSRMG_FAST_BULK_STATIC(directory_offset, virtual_cwd_globals *)->cwd;
}

ts_rsrc_id shim_tsrm_id(const char *module, size_t size)
{
    for (size_t i = 0; i < places_count; i++) {
        if (places[i].module != NULL && places[i].size == size && strcmp(places[i].module->name, module) == 0) {
            return places[i].id;
        }
    }
    return 0;
}

size_t shim_tsrm_size(ts_rsrc_id id)
{
    for (size_t i = 0; i < places_count; i++) {
        if (places[i].id == id) {
            return places[i].size;
        }
    }
    return 0;
}

const char *shim_tsrm_module(size_t index)
{
    if (index >= places_count) {
        return NULL;
    }
    return places[index].module != NULL ? places[index].module->name : "Core";
}
