/* bench - what `haloconv bench` measures, one function a subject; argv[0] is the program's name, options follow. */
#ifndef BENCH_H
#define BENCH_H

#include <jansson.h>

extern const char bench_kernels_help[], bench_engine_help[], bench_capacity_help[], bench_costs_help[];
int bench_kernels_command(int argc, char **argv);
int bench_engine(int argc, char **argv);
int bench_capacity(int argc, char **argv);
int bench_costs(int argc, char **argv);
int bench_offline(int argc, char **argv);

struct bench_shape;
struct bench_result;
json_t *bench_result_json(const struct bench_shape *shape, const struct bench_result *result);

#endif
