/* Objects on the receiving side: PHP's own unserializer, after all names in the text have been loaded. */
#include "async/transfer/exceptions.h"
#include "async/transfer/object_numbers.h"
#include "async/transfer/object_reader.h"
#include "async/transfer/parcel.h"
#include "async/transfer/stack.h"

#include <zend_enum.h>
#include <zend_smart_str.h>

static void append_name(smart_str *message, shim_view name)
{
    enum { SHOWN_MAX = 200 };
    smart_str_appendc(message, '"');
    smart_str_appendl(message, name.bytes, MIN(name.length, SHOWN_MAX));
    smart_str_appendc(message, '"');
}

static void fail_class(shim_view name)
{
    smart_str message = {0};
    smart_str_appends(&message, "class ");
    append_name(&message, name);
    smart_str_appends(&message, " cannot be loaded in the task's thread");
    smart_str_0(&message);
    shim_transfer_throw(ZSTR_VAL(message.s));
    smart_str_free(&message);
}

static void fail_case(shim_view class_name, shim_view name)
{
    smart_str message = {0};
    smart_str_appends(&message, "enum ");
    append_name(&message, class_name);
    smart_str_appends(&message, " has no case ");
    append_name(&message, name);
    smart_str_appends(&message, " in the task's thread");
    smart_str_0(&message);
    shim_transfer_throw(ZSTR_VAL(message.s));
    smart_str_free(&message);
}

/* Returns the class with this name; NULL with an exception. May run autoloaders. */
static zend_class_entry *load(shim_view name)
{
    zend_string *string = zend_string_init(name.bytes, name.length, false);
    zend_class_entry *class = zend_lookup_class(string);
    zend_string_release(string);
    if (class == NULL || EG(exception) != NULL) {
        fail_class(name);
        return NULL;
    }
    return class;
}

zend_object *shim_object_load_case(shim_view class_name, shim_view name)
{
    zend_class_entry *class = load(class_name);
    if (class == NULL) {
        return NULL;
    }
    const zend_class_constant *constant = zend_hash_str_find_ptr(CE_CONSTANTS_TABLE(class), name.bytes, name.length);
    if ((class->ce_flags & ZEND_ACC_ENUM) && constant != NULL && (ZEND_CLASS_CONST_FLAGS(constant) & ZEND_CLASS_CONST_IS_CASE)) {
        zend_string *string = zend_string_init(name.bytes, name.length, false);
        zend_object *object = zend_enum_get_case(class, string);
        zend_string_release(string);
        return object;
    }
    fail_case(class_name, name);
    return NULL;
}

/* Loads the classes and cases that a text names, so that PHP's unserializer finds them. */
static bool load_all(shim_view names)
{
    shim_view name;
    shim_reader reader = {.at = names.bytes, .end = names.bytes + names.length};
    while (shim_reader_left(&reader) > 0) {
        if (!shim_reader_get_view(&reader, &name)) {
            return false;
        }
        const char *colon = name.length > 0 ? memchr(name.bytes, ':', name.length) : NULL;
        const shim_view class_name = {.bytes = name.bytes, .length = colon != NULL ? (size_t)(colon - name.bytes) : name.length};
        const bool is_loaded =
            colon == NULL ? load(class_name) != NULL
                          : shim_object_load_case(class_name, (shim_view){.bytes = colon + 1, .length = (size_t)(name.bytes + name.length - colon - 1)}) != NULL;
        if (!is_loaded) {
            return false;
        }
    }
    return true;
}

static bool unserialize(php_unserialize_data_t *objects, shim_view text, zval *value)
{
    const unsigned char *at = (const unsigned char *)text.bytes, *end = at + text.length;
    /* Never uses PHP's own state: another text may be read further out, or in another fiber. */
    BG(serialize_lock)++;
    if (*objects == NULL) {
        *objects = php_var_unserialize_init();
        php_var_unserialize_set_max_depth(*objects, 0);
    }
    BG(serialize_lock)--;
    /* PHP remembers the addresses of objects; this one stays valid. */
    zval *place = var_tmp_var(objects);
    const shim_script_texts before = shim_script_texts_lend(NULL, *objects);
    const bool is_read = php_var_unserialize(place, &at, end, objects) && at == end;
    shim_script_texts_end(&before);
    if (EG(exception) != NULL) {
        shim_transfer_throw("An object cannot be unserialized in the task's thread");
        return false;
    }
    if (!is_read) {
        return shim_reader_fail();
    }
    ZVAL_COPY_DEREF(value, place);
    return true;
}

/* More than the stack that PHP's unserializer takes for one level; some 230 bytes if it is optimized. */
#if ZEND_DEBUG || defined(__SANITIZE_ADDRESS__)
enum { LEVEL_BYTES = 2048 };
#else
enum { LEVEL_BYTES = 512 };
#endif

bool shim_object_read(shim_reader *in, php_unserialize_data_t *objects, zval *value)
{
    uint64_t length;
    uint32_t depth;
    shim_view names;
    char guard[SHIM_OBJECT_GUARD];
    static const char expected[SHIM_OBJECT_GUARD];
    if (!shim_reader_get(in, &length, sizeof(length)) || !shim_reader_get(in, &depth, sizeof(depth))) {
        return false;
    }
    if (length > shim_reader_left(in)) {
        return shim_reader_fail();
    }
    const shim_view text = {.bytes = in->at, .length = (size_t)length};
    in->at += length;
    if (!shim_reader_get(in, guard, sizeof(guard)) || !shim_reader_get_view(in, &names)) {
        return false;
    }
    if (memcmp(guard, expected, sizeof(guard)) != 0) {
        return shim_reader_fail();
    }
    if (depth > shim_stack_levels(LEVEL_BYTES)) {
        shim_transfer_throw("The value is nested too deeply");
        return false;
    }
    return load_all(names) && unserialize(objects, text, value);
}

bool shim_objects_end(php_unserialize_data_t objects)
{
    const bool was_well = EG(exception) == NULL;
    BG(serialize_lock)++;
    php_var_unserialize_destroy(objects);
    BG(serialize_lock)--;
    if (was_well && EG(exception) != NULL) {
        shim_transfer_throw("An object cannot be unserialized in the task's thread");
    }
    return EG(exception) == NULL;
}
