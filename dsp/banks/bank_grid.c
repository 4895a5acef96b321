#include "bank.h"
#include "dsp/engine/backend.h"
int bank_grid(struct bank *bank, double degrees, const char *path, char *why, size_t cap)
{
    (void)bank, (void)degrees;
    return fail(HC_EUNSUPPORTED, why, cap, "%s: not yet", path);
}
