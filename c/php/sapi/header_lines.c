/* Refuses control characters in response headers before they have an effect.
 *
 * PHP itself refuses line breaks and NUL bytes. RFC 9110, section 5.5, allows no other control characters either, and
 * clients and proxies reject a response that has one. A `header_handler` of the SAPI module comes too late to refuse a
 * line: by then, sapi_header_op() has set the status of a `Location`, the type of a `Content-Type`, or the status line,
 * which a handler never sees. The executable's definition of the function therefore precedes that of libphp, and checks
 * the line first. So does that of sapi_add_header_ex(), by which extensions add lines (the cookie of a session): libphp
 * calls the other function from there directly. The two directives that PHP makes a Content-Type of are checked where they
 * are set. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "php/sapi/sapi.h"

#include <ctype.h>
#include <syslog.h>

/* ---- header lines ---- */

#define EACH_BYTE UINT64_C(0x0101010101010101)

/* Returns the first control character other than a tab; NULL if there is none. */
static const char *find_control_character(const char *bytes, size_t length)
{
    size_t place = 0;
    /* Eight bytes at a time: the highest bit of a byte is set if it is below a space, or 0x7f. Tabs are excluded below. */
    for (uint64_t word; length - place >= sizeof(word); place += sizeof(word)) {
        memcpy(&word, bytes + place, sizeof(word));
        const uint64_t deleted = word ^ (EACH_BYTE * 0x7f);
        const uint64_t found = ((word - EACH_BYTE * ' ') & ~word) | ((deleted - EACH_BYTE) & ~deleted);
        if ((found & (EACH_BYTE * 0x80)) != 0) {
            break;
        }
    }
    for (; place < length; place++) {
        const unsigned char byte = (unsigned char)bytes[place];
        if ((byte < ' ' && byte != '\t') || byte == 0x7f) {
            return bytes + place;
        }
    }
    return NULL;
}

/* Line breaks and NUL bytes are left to PHP, which has messages for them, and so are lines that come too late. */
static bool is_refused(const sapi_header_line *line)
{
    if (line->line == NULL || (SG(headers_sent) && !SG(request_info).no_headers)) {
        return false;
    }
    size_t length = line->line_len;
    /* PHP cuts these off. */
    while (length > 0 && isspace((unsigned char)line->line[length - 1])) {
        length--;
    }
    const char *found = find_control_character(line->line, length);
    return found != NULL && *found != '\r' && *found != '\n' && *found != '\0';
}

SAPI_API int sapi_header_op(sapi_header_op_enum op, void *arg)
{
    if ((op == SAPI_HEADER_ADD || op == SAPI_HEADER_REPLACE) && is_refused(arg)) {
        sapi_module.sapi_error(E_WARNING, "Header may not contain control characters");
        return FAILURE;
    }
    return NEXT(sapi_header_op)(op, arg);
}

/* The script has not written this line, so the warning names the field. */
SAPI_API int sapi_add_header_ex(const char *text, size_t length, bool duplicate, bool replace)
{
    const sapi_header_line line = {.line = text, .line_len = length};
    if (!is_refused(&line)) {
        return NEXT(sapi_add_header_ex)(text, length, duplicate, replace);
    }
    sapi_module.sapi_error(E_WARNING, "Header %.*s may not contain control characters", (int)strcspn(text, ": "), text);
    if (!duplicate) {
        efree((void *)(uintptr_t)text);
    }
    return FAILURE;
}

/* ---- the directives of the default Content-Type ---- */

static struct directive {
    const char *name;
    const char *initial;
    ZEND_INI_MH((*on_modify));
} directives[] = {
    {.name = "default_charset", .initial = PHP_DEFAULT_CHARSET},
    {.name = "default_mimetype", .initial = SAPI_DEFAULT_MIMETYPE},
};

enum { DIRECTIVES = SHIM_COUNT(directives) };

static bool is_valid(const zend_string *value)
{
    return value == NULL || find_control_character(ZSTR_VAL(value), ZSTR_LEN(value)) == NULL;
}

static ZEND_INI_MH(on_modify)
{
    const struct directive *directive = directives;
    while (!zend_string_equals_cstr(entry->name, directive->name, strlen(directive->name))) {
        directive++;
    }
    return is_valid(new_value) ? directive->on_modify(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage) : FAILURE;
}

/* Handles a configured value that PHP accepted like one that it refuses: the initial value remains. */
static void refuse_configured(const struct directive *directive, zend_ini_entry *entry)
{
    char message[160];
    (void)snprintf(message, sizeof(message), "%s contains a control character; \"%s\" applies", directive->name,
                   directive->initial);
    shim_log_message(message, LOG_WARNING);
    zend_string_release(entry->value);
    entry->value = zend_string_init_interned(directive->initial, strlen(directive->initial), true);
    (void)directive->on_modify(entry, entry->value, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3, ZEND_INI_STAGE_STARTUP);
}

/* All threads, this one included, copy PHP's table of directives once all extensions have started. */
void shim_header_lines_install(void)
{
    for (struct directive *directive = directives; directive < directives + DIRECTIVES; directive++) {
        zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), directive->name, strlen(directive->name));
        if (entry == NULL || entry->on_modify == NULL) {
            continue;
        }
        directive->on_modify = entry->on_modify;
        entry->on_modify = on_modify;
        if (!is_valid(entry->value)) {
            refuse_configured(directive, entry);
        }
    }
}
