/* What a function expects of the thread that runs it, because the compiler or OPcache has seen it in the same file. */
#ifndef SVC_SHIM_CODE_NEEDS_H
#define SVC_SHIM_CODE_NEEDS_H

#include "compat.h"
#include "transfer/packer.h"
#include "transfer/unpacker.h"

/* What is there, as a thread sees it. */
typedef enum shim_needs {
    /* An exception is thrown: a function is not declared. */
    SHIM_NEEDS_MISSING,
    /* A function or the class is there, but not the one that the code was compiled with. */
    SHIM_NEEDS_OTHERS,
    SHIM_NEEDS_MET,
} shim_needs;

/* Packs which functions the code calls, and which class it belongs to. */
void shim_needs_pack(shim_packer *packer, const zend_op_array *code, const zend_class_entry *scope);
/* Compares them with those of this thread. `code` is the same code. */
shim_needs shim_needs_check(shim_unpacker *unpacker, const zend_op_array *code, const zend_class_entry *scope);
/* Makes a function that is this thread's own call the functions that the thread has. */
void shim_needs_adapt(zend_op_array *code);

#endif
