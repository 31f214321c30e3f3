/* The operator @. */
#ifndef SVC_SHIM_SILENCE_H
#define SVC_SHIM_SILENCE_H

#include "compat.h"

/* Whether an error of this type, raised now, is silenced by @ in one of the active functions. An error_reporting that a
 * script or php.ini sets silences nothing in this sense. */
bool shim_is_silenced(int type);

#endif
