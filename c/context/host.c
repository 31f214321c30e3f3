/* Whoever embeds PHP: takes output, gives the request, writes the log. */
#include "internal.h"

shim_callbacks shim_host;
