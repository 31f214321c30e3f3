/* PHP's state for serialize() and unserialize(), lent to objects that call them for their own parts (Serializable). */
#ifndef SVC_SHIM_SCRIPT_TEXTS_H
#define SVC_SHIM_SCRIPT_TEXTS_H

#include "compat.h"

#include <ext/standard/basic_functions.h>
#include <ext/standard/php_var.h>

/* The state of serialize() and unserialize() calls of scripts in progress. */
typedef struct shim_script_texts {
    __typeof__(((php_basic_globals *)NULL)->serialize) serialize;
    __typeof__(((php_basic_globals *)NULL)->unserialize) unserialize;
    unsigned lock;
} shim_script_texts;

/* Lends the state of a transfer until shim_script_texts_end(): serialize() of a script counts in `written`, and
 * unserialize() in `read`, as within a call of their own. With NULL, they count separately. If a fiber is suspended in
 * between, the state stays lent, as within serialize(). */
static inline shim_script_texts shim_script_texts_lend(php_serialize_data_t written, php_unserialize_data_t read)
{
    const shim_script_texts before = {.serialize = BG(serialize), .unserialize = BG(unserialize), .lock = BG(serialize_lock)};
    /* At this level, PHP does not free the lent state. */
    BG(serialize).data = written;
    BG(serialize).level = written != NULL;
    BG(unserialize).data = read;
    BG(unserialize).level = read != NULL;
    BG(serialize_lock) = 0;
    return before;
}

static inline void shim_script_texts_end(const shim_script_texts *before)
{
    BG(serialize) = before->serialize;
    BG(unserialize) = before->unserialize;
    BG(serialize_lock) = before->lock;
}

#endif
