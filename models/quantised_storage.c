#include "models/quantised_storage.h"

#include <stddef.h>

const char *const input_store_names[NUM_INPUT_STORES + 1] = { "quantized", "shared", "original",
                                                              NULL };
const char *const storage_names[NUM_STORAGES + 1] = { "own", "quantized", "e5m6", NULL };

double stored_bytes(enum storage storage, const struct recipe *recipe, double own_bytes)
{
    enum { E5M6_BITS = 12, BITS_PER_BYTE = 8 };
    switch (storage) {
    case STORAGE_QUANTIZED:
        return quantized_bytes(recipe);
    case STORAGE_E5M6:
        return (double)E5M6_BITS / BITS_PER_BYTE + recipe->scale_bytes;
    case STORAGE_OWN:
    case NUM_STORAGES:
        break;
    }
    return own_bytes;
}
