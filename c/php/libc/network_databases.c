/* The databases of services and protocols.
 *
 * libc's functions return a pointer to memory of the process, which a call on another thread overwrites, or frees, before
 * PHP has copied the result. Here the memory belongs to the thread. */
#include "compat.h"

#include <netdb.h>

/* The names of an entry and its aliases. */
static __thread char names[4096];

#define ENTRY_OF_THREAD(entry, function, parameters, ...) \
    struct entry *function parameters \
    { \
        static __thread struct entry result; \
        struct entry *found = NULL; \
        return function##_r(__VA_ARGS__, &result, names, sizeof(names), &found) == 0 ? found : NULL; \
    }

ENTRY_OF_THREAD(servent, getservbyname, (const char *name, const char *protocol), name, protocol)
ENTRY_OF_THREAD(servent, getservbyport, (int port, const char *protocol), port, protocol)
ENTRY_OF_THREAD(protoent, getprotobyname, (const char *name), name)
ENTRY_OF_THREAD(protoent, getprotobynumber, (int number), number)
