/* The objects and references that a transfer already contains, counted like PHP's serializer counts them. */
#include "async/transfer/object_numbers.h"

/* Copied from PHP, so that handlers of extensions can continue the count. */
struct php_serialize_data {
    HashTable ht;
    uint32_t n;
};

shim_script_texts shim_script_texts_lend(php_serialize_data_t written, php_unserialize_data_t read)
{
    const shim_script_texts before = {.serialize = BG(serialize), .unserialize = BG(unserialize), .lock = BG(serialize_lock)};
    /* At this level, PHP does not free the lent state. */
    BG(serialize).data = written;
    BG(serialize).level = written != NULL;
    BG(unserialize).data = read;
    BG(unserialize).level = read != NULL;
    BG(serialize_lock) = 0;
    return before;
}

void shim_script_texts_end(const shim_script_texts *before)
{
    BG(serialize) = before->serialize;
    BG(unserialize) = before->unserialize;
    BG(serialize_lock) = before->lock;
}

/* Never uses PHP's own state: another text may be in progress further out, or in another fiber. */
php_serialize_data_t shim_object_numbers_begin(void)
{
    BG(serialize_lock)++;
    php_serialize_data_t written = php_var_serialize_init();
    BG(serialize_lock)--;
    return written;
}

void shim_object_numbers_end(php_serialize_data_t written)
{
    BG(serialize_lock)++;
    php_var_serialize_destroy(written);
    BG(serialize_lock)--;
}

/* Whether there is no other reference to the object, so that it cannot occur again. */
static bool is_sole(zval *value)
{
    const zend_object *object = Z_OBJ_P(value);
    return Z_REFCOUNT_P(value) == 1 && (object->properties == NULL || GC_REFCOUNT(object->properties) == 1) &&
           object->ce->__serialize == NULL &&
           zend_hash_find_known_hash(&object->ce->function_table, ZSTR_KNOWN(ZEND_STR_SLEEP)) == NULL;
}

zend_long shim_object_number(php_serialize_data_t written, zval *value, bool is_shared)
{
    const bool is_reference = Z_ISREF_P(value);
    written->n++;
    if (!is_reference && (Z_TYPE_P(value) != IS_OBJECT || (!is_shared && is_sole(value)))) {
        return 0;
    }
    if (is_reference && Z_TYPE_P(Z_REFVAL_P(value)) == IS_OBJECT) {
        value = Z_REFVAL_P(value);
    }
    const zend_ulong key = (zend_ulong)(uintptr_t)Z_COUNTED_P(value);
    const zval *found = zend_hash_index_find(&written->ht, key);
    if (found != NULL) {
        if (is_reference && Z_LVAL_P(found) != -1) {
            written->n--;
        }
        return Z_LVAL_P(found);
    }
    zval number;
    ZVAL_LONG(&number, written->n);
    zend_hash_index_add_new(&written->ht, key, &number);
    /* Referenced, so that its address is not reused meanwhile. */
    zend_hash_index_add_new(&written->ht, key + 1, value);
    Z_ADDREF_P(value);
    return 0;
}

void shim_object_number_forget(php_serialize_data_t written, const zend_object *object)
{
    zval *number = zend_hash_index_find(&written->ht, (zend_ulong)(uintptr_t)object);
    if (number != NULL) {
        ZVAL_LONG(number, -1);
    }
}
