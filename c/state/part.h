/* Which parts of extensions' structs are a request's: what the tables of them tell those who move them.
 *
 * PHP's own extensions have headers (state/own_parts.c). Those around libraries have none, or some that want the library's
 * (state/library_parts.c). */
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

enum { SHIM_RANGES_MAX = 9, SHIM_DIRECTIVES_MAX = 8 };

typedef struct shim_part {
    const char *module;
    /* The size of its struct, if it is known here: nothing of a struct of another size travels. */
    size_t size;
    /* Up to the first without a name: nothing of a struct that has one of them elsewhere travels. */
    shim_directive directives[SHIM_DIRECTIVES_MAX];
    /* The table of modules does not tell of the struct. */
    bool hidden;
    /* Where it is, if the extension's struct only leads there; NULL: nowhere. */
    void *(*inner)(void *globals);
    /* What travels, up to the first empty one; none: the whole struct. Memory that belongs to a directive's handler must
     * not travel: the handler frees it when the directive changes. */
    shim_range ranges[SHIM_RANGES_MAX];
    /* The baseline snapshot is all zeros. */
    bool blank;
    /* On a copy of the struct, whose ranges become the baseline snapshot. */
    void (*make_baseline)(void *globals);
    /* On the struct in place: when a request begins, around each of its waits, and after the extension's own shut-down. */
    void (*begin)(void *globals);
    void (*suspend)(void *globals);
    void (*resume)(void *globals);
    void (*end)(void *globals);
    /* The extension's own request start-up and shut-down run for each request. */
    bool start;
    bool stop;
} shim_part;

#define SHIM_MEMBER(type, member) {offsetof(type, member), sizeof(((type *)0)->member)}
#define SHIM_MEMBERS(type, first, last) \
    {offsetof(type, first), offsetof(type, last) + sizeof(((type *)0)->last) - offsetof(type, first)}

#define SHIM_DIRECTIVE(type, member, name) {name, offsetof(type, member)}

#endif
