/* commands - one function a command; argv[0] is the command's name. Returns the program's exit status. */
#ifndef COMMANDS_H
#define COMMANDS_H

int convolve_command(int argc, char **argv);
int check_command(int argc, char **argv);
int batch_command(int argc, char **argv);
int info_command(int argc, char **argv);
int devices_command(int argc, char **argv);
int live_command(int argc, char **argv);
int jack_command(int argc, char **argv);
int design_command(int argc, char **argv);
int bench_command(int argc, char **argv);

#endif
