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

void shim_wrapper_replace(const char *scheme, const php_stream_wrapper *php, php_stream_wrapper *wrapper,
                          php_stream_wrapper_ops *operations, __typeof__(((php_stream_wrapper_ops *)NULL)->stream_opener) open)
{
    *operations = *php->wops;
    operations->stream_opener = open;
    *wrapper = *php;
    wrapper->wops = operations;
    /* Replaces the entry in place, so that stream_get_wrappers() lists it in the same position. */
    zval *own = zend_hash_str_find(php_stream_get_url_stream_wrappers_hash_global(), scheme, strlen(scheme));
    if (own != NULL && Z_PTR_P(own) == php) {
        Z_PTR_P(own) = wrapper;
    }
}
