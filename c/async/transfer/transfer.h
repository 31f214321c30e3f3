/* Values and code on their way from one thread to another. */
#ifndef SVC_ASYNC_TRANSFER_H
#define SVC_ASYNC_TRANSFER_H

#include "compat.h"
#include "php/bailout/bailout.h"
#include "shim.h"

#include <ext/standard/basic_functions.h>
#include <ext/standard/php_var.h>
#include <zend_call_stack.h>

/* ---- The exceptions of tasks: Svc\Async\Exception and its subclasses (exceptions.c) ---- */

extern zend_class_entry *shim_async_exception, *shim_rejected_exception, *shim_transfer_exception,
    *shim_task_exception, *shim_timeout_exception, *shim_cancelled_exception, *shim_aggregate_exception;

void shim_async_exceptions_register(void);

/* Throws a TransferException. An exception that is already thrown becomes its previous; exit() and the end of a fiber
 * take precedence, and nothing changes. Returns false. */
bool shim_transfer_throw(const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 1, 2);
/* Throws a TaskException. `previous` may be NULL; takes over its reference. */
void shim_task_exception_throw(shim_view message, zend_long code, shim_view class_name, shim_view trace,
                               zend_object *previous);
/* Throws a CancelledException in the running task. */
void shim_cancelled_throw(void);
/* Throws an AggregateException. `errors` is an array, key => Throwable; takes over its reference. */
void shim_aggregate_exception_throw(zend_array *errors);
/* Returns a copy of an exception's trace without the arguments of calls. */
HashTable *shim_trace_without_arguments(HashTable *trace);
/* Returns a copy of an exception's properties whose trace has no arguments. */
HashTable *shim_exception_without_arguments(HashTable *properties);

/* ---- One transfer on its way out: values, and numbers and bytes between them (packer.c) ---- */

/* Lives on the caller's stack, from begin to finish or abandon. Its memory belongs to the request until it is finished,
 * so that a bailout leaks nothing.
 *
 * Objects keep their identity across all values of a packer. Once a value has been refused, the packer can only be
 * abandoned. */
typedef struct shim_packer {
    /* length <= room, and length <= bytes_max. */
    char *bytes;
    size_t length;
    size_t room;
    size_t bytes_max;
    /* Something did not fit: shim_packer_finish() will refuse. */
    bool is_full;
    /* The number of objects that are being packed, one inside the other. */
    uint32_t depth;
    /* The objects, and the references inside them, by number; NULL before the first object. */
    php_serialize_data_t numbers;
} shim_packer;

void shim_packer_begin(shim_packer *packer, size_t bytes_max);
/* Packs a value. Returns false if an exception is thrown: a TransferException that names `place` (such as "argument 2")
 * and the position inside it, or exit(). May run script code (__serialize, __sleep), which may suspend its fiber or
 * bail out. */
bool shim_pack_value(shim_packer *packer, const char *place, zval *value);
void shim_pack_number(shim_packer *packer, uint64_t number);
void shim_pack_bytes(shim_packer *packer, const char *bytes, size_t length);
/* Ends the packer. Returns the payload, which the caller owns; NULL with an exception if it is too long or there is no
 * memory. */
shim_payload *shim_packer_finish(shim_packer *packer);
/* Ends the packer without a payload. */
void shim_packer_abandon(shim_packer *packer);

/* ---- One transfer on its way in (unpacker.c) ---- */

/* Lives on the caller's stack, no longer than the payload that it reads. Reads values in the order in which they were
 * packed. */
typedef struct shim_unpacker {
    const char *at;
    const char *end;
    /* The objects of the transfer, by number; NULL before the first one. */
    php_unserialize_data_t objects;
    /* The objects to be completed: each object, and the data for __unserialize(), or null for __wakeup(). */
    HashTable *incomplete;
} shim_unpacker;

void shim_unpacker_begin(shim_unpacker *unpacker, const shim_payload *payload);
/* Begins likewise with bytes that shim_pack_bytes() has packed, within a payload. */
void shim_unpacker_begin_view(shim_unpacker *unpacker, shim_view bytes);
/* Unpacks a value. Returns false if an exception is thrown: a TransferException if a class cannot be loaded in this
 * thread, or exit(). `value` is then UNDEF. May run script code (autoloaders, Serializable::unserialize), which may
 * suspend its fiber or bail out. Objects may be incomplete before shim_unpacker_end(). */
bool shim_unpack_value(shim_unpacker *unpacker, zval *value);
/* Both return false, with an exception, if the next item is of another kind. */
bool shim_unpack_number(shim_unpacker *unpacker, uint64_t *number);
/* `bytes` is a view into the payload. */
bool shim_unpack_bytes(shim_unpacker *unpacker, shim_view *bytes);
/* Calls __unserialize and __wakeup of the objects. Returns false if one of them has thrown: a TransferException with
 * that exception as its previous is thrown, and the caller releases the unpacked values. Calls nothing if an exception
 * is already thrown. */
bool shim_unpacker_end(shim_unpacker *unpacker);

/* ---- Closures (code.c) ---- */

/* Packs the identity of the closure's function, the class that it was written in, and the variables that it captures.
 * Returns false if a TransferException is thrown. May run script code, like shim_pack_value(). */
bool shim_pack_code(shim_packer *packer, zend_object *closure);
/* Whether the function is in OPcache's memory: if OPcache restarts before the function is unpacked, and the file has
 * changed, it is lost. */
bool shim_code_is_shared(zend_object *closure);
/* Makes the closure; release it with shim_code_release(). Returns false if an exception is thrown; no code of the
 * function has run then. May run script code (autoloaders, and the code that shim_unpack_value() runs). */
bool shim_unpack_code(shim_unpacker *unpacker, zval *closure);
void shim_code_release(zval *closure);

/* ---- The exception of a task, on its way to the awaiting request (failure.c) ---- */

/* Packs an uncaught exception: message, code, class, trace without arguments, and the object itself if it can be
 * packed. The caller keeps its reference. Returns false if exit() or the end of the fiber throws meanwhile; exceptions
 * from packing the object are dropped. May run script code. */
bool shim_pack_failure(shim_packer *packer, zend_object *exception);
/* Packs an end without an exception: a fatal error or exit(). */
void shim_pack_failure_text(shim_packer *packer, shim_view message);
/* Throws the packed failure as a TaskException, or a TransferException if the payload is damaged. May run script code. */
void shim_throw_failure(shim_unpacker *unpacker);

/* ---- The identity of a function, which is the same in each thread that compiles its file (function_ids.c) ---- */

/* The hash of a file, and the number of a function in that file. 0 is no ID. */
typedef uint64_t shim_function_id;

enum { SHIM_FUNCTION_NUMBER_BITS = 20 };

/* Call while PHP starts, before it compiles a file. Returns false if PHP has no free resource handle. */
bool shim_function_ids_install(void);
/* Returns the ID of a function, or of its copy in a closure; 0 if it was not compiled from a file. */
shim_function_id shim_function_id_of(const zend_op_array *code);
/* Returns an ID of the file with this path and text. */
shim_function_id shim_function_id_of_file(const zend_string *path, const char *text, size_t length);
/* Compiles a file without OPcache. */
zend_op_array *shim_compile_uncached(zend_file_handle *file, int type);

static inline bool shim_function_id_is_of_file(shim_function_id id, shim_function_id other)
{
    return id >> SHIM_FUNCTION_NUMBER_BITS == other >> SHIM_FUNCTION_NUMBER_BITS;
}

/* ---- Files that this thread has compiled to take functions from them (sources.c) ---- */

/* Returns the function with this ID; NULL if its file has changed or cannot be read. The thread keeps it until no
 * closure of it is left. `is_cached`: the sender has it from OPcache. */
zend_op_array *shim_source_function(zend_string *path, shim_function_id id, bool is_cached);
/* Call when the request of this thread has ended, and with it all closures. */
void shim_sources_free(void);

/* ---- Closures that cannot run as a task (code_refusals.c) ---- */

/* The parts of a closure. */
typedef struct shim_closure {
    /* The closure's own copy of its function. */
    zend_function *function;
    /* The class it was written in; NULL if there is none. */
    zend_class_entry *scope;
    /* The class that `static` refers to. */
    zend_class_entry *called_scope;
    zend_object *self;
} shim_closure;

shim_closure shim_closure_of(zend_object *closure);
/* Returns the function that this name refers to, from which a closure of an internal function or of a static method was
 * made; NULL if there is none. */
zend_function *shim_closure_named(zend_class_entry *scope, const zend_string *name);
/* Returns whether the closure is refused: a TransferException with the reason is thrown then. */
bool shim_code_refused(const shim_closure *closure);

/* ---- The position of a value within the packed data, for the messages of refusals (place.c) ---- */

typedef enum shim_place_kind {
    /* The value that the caller has passed and named. */
    SHIM_PLACE_ROOT,
    SHIM_PLACE_ELEMENT,
    SHIM_PLACE_PROPERTY,
    /* A value that an object's own serialization has returned: it has the place of the object. */
    SHIM_PLACE_INSIDE,
} shim_place_kind;

/* A chain of frames on the C stack, from the value outwards. */
typedef struct shim_place {
    const struct shim_place *outer;
    shim_place_kind kind;
    /* SHIM_PLACE_ROOT */
    const char *name;
    /* NULL: `index` is the key. A property's name is mangled as in its object. */
    zend_string *key;
    zend_ulong index;
    /* The array whose elements have this place as their outer one, if any. */
    const HashTable *array;
} shim_place;

/* Throws a TransferException with the place and the reason. An exception that is already thrown becomes its previous.
 * Returns false. */
bool shim_place_refuse(const shim_place *place, const char *why);
/* Throws likewise, but names only the caller's value, without the position inside it. */
bool shim_place_refuse_whole(const shim_place *place, const char *why);
/* Whether the array is already being packed, further out. */
bool shim_place_is_within(const shim_place *place, const HashTable *array);

/* ---- The bytes of a transfer ---- */

/* A transfer that one thread has packed and another one unpacks: one block of malloc(), freed by free() on any thread.
 * Only unpacker.c reads it. */
struct shim_payload {
    size_t length;
    char bytes[];
};

/* The first byte of a value. A length or a count is a varint: seven bits a byte, the lowest first. */
typedef enum shim_tag {
    SHIM_TAG_NULL,
    SHIM_TAG_FALSE,
    SHIM_TAG_TRUE,
    /* Eight bytes in the machine's order. */
    SHIM_TAG_INT,
    SHIM_TAG_FLOAT,
    /* The number itself, below 128. */
    SHIM_TAG_SMALL,
    /* Length, bytes. */
    SHIM_TAG_STRING,
    /* The next free key (eight bytes), count; for each element its value, or a hole. */
    SHIM_TAG_PACKED,
    SHIM_TAG_HOLE,
    /* The next free key (eight bytes), count; for each element its key (SHIM_TAG_INT, SHIM_TAG_SMALL or
     * SHIM_TAG_STRING) and its value. */
    SHIM_TAG_HASH,
    SHIM_TAG_EMPTY_ARRAY,
    /* A case of an enum: two strings without tags. */
    SHIM_TAG_CASE,
    /* The name of the class; keys and values, like those of SHIM_TAG_HASH, up to SHIM_TAG_END. */
    SHIM_TAG_OBJECT,
    SHIM_TAG_END,
    /* An object in a format of its class: the name of the class, length, bytes. */
    SHIM_TAG_CUSTOM,
    /* An object that its class has serialized as null. */
    SHIM_TAG_NULLED,
    /* A reference to an object that has occurred before: its number. */
    SHIM_TAG_OBJECT_REF,
    /* Inside objects: a reference and its value, and the number of a reference that has occurred before. */
    SHIM_TAG_REFERENCE,
    SHIM_TAG_VALUE_REF,
    /* Between values. */
    SHIM_TAG_NUMBER,
    SHIM_TAG_BYTES,
} shim_tag;

/* ---- Between the files that pack ---- */

/* These functions return false without an exception if the bound is reached: the packer is full. */
bool shim_packer_grow(shim_packer *packer, size_t size);

static inline bool shim_put(shim_packer *packer, const void *bytes, size_t size)
{
    if (UNEXPECTED(packer->room - packer->length < size) && !shim_packer_grow(packer, size)) {
        return false;
    }
    if (size > 0) {
        memcpy(packer->bytes + packer->length, bytes, size);
    }
    packer->length += size;
    return true;
}

static inline bool shim_put_tag(shim_packer *packer, shim_tag tag)
{
    const unsigned char byte = (unsigned char)tag;
    return shim_put(packer, &byte, 1);
}

bool shim_put_varint(shim_packer *packer, uint64_t number);
bool shim_put_text(shim_packer *packer, const char *bytes, size_t length);
bool shim_put_eight(shim_packer *packer, shim_tag tag, const void *number);
/* Puts a string, or if it is NULL, a number. */
bool shim_put_key(shim_packer *packer, const zend_string *key, zend_ulong index);
/* Throws a TransferException: the value at this place does not fit. Returns false. */
bool shim_packer_refuse(const shim_packer *packer, const shim_place *place);

/* ---- Between the files that unpack ---- */

static inline size_t shim_left(const shim_unpacker *unpacker)
{
    return (size_t)(unpacker->end - unpacker->at);
}

void shim_unpack_throw(void);

/* Throws a TransferException: the bytes are damaged. Returns false. */
static inline bool shim_unpack_fail(void)
{
    shim_unpack_throw();
    return false;
}

/* All of these return false with an exception, too. */
static inline bool shim_get(shim_unpacker *unpacker, void *to, size_t size)
{
    if (UNEXPECTED(shim_left(unpacker) < size)) {
        return shim_unpack_fail();
    }
    memcpy(to, unpacker->at, size);
    unpacker->at += size;
    return true;
}

static inline bool shim_get_byte(shim_unpacker *unpacker, unsigned char *byte)
{
    return shim_get(unpacker, byte, 1);
}

bool shim_get_varint(shim_unpacker *unpacker, uint64_t *number);
/* Reads a length, and a view of that many bytes. */
bool shim_get_view(shim_unpacker *unpacker, shim_view *view);
/* Reads the rest of a key; `name` is NULL if it is a number. */
bool shim_get_key(shim_unpacker *unpacker, unsigned char tag, zend_string **name, zend_ulong *index);

/* ---- The space that is left on the current stack ---- */

/* Reserved for the calls at the end of a recursion, where PHP keeps no reserve. */
enum { SHIM_STACK_RESERVE = 64 * 1024 };

/* Whether a recursion must not go deeper: PHP would stop a script here, or, if that is disabled
 * (zend.max_allowed_stack_size), the stack ends soon. */
static inline bool shim_stack_is_short(void)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t limit = 0;
#ifdef ZEND_CHECK_STACK_LIMIT
    limit = (uintptr_t)EG(stack_limit);
#endif
    if (UNEXPECTED(limit == 0)) {
        limit = (uintptr_t)shim_overflow_end() + SHIM_STACK_RESERVE;
    }
    return UNEXPECTED(here <= limit);
}

/* ---- PHP's state for serialize() and unserialize(), lent to objects that call them for their own parts ---- */

/* The state of serialize() and unserialize() calls of scripts in progress. */
typedef struct shim_serialize_state {
    __typeof__(((php_basic_globals *)NULL)->serialize) serialize;
    __typeof__(((php_basic_globals *)NULL)->unserialize) unserialize;
    unsigned lock;
} shim_serialize_state;

/* Puts the state of a transfer in their place until shim_serialize_state_restore(): serialize() of a script counts in
 * `written`, and unserialize() in `read`, as if they were nested in one call. With NULL, they count separately. If a
 * fiber is suspended in between, that state stays in place, as within serialize(). */
static inline shim_serialize_state shim_serialize_state_replace(php_serialize_data_t written,
                                                                php_unserialize_data_t read)
{
    const shim_serialize_state before = {
        .serialize = BG(serialize), .unserialize = BG(unserialize), .lock = BG(serialize_lock)};
    /* At this level, PHP does not free the lent state. */
    BG(serialize).data = written;
    BG(serialize).level = written != NULL;
    BG(unserialize).data = read;
    BG(unserialize).level = read != NULL;
    BG(serialize_lock) = 0;
    return before;
}

static inline void shim_serialize_state_restore(const shim_serialize_state *before)
{
    BG(serialize) = before->serialize;
    BG(unserialize) = before->unserialize;
    BG(serialize_lock) = before->lock;
}

#endif
