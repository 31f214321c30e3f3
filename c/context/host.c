/* Whoever embeds PHP: takes output, gives the request, writes the log. */
#include "compat.h"
#include "context/host.h"
#include "shim.h"

shim_callbacks shim_host;
