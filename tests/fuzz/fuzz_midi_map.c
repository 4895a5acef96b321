/* Any bytes as a map of MIDI messages. Every message gives a command within its limits, and a map that is read, printed
 * and read again stays the same. */
#include "fuzz.h"

#include "host/live/remotes/midi.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int n_refused;

static void count_refusal(const char *why)
{
    must(*why);
    n_refused++;
}

static bool read_map(struct midi_map *map, const char *name)
{
    char why[MESSAGE_CAP] = "";
    n_refused = 0;
    bool good = midi_map_read(map, name, count_refusal, why, sizeof why);
    must(good ? n_refused == 0 : n_refused < MIDI_MAP_REFUSALS && *why);
    return good;
}

static void print_one(FILE *file, const char *message, int number, const struct midi_assignment *one)
{
    const struct command *command = &one->command;
    if (command->act == COMMAND_NONE) return;
    fprintf(file, "%s ", message);
    if (number >= 0) fprintf(file, "%d ", number);
    if (command->act == COMMAND_GAIN)
        fprintf(file, "%s %.17g %.17g\n", command->gain->name, one->low_db, one->high_db);
    else if (command->act == COMMAND_BYPASS || command->act == COMMAND_BYPASS_TOGGLE)
        fputs("bypass\n", file);
    else if (command->act == COMMAND_MASK_NUMBER && number < 0)
        fputs("mask\n", file);
    else if (command->act == COMMAND_MASK_NUMBER)
        fprintf(file, "mask %d\n", command->number);
    else if (command->act == COMMAND_MASK_STEP)
        fputs(command->number > 0 ? "next\n" : "previous\n", file);
    else
        fputs(command->act == COMMAND_RELOAD ? "reload\n" : "ab\n", file);
}

static void print_map(const struct midi_map *map, const char *name)
{
    FILE *file = fopen(name, "we");
    must(file);
    print_one(file, "program", -1, &map->program);
    for (int i = 0; i < 128; i++) {
        print_one(file, "cc", i, &map->cc[i]);
        print_one(file, "note", i, &map->note[i]);
    }
    must(fclose(file) == 0);
}

static void look(const struct command *command)
{
    must(command->act != COMMAND_NONE && command->act != COMMAND_QUIT && !command->path);
    if (command->act == COMMAND_GAIN)
        must(command->gain && command->db <= 60 && (command->db >= -120 || command->db == -INFINITY));
    if (command->act == COMMAND_MASK_NUMBER) must(command->number >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct midi_map map, again;
    file_put("map", data, size);
    if (!read_map(&map, "map")) return 0;
    print_map(&map, "again");
    must(read_map(&again, "again"));
    for (int status = 0; status < 256; status += 8)
        for (int number = 0; number < 256; number++)
            for (int value = 0; value < 256; value += 63) { /* 0, 63, 126, 189, 252 */
                struct midi_message message = {{(uint8_t)status, (uint8_t)number, (uint8_t)value}};
                struct command a = {0}, b = {0};
                bool gives = midi_map_find(&map, &message, &a);
                must(gives == midi_map_find(&again, &message, &b));
                if (!gives) continue;
                look(&a);
                must(a.act == b.act && a.number == b.number && a.gain == b.gain && a.on == b.on && a.db == b.db);
            }
    return 0;
}
