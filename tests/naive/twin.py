"""The naive twin of the tree algorithms: dense matrices and Taylor series in time, read off the declarative spec.

Every pose is a 4x4 matrix as a polynomial in time, X(t) = X0 + X1 t + X2 t^2, multiplied out factor by factor along
the path from the world. Poses, velocities and accelerations of the bodies are its coefficients; no motion subspace,
no recursion of forces, no formula of the package's kernels appears. Then

    M = sum J^T I J + armature          qdd = (M)^-1 (tau + passive forces + J^T (wrench + gravity - bias))

From the model only the order of joints, their places in q and each body's parent are taken.
"""

from __future__ import annotations

import numpy as np
from tests.naive import rotations as rot


class Series:
    """A matrix as a polynomial in time, cut after t^2."""

    def __init__(self, c0, c1=None, c2=None):
        zero = np.zeros_like(c0)
        self.c = (c0, zero if c1 is None else c1, zero if c2 is None else c2)

    def __matmul__(self, other):
        a, b = self.c, other.c
        return Series(a[0] @ b[0], a[0] @ b[1] + a[1] @ b[0], a[0] @ b[2] + a[1] @ b[1] + a[2] @ b[0])

    def inverse(self):
        """Return the series of the inverse: from X Y = 1, order by order."""
        y0 = np.linalg.inv(self.c[0])
        y1 = -y0 @ self.c[1] @ y0
        return Series(y0, y1, -y0 @ (self.c[1] @ y1 + self.c[2] @ y0))


def frame(r, p=(0.0, 0.0, 0.0)):
    """Return the constant 4x4 frame (R, p)."""
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = r, p
    return out


def turn(axis, at, x, xd, xdd, pitch=0.0):
    """Return the series of a turn by x(t) about the line along `axis` through `at`, moving `pitch` x along it."""
    generator = np.zeros((4, 4))
    generator[:3, :3] = rot.cross_matrix(axis)
    generator[:3, 3] = -generator[:3, :3] @ np.asarray(at) + pitch * np.asarray(axis)
    r = rot.about(axis, x)
    now = frame(r, np.asarray(at) - r @ np.asarray(at) + pitch * x * np.asarray(axis))
    return Series(now, now @ generator * xd, now @ (generator * xdd / 2 + generator @ generator * xd**2 / 2))


def push(axis, x, xd, xdd):
    """Return the series of a shift by x(t) along `axis`."""
    step = np.zeros((4, 4))
    step[:3, 3] = axis
    return Series(np.eye(4) + step * x, step * xd, step * xdd / 2)


def spin(q, w, wd):
    """Return the series of the rotation q with angular velocity w(t) in the turned axes: R' = R [w]."""
    zero, one, now = np.zeros((4, 4)), np.zeros((4, 4)), frame(rot.matrix(q))
    zero[:3, :3], one[:3, :3] = rot.cross_matrix(w), rot.cross_matrix(wd)
    return Series(now, now @ zero, now @ (zero @ zero + one) / 2)


def joint_motion(joint, q, v, a):
    """Return the series of the child's joint frame in the parent's, both as the user gave them."""
    kind, axis = joint.kind, np.array(joint.axis)
    # x and y of a joint, and the axes of its quaternion, are those of the frame turned until z is `axis`
    turned = rot.z_to(axis)
    x, y = turned[:, 0], turned[:, 1]
    into, back = Series(frame(turned)), Series(frame(turned.T))
    zero = np.zeros(3)
    if kind == "fixed":
        return Series(np.eye(4))
    if kind == "hinge":
        return turn(axis, zero, q[0], v[0], a[0])
    if kind == "slide":
        return push(axis, q[0], v[0], a[0])
    if kind == "screw":
        return turn(axis, zero, q[0], v[0], a[0], joint.pitch)
    if kind == "ball":
        return into @ spin(q, v, a) @ back
    if kind == "universal":
        return turn(axis, zero, q[0], v[0], a[0]) @ turn(np.array(joint.axis2), zero, q[1], v[1], a[1])
    if kind == "cylindrical":
        return push(axis, q[0], v[0], a[0]) @ turn(axis, zero, q[1], v[1], a[1])
    if kind == "planar":
        return push(x, q[0], v[0], a[0]) @ push(y, q[1], v[1], a[1]) @ turn(axis, zero, q[2], v[2], a[2])
    if kind == "point_on_line":
        return push(axis, q[0], v[0], a[0]) @ into @ spin(q[1:], v[1:], a[1:]) @ back
    if kind == "point_on_plane":
        return push(x, q[0], v[0], a[0]) @ push(y, q[1], v[1], a[1]) @ into @ spin(q[2:], v[2:], a[2:]) @ back
    if kind == "compound":
        out = Series(np.eye(4))
        for one, qi, vi, ai in zip(joint.axes, q, v, a, strict=True):
            way = np.array(one.axis)
            out = out @ (turn(way, one.position, qi, vi, ai) if one.kind == "hinge" else push(way, qi, vi, ai))
        return out
    raise AssertionError(f"the twin does not know {kind}")


class Twin:
    """Kinematics and dynamics of a model, from its spec."""

    def __init__(self, model):
        self.model, self.nv = model, model.nv
        self.bodies = {body.name: body for body in model.spec.bodies}
        self.joints = {joint.name: joint for joint in model.spec.joints}
        self.gravity = np.array(model.spec.gravity)
        self.order = [(name, model.body(name).parent, model.body(name).joint) for name in model.body_names]
        self.places = {name: model.joint(name) for name in model.joint_names}
        self.outer, self.inner = {}, {}
        for name, joint in self.joints.items():
            self.outer[name] = Series(frame(rot.matrix(joint.rotation), joint.position))
            self.inner[name] = Series(frame(rot.matrix(joint.rotation_in_child), joint.position_in_child)).inverse()

    def series(self, q, qd, qdd):
        """Return the series of every body frame along the motion with velocity qd and acceleration qdd."""
        poses = {"world": Series(np.eye(4))}
        for body, above, name in self.order:
            place = self.places[name]
            qj, vj, aj = q[place.q], qd[place.v], qdd[place.v]
            joint = self.joints.get(name)
            if place.kind == "free":
                now = Series(frame(np.eye(3), qj[:3]), _shift(vj[:3]), _shift(aj[:3]) / 2)
                poses[body] = now @ spin(qj[3:], vj[3:], aj[3:])
                continue
            link = self.outer[name] @ joint_motion(joint, qj, vj, aj) @ self.inner[name]
            poses[body] = poses[above] @ (link if joint.child == body else link.inverse())
        return [poses[name] for name in self.model.body_names]

    def poses(self, q):
        """Return (positions, rotation matrices) of all bodies."""
        out = [s.c[0] for s in self.series(q, np.zeros(self.nv), np.zeros(self.nv))]
        return np.array([m[:3, 3] for m in out]).reshape(-1, 3), np.array([m[:3, :3] for m in out]).reshape(-1, 3, 3)

    def motions(self, q, qd, qdd):
        """Return per body (R, com, w, v of the com, alpha, a of the com), world axes."""
        out = []
        for name, s in zip(self.model.body_names, self.series(q, qd, qdd), strict=True):
            com = np.array([*self.bodies[name].com, 1.0])
            r0, r1, r2 = (c[:3, :3] for c in s.c)
            w = rot.from_cross_matrix(r1 @ r0.T)
            alpha = rot.from_cross_matrix(2 * r2 @ r0.T + r1 @ r1.T)
            c0, c1, c2 = ((c @ com)[:3] for c in s.c)
            out.append((r0, c0, w, c1, alpha, 2 * c2))
        return out

    def _inertia(self, name):
        xx, yy, zz, xy, xz, yz = self.bodies[name].inertia or (0.0,) * 6
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    def jacobians(self, q):
        """Return the (6, nv) Jacobians (angular; linear of the com) of all bodies: the motions of unit velocities."""
        zero = np.zeros(self.nv)
        out = np.zeros((len(self.order), 6, self.nv))
        for k, unit in enumerate(np.eye(self.nv)):
            for i, (_, _, w, v, _, _) in enumerate(self.motions(q, unit, zero)):
                out[i, :3, k], out[i, 3:, k] = w, v
        return out

    def armature(self):
        """Return the rotor inertia of every freedom."""
        return self._per_freedom("armature")

    def _per_freedom(self, word):
        out = np.zeros(self.nv)
        for name, joint in self.joints.items():
            place = self.places[name]
            if place.is_loop:
                continue
            given = [getattr(axis, word) for axis in joint.axes] if joint.axes else getattr(joint, word)
            if given is not None:
                out[place.v] = given
        return out

    def passive(self, q, qd):
        """Return the forces of joint dampers and springs; a quaternion is pulled along its shortest turn to rest."""
        stiffness, out = self._per_freedom("stiffness"), -self._per_freedom("damping") * qd
        for name, joint in self.joints.items():
            place = self.places[name]
            k = stiffness[place.v]
            if not k.any():
                continue
            if joint.axes:
                out[place.v] -= k * (q[place.q] - np.array([axis.rest for axis in joint.axes]))
                continue
            spins = place.nq - place.nv
            plain = place.nq - 4 * spins
            rest = joint.rest or (0.0,) * plain + (1.0, 0.0, 0.0, 0.0) * spins
            out[place.v][:plain] -= k[:plain] * (q[place.q][:plain] - np.array(rest[:plain]))
            if spins:
                turned = rot.multiply(rot.conjugate(rest[plain:]), q[place.q][plain:])
                out[place.v][plain:] -= k[plain:] * rot.logarithm(turned)
        return out

    def mass_matrix(self, q, jacobians=None):
        """Return M = sum J^T I J + armature."""
        out = np.diag(self.armature())
        jacobians = self.jacobians(q) if jacobians is None else jacobians
        _, r = self.poses(q)
        for i, (jacobian, name) in enumerate(zip(jacobians, self.model.body_names, strict=True)):
            w, v = jacobian[:3], jacobian[3:]
            out = out + w.T @ (r[i] @ self._inertia(name) @ r[i].T) @ w + (self.bodies[name].mass or 0.0) * v.T @ v
        return out

    def bias(self, q, qd, wrenches=None, jacobians=None):
        """Return the joint forces that hold qdd = 0 against gravity, velocity products and wrenches."""
        out = np.zeros(self.nv)
        jacobians = self.jacobians(q) if jacobians is None else jacobians
        motions = self.motions(q, qd, np.zeros(self.nv))
        for i, (jacobian, name) in enumerate(zip(jacobians, self.model.body_names, strict=True)):
            r, _, w, _, alpha, a = motions[i]
            inertia = r @ self._inertia(name) @ r.T
            force = (self.bodies[name].mass or 0.0) * (a - self.gravity)
            torque = inertia @ alpha + np.cross(w, inertia @ w)
            if wrenches is not None:
                torque, force = torque - wrenches[i, :3], force - wrenches[i, 3:]
            out += jacobian[:3].T @ torque + jacobian[3:].T @ force
        return out

    def forward(self, q, qd, tau=None, wrenches=None):
        """Return qdd by a dense solve."""
        tau = np.zeros(self.nv) if tau is None else tau
        jacobians = self.jacobians(q)
        force = tau + self.passive(q, qd) - self.bias(q, qd, wrenches, jacobians)
        return np.linalg.solve(self.mass_matrix(q, jacobians), force)

    def energy(self, q, qd):
        """Return (kinetic, potential): armature is kinetic, joint springs and springs between bodies are potential."""
        kinetic = 0.5 * self.armature() @ qd**2
        potential = self._spring_potential(q)
        for name, (r, c, w, v, _, _) in zip(self.model.body_names, self.motions(q, qd, 0 * qd), strict=True):
            mass = self.bodies[name].mass or 0.0
            kinetic += 0.5 * mass * v @ v + 0.5 * w @ (r @ self._inertia(name) @ r.T) @ w
            potential -= mass * self.gravity @ c
        return kinetic, potential

    def _spring_potential(self, q):
        total = 0.0
        stiffness = self._per_freedom("stiffness")
        for name in self.joints:
            place = self.places[name]
            k = stiffness[place.v]
            if k.any():
                # the spring's force is -k times the displacement, so the displacement can be read off the force
                displacement = -self.passive(q, np.zeros(self.nv))[place.v][k > 0] / k[k > 0]
                total += 0.5 * k[k > 0] @ displacement**2
        for spring, (_, length) in zip(self.model.spec.springs, self.spring_lines(q), strict=True):
            total += 0.5 * spring.stiffness * (length - spring.rest) ** 2
        return total

    def spring_lines(self, q):
        """Return (unit direction from a to b, length) of every spring between bodies."""
        out = []
        for spring in self.model.spec.springs:
            way = self.place(q, spring.b, spring.at_b) - self.place(q, spring.a, spring.at_a)
            out.append((way / np.linalg.norm(way), np.linalg.norm(way)))
        return out

    def place(self, q, body, point):
        """Return the world position of a point of `body`."""
        if body == "world":
            return np.array(point, float)
        p, r = self.poses(q)
        i = self.model.body_index(body)
        return p[i] + r[i] @ np.asarray(point, float)

    def spring_wrenches(self, q, qd):
        """Return the wrenches (body_count, 6) that the springs between bodies exert, at the coms."""
        out = np.zeros((len(self.order), 6))
        motions = self.motions(q, qd, 0 * qd)
        for spring, (way, length) in zip(self.model.spec.springs, self.spring_lines(q), strict=True):
            rate, ends = 0.0, []
            for sign, body, at in ((-1.0, spring.a, spring.at_a), (1.0, spring.b, spring.at_b)):
                if body != "world":
                    i = self.model.body_index(body)
                    lever = self.place(q, body, at) - motions[i][1]
                    rate += sign * way @ (motions[i][3] + np.cross(motions[i][2], lever))
                    ends.append((i, -sign, lever))
            pull = spring.stiffness * (length - spring.rest) + spring.damping * rate
            for i, sign, lever in ends:
                out[i, :3] += np.cross(lever, sign * pull * way)
                out[i, 3:] += sign * pull * way
        return out

    def momentum(self, q, qd):
        """Return linear momentum and angular momentum about the world origin."""
        linear, angular = np.zeros(3), np.zeros(3)
        for name, (r, c, w, v, _, _) in zip(self.model.body_names, self.motions(q, qd, 0 * qd), strict=True):
            mass = self.bodies[name].mass or 0.0
            linear += mass * v
            angular += np.cross(c, mass * v) + r @ self._inertia(name) @ r.T @ w
        return linear, angular

    def moved(self, q, qd, h):
        """Return q moved by qd for a time h: sums, and quaternions turned by the exponential of their velocity."""
        out = q.copy()
        for name in self.model.joint_names:
            place = self.places[name]
            if place.is_loop or place.nq == 0:
                continue
            spins = place.nq - place.nv
            plain = place.nq - 4 * spins
            out[place.q][:plain] += h * qd[place.v][:plain]
            if spins:
                out[place.q][plain:] = rot.multiply(q[place.q][plain:], rot.exponential(h * qd[place.v][plain:]))
        return out


def _shift(v):
    out = np.zeros((4, 4))
    out[:3, 3] = v
    return out
