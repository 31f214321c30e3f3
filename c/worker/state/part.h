/* Which parts of extensions' structs belong to a request: the tables, as read by the code that moves them.
 *
 * PHP's own extensions have headers (worker/state/own_parts.c). Those that wrap libraries have none, or headers that require
 * the library's (worker/state/library_parts.c). */
#ifndef SVC_SHIM_STATE_PARTS_H
#define SVC_SHIM_STATE_PARTS_H

typedef struct shim_range {
    size_t offset;
    size_t size;
} shim_range;

/* A directive whose value is a member of the struct. */
typedef struct shim_directive {
    const char *name;
    size_t offset;
} shim_directive;

enum { SHIM_RANGES_MAX = 9, SHIM_DIRECTIVES_MAX = 8, SHIM_STACK_RANGES_MAX = 4 };

typedef struct shim_part {
    const char *module;
    /* The size of the struct, if it is known here: a struct of another size does not move. */
    size_t size;
    /* Ends with the first one without a name. If one of them has another place in the struct, no part of the struct
     * moves. */
    shim_directive directives[SHIM_DIRECTIVES_MAX];
    /* Whether the module entry does not describe the struct. */
    bool hidden;
    /* Returns the part, if the extension's struct only points to it; NULL if the pointer is not set. */
    void *(*inner)(void *globals);
    /* The ranges that move, up to the first empty one; if there is none, the whole struct. Memory that belongs to a
     * directive's handler must not move: the handler frees it when the directive changes. */
    shim_range ranges[SHIM_RANGES_MAX];
    /* The ranges that belong to a stack (worker/engine/stacks.h), up to the first empty one. */
    shim_range of_stack[SHIM_STACK_RANGES_MAX];
    /* Whether the baseline snapshot is all zeros. */
    bool blank;
    /* Called with a copy of the struct, whose ranges become the baseline snapshot. */
    void (*make_baseline)(void *globals);
    /* Called with the struct in place: when a request begins, around each of its waits, and after the extension's own
     * shutdown. */
    void (*begin)(void *globals);
    void (*suspend)(void *globals);
    void (*resume)(void *globals);
    void (*end)(void *globals);
    /* Whether the extension's own request startup and shutdown run for each request. */
    bool start;
    bool stop;
} shim_part;

#define SHIM_MEMBER(type, member) {offsetof(type, member), sizeof(((type *)0)->member)}
#define SHIM_MEMBERS(type, first, last) \
    {offsetof(type, first), offsetof(type, last) + sizeof(((type *)0)->last) - offsetof(type, first)}

#define SHIM_DIRECTIVE(type, member, name) {name, offsetof(type, member)}

#endif
