#include "text_out.h"

#include "host/message.h"
#include "part_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool text_out(const char *path, void (*print)(FILE *file, const void *data), const void *data, char *why, size_t cap)
{
    struct part_file part;
    if (!part_file_open(&part, path, why, cap)) return false;
    int kept = dup(part.fd);
    FILE *file = kept >= 0 ? fdopen(kept, "w") : NULL;
    if (file) print(file, data);
    bool good = file && !ferror(file);
    int error = errno;
    if (!file && kept >= 0) close(kept);
    if (file && fclose(file) != 0 && good) {
        error = errno;
        good = false;
    }
    if (good) return part_file_commit(&part, path, why, cap);
    part_file_abandon(&part);
    return message_write(why, cap, "%s: cannot be written: %s; free some space or choose another output", path,
                         strerror(error));
}
