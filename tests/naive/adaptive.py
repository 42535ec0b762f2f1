"""The naive twin of the adaptive method: its definition with dense matrices over the joints' freedoms.

With H the mass matrix and C the bias of the whole model, T the freedoms of the joints of the transient region, A those
of the new active region and R = T without A,

    full accelerations       H qdd = tau - C             A(c) = sum of qdd_j^T A_j qdd_j over the joints j inside node c
    transient accelerations  H_TT qdd_T = (tau - C)_T    V(c) = sum of x_j^T V_j x_j,  x = qd + h qdd
    locking                  H_AA qd+_A = (H qd)_A       energy lost = qd_R^T K_R^-1 qd_R / 2,  K_R = (H_TT^-1)_RR
    steps                    H_AA qdd_A = (tau - C)_A

Nothing is updated from what it was before: every sum is a sum, every matrix is built and solved as a whole. From the
package only the numbering of links and the assembly tree are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.naive import rotations as rot
from tests.naive.distances import distances
from tests.naive.twin import Twin

from limberjack.model.joints import FREE


@dataclass(frozen=True)
class Options:
    """What the method is told; a budget per figure is a tuple."""

    budget: Any = None
    tolerance: float | None = None
    velocity_tolerance: float | None = None
    update_every: int = 20
    update_budget: Any = None
    weights: Any = 1.0
    velocity_weights: Any = None
    error_bounded: bool = False
    metric: str = "joints"


@dataclass
class Acting:
    """What acts from outside: joint forces, wrenches at the coms in world axes, targets of motors by joint name."""

    tau: np.ndarray
    wrenches: np.ndarray
    targets: dict[str, Any] = field(default_factory=dict)


def nothing(model):
    """Return no forces from outside."""
    return Acting(np.zeros(model.nv), np.zeros((model.body_count, 6)))


class Nodes:
    """The joints behind the nodes of an assembly tree.

    Attributes:
        dofs: freedoms of the joint of each node; none at leaves and welds.
        names: name of that joint, "" at leaves and at welds within a hub.
        counted: whether the joint counts: it can move and is no free joint to the world.
        base: whether it is a free joint to the world.
        inside: per node, itself and the nodes below it, leaves not included.
    """

    def __init__(self, model, tree):
        links, self.tree = model.arrays.links, tree
        count = len(tree.parent)
        self.dofs, self.names = [np.zeros(0, int) for _ in range(count)], [""] * count
        self.counted, self.base = np.zeros(count, bool), np.zeros(count, bool)
        self.inside: list[list[int]] = [[] for _ in range(count)]
        for node in range(len(tree.body_link), count):
            below = [int(side) for side in (tree.first[node], tree.second[node]) if side >= 0]
            self.inside[node] = [node, *(c for side in below for c in self.inside[side])]
            link = int(tree.joint[node])
            if link >= len(links.parent):
                continue
            self.dofs[node] = np.arange(links.v_start[link], links.v_start[link] + links.dof[link])
            self.names[node] = model.joint_names[int(np.flatnonzero(model.arrays.joint_link == link)[0])]
            self.base[node] = links.parent[link] < 0 and links.kind[link] == FREE
            self.counted[node] = links.dof[link] > 0 and not self.base[node]

    def below(self, node):
        """Return the sides of a node that are joints themselves."""
        return [int(c) for c in (self.tree.first[node], self.tree.second[node]) if c >= len(self.tree.body_link)]

    def above(self, node):
        """Return the nodes above a node, up to the root."""
        out = []
        while self.tree.parent[node] >= 0:
            node = int(self.tree.parent[node])
            out.append(node)
        return out

    def freedoms(self, region):
        """Return the freedoms of the joints of a region (bool per node), in order."""
        return np.sort(np.concatenate([self.dofs[c] for c in np.flatnonzero(region)] + [np.zeros(0, int)])).astype(int)

    def joints(self, region):
        """Return the names of the joints in a region that count."""
        return {self.names[c] for c in np.flatnonzero(region) if self.counted[c]}


def weight_matrices(model, nodes, weights, q):
    """Return the weight of each node's joint: one number for all, or per joint a number, a matrix or either of its q.

    Joints not named weigh 1; free joints to the world and welds nothing.
    """
    out = []
    for name, dofs, counted in zip(nodes.names, nodes.dofs, nodes.counted, strict=True):
        given = weights.get(name, 1.0) if isinstance(weights, dict) else weights
        if callable(given):
            given = given(q[model.joint(name).q]) if counted else 0.0
        matrix = given * np.eye(len(dofs)) if np.ndim(given) == 0 else np.asarray(given, float)
        out.append(matrix if counted else np.zeros((len(dofs), len(dofs))))
    return out


def motors(twin, q, qd, targets):
    """Return the forces of the motors and their stiffness and damping per freedom, 0 for those at their maximum."""
    force, stiffness, damping = np.zeros(twin.nv), np.zeros(twin.nv), np.zeros(twin.nv)
    for name, joint in twin.joints.items():
        place, left = twin.places[name], list(np.atleast_1d(targets.get(name, ())))
        given = [axis.motor for axis in joint.axes] if joint.axes else joint.motor or ()
        plain = place.nq - 4 * (place.nq - place.nv)
        for k, motor in enumerate(given):
            if motor is None:
                continue
            ball = k >= plain and not joint.axes
            width = 3 if ball else 1
            v, at = slice(place.v_start + k, place.v_start + k + width), place.q_start + k
            if ball:
                aim = [left.pop(0) for _ in range(4)] if left else motor.target or (1.0, 0.0, 0.0, 0.0)
                away = rot.logarithm(rot.multiply(rot.conjugate(aim), q[at : at + 4]))
            else:
                away = np.array([q[at] - (left.pop(0) if left else motor.target)])
            push = -motor.kp * away - motor.kd * (qd[v] - motor.velocity)
            size = np.linalg.norm(push)
            force[v] = push if size < motor.max else push * (motor.max / size)
            if size < motor.max:
                stiffness[v], damping[v] = motor.kp, motor.kd
    return force, stiffness, damping


class Dynamics:
    """Mass matrix and forces at one state.

    Attributes:
        mass: (nv, nv) H with armature.
        matrix: H, and for implicit steps what drives add to it over h.
        force: (nv,) tau - C, drives included.
    """

    def __init__(self, model, q, qd, h, acting, integrator, jacobians=None):
        self.twin = twin = Twin(model)
        jacobians = twin.jacobians(q) if jacobians is None else jacobians
        self.jacobians, self.armature = jacobians, twin.armature()
        self.mass = self.matrix = twin.mass_matrix(q, jacobians)
        pushed, stiffness, damping = motors(twin, q, qd, acting.targets)
        wrenches = acting.wrenches + twin.spring_wrenches(q, qd)
        self.joint_force = acting.tau + twin.passive(q, qd) + pushed
        if integrator == "implicit":
            assert not model.springs, "implicit springs between bodies are not part of this twin"
            stiffness, damping = stiffness + twin._per_freedom("stiffness"), damping + twin._per_freedom("damping")
            self.joint_force = self.joint_force - h * stiffness * qd
            self.matrix = self.mass + np.diag(h * damping + h * h * stiffness)
        self.wrenches = wrenches
        self.force = self.joint_force - twin.bias(q, qd, wrenches, jacobians)

    def accelerations(self, freedoms):
        """Return qdd with all other freedoms locked."""
        out = np.zeros(len(self.force))
        out[freedoms] = np.linalg.solve(self.matrix[np.ix_(freedoms, freedoms)], self.force[freedoms])
        return out


@dataclass
class Queue:
    """What a queue did.

    Attributes:
        popped: nodes in the order they were taken.
        errors: what was left out before the first and after every pop.
        margin: how far the choice was from being another: the smallest relative gap it hung on.
    """

    popped: list[int]
    errors: list[float]
    margin: float


def queue(nodes, values, own, allowed, budget, tolerance, start=None):
    """Take the node of the largest value, push the nodes below it, until budget or tolerance is reached.

    It begins with the roots, or with the nodes `start`; then only what is below them is left out or taken.
    """
    tree, shared = nodes.tree, budget is None or np.ndim(budget) == 0
    waiting = {int(c) for c in (tree.roots if start is None else start) if allowed[c]}
    used, thrown, popped, margin = np.zeros(len(tree.roots), int), [], [], np.inf
    inner = [c for top in waiting for c in nodes.inside[top] if allowed[c]]
    errors = [float(sum(own[c] for c in inner))]
    while waiting:
        best = min(waiting, key=lambda c: (-values[c], c))
        if tolerance is not None:
            margin = min(margin, abs(errors[-1] - tolerance) / max(errors[-1], tolerance, 1e-300))
            if errors[-1] <= tolerance:
                break
        figure = tree.tree_index[best]
        if nodes.counted[best] and budget is not None:
            if (used.sum() >= budget) if shared else (used[figure] >= budget[figure]):
                if shared:
                    break
                waiting.remove(best)
                thrown.append(best)
                continue
        used[figure] += nodes.counted[best]
        waiting.remove(best)
        popped.append(best)
        errors.append(float(sum(own[c] for c in inner if c not in popped)))
        waiting |= {c for c in nodes.below(best) if allowed[c]}
    for group in [np.arange(len(tree.roots))] if shared else [[f] for f in range(len(tree.roots))]:
        taken = [values[c] for c in popped if tree.tree_index[c] in group and nodes.counted[c]]
        left = [values[c] for c in (*waiting, *thrown) if tree.tree_index[c] in group]
        if taken and left:
            least = min(taken)
            # values far below all others are rounding errors of theirs: no order among them means anything
            noise = least < 1e-20 * values.max()
            margin = min(margin, 0.0 if noise else (least - max(left)) / least)
    return Queue(popped, errors, margin)


@dataclass
class Record:
    """What an update did; regions are bool per node.

    Attributes:
        qdd: accelerations of the whole model.
        metric: A per node.
        chosen: the queue of accelerations.
        transient: the transient region.
        transient_qdd: accelerations with all joints outside it locked.
        velocity_metric: V per node.
        kept: the queue of velocities.
        active: the new active region.
        dropped: freedoms R that were locked.
        k: K_R.
        qd: velocities after.
        lost: kinetic energy before, less after.
        margin: see `Queue`; of both queues.
    """

    qdd: np.ndarray
    metric: np.ndarray
    chosen: Queue
    transient: np.ndarray
    transient_qdd: np.ndarray
    velocity_metric: np.ndarray
    kept: Queue
    active: np.ndarray
    dropped: np.ndarray
    k: np.ndarray
    qd: np.ndarray
    lost: float
    margin: float


def metric_of(nodes, weights, values):
    """Return (sum over the joints inside, own part) per node of x^T weight x."""
    own = np.array([values[d] @ w @ values[d] for d, w in zip(nodes.dofs, weights, strict=True)])
    return np.array([sum(own[c] for c in inside) for inside in nodes.inside]), own


def update(
    model, tree, active, q, qd, h, options, acting=None, touched=(), integrator="semi_implicit", jacobians=None
):  # fmt: skip
    """Return what a region update does at (q, qd), steps 1 to 6 of the method.

    Args:
        model: the model.
        tree: its assembly tree.
        active: bool per node, the active region before.
        q: coordinates.
        qd: velocities.
        h: time step.
        options: `Options`.
        acting: `Acting`, None = nothing.
        touched: links whose velocity, force or wrench was set from outside since the last update.
        integrator: "implicit" takes drives implicitly; the others are alike here.
        jacobians: those of the bodies at q, where they are known.
    """
    nodes = Nodes(model, tree)
    acting = acting or nothing(model)
    now = Dynamics(model, q, qd, h, acting, integrator, jacobians)
    inner = np.arange(len(tree.parent)) >= len(tree.body_link)
    region = np.array(active, bool) & inner | nodes.base
    for link in touched:
        region[nodes.above(int(link))] = True
    # 1, 2: the accelerations of all, and those that matter
    qdd = now.accelerations(np.arange(model.nv))
    limit, start = options.budget if options.update_budget is None else options.update_budget, None
    if options.metric == "mass":
        # a part that moves inside is at no distance from itself: the queue begins where the region ends
        start = [c for c in np.flatnonzero(inner & ~region) if tree.parent[c] < 0 or region[tree.parent[c]]]
        metric, own = distances(model, nodes, q, qdd, now.jacobians, np.diag(now.matrix - now.mass) + now.armature)
    else:
        metric, own = metric_of(nodes, weight_matrices(model, nodes, options.weights, q), qdd)
    chosen = queue(nodes, metric, own, inner, limit, options.tolerance, start)
    # 3, 4: the transient region and its accelerations
    transient = region.copy()
    transient[chosen.popped] = True
    free = nodes.freedoms(transient)
    assert not np.delete(qd, free).any(), "a joint outside the region moves: it was set and not named as touched"
    transient_qdd = now.accelerations(free)
    # 5: the velocities that matter
    weights = options.weights if options.velocity_weights is None else options.velocity_weights
    speeds = np.zeros(model.nv)
    speeds[free] = (qd + h * transient_qdd)[free]
    if options.metric == "mass":
        velocity_metric, own = distances(model, nodes, q, speeds, now.jacobians, np.zeros(model.nv), free_bases=True)
    else:
        velocity_metric, own = metric_of(nodes, weight_matrices(model, nodes, weights, q), speeds)
    tolerance = options.velocity_tolerance
    if tolerance is None and options.tolerance is not None:
        tolerance = options.tolerance * (options.update_every * h) ** 2
    kept = queue(nodes, velocity_metric, own, transient, options.budget, tolerance)
    new = nodes.base.copy()
    new[kept.popped] = True
    margin = min(chosen.margin, kept.margin)
    if options.error_bounded:
        new, margin = _all_that_moves(nodes, transient, chosen.popped, qd), chosen.margin
    # 6: locking
    stay = nodes.freedoms(new)
    dropped = np.setdiff1d(free, stay)
    k = np.linalg.inv(now.mass[np.ix_(free, free)])[np.ix_(*[np.isin(free, dropped)] * 2)]
    after = np.zeros(model.nv)
    after[stay] = np.linalg.solve(now.mass[np.ix_(stay, stay)], (now.mass @ qd)[stay]) if len(dropped) else qd[stay]
    lost = 0.5 * qd @ now.mass @ qd - 0.5 * after @ now.mass @ after
    return Record(
        qdd, metric, chosen, transient, transient_qdd, velocity_metric, kept, new, dropped, k, after, lost, margin
    )


def _all_that_moves(nodes, transient, popped, qd):
    """Return the part of the transient region that moves or was popped, with all above it."""
    new = nodes.base.copy()
    new[popped] = True
    for c in np.flatnonzero(transient):
        if qd[nodes.dofs[c]].any():
            new[[c, *nodes.above(c)]] = True
    return new


def step(model, tree, active, q, qd, h, acting=None, integrator="semi_implicit", jacobians=None):
    """Return (q, qd) after a step with the joints outside the active region locked."""
    now = Dynamics(model, q, qd, h, acting or nothing(model), integrator, jacobians)
    after = qd + h * now.accelerations(Nodes(model, tree).freedoms(active))
    return now.twin.moved(q, qd if integrator == "euler" else after, h), after
