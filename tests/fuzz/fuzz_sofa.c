/* Any bytes as a SOFA file. A bank that is read has finite samples and positions; each of them is looked up. */
#include "bank_look.h"
#include "fuzz.h"

/* libmysofa leaks attributes of files that it refuses, HDF5 what it has decoded of a damaged header. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libmysofa\nleak:libhdf5";
}

/* HDF5 asks for memory as a header says, before it reads from the file: up to petabytes. It gets none then. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=2048";
}

const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    file_put("t.sofa", data, size);
    bank_look("t.sofa");
    return 0;
}
