#include "listener.h"

#include <math.h>

static const double DEGREE = 3.14159265358979323846 / 180;

static struct quaternion times(struct quaternion a, struct quaternion b)
{
    return (struct quaternion){
        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}

/* The inverse of a rotation. */
static struct quaternion conjugate(struct quaternion q)
{
    return (struct quaternion){q.w, -q.x, -q.y, -q.z};
}

/* Rotations by degrees about the three axes. */
static struct quaternion about_x(double degrees)
{
    return (struct quaternion){.w = cos(degrees * DEGREE / 2), .x = sin(degrees * DEGREE / 2)};
}

static struct quaternion about_y(double degrees)
{
    return (struct quaternion){.w = cos(degrees * DEGREE / 2), .y = sin(degrees * DEGREE / 2)};
}

static struct quaternion about_z(double degrees)
{
    return (struct quaternion){.w = cos(degrees * DEGREE / 2), .z = sin(degrees * DEGREE / 2)};
}

void listener_open(struct listener *l)
{
    *l = (struct listener){.head = {.w = 1}, .front = {.w = 1}};
}

struct quaternion listener_head_of_angles(enum listener_dialect dialect, const double angles[3])
{
    double yaw = angles[0], pitch = angles[1], roll = angles[2];
    switch (dialect) {
    case LISTENER_SPARTA:
        return times(about_z(yaw), times(about_y(pitch), about_x(roll)));
    case LISTENER_IEM: /* the scene turns by z(yaw) y(pitch) x(roll) */
        return conjugate(times(about_z(yaw), times(about_y(pitch), about_x(roll))));
    case LISTENER_AMBIX: /* the scene turns by z(-yaw) y(-pitch) x(roll) */
        return conjugate(times(about_z(-yaw), times(about_y(-pitch), about_x(roll))));
    case LISTENER_OURS:
    case LISTENER_DIALECTS:
        break;
    }
    return times(about_z(yaw), times(about_y(-pitch), about_x(roll)));
}

bool listener_head_of_quaternion(enum listener_dialect dialect, const double wxyz[4], struct quaternion *head)
{
    double length = sqrt(wxyz[0] * wxyz[0] + wxyz[1] * wxyz[1] + wxyz[2] * wxyz[2] + wxyz[3] * wxyz[3]);
    if (!(length > 1e-3 && length < 1e6)) return false;
    struct quaternion q = {wxyz[0] / length, wxyz[1] / length, wxyz[2] / length, wxyz[3] / length};
    *head = dialect == LISTENER_IEM || dialect == LISTENER_AMBIX ? conjugate(q) : q;
    return true;
}

void listener_recentre(struct listener *l)
{
    l->front = l->head;
}

/* Returns the orientation since listener_recentre. The reference is on the left: pitch then turns about the head's
 * left-right axis for any north of the tracker. */
static struct quaternion listener_orientation(const struct listener *l)
{
    return times(conjugate(l->front), l->head);
}

static void listener_turn(struct quaternion q, const double in[3], double out[3])
{
    struct quaternion v = times(times(q, (struct quaternion){0, in[0], in[1], in[2]}), conjugate(q));
    out[0] = v.x;
    out[1] = v.y;
    out[2] = v.z;
}

void listener_angles(const struct listener *l, double angles[3])
{
    struct quaternion q = listener_orientation(l);
    double ahead[3], z_of_left = 2 * (q.w * q.x + q.y * q.z), z_of_up = 1 - 2 * (q.x * q.x + q.y * q.y);
    listener_turn(q, (const double[3]){1, 0, 0}, ahead);
    angles[0] = atan2(ahead[1], ahead[0]) / DEGREE;
    angles[1] = asin(fmax(-1, fmin(1, ahead[2]))) / DEGREE;
    angles[2] = atan2(z_of_left, z_of_up) / DEGREE;
}

void listener_see(const struct listener *l, const double world[3], double seen[3])
{
    const double from_here[3] = {world[0] - l->at[0], world[1] - l->at[1], world[2] - l->at[2]};
    listener_turn(conjugate(listener_orientation(l)), from_here, seen);
}

void listener_xyz_of_aed(const double aed[3], double xyz[3])
{
    double azimuth = aed[0] * DEGREE, elevation = aed[1] * DEGREE;
    xyz[0] = aed[2] * cos(elevation) * cos(azimuth);
    xyz[1] = aed[2] * cos(elevation) * sin(azimuth);
    xyz[2] = aed[2] * sin(elevation);
}

void listener_aed_of_xyz(const double xyz[3], double aed[3])
{
    double level = hypot(xyz[0], xyz[1]);
    aed[2] = hypot(level, xyz[2]);
    if (aed[2] == 0) return;
    aed[0] = atan2(xyz[1], xyz[0]) / DEGREE;
    aed[1] = atan2(xyz[2], level) / DEGREE;
}
