/* Streams and their contexts, as far as several requests or svc itself use them. */
#include "compat.h"
#include "php/engine/engine.h"

php_stream_notifier *shim_notifier_copy(const php_stream_notifier *notifier)
{
    if (notifier == NULL) {
        return NULL;
    }
    php_stream_notifier *copy = php_stream_notification_alloc();
    *copy = *notifier;
    /* Assigned only once it is complete: freeing an incomplete copy would free values of the original. */
    SHIM_COPY_NOTIFIED(copy, notifier);
    return copy;
}

php_stream_context *shim_context_copy(const php_stream_context *context)
{
    php_stream_context *copy = php_stream_context_alloc();
    zval_ptr_dtor(&copy->options);
    /* Scripts separate shared options before they change them. */
    ZVAL_COPY(&copy->options, &context->options);
    copy->notifier = shim_notifier_copy(context->notifier);
    return copy;
}

void shim_keep_open(php_stream *stream)
{
    stream->flags |= PHP_STREAM_FLAG_NO_FCLOSE;
}
