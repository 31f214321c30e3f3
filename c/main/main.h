/* Installation of the features when PHP starts. */
#ifndef SVC_MAIN_H
#define SVC_MAIN_H

#include "shim.h"

/* Installs what must be in place before PHP starts. Returns NULL, or a static string with the error. */
const char *shim_install_before_php(const shim_options *options);
/* Installs the rest, once all extensions have started. */
const char *shim_install(const shim_options *options);
/* PHP has freed the thread's storage: frees what the features keep for it. */
void shim_features_stop_thread(void);

#endif
