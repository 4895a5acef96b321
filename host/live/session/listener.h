/* listener - the position and the orientation of a listener's head, and positions relative to the head.
 *
 * Axes: x ahead, y to the left, z up; metres. Angles are in degrees. The world's axes are those of a head that has
 * never moved. A head's orientation is the rotation that turns the world's axes into those of the head, by the
 * right-hand rule.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include <stdbool.h>

struct quaternion { double w, x, y, z; };

struct listener {
    double at[3];               /* position in the world, metres                        */
    struct quaternion head;     /* orientation by the head tracker                      */
    struct quaternion front;    /* the head's orientation at the last listener_recentre */
};

/* The meanings of yaw, pitch and roll. The first two dialects describe the head: yaw first, then pitch about the turned
 * head's own axis, then roll. The other two describe how the scene turns around a head that does not move: the inverse
 * rotation, in the order roll, pitch, yaw about the world's axes, the default order of both plug-ins.
 *
 *                      yaw > 0              pitch > 0            roll > 0
 *   LISTENER_OURS      head to the left     head up              head to the right shoulder    as ADM-OSC
 *   LISTENER_SPARTA    head to the left     head down            head to the right shoulder    SPARTA
 *   LISTENER_IEM       scene to the left    front of it down     left of it up                 IEM's SceneRotator
 *   LISTENER_AMBIX     scene to the right   front of it up       left of it up                 ambix_rotator
 *
 * The signs and orders are those of the programs' sources: yawPitchRoll2Rzyx in SPARTA's Spatial_Audio_Framework, as
 * AmbiBIN uses it; calcRotationMatrix in IEM's SceneRotator; calcParams in Kronlachner's ambix_rotator.
 */
enum listener_dialect { LISTENER_OURS, LISTENER_SPARTA, LISTENER_IEM, LISTENER_AMBIX, LISTENER_DIALECTS };

void listener_open(struct listener *listener);

/* Returns the head's orientation for angles [yaw, pitch, roll] in a dialect. */
struct quaternion listener_head_of_angles(enum listener_dialect dialect, const double angles[3]);

/* Reads the head's orientation from [w, x, y, z] of any length. The quaternions of IEM and of ambix turn the scene, the
 * others turn the head. false: the quaternion is too short to have a direction, or not finite. */
bool listener_head_of_quaternion(enum listener_dialect dialect, const double wxyz[4], struct quaternion *head);

/* Makes the present orientation of the head the front. */
void listener_recentre(struct listener *listener);

/* Stores the orientation since listener_recentre as [yaw, pitch, roll] of LISTENER_OURS. */
void listener_angles(const struct listener *listener, double angles[3]);

/* Stores the position of a point of the world, relative to the position and the axes of the head. */
void listener_see(const struct listener *listener, const double world[3], double seen[3]);

/* Converts between [x, y, z] and [azimuth, elevation, distance]: degrees counter-clockwise and up, metres. A point at
 * the origin keeps the azimuth and elevation that are in aed. */
void listener_xyz_of_aed(const double aed[3], double xyz[3]);
void listener_aed_of_xyz(const double xyz[3], double aed[3]);

#endif
