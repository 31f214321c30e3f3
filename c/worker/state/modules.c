/* The state of extensions for a request: moves the parts of their structs that the tables name (worker/state/state.h).
 *
 * An extension's struct is found through its module entry, so no extension is needed at link time. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/engine/engine.h"
#include "worker/state/state.h"

/* ---- the tables of parts ---- */

const shim_part *shim_part_at(size_t index)
{
    if (index < shim_library_extensions_count) {
        return &shim_library_extensions[index];
    }
    index -= shim_library_extensions_count;
    return index < shim_php_extensions_count ? &shim_php_extensions[index] : NULL;
}

/* Whether PHP's directives confirm the declared layout of the struct. */
static bool part_fits(const shim_part *part)
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

/* ---- the verbs ---- */

static __thread struct {
    const shim_part *part;
    zend_module_entry *entry;
    char *globals;
    size_t size;
} found[SHIM_PARTS_MAX];
static __thread int found_count;
/* The ranges of all parts, stored contiguously in this order in the block of a request's state. */
static __thread struct {
    char *place;
    size_t size;
} pieces[SHIM_PARTS_MAX * SHIM_RANGES_MAX];
static __thread int piece_count;
/* The parts that have one or the other of two functions, in order: most have neither. */
typedef struct part_list {
    int parts[SHIM_PARTS_MAX];
    int count;
} part_list;
static __thread part_list of_requests, of_waits, of_modules;
static __thread char *baseline;
static __thread size_t block_size;

/* Returns the resource ID of the part's struct, or of the pointer to it; 0 if the struct is unknown. */
static ts_rsrc_id find_id(const shim_part *part, const zend_module_entry *entry)
{
    if (!part_fits(part)) {
        return 0;
    }
    if (part->hidden) {
        return shim_tsrm_id(part->module, part->size);
    }
    return entry->globals_size > 0 ? *entry->globals_id_ptr : 0;
}

/* Returns the thread's struct of the part; NULL if the struct is unknown. */
static char *find_struct(const shim_part *part, const zend_module_entry *entry)
{
    const ts_rsrc_id id = find_id(part, entry);
    if (id == 0) {
        return NULL;
    }
    char *globals = TSRMG_BULK(id, char *);
    if (part->inner != NULL) {
        return part->inner(globals);
    }
    return part->hidden || part->size == 0 || part->size == entry->globals_size ? globals : NULL;
}

static zend_module_entry *module_of(const shim_part *part)
{
    return zend_hash_str_find_ptr(&module_registry, part->module, strlen(part->module));
}

void *shim_modules_struct(const char *name)
{
    const shim_part *part;
    for (size_t i = 0; (part = shim_part_at(i)) != NULL; i++) {
        if (strcmp(part->module, name) == 0) {
            const zend_module_entry *entry = module_of(part);
            return entry != NULL ? find_struct(part, entry) : NULL;
        }
    }
    return NULL;
}

bool shim_modules_hold(const shim_part *part)
{
    const zend_module_entry *entry = module_of(part);
    return entry != NULL && find_struct(part, entry) != NULL;
}

void shim_modules_follow_stacks(void)
{
    const shim_part *part;
    for (size_t i = 0; (part = shim_part_at(i)) != NULL; i++) {
        const zend_module_entry *entry = part->of_stack[0].size > 0 ? module_of(part) : NULL;
        if (entry == NULL || find_struct(part, entry) == NULL) {
            continue;
        }
        for (int r = 0; r < SHIM_STACK_RANGES_MAX && part->of_stack[r].size > 0; r++) {
            shim_stacks_add(find_id(part, entry), part->of_stack[r].offset, part->of_stack[r].size);
        }
    }
}

bool shim_modules_travel(const char *name)
{
    const shim_part *part;
    bool travels = false;
    for (size_t i = 0; (part = shim_part_at(i)) != NULL; i++) {
        if (strcasecmp(part->module, name) != 0) {
            continue;
        }
        const zend_module_entry *entry = module_of(part);
        if (entry != NULL && find_struct(part, entry) == NULL) {
            return false;
        }
        travels = true;
    }
    return travels;
}

/* Returns a range of the struct; an empty one follows the last. */
static shim_range range_of(int which, int index)
{
    const shim_range *ranges = found[which].part->ranges;
    if (index == 0 && ranges[0].size == 0) {
        return (shim_range){0, found[which].size};
    }
    return index < SHIM_RANGES_MAX ? ranges[index] : (shim_range){0, 0};
}

static void append_if(part_list *list, bool is_of_list, int which)
{
    if (is_of_list) {
        list->parts[list->count++] = which;
    }
}

static void find_parts(void)
{
    const shim_part *part;
    found_count = 0;
    piece_count = 0;
    block_size = 0;
    of_requests.count = of_waits.count = of_modules.count = 0;
    for (size_t i = 0; (part = shim_part_at(i)) != NULL && found_count < SHIM_PARTS_MAX; i++) {
        zend_module_entry *entry = module_of(part);
        char *globals = entry != NULL ? find_struct(part, entry) : NULL;
        if (globals == NULL) {
            continue;
        }
        int which = found_count++;
        found[which].part = part;
        found[which].entry = entry;
        found[which].globals = globals;
        found[which].size = part->size > 0 ? part->size : entry->globals_size;
        for (int r = 0; range_of(which, r).size > 0; r++) {
            pieces[piece_count].place = globals + range_of(which, r).offset;
            pieces[piece_count++].size = range_of(which, r).size;
            block_size += range_of(which, r).size;
        }
        append_if(&of_requests, part->begin != NULL || part->end != NULL, which);
        append_if(&of_waits, part->suspend != NULL || part->resume != NULL, which);
        append_if(&of_modules, part->start || part->stop, which);
    }
}

static void read_pieces(char *block)
{
    for (int i = 0; i < piece_count; i++) {
        memcpy(block, pieces[i].place, pieces[i].size);
        block += pieces[i].size;
    }
}

static void write_pieces(const char *block)
{
    for (int i = 0; i < piece_count; i++) {
        memcpy(pieces[i].place, block, pieces[i].size);
        block += pieces[i].size;
    }
}

void shim_modules_capture(void)
{
    find_parts();
    baseline = emalloc(block_size);
    char *to = baseline;
    for (int i = 0; i < found_count; i++) {
        char *copy = emalloc(found[i].size);
        memcpy(copy, found[i].globals, found[i].size);
        if (found[i].part->make_baseline != NULL) {
            found[i].part->make_baseline(copy);
        }
        for (int r = 0; range_of(i, r).size > 0; r++) {
            const shim_range range = range_of(i, r);
            memcpy(to, copy + range.offset, range.size);
            if (found[i].part->blank) {
                memset(to, 0, range.size);
            }
            to += range.size;
        }
        efree(copy);
    }
}

void shim_modules_reset(void)
{
    write_pieces(baseline);
}

void shim_modules_release(void)
{
    efree(baseline);
    baseline = NULL;
}

void shim_modules_begin(int *begun)
{
    for (; *begun < of_requests.count; ++*begun) {
        const int which = of_requests.parts[*begun];
        if (found[which].part->begin != NULL) {
            found[which].part->begin(found[which].globals);
        }
    }
}

void shim_modules_start(int *started)
{
    while (*started < of_modules.count) {
        const int which = of_modules.parts[(*started)++];
        const zend_module_entry *entry = found[which].entry;
        if (found[which].part->start && entry->request_startup_func != NULL) {
            (void)entry->request_startup_func(entry->type, entry->module_number);
        }
    }
}

void shim_modules_mark_started(int *started)
{
    *started = of_modules.count;
}

bool shim_modules_prepare(char **block)
{
    if (*block == NULL) {
        *block = malloc(block_size > 0 ? block_size : 1);
    }
    return *block != NULL;
}

void shim_modules_suspend(char *block)
{
    for (int i = 0; i < of_waits.count; i++) {
        const int which = of_waits.parts[i];
        if (found[which].part->suspend != NULL) {
            found[which].part->suspend(found[which].globals);
        }
    }
    read_pieces(block);
    write_pieces(baseline);
}

void shim_modules_resume(const char *block)
{
    write_pieces(block);
    for (int i = 0; i < of_waits.count; i++) {
        const int which = of_waits.parts[i];
        if (found[which].part->resume != NULL) {
            found[which].part->resume(found[which].globals);
        }
    }
}

void shim_modules_end(int *started)
{
    while (*started > 0) {
        const int which = of_modules.parts[--*started];
        const zend_module_entry *entry = found[which].entry;
        if (found[which].part->stop && entry->request_shutdown_func != NULL) {
            (void)entry->request_shutdown_func(entry->type, entry->module_number);
        }
    }
}

void shim_modules_clean(int *begun)
{
    while (*begun > 0) {
        const int which = of_requests.parts[--*begun];
        if (found[which].part->end != NULL) {
            found[which].part->end(found[which].globals);
        }
    }
}
