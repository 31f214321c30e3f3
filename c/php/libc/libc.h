/* libc's own functions, behind the executable's replacements of the same name. */
#ifndef SVC_SHIM_LIBC_H
#define SVC_SHIM_LIBC_H

#include <stddef.h>

void *shim_libc(void **slot, const char *name);
/* Does the same for a function of a library that is loaded with libphp, or later with an extension; `files` are the
 * possible names of the library. NULL means that it is not loaded, so that the function is never called. */
void *shim_library(void **slot, const char *name, const char *const *files, size_t count);
/* Returns the first name of libc_names.h that libraries do not find in the executable; NULL if they find all of
 * them. */
const char *shim_libc_hidden(void);
#define DECLARE_LIBC(name) static void *libc_##name
#define LIBC(name) ((__typeof__(&name))shim_libc(&libc_##name, #name))

#endif
