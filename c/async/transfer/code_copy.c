/* Functions that this thread has made from images.
 *
 * They are kept, because a function that is made anew for each task would begin with cold caches, and would take the
 * time of a compilation. The engine counts the closures, generators, frames and table entries that use a copy
 * (zend_op_array.refcount), always on this thread, so a copy can be freed once only this file holds references. */
#include "async/transfer/code_build.h"
#include "async/transfer/code_copy.h"

/* Unused copies are freed when there are more than this. */
enum { COPIES_MAX = 64 };

/* A copy; the list begins with the newest one. */
typedef struct copy {
    struct copy *next;
    zend_ulong hash;
    zend_class_entry *scope;
    zend_op_array *code;
    /* The image that it was made from: two functions may have the same hash. */
    zend_string *image;
} copy;

static __thread copy *copies;
static __thread uint32_t count;

static bool is_used(const copy *copy)
{
    const uint32_t functions = shim_code_functions((shim_view){.bytes = ZSTR_VAL(copy->image), .length = ZSTR_LEN(copy->image)});
    for (uint32_t i = 0; i < functions; i++) {
        if (*copy->code[i].refcount > 1) {
            return true;
        }
    }
    return false;
}

static void free_copy(copy *copy)
{
    zend_op_array *code = copy->code;
    destroy_op_array(code);
    efree(code);
    zend_string_release(copy->image);
    efree(copy);
}

static void free_oldest(void)
{
    copy **oldest = NULL;
    for (copy **at = &copies; *at != NULL; at = &(*at)->next) {
        if (at != &copies && !is_used(*at)) {
            oldest = at;
        }
    }
    if (oldest != NULL) {
        copy *unused = *oldest;
        *oldest = unused->next;
        count--;
        free_copy(unused);
    }
}

static copy *find(shim_view image, zend_ulong hash, const zend_class_entry *scope)
{
    for (copy **at = &copies; *at != NULL; at = &(*at)->next) {
        copy *found = *at;
        if (found->hash == hash && found->scope == scope && ZSTR_LEN(found->image) == image.length &&
            memcmp(ZSTR_VAL(found->image), image.bytes, image.length) == 0) {
            *at = found->next;
            found->next = copies;
            copies = found;
            return found;
        }
    }
    return NULL;
}

zend_op_array *shim_code_copy(shim_view image, zend_class_entry *scope)
{
    const zend_ulong hash = zend_inline_hash_func(image.bytes, image.length);
    copy *found = find(image, hash, scope);
    if (found != NULL) {
        return found->code;
    }
    copy *made = emalloc(sizeof(*made));
    *made = (copy){.hash = hash, .scope = scope};
    made->image = zend_string_init(image.bytes, image.length, false);
    made->code = shim_code_build(image, scope);
    /* Linked only once it is complete: running out of memory jumps out of here. */
    made->next = copies;
    copies = made;
    if (++count > COPIES_MAX) {
        free_oldest();
    }
    return made->code;
}

void shim_code_copies_free(void)
{
    while (copies != NULL) {
        copy *next = copies->next;
        free_copy(copies);
        copies = next;
    }
    count = 0;
}
