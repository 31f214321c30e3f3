/* Where extensions keep what they keep for a thread. */
#ifndef SVC_SHIM_TSRM_H
#define SVC_SHIM_TSRM_H

#include "compat.h"

/* What the module has asked to be kept for each thread, by its size; 0: nothing like that. */
ts_rsrc_id shim_tsrm_place(const char *module, size_t size);
/* How much is kept there; 0: nobody knows. */
size_t shim_tsrm_size(ts_rsrc_id id);
/* The module that asked as the one of this index; NULL behind the last. */
const char *shim_tsrm_module(size_t index);

/* The directory that PHP imagines for the thread. */
cwd_state *shim_directory(void);

#endif
