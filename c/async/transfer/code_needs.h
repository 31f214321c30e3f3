/* The requirements of a function on the thread that runs it, because the compiler or OPcache saw it in the same file. */
#ifndef SVC_SHIM_CODE_NEEDS_H
#define SVC_SHIM_CODE_NEEDS_H

#include "async/transfer/packer.h"
#include "async/transfer/unpacker.h"
#include "compat.h"

/* Whether a thread meets these requirements. */
typedef enum shim_needs {
    /* An exception is thrown: a function is not declared. */
    SHIM_NEEDS_MISSING,
    /* A function or the class exists, but is not the one that the code was compiled with. */
    SHIM_NEEDS_OTHERS,
    SHIM_NEEDS_MET,
} shim_needs;

/* Packs the functions that the code calls, and the class that it belongs to. */
void shim_needs_pack(shim_packer *packer, const zend_op_array *code, const zend_class_entry *scope);
/* Compares the packed requirements with the functions and classes of this thread. `code` is the same code. */
shim_needs shim_needs_check(shim_unpacker *unpacker, const zend_op_array *code, const zend_class_entry *scope);
/* Makes a function that belongs to this thread call the thread's own functions. */
void shim_needs_adapt(zend_op_array *code);

#endif
