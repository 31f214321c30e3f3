/* Functions in the memory that OPcache shares between threads.
 *
 * A missing reference count is not sufficient evidence: if OPcache's memory is full, or is a cache of files only, a
 * script has none either, but lives in the memory of its request. Shared memory is recognized by its mapping, which is
 * MAP_SHARED and stays until the process ends.
 *
 * A closure contains a copy of its function's struct, in which only the run-time cache and the static variables differ.
 * The struct itself is found in front of its opcodes: OPcache writes a script from one end to the other, each struct
 * before the data that it points to. */
#include "async/transfer/shared_code.h"

#include <pthread.h>

enum {
    MAPPINGS_MAX = 32,
    /* The distance in front of the opcodes within which a struct is searched for. In between are its literals and
     * static variables. */
    REACH = 4 << 20,
};

static struct {
    uintptr_t begin;
    uintptr_t end;
} mappings[MAPPINGS_MAX];
static size_t mapping_count;
static pthread_once_t is_read = PTHREAD_ONCE_INIT;

/* Reads the shared mappings. OPcache has mapped its memory before the first thread runs a script. Parts of it may have
 * different access rights. */
static void read_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[512];
    while (file != NULL && mapping_count < MAPPINGS_MAX && fgets(line, sizeof(line), file) != NULL) {
        uintptr_t begin, end;
        char rights[5];
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, rights) == 3 && rights[3] == 's') {
            mappings[mapping_count].begin = begin;
            mappings[mapping_count].end = end;
            mapping_count++;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* Returns the start of the shared mapping with this address; 0 if there is none. */
static uintptr_t mapping_of(const void *address)
{
    pthread_once(&is_read, read_mappings);
    for (size_t i = 0; i < mapping_count; i++) {
        if ((uintptr_t)address >= mappings[i].begin && (uintptr_t)address < mappings[i].end) {
            return mappings[i].begin;
        }
    }
    return 0;
}

/* Compares all members that a closure's copy has in common with the function. */
static bool is_origin(const zend_op_array *origin, const zend_op_array *code)
{
    return origin->opcodes == code->opcodes && origin->type == ZEND_USER_FUNCTION && origin->refcount == NULL &&
           (origin->fn_flags & ZEND_ACC_IMMUTABLE) != 0 && origin->function_name == code->function_name &&
           origin->filename == code->filename && origin->last == code->last && origin->literals == code->literals &&
           origin->last_literal == code->last_literal && origin->vars == code->vars && origin->last_var == code->last_var &&
           origin->T == code->T && origin->cache_size == code->cache_size && origin->arg_info == code->arg_info &&
           origin->num_args == code->num_args && origin->line_start == code->line_start && origin->line_end == code->line_end &&
           origin->live_range == code->live_range && origin->try_catch_array == code->try_catch_array &&
           origin->dynamic_func_defs == code->dynamic_func_defs &&
           origin->num_dynamic_func_defs == code->num_dynamic_func_defs;
}

zend_op_array *shim_shared_code(const zend_op_array *code)
{
    if (code->refcount != NULL) {
        return NULL;
    }
    const uintptr_t begin = mapping_of(code->opcodes), opcodes = (uintptr_t)code->opcodes;
    if (begin == 0 || opcodes - begin < sizeof(*code)) {
        return NULL;
    }
    const uintptr_t nearest = opcodes - sizeof(*code);
    const uintptr_t farthest = nearest - begin > REACH ? nearest - REACH : begin;
    for (uintptr_t at = nearest; at >= farthest; at -= sizeof(void *)) {
        /* Other threads may be writing to the memory in front of the function: one word at a time is read, until it
         * matches. */
        const zend_op *const *word = (const zend_op *const *)(at + offsetof(zend_op_array, opcodes));
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == code->opcodes && is_origin((const zend_op_array *)at, code)) {
            return (zend_op_array *)at;
        }
    }
    return NULL;
}

size_t shim_shared_map_ptrs(void)
{
    return CG(map_ptr_last);
}

/* Makes room for the thread's own data of the script's functions: a thread that has never loaded the script may have
 * none yet. */
void shim_shared_map_ptrs_extend(size_t last)
{
    zend_map_ptr_extend(last);
}
