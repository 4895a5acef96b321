#include "bank.h"
#include "dsp/engine/backend.h"
bool csv_is_bank(const char *path)
{
    (void)path;
    return false;
}
int csv_bank_read(struct bank *bank, const char *path, int rate, char *why, size_t cap)
{
    (void)bank, (void)rate;
    return fail(HC_EUNSUPPORTED, why, cap, "%s: not yet", path);
}
int folder_bank_read(struct bank *bank, const char *path, int rate, char *why, size_t cap)
{
    (void)bank, (void)rate;
    return fail(HC_EUNSUPPORTED, why, cap, "%s: not yet", path);
}
int sound_bank_read(struct bank *bank, const char *path, int rate, char *why, size_t cap)
{
    (void)bank, (void)rate;
    return fail(HC_EUNSUPPORTED, why, cap, "%s: not yet", path);
}
int bank_grid(struct bank *bank, double degrees, const char *path, char *why, size_t cap)
{
    (void)bank, (void)degrees;
    return fail(HC_EUNSUPPORTED, why, cap, "%s: not yet", path);
}
