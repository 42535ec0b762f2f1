"""Divide and conquer as printed by Redon, Galoppo and Lin (2005), slips corrected: dense, one part after the other.

Joint i joins part A, which holds its parent body p, with part B, whose body nearest the world it carries. A handle is
a body of a part that can be pushed: the body nearest the world, always first, and those with a child outside. All that
belongs to a body is in the frame of its link; 6-vectors are (angular; linear). Relative to the handles of a part,

    accelerations = Phi f + b          sum of qdd^T A qdd over the joints inside = f^T Psi f + f^T p + eta

The printed slips: the forces of a leaf are v x* I v, gravity enters the root as b + a_g, the velocity slots of the
tensors B, P, E of two parts must refer to one twist before they are added (that of the body nearest the world), and
L = U (B_1 of B - B_2 of A). Rotors: D = (S^T V S + armature)^-1, the rest stands as it is.

| symbol | meaning |
|---|---|
| X, S, c, Q | transform of twists to the child's frame, free directions, velocity product, force of the joint |
| M, V, D, U, W | sum of the two inverse inertias at the joint, its inverse, and what follows from S |
| G, T | columns of Phi, Psi by which the joint's force reaches the handles kept |
| beta, gamma, R, pi, Z | right-hand sides of the joint's force, acceleration and metric |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.naive.rotations import cross_matrix, from_cross_matrix
from tests.naive.twin import Series, Twin, frame


def motion_transform(pose):
    """Return X of twists from a frame whose pose in another is given to that other."""
    r, p = pose[:3, :3], pose[:3, 3]
    return np.block([[r, np.zeros((3, 3))], [cross_matrix(p) @ r, r]])


def vee(m):
    """Return the 6-vector of a 4x4 velocity matrix."""
    return np.r_[from_cross_matrix(m[:3, :3]), m[:3, 3]]


def twist(s):
    """Return the velocity, in the moving frame, of a pose as a series."""
    return vee(np.linalg.inv(s.c[0]) @ s.c[1])


def acceleration(s):
    """Return the derivative of `twist`, component by component."""
    back = np.linalg.inv(s.c[0])
    return vee(2 * back @ s.c[2] - (back @ s.c[1]) @ (back @ s.c[1]))


def force_cross(v):
    """Return v x*, which takes a force to what its change by the motion v of the frame is."""
    w, u = cross_matrix(v[:3]), cross_matrix(v[3:])
    return np.block([[w, u], [np.zeros((3, 3)), w]])


@dataclass
class Joint:
    """The joint above a body; a joint that is locked is one without columns in S."""

    x: np.ndarray
    s: np.ndarray
    c: np.ndarray
    force: np.ndarray
    armature: np.ndarray
    weight: np.ndarray
    dofs: np.ndarray


class Terms:
    """Poses, inertias and biases of the links of a model at one state, taken from the twin's series."""

    def __init__(self, model, q, qd, force, wrenches):
        self.model, self.twin, self.qd, self.force = model, Twin(model), qd, force
        self.links, zero = model.arrays.links, np.zeros(model.nv)
        n = len(self.links.parent)
        self.first_body = [int(np.flatnonzero(model.arrays.body_link == i)[0]) for i in range(n)]
        moved = self._series(q, qd, zero)
        self.pose = [s.c[0] for s in moved]
        self.velocity, self.acceleration = [twist(s) for s in moved], [acceleration(s) for s in moved]
        self.subspace = [np.zeros((6, int(d))) for d in self.links.dof]
        for i in range(n):
            for k in range(self.links.dof[i]):
                unit = np.eye(model.nv)[self.links.v_start[i] + k]
                self.subspace[i][:, k] = twist(self._series(q, unit, zero)[i])
        self.inertia, self.wrench = np.zeros((n, 6, 6)), np.zeros((n, 6))
        poses = [s.c[0] for s in self.twin.series(q, qd, zero)]
        for b, name in enumerate(model.body_names):
            i = model.arrays.body_link[b]
            if i < 0:
                continue
            com = poses[b] @ frame(np.eye(3), self.twin.bodies[name].com)
            x = motion_transform(np.linalg.inv(com) @ self.pose[i])
            own = np.zeros((6, 6))
            own[:3, :3], own[3:, 3:] = self.twin._inertia(name), (self.twin.bodies[name].mass or 0.0) * np.eye(3)
            self.inertia[i] += x.T @ own @ x
            upright = frame(np.eye(3), com[:3, 3])
            self.wrench[i] += motion_transform(np.linalg.inv(upright) @ self.pose[i]).T @ wrenches[b]

    def _series(self, q, qd, qdd):
        bodies, out = self.twin.series(q, qd, qdd), []
        for b in self.first_body:
            offset = self.model.arrays.body_offset[b]
            out.append(bodies[b] @ Series(np.linalg.inv(frame(offset[:9].reshape(3, 3), offset[9:]))))
        return out

    def between(self, below, above):
        """Return X from link `above` (-1 = world) to link `below`."""
        return motion_transform(np.linalg.inv(self.pose[below]) @ (np.eye(4) if above < 0 else self.pose[above]))

    def joint(self, body, weights, moving=None, plastic=False):
        """Return the joint above `body`; locked if its freedoms are not in the mask `moving`.

        Plastic: instead of the force and the velocity product, the momentum of the rotor.
        """
        if body >= len(self.links.parent):
            none = np.zeros(0)
            return Joint(np.eye(6), np.zeros((6, 0)), np.zeros(6), none, none, np.zeros((0, 0)), none.astype(int))
        above = int(self.links.parent[body])
        dofs = np.arange(self.links.v_start[body], self.links.v_start[body] + self.links.dof[body])
        x = self.between(body, above)
        c = self.acceleration[body] - (0.0 if above < 0 else x @ self.acceleration[above])
        s, weight = self.subspace[body], weights[body]
        if moving is not None and len(dofs) and not moving[dofs[0]]:
            dofs, s, weight = dofs[:0], s[:, :0], np.zeros((0, 0))
        armature = self.twin.armature()[dofs]
        if plastic:
            return Joint(x, s, 0 * c, armature * self.qd[dofs], armature, weight, dofs)
        return Joint(x, s, c, self.force[dofs], armature, weight, dofs)

    def leaf_bias(self, link, plastic=False):
        """Return the acceleration of a link alone by what acts on it and its velocity; plastic: its velocity."""
        v, inertia = self.velocity[link], self.inertia[link]
        if plastic:
            return v
        return np.linalg.solve(inertia, self.wrench[link] - force_cross(v) @ inertia @ v)


def bodies_of(tree):
    """Return the set of bodies of every node."""
    nb = len(tree.body_link)
    out = [{b} for b in range(nb)] + [set() for _ in range(nb)]
    for c in range(nb, 2 * nb):
        for side in (tree.first[c], tree.second[c]):
            if side >= 0:
                out[c] = out[c] | out[side]
    return out


def handles_of(tree):
    """Return the handles of every node by their definition: the body nearest the world, then those with a way out."""
    out = []
    for node, bodies in enumerate(bodies_of(tree)):
        if node in tree.roots:
            out.append([])
            continue
        top = next(b for b in bodies if tree.body_parent[b] not in bodies)
        exits = {int(p) for b, p in enumerate(tree.body_parent) if p in bodies and b not in bodies}
        out.append([top, *sorted(exits - {top})])
    return out


@dataclass
class Part:
    """Coefficients of one part."""

    phi: np.ndarray
    b: np.ndarray
    psi: np.ndarray
    p: np.ndarray
    eta: float


def rows(handles, kept):
    """Return the rows of the 6-vectors of `kept` among those of `handles`."""
    return [6 * handles.index(h) + k for h in kept for k in range(6)]


def diagonal(a, b):
    """Return the block diagonal matrix of a and b."""
    return np.block([[a, np.zeros((len(a), len(b)))], [np.zeros((len(b), len(a))), b]])


class Divided:
    """Coefficients, accelerations, forces and metric of every node of an assembly tree.

    Joints whose freedoms are not in the mask `moving` are locked. Plastic: joints are locked at once, without forces;
    what stands for accelerations are the velocities after that, from the momenta before.

    Attributes:
        parts: coefficients per node.
        qdd: (nv,) accelerations; 0 where locked.
        pushes: forces on the handles per node, in the whole motion.
        metric: (m,) f^T Psi f + f^T p + eta.
    """

    def __init__(self, tree, terms, weights, *, gravity, moving=None, plastic=False):
        self.tree, self.terms, self.handles = tree, terms, handles_of(tree)
        nb = len(tree.body_link)
        self.parts, self.gains, self.joints = [], {}, {}
        for body in range(nb):
            phi = np.linalg.inv(terms.inertia[tree.body_link[body]] * tree.share[body])
            bias = terms.leaf_bias(tree.body_link[body], plastic)
            self.parts.append(Part(phi, bias, np.zeros((6, 6)), np.zeros(6), 0.0))
        world = np.zeros(6) if plastic else np.r_[np.zeros(3), -gravity]
        for node in range(nb, 2 * nb):
            self.joints[node] = terms.joint(int(tree.joint[node]), weights, moving, plastic)
            self.parts.append(self._merge(node, world))
        self.qdd, self.pushes = np.zeros(terms.model.nv), {int(c): np.zeros(0) for c in tree.roots}
        for node in range(2 * nb - 1, nb - 1, -1):
            self._push(node)
        self.metric = np.zeros(2 * nb)
        for node, f in self.pushes.items():
            part = self.parts[node]
            self.metric[node] = f @ part.psi @ f + f @ part.p + part.eta

    def sides(self, node):
        """Return the joining and kept rows of both sides, and the joining parts of their coefficients."""
        tree, joint = self.tree, self.joints[node]
        a, b, i = int(tree.first[node]), int(tree.second[node]), int(tree.joint[node])
        above, below = self.handles[a] if a >= 0 else [], self.handles[b]
        kept = self.handles[node]
        keep_a, keep_b = rows(above, [h for h in kept if h in above]), rows(below, [h for h in kept if h in below])
        at_a, at_b = rows(above, [int(tree.body_parent[i])] if a >= 0 else []), rows(below, [i])
        x = joint.x if a >= 0 else np.zeros((6, 0))
        return a, b, keep_a, keep_b, at_a, at_b, x

    def _merge(self, node, world):
        joint = self.joints[node]
        a, b, keep_a, keep_b, at_a, at_b, x = self.sides(node)
        none = Part(np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0)), np.zeros(0), 0.0)
        pa, pb = self.parts[a] if a >= 0 else none, self.parts[b]
        s, weight = joint.s, joint.weight
        m = x @ pa.phi[np.ix_(at_a, at_a)] @ x.T + pb.phi[np.ix_(at_b, at_b)]
        v = np.linalg.inv(m)
        d = np.linalg.inv(s.T @ v @ s + np.diag(joint.armature))
        u = d @ s.T @ v
        w = v - v @ s @ u
        g = np.vstack([pa.phi[np.ix_(keep_a, at_a)] @ x.T, -pb.phi[np.ix_(keep_b, at_b)]])
        t = np.vstack([pa.psi[np.ix_(keep_a, at_a)] @ x.T, -pb.psi[np.ix_(keep_b, at_b)]])
        psi0 = x @ pa.psi[np.ix_(at_a, at_a)] @ x.T + pb.psi[np.ix_(at_b, at_b)]
        beta = (x @ pa.b[at_a] if a >= 0 else joint.x @ world) - pb.b[at_b] + joint.c
        gamma = w @ beta + u.T @ joint.force
        r = d @ joint.force - u @ beta
        pi = x @ pa.p[at_a] - pb.p[at_b]
        y = u.T @ weight @ u + w @ psi0 @ w
        z = 2 * u.T @ weight @ r + w @ pi - 2 * w @ psi0 @ gamma
        self.gains[node] = u, w, g, t, psi0, gamma, r
        return Part(
            diagonal(pa.phi[np.ix_(keep_a, keep_a)], pb.phi[np.ix_(keep_b, keep_b)]) - g @ w @ g.T,
            np.r_[pa.b[keep_a], pb.b[keep_b]] - g @ gamma,
            diagonal(pa.psi[np.ix_(keep_a, keep_a)], pb.psi[np.ix_(keep_b, keep_b)])
            + g @ y @ g.T - (g @ w @ t.T + t @ w @ g.T),
            np.r_[pa.p[keep_a], pb.p[keep_b]] - g @ z - 2 * t @ gamma,
            pa.eta + pb.eta + r @ weight @ r + gamma @ psi0 @ gamma - gamma @ pi,
        )  # fmt: skip

    def _push(self, node):
        """Set the acceleration of the joint of `node` and the forces on the handles of its sides."""
        a, b, keep_a, keep_b, at_a, at_b, x = self.sides(node)
        u, w, g, _, _, gamma, r = self.gains[node]
        f = self.pushes[node]
        y = g.T @ f
        self.qdd[self.joints[node].dofs] = r - u @ y
        force = w @ y + gamma
        below = np.zeros(6 * len(self.handles[b]))
        below[keep_b] = f[len(keep_a) :]
        below[at_b] += force
        self.pushes[b] = below
        if a >= 0:
            above = np.zeros(6 * len(self.handles[a]))
            above[keep_a] = f[: len(keep_a)]
            above[at_a] -= x.T @ force
            self.pushes[a] = above


def tensors(divided):
    """Return (B, P, E) of every node that is not a root: what b, p, eta are at rest inside, as functions of v.

    b = B v v, p = P v v, eta = E v v v v, with v the velocity of the body nearest the world, in its own frame.
    """
    tree, terms, out = divided.tree, divided.terms, []
    for body in range(len(tree.body_link)):
        inertia = terms.inertia[tree.body_link[body]]
        b = np.array([[-np.linalg.solve(inertia, force_cross(v) @ inertia @ w) for w in np.eye(6)] for v in np.eye(6)])
        b = b.transpose(2, 0, 1)
        out.append(((b + b.transpose(0, 2, 1)) / 2, np.zeros((6, 6, 6)), np.zeros((6,) * 4)))
    for node in range(len(tree.body_link), len(tree.parent)):
        out.append(None if node in tree.roots else _tensors(divided, out, node))
    return out


def _tensors(divided, known, node):
    tree, weight = divided.tree, divided.joints[node].weight
    a, b, keep_a, keep_b, at_a, at_b, x = divided.sides(node)
    u, w, g, t, psi0, _, _ = divided.gains[node]
    (ba, pa, ea), (bb, pb, eb) = known[a], known[b]
    top, below = tree.body_link[tree.top[node]], tree.body_link[tree.joint[node]]
    move = divided.terms.between(below, top)
    bb, pb = (np.einsum("ade,db,ec->abc", tensor, move, move) for tensor in (bb, pb))
    eb = np.einsum("abcd,ae,bf,cg,dh->efgh", eb, move, move, move, move, optimize=True)

    def times(matrix, tensor):
        return np.einsum("ad,dbc->abc", matrix, tensor)

    def across(one, matrix, other):
        return np.einsum("abc,ad,def->bcef", one, matrix, other)

    db, dp = times(x, ba[at_a]) - bb[at_b], times(x, pa[at_a]) - pb[at_b]
    gam, low = times(w, db), -times(u, db)
    delta = 2 * times(u.T @ weight, low) + times(w, dp) - 2 * times(w @ psi0, gam)
    return (
        np.concatenate([ba[keep_a], bb[keep_b]]) - times(g, gam),
        np.concatenate([pa[keep_a], pb[keep_b]]) - times(g, delta) - 2 * times(t, gam),
        ea + eb + across(low, weight, low) + across(gam, psi0, gam) - across(gam, np.eye(6), dp),
    )
