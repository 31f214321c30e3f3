/* The executable before libc.
 *
 * Some of libc's functions mean something else inside a PHP server; libc_names.h says which, and where they are. The
 * dynamic linker binds libphp, and every library that it loads, to the executable's definition of a function before
 * libc's. PHP would except its extensions from that, OPcache among them: it loads them with RTLD_DEEPBIND. */
#include "compat.h"
#include "libc/libc.h"

#include <dlfcn.h>

DECLARE_LIBC(dlopen);

/* Finds the next definition of `name` after the executable's and remembers it in `slot`. Any thread, any time. */
void *shim_libc(void **slot, const char *name)
{
    void *function = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (function == NULL) {
        function = dlsym(RTLD_NEXT, name);
        __atomic_store_n(slot, function, __ATOMIC_RELAXED);
    }
    return function;
}

void *dlopen(const char *path, int mode)
{
    return LIBC(dlopen)(path, mode & ~RTLD_DEEPBIND);
}

/* The names that this executable defines before libc. The build script tells the linker to export each. */
static const char *const names[] = {
#define SHIM_LIBC_NAME(name) #name,
#include "libc/libc_names.h"
#undef SHIM_LIBC_NAME
};

/* Whether the dynamic linker finds them in the executable; the first that it does not is returned. */
const char *shim_libc_hidden(void)
{
    Dl_info own;
    if (dladdr((void *)shim_libc_hidden, &own) == 0) {
        return "dladdr";
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        Dl_info found;
        void *function = dlsym(RTLD_DEFAULT, names[i]);
        if (function == NULL || dladdr(function, &found) == 0 || found.dli_fbase != own.dli_fbase) {
            return names[i];
        }
    }
    return NULL;
}

#ifdef __SANITIZE_ADDRESS__
/* Libraries call the functions above while they are being loaded, which is before the sanitizer's own turn. */
extern void __asan_init(void);
__attribute__((section(".preinit_array"), used)) static void (*const first_of_all)(void) = __asan_init;
#endif
