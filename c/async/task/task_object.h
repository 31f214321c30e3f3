/* Svc\Task: the requester's handle of a task, as scripts see it. */
#ifndef SVC_SHIM_TASK_OBJECT_H
#define SVC_SHIM_TASK_OBJECT_H

#include "compat.h"
#include "shim.h"

#include <stdbool.h>

typedef struct task_object {
    /* NULL in an object that was created without a task. */
    shim_task *task;
    bool is_detached;
    /* The answer: the result, or the exception. Undefined before it is first requested. */
    zval result;
    zend_object *failure;
    zend_object std;
} task_object;

extern zend_class_entry *shim_class_task;

/* Gives a new object its task, and takes over the handle. */
void shim_task_object_init(zend_object *object, shim_task *task, uint64_t id);
task_object *shim_task_object_of(zend_object *object);
void shim_task_class_register(const zend_function_entry *methods);

#endif
