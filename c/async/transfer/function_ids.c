/* Function IDs: the identity of a function, which is the same in each thread that compiles its file.
 *
 * The opcodes of a function depend on what its thread had declared when it compiled the file, and OPcache changes them.
 * Two things do not depend on that: the text of the file, and the order in which the compiler begins the functions in
 * it. An ID consists of both. It is kept in op_array.reserved, which closures, traits and OPcache copy together with
 * the function. */
#include "async/transfer/transfer.h"
#include "worker/engine/engine.h"

#include <zend_compile.h>
#include <zend_extensions.h>
#include <zend_language_scanner.h>
#include <zend_system_id.h>

/* The file that is being compiled on this thread. */
typedef struct position {
    bool is_in_file;
    /* The name of the file, known from its first function on. */
    const zend_string *path;
    shim_function_id last;
} position;

static int place;
static __thread position current;

static uint64_t add(uint64_t hash, const char *bytes, size_t length)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t word;
    for (; length > 0; bytes += MIN(length, sizeof(word)), length -= MIN(length, sizeof(word))) {
        word = 0;
        memcpy(&word, bytes, MIN(length, sizeof(word)));
        hash = (hash ^ word) * odd;
        hash ^= hash >> 29;
    }
    return hash;
}

shim_function_id shim_function_id_of_file(const zend_string *path, const char *text, size_t length)
{
    const uint64_t hash = add(add(ZSTR_LEN(path), ZSTR_VAL(path), ZSTR_LEN(path)) + length, text, length);
    return (hash ^ hash >> 32) << SHIM_FUNCTION_NUMBER_BITS;
}

static shim_function_id id_of_scanned(const zend_string *path)
{
    /* zend.multibyte: the text before its conversion. */
    if (CG(multibyte) && LANG_SCNG(script_org) != NULL) {
        return shim_function_id_of_file(path, (const char *)LANG_SCNG(script_org), LANG_SCNG(script_org_size));
    }
    const unsigned char *start = LANG_SCNG(yy_start);
    return shim_function_id_of_file(path, (const char *)start, (size_t)(LANG_SCNG(yy_limit) - start));
}

/* Called for each function that the compiler begins. */
static void identify(zend_op_array *code)
{
    if (!current.is_in_file) {
        return;
    }
    if (current.path == NULL) {
        current.path = code->filename;
        current.last = id_of_scanned(code->filename);
    }
    const shim_function_id next = current.last + 1;
    if (code->filename == current.path && shim_function_id_is_of_file(next, current.last)) {
        current.last = next;
        code->reserved[place] = (void *)(uintptr_t)next;
    }
}

shim_function_id shim_function_id_of(const zend_op_array *code)
{
    return (uintptr_t)code->reserved[place];
}

/* ---- the compiler ---- */

static __typeof__(zend_compile_file) next_compile_file;
static __typeof__(zend_compile_string) next_compile_string;

/* An error handler may load a file while another one is being compiled. */
static zend_op_array *compile_with(__typeof__(zend_compile_file) compile, zend_file_handle *file, int type)
{
    const position outer = current;
    current = (position){.is_in_file = true};
    zend_op_array *code = compile(file, type);
    current = outer;
    return code;
}

static zend_op_array *compile_identified(zend_file_handle *file, int type)
{
    return compile_with(next_compile_file, file, type);
}

zend_op_array *shim_compile_uncached(zend_file_handle *file, int type)
{
    return compile_with(compile_file, file, type);
}

static zend_op_array *compile_unidentified(zend_string *source, const char *name, zend_compile_position at)
{
    const position outer = current;
    current = (position){0};
    zend_op_array *code = next_compile_string(source, name, at);
    current = outer;
    return code;
}

bool shim_function_ids_install(void)
{
    zend_extension extension = {
        .name = "svc", .version = "1", .author = "", .URL = "", .copyright = "", .op_array_ctor = identify};
    place = shim_stacks_slot();
    if (place < 0) {
        return false;
    }
    /* OPcache's files on disk (opcache.file_cache) hold functions with their IDs: ones that a PHP without IDs, or with
     * another slot, has written are not for this process. */
    (void)zend_add_system_entropy("svc", "marks", &place, sizeof(place));
    zend_register_extension(&extension, NULL);
    next_compile_file = zend_compile_file;
    zend_compile_file = compile_identified;
    next_compile_string = zend_compile_string;
    zend_compile_string = compile_unidentified;
    return true;
}
