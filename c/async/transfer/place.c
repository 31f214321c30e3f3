/* The position of a value within the packed data, for the messages of refusals. */
#include "async/transfer/transfer.h"

#include <zend_smart_str.h>

/* The number of frames of a path, and of bytes of a key, that a message repeats. */
enum { FRAMES_MAX = 16, KEY_MAX = 64 };

static void append_key(smart_str *text, const char *key, size_t length)
{
    smart_str_appendl(text, key, MIN(length, KEY_MAX));
    if (length > KEY_MAX) {
        smart_str_appends(text, "...");
    }
}

static void append_property(smart_str *text, const zend_string *name)
{
    const char *class_name, *own;
    size_t length;
    smart_str_appends(text, "->");
    if (zend_unmangle_property_name_ex(name, &class_name, &own, &length) == SUCCESS) {
        append_key(text, own, length);
    }
}

static void append_frame(smart_str *text, const shim_place *place)
{
    if (place->kind == SHIM_PLACE_PROPERTY && place->key != NULL) {
        append_property(text, place->key);
    } else if (place->key != NULL) {
        smart_str_appends(text, "['");
        append_key(text, ZSTR_VAL(place->key), ZSTR_LEN(place->key));
        smart_str_appends(text, "']");
    } else {
        smart_str_appendc(text, '[');
        smart_str_append_long(text, (zend_long)place->index);
        smart_str_appendc(text, ']');
    }
}

/* Collects the frames that a message names, from the outside: those up to the first one that an object's own
 * serialization has created. */
static size_t frames_of(const shim_place *place, const shim_place **frames)
{
    size_t count = 0, named = 0;
    for (const shim_place *each = place; each->kind != SHIM_PLACE_ROOT; each = each->outer) {
        count++;
        named = each->kind == SHIM_PLACE_INSIDE ? 0 : named + 1;
    }
    size_t index = count;
    for (const shim_place *each = place; each->kind != SHIM_PLACE_ROOT; each = each->outer) {
        index--;
        if (index < named && index < FRAMES_MAX) {
            frames[index] = each;
        }
    }
    return named;
}

static const shim_place *root_of(const shim_place *place)
{
    while (place->kind != SHIM_PLACE_ROOT) {
        place = place->outer;
    }
    return place;
}

bool shim_place_refuse(const shim_place *place, const char *why)
{
    const shim_place *frames[FRAMES_MAX];
    const size_t count = frames_of(place, frames);
    smart_str text = {0};
    smart_str_appends(&text, root_of(place)->name);
    if (count > 0) {
        smart_str_appendc(&text, ' ');
    }
    for (size_t i = 0; i < MIN(count, FRAMES_MAX); i++) {
        append_frame(&text, frames[i]);
    }
    if (count > FRAMES_MAX) {
        smart_str_appends(&text, "...");
    }
    smart_str_appends(&text, ": ");
    smart_str_appends(&text, why);
    smart_str_0(&text);
    shim_transfer_throw(ZSTR_VAL(text.s));
    smart_str_free(&text);
    return false;
}

bool shim_place_refuse_whole(const shim_place *place, const char *why)
{
    return shim_place_refuse(root_of(place), why);
}

bool shim_place_is_within(const shim_place *place, const HashTable *array)
{
    for (; place != NULL; place = place->outer) {
        if (place->array == array) {
            return true;
        }
    }
    return false;
}
