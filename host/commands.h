/* commands - one function a command; argv[0] is its name, or the second word of "bench engine". Each returns the exit
 * status of the program. */
#ifndef COMMANDS_H
#define COMMANDS_H

int convolve_command(int argc, char **argv);
int live_command(int argc, char **argv);
int jack_command(int argc, char **argv);
int pipewire_command(int argc, char **argv);
int run_command(int argc, char **argv);
int presets_command(int argc, char **argv);
int batch_command(int argc, char **argv);
int design_command(int argc, char **argv);
int room_command(int argc, char **argv);
int design_correct_command(int argc, char **argv);
int design_target_command(int argc, char **argv);
int design_invert_command(int argc, char **argv);
int design_minphase_command(int argc, char **argv);
int design_crossover_command(int argc, char **argv);
int mask_command(int argc, char **argv);
int measure_command(int argc, char **argv);
int info_command(int argc, char **argv);
int check_command(int argc, char **argv);
int masks_command(int argc, char **argv);
int import_command(int argc, char **argv);
int devices_command(int argc, char **argv);
int bench_engine_command(int argc, char **argv);
int bench_capacity_command(int argc, char **argv);
int bench_costs_command(int argc, char **argv);
int bench_scene_command(int argc, char **argv);

#endif
