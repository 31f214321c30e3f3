/* Objects in PHP's own format, which PHP's own unserializer reads on the other side.
 *
 * Unlike PHP's serializer, it refuses resources instead of writing 0, names the place of a refused value, checks the
 * bound before it copies, writes floats exactly whatever serialize_precision is, and leaves the arguments of calls out
 * of exceptions' traces. It also lists the classes that the other side has to load, so that none is incomplete there.
 *
 * An object is: length of the text (eight bytes), its depth (four bytes), the text, two guard bytes, and the names of
 * classes (`Class`) and cases (`Enum:Case`) that no earlier object of the transfer has named.
 *
 * Numbers. Both sides count the values of all texts of a transfer, so that an object that occurs again is written as
 * the number of its first occurrence. A text must not be dropped once it has been begun. */
#include "async/transfer/exceptions.h"
#include "async/transfer/object_numbers.h"
#include "async/transfer/object_refusals.h"
#include "async/transfer/object_sleep.h"
#include "async/transfer/object_text.h"
#include "async/transfer/parcel.h"
#include "async/transfer/stack.h"
#include "async/transfer/text.h"

typedef struct writer {
    shim_text text;
    php_serialize_data_t written;
    uint32_t depth;
    uint32_t depth_max;
} writer;

/* ---- values inside of objects ---- */

static bool write_value(writer *writer, const shim_place *place, zval *value, bool is_shared);

/* Refuses an object whose number of properties has changed: script code that ran meanwhile may have changed it. */
static bool check_count(const shim_place *place, uint32_t count, uint32_t written)
{
    if (count == written) {
        return true;
    }
    shim_place_refuse(place, "an object has changed while it was being packed");
    return false;
}

static zval *without_sole_reference(zval *value)
{
    return Z_ISREF_P(value) && Z_REFCOUNT_P(value) == 1 ? Z_REFVAL_P(value) : value;
}

/* Writes the elements of an array or the properties of an object, without the class in front of the braces. `kind` is
 * the kind of their places. The caller holds the table. */
static bool write_table(writer *writer, const shim_place *outer, shim_place_kind kind, HashTable *table, const HashTable *self)
{
    const uint32_t count = zend_array_count(table);
    const bool is_shared = kind == SHIM_PLACE_ELEMENT || GC_REFCOUNT(table) > 1;
    shim_place place = {.outer = outer, .kind = kind};
    uint32_t written = 0;
    zval *value;
    if (!shim_text_put_number(&writer->text, outer, "", count, ":{")) {
        return false;
    }
    ZEND_HASH_FOREACH_KEY_VAL_IND(table, place.index, place.key, value) {
        written++;
        if (!shim_text_put_key(&writer->text, outer, place.key, place.index)) {
            return false;
        }
        value = without_sole_reference(value);
        if (Z_TYPE_P(value) == IS_ARRAY && Z_ARRVAL_P(value) == self) {
            shim_place_refuse(&place, "an array that contains itself cannot be sent to a task");
            return false;
        }
        if (!write_value(writer, &place, value, is_shared)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return check_count(outer, count, written) && shim_text_put_literal(&writer->text, outer, "}");
}

static bool write_array(writer *writer, const shim_place *place, HashTable *array)
{
    const bool is_counted = !(GC_FLAGS(array) & GC_IMMUTABLE);
    if (is_counted) {
        GC_ADDREF(array);
    }
    const bool is_written =
        shim_text_put_literal(&writer->text, place, "a:") && write_table(writer, place, SHIM_PLACE_ELEMENT, array, array);
    if (is_counted) {
        zend_array_release(array);
    }
    return is_written;
}

/* ---- objects ---- */

static bool write_magic(writer *writer, const shim_place *place, zend_object *object)
{
    zval result;
    BG(serialize_lock)++;
    zend_call_known_instance_method_with_0_params(object->ce->__serialize, object, &result);
    BG(serialize_lock)--;
    if (EG(exception) != NULL || Z_TYPE(result) != IS_ARRAY) {
        zval_ptr_dtor(&result);
        if (EG(exception) == NULL) {
            zend_type_error("%s::__serialize() must return an array", ZSTR_VAL(object->ce->name));
        }
        return shim_object_refuse(place, object);
    }
    const bool is_written = shim_text_put_class(&writer->text, place, "O:", object->ce->name) &&
                            write_table(writer, place, SHIM_PLACE_INSIDE, Z_ARRVAL(result), NULL);
    zval_ptr_dtor(&result);
    return is_written;
}

static bool write_custom(writer *writer, const shim_place *place, zend_object *object)
{
    unsigned char *text = NULL;
    size_t length = 0;
    zval value;
    ZVAL_OBJ(&value, object);
    /* Values that it serializes itself may occur elsewhere. */
    const shim_script_texts before = shim_script_texts_lend(writer->written, NULL);
    const int result =
        object->ce->serialize(&value, &text, &length, (zend_serialize_data *)writer->written);
    shim_script_texts_end(&before);
    bool is_written = false;
    if (EG(exception) != NULL) {
        is_written = shim_object_refuse(place, object);
    } else if (result == SUCCESS) {
        is_written = shim_text_put_class(&writer->text, place, "C:", object->ce->name) &&
                     shim_text_put_number(&writer->text, place, "", (zend_long)length, ":{") &&
                     shim_text_put(&writer->text, place, (const char *)text, length) && shim_text_put_literal(&writer->text, place, "}");
    } else {
        shim_object_number_forget(writer->written, object);
        is_written = shim_text_put_literal(&writer->text, place, "N;");
    }
    if (text != NULL) {
        efree(text);
    }
    return is_written;
}

static bool write_asleep(writer *writer, const shim_place *place, zend_object *object, zend_function *sleep)
{
    HashTable *properties = shim_object_sleep(object, sleep);
    if (properties == NULL) {
        return EG(exception) != NULL ? shim_object_refuse(place, object) : shim_text_put_literal(&writer->text, place, "N;");
    }
    const bool is_written = shim_text_put_class(&writer->text, place, "O:", object->ce->name) &&
                            write_table(writer, place, SHIM_PLACE_PROPERTY, properties, NULL);
    zend_array_release(properties);
    return is_written;
}

/* Whether the object has nothing but declared properties, all in their slots. */
static bool is_plain(zend_object *object)
{
    return object->properties == NULL && object->handlers->get_properties_for == NULL &&
           object->handlers->get_properties == zend_std_get_properties && !SHIM_IS_LAZY(object) &&
           !instanceof_function(object->ce, zend_ce_throwable);
}

static zval *declared_property(zend_object *object, int index, zend_string **name)
{
    const zend_property_info *info = object->ce->properties_info_table[index];
    if (info == NULL) {
        return NULL;
    }
    zval *value = OBJ_PROP(object, info->offset);
    *name = info->name;
    return Z_TYPE_P(value) != IS_UNDEF ? value : NULL;
}

/* Writes the object without building the table of properties. */
static bool write_plain(writer *writer, const shim_place *outer, zend_object *object)
{
    shim_place place = {.outer = outer, .kind = SHIM_PLACE_PROPERTY};
    const int slots = object->ce->default_properties_count;
    uint32_t count = 0, written = 0;
    for (int i = 0; i < slots; i++) {
        count += declared_property(object, i, &place.key) != NULL;
    }
    if (!shim_text_put_class(&writer->text, outer, "O:", object->ce->name) || !shim_text_put_number(&writer->text, outer, "", count, ":{")) {
        return false;
    }
    for (int i = 0; i < slots; i++) {
        zval *value = declared_property(object, i, &place.key);
        if (value != NULL) {
            written++;
            if (!shim_text_put_string(&writer->text, outer, place.key) ||
                !write_value(writer, &place, without_sole_reference(value), false)) {
                return false;
            }
        }
    }
    return check_count(outer, count, written) && shim_text_put_literal(&writer->text, outer, "}");
}

static bool write_properties(writer *writer, const shim_place *place, zend_object *object)
{
    zval value;
    ZVAL_OBJ(&value, object);
    /* Initializes a lazy object, unless its class prevents it. */
    HashTable *properties = zend_get_properties_for(&value, ZEND_PROP_PURPOSE_SERIALIZE);
    if (EG(exception) != NULL) {
        zend_release_properties(properties);
        return shim_object_refuse(place, object);
    }
    if (properties == NULL) {
        return shim_text_put_class(&writer->text, place, "O:", object->ce->name) && shim_text_put_literal(&writer->text, place, "0:{}");
    }
    if (instanceof_function(object->ce, zend_ce_throwable)) {
        HashTable *bare = shim_exception_without_arguments(properties);
        zend_release_properties(properties);
        properties = bare;
    }
    const bool is_written = shim_text_put_class(&writer->text, place, "O:", object->ce->name) &&
                            write_table(writer, place, SHIM_PLACE_PROPERTY, properties, NULL);
    zend_release_properties(properties);
    return is_written;
}

static bool write_new_object(writer *writer, const shim_place *place, zend_object *object)
{
    zend_class_entry *class = object->ce;
    if (class->ce_flags & ZEND_ACC_ENUM) {
        return shim_text_put_case(&writer->text, place, object);
    }
    if (shim_object_refused(place, class)) {
        return false;
    }
    bool is_written;
    GC_ADDREF(object);
    zval *sleep = zend_hash_find_known_hash(&class->function_table, ZSTR_KNOWN(ZEND_STR_SLEEP));
    if (class->__serialize != NULL) {
        is_written = write_magic(writer, place, object);
    } else if (class->serialize != NULL) {
        is_written = write_custom(writer, place, object);
    } else if (sleep != NULL) {
        is_written = write_asleep(writer, place, object, Z_FUNC_P(sleep));
    } else {
        is_written = is_plain(object) ? write_plain(writer, place, object) : write_properties(writer, place, object);
    }
    OBJ_RELEASE(object);
    return is_written;
}

static bool write_nested(writer *writer, const shim_place *place, zval *value)
{
    if (shim_stack_is_short()) {
        shim_place_refuse_whole(place, "the value is nested too deeply");
        return false;
    }
    writer->depth++;
    writer->depth_max = MAX(writer->depth_max, writer->depth);
    const bool is_written = Z_TYPE_P(value) == IS_ARRAY ? write_array(writer, place, Z_ARRVAL_P(value))
                                                        : write_new_object(writer, place, Z_OBJ_P(value));
    writer->depth--;
    return is_written;
}

static bool write_value(writer *writer, const shim_place *place, zval *value, bool is_shared)
{
    const zend_long number = shim_object_number(writer->written, value, is_shared);
    if (number == -1) {
        return shim_text_put_literal(&writer->text, place, "N;");
    }
    if (number != 0) {
        return shim_text_put_number(&writer->text, place, Z_ISREF_P(value) ? "R:" : "r:", number, ";");
    }
    ZVAL_DEREF(value);
    switch (Z_TYPE_P(value)) {
        case IS_FALSE:
            return shim_text_put_literal(&writer->text, place, "b:0;");
        case IS_TRUE:
            return shim_text_put_literal(&writer->text, place, "b:1;");
        case IS_LONG:
            return shim_text_put_number(&writer->text, place, "i:", Z_LVAL_P(value), ";");
        case IS_DOUBLE:
            return shim_text_put_float(&writer->text, place, Z_DVAL_P(value));
        case IS_STRING:
            return shim_text_put_string(&writer->text, place, Z_STR_P(value));
        case IS_ARRAY:
        case IS_OBJECT:
            return write_nested(writer, place, value);
        case IS_RESOURCE:
            shim_place_refuse(place, "a resource cannot be sent to a task");
            return false;
        default:
            return shim_text_put_literal(&writer->text, place, "N;");
    }
}

/* ---- one text ---- */

static bool finish(writer *writer, const shim_place *place, size_t head, bool is_written)
{
    static const char guard[SHIM_OBJECT_GUARD];
    if (is_written) {
        const uint64_t length = writer->text.out->length - head - sizeof(length) - sizeof(writer->depth_max);
        memcpy(writer->text.out->bytes + head, &length, sizeof(length));
        memcpy(writer->text.out->bytes + head + sizeof(length), &writer->depth_max, sizeof(writer->depth_max));
        is_written = shim_text_put(&writer->text, place, guard, sizeof(guard)) &&
                     (shim_buffer_put_string(writer->text.out, writer->text.names.bytes, writer->text.names.length) ||
                      shim_place_refuse_size(place, writer->text.out->bytes_max));
    }
    shim_buffer_free(&writer->text.names);
    return is_written;
}

bool shim_object_write(shim_object_texts *objects, shim_buffer *out, const shim_place *place, zend_object *object)
{
    static const char room[sizeof(uint64_t) + sizeof(uint32_t)];
    if (objects->written == NULL) {
        objects->written = shim_object_numbers_begin();
        objects->told = zend_new_array(8);
    }
    writer writer = {
        .text = {.out = out, .names.bytes_max = out->bytes_max, .told = objects->told},
        .written = objects->written,
    };
    const size_t head = out->length;
    zval value;
    ZVAL_OBJ(&value, object);
    /* The surrounding array may occur again. */
    return finish(&writer, place, head,
                  shim_text_put(&writer.text, place, room, sizeof(room)) && write_value(&writer, place, &value, true));
}

void shim_object_texts_end(shim_object_texts *objects)
{
    if (objects->written != NULL) {
        shim_object_numbers_end(objects->written);
        zend_array_release(objects->told);
    }
    *objects = (shim_object_texts){0};
}
