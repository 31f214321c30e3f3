/* Attributes of the process and its threads. */
#ifndef SVC_SHIM_ATTRIBUTES_H
#define SVC_SHIM_ATTRIBUTES_H

#include <stdbool.h>

/* The request's changes of its thread, while another request runs on it. */
typedef struct shim_attributes_state {
    bool has_priority;
    int priority;
} shim_attributes_state;

void shim_attributes_suspend(shim_attributes_state *state);
void shim_attributes_resume(const shim_attributes_state *state);
void shim_attributes_end(void);

#endif
