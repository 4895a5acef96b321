/* Heads, their dialects and what they see, against rotation matrices written down from the programs that send them. */
#include "check.h"
#include "host/live/session/listener.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 2000 };
static const double PI = 3.14159265358979323846, NEAR = 1e-9;

struct matrix {
    double at[3][3];
};

static struct matrix product(struct matrix a, struct matrix b)
{
    struct matrix c = {0};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) c.at[i][j] += a.at[i][k] * b.at[k][j];
    return c;
}

static struct matrix transposed(struct matrix a)
{
    struct matrix t;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) t.at[i][j] = a.at[j][i];
    return t;
}

/* The matrices of IEM's SceneRotator and ambix_rotator: they turn the scene. Those of SPARTA's AmbiBIN are the passive
 * ones, in the other order. */
static struct matrix scene_matrix(enum listener_dialect dialect, const double angles[3])
{
    double cy = cos(angles[0] * PI / 180), sy = sin(angles[0] * PI / 180), cp = cos(angles[1] * PI / 180),
           sp = sin(angles[1] * PI / 180), cr = cos(angles[2] * PI / 180), sr = sin(angles[2] * PI / 180);
    if (dialect == LISTENER_IEM)
        return (struct matrix){{{cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr},
                                {sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr},
                                {-sp, cp * sr, cp * cr}}};
    if (dialect == LISTENER_AMBIX) { /* signals are multiplied by the transposed product; its yaw is -yaw */
        struct matrix x = {{{1, 0, 0}, {0, cr, sr}, {0, -sr, cr}}}, y = {{{cp, 0, sp}, {0, 1, 0}, {-sp, 0, cp}}},
                      z = {{{cy, -sy, 0}, {sy, cy, 0}, {0, 0, 1}}};
        return transposed(product(x, product(y, z)));
    }
    if (dialect == LISTENER_OURS) sp = -sp;
    struct matrix x = {{{1, 0, 0}, {0, cr, sr}, {0, -sr, cr}}}, y = {{{cp, 0, -sp}, {0, 1, 0}, {sp, 0, cp}}},
                  z = {{{cy, sy, 0}, {-sy, cy, 0}, {0, 0, 1}}};
    return product(x, product(y, z));
}

static double uniform(struct random *r, double most)
{
    return most * (double)random_sample(r);
}

static void check_near(const double got[3], const double want[3], const char *what, int dialect)
{
    for (int i = 0; i < 3; i++)
        check(fabs(got[i] - want[i]) < NEAR, "%s, dialect %d, axis %d: got %g, want %g", what, dialect, i, got[i],
              want[i]);
}

static void a_head_sees_what_the_programs_turn(const char *backend)
{
    struct random r = random_seeded(7);
    for (int round = 0; round < ROUNDS; round++) {
        enum listener_dialect dialect = (enum listener_dialect)(round % LISTENER_DIALECTS);
        double angles[3] = {uniform(&r, 360), uniform(&r, 180), uniform(&r, 180)}, seen[3], want[3] = {0};
        double world[3] = {uniform(&r, 5), uniform(&r, 5), uniform(&r, 5)};
        struct listener listener;
        listener_open(&listener);
        for (int i = 0; i < 3; i++) listener.at[i] = uniform(&r, 5);
        listener.head = listener_head_of_angles(dialect, angles);
        struct matrix m = scene_matrix(dialect, angles);
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++) want[i] += m.at[i][k] * (world[k] - listener.at[k]);
        listener_see(&listener, world, seen);
        check_near(seen, want, "seen", dialect);
    }
}

static void angles_and_quaternions_are_the_same_head(const char *backend)
{
    static const double ahead[3] = {1, 2, 3};
    struct random r = random_seeded(8);
    for (int round = 0; round < ROUNDS; round++) {
        double angles[3], seen[3], again[3];
        double wxyz[4] = {uniform(&r, 1), uniform(&r, 1), uniform(&r, 1), uniform(&r, 1)};
        struct listener one, other;
        listener_open(&one);
        listener_open(&other);
        check(listener_head_of_quaternion(LISTENER_OURS, wxyz, &one.head), "refused");
        listener_angles(&one, angles);
        other.head = listener_head_of_angles(LISTENER_OURS, angles);
        listener_see(&one, ahead, seen);
        listener_see(&other, ahead, again);
        check_near(again, seen, "by angles", 0);
        double scene[4] = {wxyz[0], -wxyz[1], -wxyz[2], -wxyz[3]}; /* IEM and ambix turn the scene */
        check(listener_head_of_quaternion(round % 2 ? LISTENER_IEM : LISTENER_AMBIX, scene, &other.head), "refused");
        listener_see(&other, ahead, again);
        check_near(again, seen, "by the scene's quaternion", 0);
    }
}

static void a_quaternion_without_a_direction_is_refused(const char *backend)
{
    static const double wrong[][4] = {
        {0, 0, 0, 0}, {1e-9, 0, 0, 0}, {NAN, 0, 0, 1}, {INFINITY, 0, 0, 0}, {1e200, 0, 0, 0}};
    struct quaternion head = {.w = 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check(!listener_head_of_quaternion(LISTENER_OURS, wrong[i], &head) && head.w == 1, "quaternion %zu", i);
}

static void the_front_is_where_the_head_was(const char *backend)
{
    struct random r = random_seeded(9);
    for (int round = 0; round < ROUNDS; round++) {
        double first[3] = {uniform(&r, 180), uniform(&r, 80), uniform(&r, 80)}, angles[3];
        struct listener listener;
        listener_open(&listener);
        listener.head = listener_head_of_angles(LISTENER_OURS, first);
        listener_recentre(&listener);
        listener_angles(&listener, angles);
        for (int i = 0; i < 3; i++) check(fabs(angles[i]) < 1e-6, "angle %d is %g", i, angles[i]);
    }
    /* The tracker's north is at 90 degrees: a nod from there is still a nod. */
    struct listener listener;
    double angles[3];
    listener_open(&listener);
    listener.head = listener_head_of_angles(LISTENER_OURS, (const double[3]){90, 0, 0});
    listener_recentre(&listener);
    listener.head = listener_head_of_angles(LISTENER_OURS, (const double[3]){90, 20, 0});
    listener_angles(&listener, angles);
    check_near(angles, (const double[3]){0, 20, 0}, "nod", 0);
}

static void places_are_the_same_in_both_ways(const char *backend)
{
    static const struct {
        double aed[3], xyz[3];
    } known[] = {{{0, 0, 2}, {2, 0, 0}},    {{90, 0, 1}, {0, 1, 0}},
                 {{-90, 0, 1}, {0, -1, 0}}, {{0, 90, 3}, {0, 0, 3}},
                 {{180, 0, 1}, {-1, 0, 0}}, {{45, 0, 1}, {0.70710678118654757, 0.70710678118654757, 0}}};
    double xyz[3], aed[3];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        listener_xyz_of_aed(known[i].aed, xyz);
        check_near(xyz, known[i].xyz, "xyz", 0);
        listener_aed_of_xyz(xyz, aed);
        check_near(aed, known[i].aed, "aed", 0);
    }
    memcpy(aed, (const double[3]){30, 40, 5}, sizeof aed);
    listener_aed_of_xyz((const double[3]){0, 0, 0}, aed);
    check_near(aed, (const double[3]){30, 40, 0}, "a source at the listener", 0);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_head_sees_what_the_programs_turn, false),
        TEST(angles_and_quaternions_are_the_same_head, false),
        TEST(a_quaternion_without_a_direction_is_refused, false),
        TEST(the_front_is_where_the_head_was, false),
        TEST(places_are_the_same_in_both_ways, false),
    };
    return check_main("listener", tests, sizeof tests / sizeof *tests);
}
