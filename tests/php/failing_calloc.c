/* Preloaded: while the file FULL exists, calloc() fails for the program itself, but not for its libraries. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <unistd.h>

extern void *__libc_calloc(size_t count, size_t size);

void *calloc(size_t count, size_t size)
{
    /* dladdr() may allocate. */
    static __thread int is_looking;
    int is_refused = 0;
    if (!is_looking && access(FULL, F_OK) == 0) {
        const uintptr_t program = getauxval(AT_PHDR) & ~(uintptr_t)0xfff;
        Dl_info caller;
        is_looking = 1;
        is_refused = dladdr(__builtin_return_address(0), &caller) != 0 && (uintptr_t)caller.dli_fbase == program;
        is_looking = 0;
    }
    return is_refused ? NULL : __libc_calloc(count, size);
}
