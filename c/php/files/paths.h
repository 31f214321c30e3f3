/* Files by name, looked up as in php-fpm. */
#ifndef SVC_SHIM_PATHS_H
#define SVC_SHIM_PATHS_H

/* Finds the functions that resolve paths. Call once, after PHP's modules have started. */
void shim_paths_install(void);

#endif
