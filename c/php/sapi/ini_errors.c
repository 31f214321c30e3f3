/* PHP's messages about the syntax of ini files: it prints them to stderr, and continues without the rest of the file.
 *
 * Promises: while PHP starts, such a line becomes a log record, and all other output to stderr passes. */
#include "compat.h"
#include "php/sapi/errors.h"
#include "php/sapi/ini_errors.h"

#include <syslog.h>
#include <unistd.h>

/* The prefix of such a line. PHP prints no other lines with this prefix, which ends with two spaces. */
static const char mark[] = "PHP:  ";

static FILE *standard_error;

static void tell(const char *text, size_t length)
{
    char *message = NULL;
    while (length > 0 && text[length - 1] == '\n') {
        length--;
    }
    if (asprintf(&message, "malformed directives: %.*s", (int)length, text) >= 0) {
        shim_log_message(message, LOG_ERR);
        free(message);
    }
}

static ssize_t pass(void *cookie, const char *bytes, size_t size)
{
    (void)cookie;
    const size_t length = sizeof(mark) - 1;
    if (size > length && memcmp(bytes, mark, length) == 0) {
        tell(bytes + length, size - length);
        return (ssize_t)size;
    }
    return write(STDERR_FILENO, bytes, size);
}

bool shim_ini_errors_begin(void)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = pass});
    if (stream == NULL) {
        return false;
    }
    /* Line-buffered: each call prints a line, which arrives as a whole. */
    (void)setvbuf(stream, NULL, _IOLBF, (size_t)2 * MAXPATHLEN);
    standard_error = stderr;
    stderr = stream;
    return true;
}

void shim_ini_errors_end(void)
{
    /* An extension may have kept a pointer to the stream. */
    (void)fflush(stderr);
    stderr = standard_error;
}
