/* Validates segments of shared memory (the extension sysvshm).
 *
 * PHP follows the offsets in a segment unchecked. Any program that knows the key can overwrite them, as can
 * shmop_write(), and PHP would then access memory outside of the segment. The four functions that follow offsets
 * therefore check them against the size of the segment first. Concurrent writers need a semaphore, as under php-fpm. */
#include "compat.h"
#include "php/files/files.h"
#include "php/engine/engine.h"

#include <stddef.h>
#include <sys/shm.h>

/* As in ext/sysvshm/php_sysvshm.h, which PHP does not install. */
typedef struct chunk {
    zend_long key;
    zend_long length;
    zend_long next;
    char bytes;
} chunk;

typedef struct chunk_head {
    char magic[8];
    zend_long start;
    zend_long end;
    zend_long free;
    zend_long total;
} chunk_head;

typedef struct segment {
    key_t key;
    zend_long id;
    const chunk_head *head;
    zend_object object;
} segment;

static const zend_class_entry *segment_class;

static bool is_sound(const segment *segment)
{
    struct shmid_ds facts;
    if (shmctl((int)segment->id, IPC_STAT, &facts) != 0 || facts.shm_segsz < sizeof(chunk_head)) {
        return false;
    }
    const zend_long size = (zend_long)facts.shm_segsz;
    const chunk_head head = *segment->head;
    if (head.start < (zend_long)sizeof(head) || head.start > head.end || head.end > size || head.free > size - head.end) {
        return false;
    }
    const zend_long least = offsetof(chunk, bytes);
    for (zend_long at = head.start, next; at < head.end; at += next) {
        const chunk *entry = (const chunk *)((const char *)segment->head + at);
        if (head.end - at < least) {
            return false;
        }
        next = entry->next;
        if (next < least || next > head.end - at || entry->length < 0 || entry->length > next - least) {
            return false;
        }
    }
    return true;
}

/* Returns whether PHP's function may be called; warns and sets its result otherwise. */
static bool is_usable(zend_execute_data *execute_data, zval *return_value)
{
    const zval *given = ZEND_NUM_ARGS() > 0 ? ZEND_CALL_ARG(execute_data, 1) : NULL;
    if (given == NULL || Z_TYPE_P(given) != IS_OBJECT || Z_OBJCE_P(given) != segment_class) {
        return true;
    }
    const segment *segment = (const struct segment *)((const char *)Z_OBJ_P(given) - offsetof(struct segment, object));
    if (segment->head == NULL || is_sound(segment)) {
        return true;
    }
    php_error_docref(NULL, E_WARNING, "Segment with key 0x%x is damaged: another program has written to it, or created it smaller",
                     (unsigned)segment->key);
    RETVAL_FALSE;
    return false;
}

#define CHECKED(name)                                                                                                            \
    static zif_handler own_##name;                                                                                               \
    static ZEND_NAMED_FUNCTION(checked_##name)                                                                                   \
    {                                                                                                                            \
        if (is_usable(execute_data, return_value)) {                                                                             \
            own_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU);                                                                        \
        }                                                                                                                        \
    }

CHECKED(get_var)
CHECKED(has_var)
CHECKED(put_var)
CHECKED(remove_var)

void shim_shared_memory_install(void)
{
    segment_class = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("sysvsharedmemory"));
    if (segment_class == NULL) {
        return;
    }
    own_get_var = shim_function_replace("shm_get_var", checked_get_var);
    own_has_var = shim_function_replace("shm_has_var", checked_has_var);
    own_put_var = shim_function_replace("shm_put_var", checked_put_var);
    own_remove_var = shim_function_replace("shm_remove_var", checked_remove_var);
}
