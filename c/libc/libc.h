/* libc's own functions, behind the executable's definitions of the same names. */
#ifndef SVC_SHIM_LIBC_H
#define SVC_SHIM_LIBC_H

void *shim_libc(void **slot, const char *name);
/* The first of the names in libc_names.h that libraries do not find here; NULL: they find all. */
const char *shim_libc_hidden(void);
#define DECLARE_LIBC(name) static void *libc_##name
#define LIBC(name) ((__typeof__(&name))shim_libc(&libc_##name, #name))

#endif
