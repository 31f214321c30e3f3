/* Marks that the engine leaves on values while it walks them. */
#ifndef SVC_SHIM_MARKING_H
#define SVC_SHIM_MARKING_H

#include "compat.h"

#include <stdbool.h>

/* Whether the code that this frame executes leaves marks on values until it returns. */
bool shim_frame_marks(const zend_execute_data *frame);
/* Whether it is the frame of json_encode(). */
bool shim_frame_encodes(const zend_execute_data *frame);
/* Call after PHP has started. */
void shim_marking_install(void);

#endif
