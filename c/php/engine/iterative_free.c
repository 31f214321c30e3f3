/* Freeing structures of any depth.
 *
 * PHP frees the contents of objects and arrays by recursion, without checking the stack: a list of some ten thousand
 * links overflows a stack that is nearly full. Every such recursion passes through two functions, whose definitions in
 * the executable precede those of libphp. Beyond a certain depth, they put values on a list instead of freeing them,
 * and the outermost call processes the list. Only the order changes in which the links of a very long chain are
 * destructed.
 *
 * Invariants. Everything on the list has exactly one reference, the list's, so that neither the collector nor a
 * destructor that runs meanwhile can free it. Each stack (of a thread or a fiber) has its own outermost call. None of
 * this state is on a stack: a bailout may skip the outermost call, which is detected when a value is freed from above
 * its position. */
#include "compat.h"
#include "php/engine/engine.h"

#include <dlfcn.h>

/* The stack space that one recursion may use before the rest is postponed. */
enum { STACK_MAX = 128 * 1024 };

/* The stack position of the outermost call on the current stack; NULL if nothing is being freed on it. */
static __thread const char *top;

static __thread struct {
    zend_refcounted **list;
    size_t count;
    size_t room;
} postponed;

static void (*free_object)(zend_object *);
static void (*free_array)(zend_array *);

static bool postpone(zend_refcounted *counted)
{
    if (!SHIM_RESERVE(postponed)) {
        return false;
    }
    GC_SET_REFCOUNT(counted, 1);
    postponed.list[postponed.count++] = counted;
    return true;
}

static zend_never_inline void free_postponed(size_t down_to)
{
    while (postponed.count > down_to) {
        zend_refcounted *counted = postponed.list[--postponed.count];
        /* A destructor may have obtained a reference through a weak reference. */
        if (GC_TYPE(counted) == IS_ARRAY) {
            free_array((zend_array *)counted);
        } else if (GC_DELREF(counted) == 0) {
            free_object((zend_object *)counted);
        }
    }
}

/* Ends the outermost call, which began with this many entries on the list. */
static void end(size_t before)
{
    if (UNEXPECTED(postponed.count > before)) {
        free_postponed(before);
    }
    top = NULL;
}

/* Whether this is the outermost call that frees: if the current position is above the recorded one, a bailout has
 * skipped that call. */
static bool is_outermost(const char *here)
{
    return top == NULL || here > top;
}

/* Postpones the rest if the recursion has become too deep. Returns whether it did. */
static bool is_postponed(zend_refcounted *counted, const char *here)
{
    return UNEXPECTED(top - here > STACK_MAX) && postpone(counted);
}

void ZEND_FASTCALL zend_objects_store_del(zend_object *object)
{
    const char *here = __builtin_frame_address(0);
    if (is_outermost(here)) {
        const size_t before = postponed.count;
        top = here;
        free_object(object);
        end(before);
    } else if (GC_TYPE(object) != IS_OBJECT || !is_postponed((zend_refcounted *)object, here)) {
        /* An object that the collector has already freed is no longer valid; its memory remains only for a while. */
        free_object(object);
    }
}

void ZEND_FASTCALL zend_array_destroy(HashTable *array)
{
    const char *here = __builtin_frame_address(0);
    if (is_outermost(here)) {
        const size_t before = postponed.count;
        top = here;
        free_array(array);
        end(before);
    } else if (!is_postponed((zend_refcounted *)array, here)) {
        free_array(array);
    }
}

/* ---- stacks (worker/engine/stacks.c) and bailouts ---- */

const void *shim_free_depth_here(void)
{
    return top;
}

void shim_free_depth_return_to(const void *free_depth)
{
    top = free_depth;
}

void shim_free_depth_forget(void)
{
    top = NULL;
    postponed.count = 0;
}

void shim_free_depth_stop(void)
{
    free(postponed.list);
    postponed.list = NULL;
    postponed.count = postponed.room = 0;
}

bool shim_iterative_free_install(void)
{
    free_object = (void (*)(zend_object *))dlsym(RTLD_NEXT, "zend_objects_store_del");
    free_array = (void (*)(zend_array *))dlsym(RTLD_NEXT, "zend_array_destroy");
    return free_object != NULL && free_array != NULL;
}
