/* Marks: the identity of a function, which is the same in each thread that compiles its file. */
#ifndef SVC_SHIM_MARKS_H
#define SVC_SHIM_MARKS_H

#include "compat.h"

/* The hash of a file, and the number of a function in that file. 0 is no mark. */
typedef uint64_t shim_mark;

enum { SHIM_MARK_NUMBER_BITS = 20 };

/* Call while PHP starts, before it compiles a file. Returns false if PHP has no free resource handle. */
bool shim_marks_install(void);
/* Returns the mark of a function, or of its copy in a closure; 0 if it was not compiled from a file. */
shim_mark shim_mark_of(const zend_op_array *code);
/* Returns a mark of the file with this path and text. */
shim_mark shim_mark_of_file(const zend_string *path, const char *text, size_t length);
/* Compiles a file without OPcache. */
zend_op_array *shim_compile_uncached(zend_file_handle *file, int type);

static inline bool shim_mark_is_of_file(shim_mark mark, shim_mark other)
{
    return mark >> SHIM_MARK_NUMBER_BITS == other >> SHIM_MARK_NUMBER_BITS;
}

static inline zend_ulong shim_mark_number(shim_mark mark)
{
    return mark & ((1u << SHIM_MARK_NUMBER_BITS) - 1);
}

#endif
