/* The per-thread state of extensions. */
#ifndef SVC_SHIM_TSRM_H
#define SVC_SHIM_TSRM_H

#include "compat.h"

/* Returns the ID of the state that the module has requested for each thread, identified by its size; 0 if there is none. */
ts_rsrc_id shim_tsrm_place(const char *module, size_t size);
/* Returns the size of that state; 0 if unknown. */
size_t shim_tsrm_size(ts_rsrc_id id);
/* Returns the module that made the request with this index; NULL after the last one. */
const char *shim_tsrm_module(size_t index);

/* Returns the virtual working directory of the thread. */
cwd_state *shim_directory(void);

#endif
