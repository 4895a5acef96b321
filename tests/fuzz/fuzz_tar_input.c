/* Any bytes as a tar file. A file that is read becomes a tar file with the same members, whose sounds are finished in
 * any order. */
#include "fuzz.h"

#include "host/batch/tar_input.h"
#include "host/batch/tar_output.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void members_look(const struct tar_input *input, size_t size)
{
    for (size_t i = 0; i < input->n; i++) {
        const struct tar_member *member = &input->members[i];
        must(*member->name && member->bytes >= 0 && member->from >= 0);
        must(member->from + member->bytes <= (int64_t)size && !(member->is_folder && member->bytes > 0));
    }
}

/* Puts the sounds from the last to the first, each with its old content. */
static enum tar_progress sounds_put(struct tar_output *output, const struct tar_input *input, const uint8_t *data)
{
    enum tar_progress progress = TAR_GOES_ON;
    char why[1024] = "";
    for (size_t i = input->n; i-- > 0;) {
        const struct tar_member *member = &input->members[i];
        if (!member->is_convolved) continue;
        must(progress == TAR_GOES_ON);
        int fd = tar_sound_open(why, sizeof why);
        const uint8_t *content = member->bytes ? data + member->from : (const uint8_t *)"?";
        size_t bytes = member->bytes ? (size_t)member->bytes : 1;
        must(fd >= 0 && write(fd, content, bytes) == (ssize_t)bytes);
        progress = tar_output_put(output, i, member->name, fd, why, sizeof why);
        close(fd);
    }
    return progress;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tar_input input, again;
    char why[1024] = "";
    file_put("in.tar", data, size);
    if (!tar_input_read(&input, "in.tar", why, sizeof why)) {
        must(*why && input.n == 0);
        return 0;
    }
    members_look(&input, size);
    must(input.n_behind >= 0 && input.n_behind <= (int64_t)size);
    if (tar_input_choose(&input, NULL)) {
        int content = open("in.tar", O_RDONLY | O_CLOEXEC);
        struct tar_output *output = tar_output_open("out.tar", &input, "in.tar", content, why, sizeof why);
        close(content);
        must(output && sounds_put(output, &input, data) == TAR_COMPLETE);
        must(tar_output_commit(output, why, sizeof why) > 0);
        must(tar_input_read(&again, "out.tar", why, sizeof why) && again.n == input.n);
        for (size_t i = 0; i < input.n; i++) {
            const struct tar_member *a = &input.members[i], *b = &again.members[i];
            must(strcmp(a->name, b->name) == 0 && a->is_folder == b->is_folder);
            must(a->bytes == b->bytes || (a->bytes == 0 && a->is_convolved));
        }
        tar_input_free(&again);
    }
    tar_input_free(&input);
    return 0;
}
