/* The release of parcels, for their other owners. */
#include "async/transfer/parcel.h"
#include "compat.h"
#include "shim.h"

#include <stdlib.h>

void shim_parcel_free(shim_parcel *parcel)
{
    free(parcel);
}
