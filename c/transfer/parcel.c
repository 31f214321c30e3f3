/* The release of parcels, for their other owners. */
#include "compat.h"
#include "shim.h"
#include "transfer/parcel.h"

#include <stdlib.h>

void shim_parcel_free(shim_parcel *parcel)
{
    free(parcel);
}
