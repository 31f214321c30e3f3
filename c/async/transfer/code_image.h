/* A function as bytes, from which another thread makes its own function. */
#ifndef SVC_SHIM_CODE_IMAGE_H
#define SVC_SHIM_CODE_IMAGE_H

#include "async/transfer/buffer.h"
#include "compat.h"

/* The head of an image. Only the process that has written an image reads it, so it is in the machine's byte order. */
typedef struct shim_image_head {
    /* The function and all functions declared in it. */
    uint32_t functions;
    /* The run-time caches of all of them, each in whole words. */
    uint32_t cache_bytes;
} shim_image_head;

/* The head of a function in an image. */
typedef struct shim_image_function {
    uint32_t fn_flags;
    uint32_t arguments;
    uint32_t required_arguments;
    uint32_t temporaries;
    uint32_t cache_size;
    uint32_t variables;
    uint32_t opcodes;
    uint32_t literals;
    uint32_t live_ranges;
    uint32_t try_catches;
    uint32_t line_start;
    uint32_t line_end;
    uint32_t functions;
    uint8_t arg_flags[3];
    bool has_statics;
} shim_image_function;

/* A value in an image: its type, then the data of the type. */
typedef enum shim_image_type {
    SHIM_IMAGE_UNDEF = IS_UNDEF,
    SHIM_IMAGE_NULL = IS_NULL,
    SHIM_IMAGE_FALSE = IS_FALSE,
    SHIM_IMAGE_TRUE = IS_TRUE,
    SHIM_IMAGE_LONG = IS_LONG,
    SHIM_IMAGE_DOUBLE = IS_DOUBLE,
    SHIM_IMAGE_STRING = IS_STRING,
    SHIM_IMAGE_ARRAY = IS_ARRAY,
    /* The size of the whole tree, and the tree. */
    SHIM_IMAGE_EXPRESSION = IS_CONSTANT_AST,
} shim_image_type;

/* Returns the offset of the literals: opcodes and literals are one allocation, as the compiler leaves them. */
static inline size_t shim_image_literals_at(uint32_t opcodes)
{
    return ZEND_MM_ALIGNED_SIZE_EX(sizeof(zend_op) * opcodes, 16);
}

static inline uint32_t shim_image_arg_infos(uint32_t arguments, uint32_t fn_flags)
{
    return arguments + ((fn_flags & ZEND_ACC_VARIADIC) != 0) + ((fn_flags & ZEND_ACC_HAS_RETURN_TYPE) != 0);
}

/* Appends the image of a function, or of a closure's: the variables that it captures are NULL in it. Returns false if
 * it contains a value that cannot be copied; `lost` is then the static variable whose declared value is not known, or
 * NULL. */
bool shim_image_write(shim_buffer *image, const zend_op_array *code, const zend_string **lost);

#endif
