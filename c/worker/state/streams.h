/* The state of the streams layer; a part of the globals. */
#ifndef SVC_SHIM_STREAMS_H
#define SVC_SHIM_STREAMS_H

#include "compat.h"

typedef struct shim_streams_state {
    int pclose_ret;
    const char *user_stream_current_filename;
    php_stream_context *default_context;
    HashTable *stream_wrappers;
    HashTable *stream_filters;
    HashTable *wrapper_errors;
    /* The buffer of php_network_gethostbyname(), which frees it at its next call. An answer may still be written into it. */
    char *tmp_host_buf;
    size_t tmp_host_buf_len;
} shim_streams_state;

void shim_streams_capture(void);
void shim_streams_release(void);
void shim_streams_begin(void);
void shim_streams_suspend(shim_streams_state *state);
void shim_streams_resume(const shim_streams_state *state);
/* Keeps the wrappers and filters for shim_streams_give(), or frees them. */
void shim_streams_end(bool keeps);
/* Replaces the boot script's wrappers and filters, which must be in place, with those of the last request, if they were
 * kept. */
void shim_streams_give(void);
/* Puts the baseline snapshot in place, whatever the current state. */
void shim_streams_reset(void);
/* Prevents scripts from closing the stream. */
void shim_keep_open(php_stream *stream);
/* Returns a context with the same options and the same notifier: changes of one do not affect the other. */
php_stream_context *shim_context_copy(const php_stream_context *context);
/* Returns a notifier that calls the same callback; NULL for NULL. */
php_stream_notifier *shim_notifier_copy(const php_stream_notifier *notifier);

#endif
