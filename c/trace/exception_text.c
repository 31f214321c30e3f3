/* The texts of exceptions and fatal errors.
 *
 * They may be reported because PHP has no memory left, so nothing here is allocated from the request's memory, and no
 * script code runs. */
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "trace/trace.h"

/* The host truncates longer texts. */
enum { TEXT_MAX = 16 * 1024 };

/* Returns the length of a name up to its first NUL. */
static size_t length_of_name(const zend_string *name)
{
    return strnlen(ZSTR_VAL(name), ZSTR_LEN(name));
}

shim_view shim_exception_class(const zend_object *exception)
{
    const zend_string *name = exception->ce->name;
    return shim_view_of(ZSTR_VAL(name), length_of_name(name));
}

shim_view shim_exception_message(zend_object *exception)
{
    const zval *message = shim_exception_member(exception, ZSTR_KNOWN(ZEND_STR_MESSAGE));
    return Z_TYPE_P(message) == IS_STRING ? shim_view_of_string(Z_STR_P(message)) : (shim_view){0};
}

static void put(smart_str *text, const char *bytes, size_t length)
{
    smart_str_appendl_ex(text, bytes, MIN(length, TEXT_MAX), true);
}

static bool is_full(const smart_str *text)
{
    return text->s != NULL && ZSTR_LEN(text->s) >= TEXT_MAX;
}

static void put_number(smart_str *text, zend_long number)
{
    smart_str_append_long_ex(text, number, true);
}

static void put_frame(smart_str *text, zend_long index, const char *file, size_t length, zend_long line)
{
    put(text, "#", 1);
    put_number(text, index);
    put(text, " ", 1);
    if (file == NULL) {
        put(text, ZEND_STRL("[internal function]: "));
        return;
    }
    put(text, file, length);
    put(text, "(", 1);
    put_number(text, line);
    put(text, "): ", 3);
}

static const zval *entry(HashTable *frame, const char *name)
{
    return zend_hash_str_find_deref(frame, name, strlen(name));
}

static void put_name(smart_str *text, const zend_string *name)
{
    put(text, ZSTR_VAL(name), length_of_name(name));
}

static void put_entry(smart_str *text, HashTable *frame, const char *name)
{
    const zval *value = entry(frame, name);
    if (value != NULL && Z_TYPE_P(value) == IS_STRING) {
        put_name(text, Z_STR_P(value));
    }
}

/* Writes the position of `new` or of the error, which the list of calls does not contain. */
static void put_origin(smart_str *text, const char *file, size_t length, zend_long line)
{
    put(text, file, length);
    put(text, ":", 1);
    put_number(text, line);
    put(text, "\n", 1);
}

/* Writes the position at which the exception was created, and the calls that led there. */
static void put_exception(smart_str *text, zend_object *exception)
{
    const zval *file = shim_exception_member(exception, ZSTR_KNOWN(ZEND_STR_FILE));
    const zval *made_at = shim_exception_member(exception, ZSTR_KNOWN(ZEND_STR_LINE));
    if (Z_TYPE_P(file) == IS_STRING && Z_TYPE_P(made_at) == IS_LONG) {
        put_origin(text, Z_STRVAL_P(file), Z_STRLEN_P(file), Z_LVAL_P(made_at));
    }
    zval *trace = shim_exception_member(exception, ZSTR_KNOWN(ZEND_STR_TRACE));
    zend_long index = 0;
    zval *frame;
    if (Z_TYPE_P(trace) == IS_ARRAY) {
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(trace), frame) {
            ZVAL_DEREF(frame);
            if (Z_TYPE_P(frame) != IS_ARRAY || is_full(text)) {
                continue;
            }
            const zval *file = entry(Z_ARRVAL_P(frame), "file"), *line = entry(Z_ARRVAL_P(frame), "line");
            const bool has_file = file != NULL && Z_TYPE_P(file) == IS_STRING;
            put_frame(text, index++, has_file ? Z_STRVAL_P(file) : NULL, has_file ? Z_STRLEN_P(file) : 0,
                      line != NULL && Z_TYPE_P(line) == IS_LONG ? Z_LVAL_P(line) : 0);
            put_entry(text, Z_ARRVAL_P(frame), "class");
            put_entry(text, Z_ARRVAL_P(frame), "type");
            put_entry(text, Z_ARRVAL_P(frame), "function");
            put(text, "()\n", 3);
        } ZEND_HASH_FOREACH_END();
    }
    put(text, "#", 1);
    put_number(text, index);
    put(text, ZEND_STRL(" {main}"));
}

static void put_view(smart_str *text, shim_view view)
{
    if (view.length > 0) {
        put(text, view.bytes, view.length);
    }
}

void shim_exception_trace(smart_str *text, zend_object *exception)
{
    put_exception(text, exception);
    /* Previous exceptions may form a circle. */
    for (size_t left = shim_exception_chain(exception) - 1; left > 0 && !is_full(text); left--) {
        exception = shim_exception_previous(exception);
        put(text, ZEND_STRL("\n\nCaused by: "));
        put_view(text, shim_exception_class(exception));
        put(text, ": ", 2);
        put_view(text, shim_exception_message(exception));
        put(text, "\n", 1);
        put_exception(text, exception);
    }
}

static void put_function(smart_str *text, const zend_function *function)
{
    if (function->common.scope != NULL) {
        put_name(text, function->common.scope->name);
        put(text, function->common.fn_flags & ZEND_ACC_STATIC ? "::" : "->", 2);
    }
    put_name(text, function->common.function_name);
    put(text, "()\n", 3);
}

void shim_execution_trace(smart_str *text, shim_view file, uint32_t line)
{
    zend_long index = 0;
    put_origin(text, file.bytes != NULL ? file.bytes : "", file.length, line);
    for (const zend_execute_data *frame = EG(current_execute_data); frame != NULL && !is_full(text);
         frame = frame->prev_execute_data) {
        const zend_execute_data *caller = frame->prev_execute_data;
        if (frame->func == NULL || frame->func->common.function_name == NULL) {
            continue;
        }
        const bool is_known = caller != NULL && caller->func != NULL && ZEND_USER_CODE(caller->func->type) &&
                              caller->opline != NULL;
        const zend_string *place = is_known ? caller->func->op_array.filename : NULL;
        put_frame(text, index++, place != NULL ? ZSTR_VAL(place) : NULL, place != NULL ? ZSTR_LEN(place) : 0,
                  is_known ? (zend_long)caller->opline->lineno : 0);
        put_function(text, frame->func);
    }
    put(text, "#", 1);
    put_number(text, index);
    put(text, ZEND_STRL(" {main}"));
}

shim_view shim_trace_text_view(const smart_str *text)
{
    return text->s != NULL ? shim_view_of_string(text->s) : (shim_view){0};
}

void shim_trace_text_free(smart_str *text)
{
    smart_str_free_ex(text, true);
}
