/* PHP's format for values, piece by piece, up to a bound. */
#include "async/transfer/text.h"

#include <zend_enum.h>
#include <zend_strtod.h>

bool shim_text_put(shim_text *text, const shim_place *place, const char *bytes, size_t length)
{
    return shim_buffer_put(text->out, bytes, length) || shim_place_refuse_size(place, text->out->bytes_max);
}

bool shim_text_put_literal(shim_text *text, const shim_place *place, const char *literal)
{
    return shim_text_put(text, place, literal, strlen(literal));
}

bool shim_text_put_number(shim_text *text, const shim_place *place, const char *before, zend_long number, const char *after)
{
    char digits[MAX_LENGTH_OF_LONG + 1];
    char *end = digits + sizeof(digits) - 1;
    const char *start = zend_print_long_to_buf(end, number);
    return shim_text_put_literal(text, place, before) && shim_text_put(text, place, start, (size_t)(end - start)) &&
           shim_text_put_literal(text, place, after);
}

bool shim_text_put_string(shim_text *text, const shim_place *place, const zend_string *string)
{
    return shim_text_put_number(text, place, "s:", (zend_long)ZSTR_LEN(string), ":\"") &&
           shim_text_put(text, place, ZSTR_VAL(string), ZSTR_LEN(string)) && shim_text_put_literal(text, place, "\";");
}

bool shim_text_put_float(shim_text *text, const shim_place *place, double number)
{
    char digits[ZEND_DOUBLE_MAX_LENGTH];
    zend_gcvt(number, 17, '.', 'E', digits);
    return shim_text_put_literal(text, place, "d:") && shim_text_put_literal(text, place, digits) && shim_text_put_literal(text, place, ";");
}

bool shim_text_put_key(shim_text *text, const shim_place *place, const zend_string *key, zend_ulong index)
{
    return key != NULL ? shim_text_put_string(text, place, key) : shim_text_put_number(text, place, "i:", (zend_long)index, ";");
}

/* Tells the other side to load a class, or a case, before it reads the text. */
static bool tell(shim_text *text, const shim_place *place, zend_string *name)
{
    if (zend_hash_add_empty_element(text->told, name) == NULL) {
        return true;
    }
    return shim_buffer_put_string(&text->names, ZSTR_VAL(name), ZSTR_LEN(name)) ||
           shim_place_refuse_size(place, text->out->bytes_max);
}

bool shim_text_put_class(shim_text *text, const shim_place *place, const char *letter, zend_string *name)
{
    return tell(text, place, name) && shim_text_put_number(text, place, letter, (zend_long)ZSTR_LEN(name), ":\"") &&
           shim_text_put(text, place, ZSTR_VAL(name), ZSTR_LEN(name)) && shim_text_put_literal(text, place, "\":");
}

bool shim_text_put_case(shim_text *text, const shim_place *place, zend_object *object)
{
    const zend_string *class_name = object->ce->name, *own = Z_STR_P(zend_enum_fetch_case_name(object));
    zend_string *name = zend_string_concat3(ZSTR_VAL(class_name), ZSTR_LEN(class_name), ":", 1, ZSTR_VAL(own), ZSTR_LEN(own));
    const bool is_put = tell(text, place, name) && shim_text_put_number(text, place, "E:", (zend_long)ZSTR_LEN(name), ":\"") &&
                        shim_text_put(text, place, ZSTR_VAL(name), ZSTR_LEN(name)) && shim_text_put_literal(text, place, "\";");
    zend_string_release(name);
    return is_put;
}
