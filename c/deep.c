/* Freeing structures of any depth.
 *
 * PHP frees what an object or an array holds by recursion, and looks at no stack meanwhile: a list of some ten thousand
 * links ends a process whose stack is full before it. The executable's definitions of the two functions through which
 * every such recursion goes come before libphp's. Past a depth they put what is to be freed on a list, and the outermost
 * call works it off: the order in which the links of a very long chain are destructed changes, nothing else.
 *
 * Invariants. What is on the list has one reference, the list's, so that neither the collector nor a script's destructor
 * that runs meanwhile can free it. A stack (a thread's, a fiber's) has a list of its own; a destructor that switches to
 * another fiber takes none of it along. */
#include "internal.h"

#include <dlfcn.h>
#include <zend_observer.h>

/* How much of a stack one recursion may take before the rest is put off. */
enum { STACK_MAX = 128 * 1024, ROOM_AT_FIRST = 256 };

/* The outermost call's: on its frame. */
struct shim_descent {
    const char *top;
    zend_refcounted **list;
    size_t count;
    size_t room;
};

/* Of the stack that is current; NULL: nothing is being freed on it. */
static __thread shim_descent *current;

/* Where contexts of fibers keep theirs while they are not current. */
static int place = -1;

static void (*free_object)(zend_object *);
static void (*free_array)(zend_array *);

static void free_now(zend_refcounted *counted)
{
    if (GC_TYPE(counted) == IS_OBJECT) {
        free_object((zend_object *)counted);
    } else {
        free_array((zend_array *)counted);
    }
}

static bool put_off(zend_refcounted *counted)
{
    if (current->count == current->room) {
        size_t room = current->room > 0 ? 2 * current->room : ROOM_AT_FIRST;
        zend_refcounted **larger = realloc(current->list, room * sizeof(*larger));
        if (larger == NULL) {
            return false;
        }
        current->list = larger;
        current->room = room;
    }
    GC_SET_REFCOUNT(counted, 1);
    current->list[current->count++] = counted;
    return true;
}

static zend_never_inline void work_off(shim_descent *own)
{
    while (own->count > 0) {
        zend_refcounted *counted = own->list[--own->count];
        /* A destructor may have got hold of it, by a weak reference. */
        if (GC_TYPE(counted) == IS_ARRAY || GC_DELREF(counted) == 0) {
            free_now(counted);
        }
    }
    free(own->list);
}

static void begin(zend_refcounted *counted, const char *top)
{
    shim_descent own = {.top = top};
    current = &own;
    free_now(counted);
    if (UNEXPECTED(own.list != NULL)) {
        work_off(&own);
    }
    current = NULL;
}

/* Whether the recursion has come so far down that the rest of it is put off. */
static bool is_put_off(zend_refcounted *counted, const char *here)
{
    return UNEXPECTED(current->top - here > STACK_MAX) && put_off(counted);
}

void ZEND_FASTCALL zend_objects_store_del(zend_object *object)
{
    const char here = 0;
    if (current == NULL) {
        begin((zend_refcounted *)object, &here);
    } else if (!is_put_off((zend_refcounted *)object, &here)) {
        free_object(object);
    }
}

void ZEND_FASTCALL zend_array_destroy(HashTable *array)
{
    const char here = 0;
    if (current == NULL) {
        begin((zend_refcounted *)array, &here);
    } else if (!is_put_off((zend_refcounted *)array, &here)) {
        free_array(array);
    }
}

/* ---- stacks and jumps ---- */

static void change_stack(zend_fiber_context *from, zend_fiber_context *to)
{
    from->reserved[place] = current;
    current = to->reserved[place];
}

shim_descent *shim_descent_here(void)
{
    return current;
}

void shim_descent_return_to(shim_descent *descent)
{
    current = descent;
}

bool shim_deep_install(void)
{
    free_object = (void (*)(zend_object *))dlsym(RTLD_NEXT, "zend_objects_store_del");
    free_array = (void (*)(zend_array *))dlsym(RTLD_NEXT, "zend_array_destroy");
    return free_object != NULL && free_array != NULL;
}

/* Once PHP has started. */
bool shim_deep_follow_fibers(void)
{
    place = zend_get_resource_handle("svc");
    if (place < 0) {
        return false;
    }
    zend_observer_fiber_switch_register(change_stack);
    return true;
}
