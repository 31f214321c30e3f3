/* Creation, access and destruction of the objects of connections.
 *
 * Each class of an extension has a function that creates objects, which subclasses inherit. It is replaced, and each new
 * object gets a record and a copy of its handlers, which take the connection before they access the object.
 *
 * Freeing an object may talk to a server, too: a statement is closed, a result is drained. If another request uses the
 * connection at that moment, the object is kept and freed later. The destructor decides that: the engine calls it before it
 * frees anything, and it may keep the object alive. But the engine calls it only once, so the flag is reset for a kept
 * object that is part of a cycle. An object that is freed without its destructor (a script's destructor has stored it
 * somewhere, or a fatal error has skipped it) waits for its grant while it is being freed. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"

#include <pthread.h>
#include <stdlib.h>

void (*shim_objects_on_function)(zend_function *function);
void (*shim_objects_on_multi_freed)(shim_connection *multi, bool was_interrupted);

static shim_tracked_class tracked[SHIM_KINDS];
static int tracked_count;

/* PHP's handlers of created objects, and their replacements. Entries are only added. */
typedef struct handlers {
    zend_object_handlers own;
    const zend_object_handlers *php;
} handlers;
enum { HANDLERS_MAX = 64 };
static handlers table[HANDLERS_MAX];
static unsigned table_size;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static void free_object(zend_object *object);

static const zend_object_handlers *php_handlers(const zend_object *object)
{
    return ((const handlers *)object->handlers)->php;
}

/* ---- access ---- */

bool shim_object_hold(zend_object *object)
{
    GC_ADDREF(object);
    if (!shim_connections_have_owners()) {
        return true;
    }
    const shim_taken taken = shim_connection_wait(shim_connection_find(object));
    if (taken.result != SHIM_ACQUIRED) {
        OBJ_RELEASE(object);
        (void)shim_connection_is_taken(taken);
    }
    return taken.result == SHIM_ACQUIRED;
}

void shim_object_release(zend_object *object)
{
    if (GC_REFCOUNT(object) > 1) {
        /* OBJ_RELEASE() might run the cycle collector before the engine has copied the result. */
        (void)GC_DELREF(object);
    } else {
        OBJ_RELEASE(object);
    }
}

/* The result must not point into an object that is freed. */
static zval *release_after_read(zend_object *object, zval *result, zval *value)
{
    if (GC_REFCOUNT(object) == 1 && result != NULL && result != value && result != &EG(uninitialized_zval)) {
        ZVAL_COPY(value, result);
        result = value;
    }
    shim_object_release(object);
    return result;
}

static zval *read_property(zend_object *object, zend_string *name, int type, void **slot, zval *value)
{
    if (!shim_object_hold(object)) {
        return &EG(uninitialized_zval);
    }
    return release_after_read(object, php_handlers(object)->read_property(object, name, type, slot, value), value);
}

static int has_property(zend_object *object, zend_string *name, int how, void **slot)
{
    if (!shim_object_hold(object)) {
        return 0;
    }
    const int has = php_handlers(object)->has_property(object, name, how, slot);
    shim_object_release(object);
    return has;
}

static zval *read_dimension(zend_object *object, zval *offset, int type, zval *value)
{
    if (!shim_object_hold(object)) {
        return &EG(uninitialized_zval);
    }
    return release_after_read(object, php_handlers(object)->read_dimension(object, offset, type, value), value);
}

static int has_dimension(zend_object *object, zval *offset, int is_empty)
{
    if (!shim_object_hold(object)) {
        return 0;
    }
    const int has = php_handlers(object)->has_dimension(object, offset, is_empty);
    shim_object_release(object);
    return has;
}

static zend_function *get_method(zend_object **object, zend_string *name, const zval *key)
{
    zend_function *function = php_handlers(*object)->get_method(object, name, key);
    if (function != NULL && function->type == ZEND_INTERNAL_FUNCTION &&
        (function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) == 0) {
        shim_objects_on_function(function);
    }
    return function;
}

/* ---- destruction ---- */

/* Objects whose only other references, if any, are part of a cycle; this list holds one reference to each. */
static __thread struct {
    zend_object **list;
    uint32_t count;
    uint32_t room;
} postponed;

/* If out of memory, the end is not postponed. */
static void postpone(zend_object *object)
{
    if (SHIM_RESERVE(postponed)) {
        GC_ADDREF(object);
        postponed.list[postponed.count++] = object;
    }
}

/* Runs the object's destructor, and postpones its end if another request uses the connection. Takes a free connection,
 * since freeing the object may wait. */
static void destroy_object(zend_object *object)
{
    if (shim_connection_destruct(object)) {
        php_handlers(object)->dtor_obj(object);
    }
    if (shim_connections_have_owners() && !shim_connection_try_take(shim_connection_find(object))) {
        postpone(object);
    }
}

/* Whether the extension may talk to the server. A leased connection cannot be in use here: a request in the middle of a
 * call on it would hold a reference to the object. */
static bool may_free(shim_connection *connection, shim_connection *root)
{
    return !shim_connections_have_owners() || root == NULL || root->owned.is_leased || shim_connection_try_take(connection) ||
           (shim_running != NULL && shim_owned_acquire(&root->owned) == SHIM_ACQUIRED);
}

static void free_by_extension(zend_object *object, shim_connection *root)
{
    shim_use *use = root != NULL && shim_connections_have_owners() ? shim_use_begin(&root->owned) : NULL;
    php_handlers(object)->free_obj(object);
    if (use != NULL) {
        shim_use_end(use);
    } else {
        shim_connection_delref(root);
    }
}

/* The extension may bail out: by then, the object has no record, and the call holds its connection. */
static void free_object(zend_object *object)
{
    shim_connection *connection = shim_connection_find(object);
    shim_connection *root = shim_connection_addref(shim_connection_root(connection));
    const bool is_free = may_free(connection, root);
    shim_connection *multi =
        connection != NULL && connection->kind == SHIM_KIND_CURL_MULTI ? shim_connection_addref(connection) : NULL;
    if (connection != NULL && connection == root && shim_connection_has_one_object(root)) {
        shim_rest_note_end(root);
    }
    shim_connection_remove(object);
    if (root != NULL && root->object == NULL) {
        shim_options_forget(root);
    }
    if (is_free) {
        free_by_extension(object, root);
    } else {
        /* The extension's data for the object leaks, as in a bailout. */
        zend_object_std_dtor(object);
        shim_connection_delref(root);
    }
    if (multi != NULL) {
        shim_objects_on_multi_freed(multi, true);
        shim_connection_delref(multi);
    }
}

static bool take_free_one(zend_object **object)
{
    for (uint32_t i = 0; i < postponed.count; i++) {
        *object = postponed.list[i];
        if (shim_connection_is_free(shim_connection_find(*object))) {
            postponed.list[i] = postponed.list[--postponed.count];
            return true;
        }
    }
    return false;
}

void shim_objects_free_postponed(void)
{
    zend_object *object;
    while (take_free_one(&object)) {
        if (GC_REFCOUNT(object) > 1) {
            /* The object lives on in a cycle: the collector calls its destructor again. */
            GC_DEL_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
        }
        OBJ_RELEASE(object);
    }
}

void shim_objects_forget_postponed(void)
{
    free(postponed.list);
    memset(&postponed, 0, sizeof(postponed));
}

/* ---- creation ---- */

static void track(zend_object *object, shim_kind kind, bool is_new);

/* Clones an object with the engine's own handlers, a SOAP client. The clone opens a connection itself: two clients with
 * one stream would close it while the other one waits for its response. */
static zend_object *clone_object(zend_object *object)
{
    zend_object *clone = php_handlers(object)->clone_obj(object);
    const shim_tracked_class *row = shim_tracked_class_of(clone->ce);
    const zend_property_info *info = zend_hash_str_find_ptr(&row->class->properties_info, ZEND_STRL("httpsocket"));
    if (info != NULL) {
        zval *stream = OBJ_PROP(clone, info->offset);
        zval_ptr_dtor(stream);
        ZVAL_NULL(stream);
    }
    track(clone, row->kind, true);
    return clone;
}

static handlers *add(const zend_object_handlers *php)
{
    handlers *entry = table_size < HANDLERS_MAX ? &table[table_size] : NULL;
    if (entry == NULL) {
        return NULL;
    }
    *entry = (handlers){.own = *php, .php = php};
    entry->own.dtor_obj = destroy_object;
    entry->own.free_obj = free_object;
    entry->own.get_method = php->get_method != zend_std_get_method ? get_method : php->get_method;
    if (php == zend_get_std_object_handlers()) {
        entry->own.clone_obj = clone_object;
    }
    /* Standard properties need no check, and the engine's fast path depends on the standard handler. */
    if (php->read_property != zend_std_read_property) {
        entry->own.read_property = read_property;
        entry->own.has_property = has_property;
    }
    if (php->read_dimension != zend_std_read_dimension) {
        entry->own.read_dimension = read_dimension;
        entry->own.has_dimension = has_dimension;
    }
    /* Release: pairs with the acquire in find(); publishes the entry. */
    __atomic_store_n(&table_size, table_size + 1, __ATOMIC_RELEASE);
    return entry;
}

static handlers *find(const zend_object_handlers *php)
{
    const unsigned size = __atomic_load_n(&table_size, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < size; i++) {
        if (table[i].php == php) {
            return &table[i];
        }
    }
    return NULL;
}

static const zend_object_handlers *replacement(const zend_object_handlers *php)
{
    handlers *entry = find(php);
    if (entry == NULL) {
        pthread_mutex_lock(&adding);
        entry = find(php);
        entry = entry != NULL ? entry : add(php);
        pthread_mutex_unlock(&adding);
    }
    return entry != NULL ? &entry->own : php;
}

const shim_tracked_class *shim_tracked_class_of(const zend_class_entry *class)
{
    for (; class != NULL; class = class->parent) {
        for (int i = 0; i < tracked_count; i++) {
            if (tracked[i].class == class) {
                return &tracked[i];
            }
        }
    }
    return NULL;
}

static void track(zend_object *object, shim_kind kind, bool is_new)
{
    object->handlers = replacement(object->handlers);
    shim_connection *connection = shim_connection_add(object, kind);
    if (!is_new || connection == NULL || !shim_kind_is_connection(kind) || connection->owned.is_leased) {
        return;
    }
    if (shim_hook_is_on(SHIM_HOOK_NET)) {
        shim_owner_set(&connection->owned, shim_running);
        connection->user = shim_running;
    } else {
        shim_user_note(connection);
    }
}

bool shim_object_is_tracked(zend_object *object, bool is_new)
{
    if (object->handlers->free_obj != free_object) {
        /* Extensions skip that function only for their base classes; other objects may just look alike
         * (worker/connections/instances/proxy.c). */
        const shim_tracked_class *row = shim_user_now() != NULL ? shim_tracked_class_of(object->ce) : NULL;
        if (row == NULL || row->class != object->ce) {
            return false;
        }
        track(object, row->kind, is_new);
    }
    return true;
}

static zend_object *create_object(zend_class_entry *class)
{
    const shim_tracked_class *row = shim_tracked_class_of(class);
    zend_object *object = row->create(class);
    if (object->handlers->free_obj != free_object && shim_user_now() != NULL) {
        track(object, row->kind, true);
    }
    return object;
}

/* Creates an object of a class that has no function for it (SoapClient), as the engine does. */
static zend_object *create_ordinary_object(zend_class_entry *class)
{
    zend_object *object = zend_objects_new(class);
    object_properties_init(object, class);
    return object;
}

void shim_objects_track(zend_class_entry *class, shim_kind kind)
{
    tracked[tracked_count++] = (shim_tracked_class){
        .class = class,
        .create = class->create_object != NULL ? class->create_object : create_ordinary_object,
        .iterate = class->get_iterator,
        .kind = kind,
    };
    class->create_object = create_object;
}

void shim_objects_track_subclass(zend_class_entry *class)
{
    if (class->create_object != create_object && shim_tracked_class_of(class) != NULL) {
        class->create_object = create_object;
    }
}
