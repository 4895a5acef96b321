/* tar_output - a tar file made from another tar file: its sounds are finished in any order, and written in the order
 * of the input, between the members that are copied.
 *
 *   workers --> sounds that wait for earlier ones, in memory --> members in order --> the tar file, complete at the end
 *
 * If a sound fails, its whole sample is left out. Any thread may call any function.
 */
#ifndef TAR_OUTPUT_H
#define TAR_OUTPUT_H

#include "tar_input.h"

struct tar_output;

enum tar_progress {
    TAR_GOES_ON,  /* sounds are missing, or another thread writes           */
    TAR_COMPLETE, /* this call wrote the last member: commit the file       */
    TAR_BROKEN,   /* a write failed: why has the reason; abandon the file   */
};

/* Opens the output. content: the unpacked input, which stays the caller's. input, path and input_path must outlive it.
 * NULL: why has the reason. */
struct tar_output *tar_output_open(const char *path, const struct tar_input *input, const char *input_path,
                                   int content, char *why, size_t cap);

/* Opens the content of a sound: in memory, or a temporary file if many sounds wait. The caller closes the descriptor.
 * -1: why has the reason. */
int tar_sound_open(char *why, size_t cap);

/* Adds the sound of a member under its new name, which must outlive the output: the content of fd. */
enum tar_progress tar_output_put(struct tar_output *output, size_t member, const char *name, int fd, char *why,
                                 size_t cap);

/* Leaves out the sample of a member. */
enum tar_progress tar_output_leave_out(struct tar_output *output, size_t member, char *why, size_t cap);

/* Gives the file its name, and frees the output. Returns the bytes of the file; -1: why has the reason. */
int64_t tar_output_commit(struct tar_output *output, char *why, size_t cap);

/* Removes the file, and frees the output. NULL is allowed. */
void tar_output_abandon(struct tar_output *output);

#endif
