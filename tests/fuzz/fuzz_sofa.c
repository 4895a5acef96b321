/* Any bytes as a SOFA file. A bank that is read has finite samples and positions; each of them is looked up. */
#include "bank_look.h"
#include "fuzz.h"

/* libmysofa leaks attributes of files that it refuses. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libmysofa";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    file_put("t.sofa", data, size);
    bank_look("t.sofa");
    return 0;
}
