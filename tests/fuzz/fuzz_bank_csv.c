/* Any bytes as a list of sound files with positions. One that is no bank is a text of coefficients. */
#include "bank_look.h"
#include "fuzz.h"

void target_begin(void)
{
    sound_put();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    file_put("t.csv", data, size);
    if (hc_bank_is_file("t.csv")) bank_look("t.csv");
    return 0;
}
