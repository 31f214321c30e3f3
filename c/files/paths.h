/* Files by name, as php-fpm looks for them. */
#ifndef SVC_SHIM_PATHS_H
#define SVC_SHIM_PATHS_H

/* Finds the functions that resolve paths. Called once, after PHP's modules have started. */
void shim_paths_install(void);

#endif
