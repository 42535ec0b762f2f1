"""Method `full`: every joint moves. kinematics -> forces -> articulated bodies -> integrate.

| integrator | a step of h | order |
|---|---|---|
| euler | q += h qd, then qd += h qdd (the papers') | 1 |
| semi_implicit | qd += h qdd, then q += h qd | 1, energy bounded |
| implicit | joint and body springs, dampers and motors taken at the end of the step | 1, stable when stiff |
| rk4 | classical Runge-Kutta, quaternions in R^4 and normalised | 4 |
| momentum | rk4, then each free tree is set to the momentum and com that gravity and outer forces give it | 4 |

The momentum integrator keeps (com c, linear p, angular L about the origin) of each free tree as state of its own:

    p+ = p + h F      L+ = L + h T      c+ = c + h/(6m) (p_1 + 2 p_2 + 2 p_3 + p_4)     F, T by the stage weights

and moves only the base to match: o += c+ - c(q),  w += I_c^-1 (L+ - c+ x p+ - L_c(q, qd)),  v by the rest of p+.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.articulated.aba import accelerations
from limberjack.articulated.drives import drive_forces
from limberjack.articulated.integrate import advance, coordinate_rates, normalize
from limberjack.articulated.jacobians import link_velocities
from limberjack.articulated.kinematics import kinematics
from limberjack.articulated.work import H, J, M, O, R, Work, new_work
from limberjack.errors import StateError, UnknownName
from limberjack.forces import Pull, implicit_springs, new_pull, pull_springs, take_wrenches
from limberjack.measure import tree_momentum
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.vectors import cross, rotate_back

__all__ = ["Full"]

INTEGRATORS = ("euler", "semi_implicit", "rk4", "implicit", "momentum")
_EULER, _SEMI_IMPLICIT, _RK4, _IMPLICIT, _MOMENTUM = range(5)


class Buffers(NamedTuple):
    """Scratch of the integrators, and the momentum each free tree should have."""

    qdd: np.ndarray  # (nv,)
    tau: np.ndarray  # (nv,) applied and joints' own forces
    added: np.ndarray  # (nv,)
    q_before: np.ndarray  # (nq,)
    qd_before: np.ndarray  # (nv,)
    q_stage: np.ndarray  # (nq,)
    qd_stage: np.ndarray  # (nv,)
    rates: np.ndarray  # (nq,)
    q_sum: np.ndarray  # (nq,)
    qd_sum: np.ndarray  # (nv,)
    velocities: np.ndarray  # (n, 6) of the links
    trees: np.ndarray  # (k, 2) links first .. last - 1 of each free tree
    aims: np.ndarray  # (k, 9) com, linear and angular momentum
    push: np.ndarray  # (k, 9) stage sums: F, T, and F weighted for the com
    fresh: np.ndarray  # (1,) 1 when the aims must be read off the state


@dataclass(frozen=True, kw_only=True)
class Full:
    """All joints simulated by the articulated-body algorithm.

    Args:
        integrator: "semi_implicit", "euler" (the papers'), "rk4", "implicit" or "momentum".
        substeps: integrator steps per simulation step; None takes 2 for the fourth-order ones, which makes their
            error 16 times smaller at twice the cost, and 1 for the others.
    """

    name: ClassVar[str] = "full"
    supports: ClassVar[frozenset[str]] = frozenset({"armature", "springs", "motors"})

    integrator: str = "semi_implicit"
    substeps: int | None = None

    def __post_init__(self) -> None:
        if self.integrator not in INTEGRATORS:
            raise UnknownName("integrator", self.integrator, 'method "full"', INTEGRATORS)
        if self.substeps is not None and not (isinstance(self.substeps, int) and 1 <= self.substeps <= 1000):
            raise StateError(f"substeps must be a whole number from 1 to 1000, got {self.substeps!r}")

    def stepper(self, model: Model) -> FullStepper:
        """Return a stepper for `model`."""
        return FullStepper(model, self)


class FullStepper:
    """The running side of `Full`."""

    def __init__(self, model: Model, options: Full) -> None:
        links = model.arrays.links
        self._model, self._code = model, INTEGRATORS.index(options.integrator)
        self._substeps = options.substeps or (2 if options.integrator in ("rk4", "momentum") else 1)
        self.q, self.qd = model.q0.copy(), model.qd0.copy()
        self._work: Work = new_work(links)
        self._pull: Pull = new_pull(links, model.arrays.springs)
        self._buffers = _new_buffers(model, momentum=self._code == _MOMENTUM)

    def advance(self, n: int, dt: float, forces: Any) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        a = self._model.arrays
        return full_steps(
            a.links, forces.drives, a.springs,
            self._code, n, self._substeps, dt / self._substeps, forces.tau, forces.wrenches, self._work, self._pull, self._buffers,
            self.q, self.qd,
        )  # fmt: skip

    def changed(self) -> None:
        """Take note that the state was set: the momentum to keep is read off it at the next step."""
        self._buffers.fresh[0] = 1

    def memory(self) -> dict[str, np.ndarray]:
        """Return the momentum the free trees should have."""
        return {"aims": self._buffers.aims.copy(), "fresh": self._buffers.fresh.copy()}

    def remember(self, memory: dict[str, np.ndarray]) -> None:
        """Take back what `memory` gave."""
        self._buffers.aims[:] = memory["aims"]
        self._buffers.fresh[:] = memory["fresh"]

    def stats(self) -> dict[str, Any]:
        """Return the links visited and evaluations of the forces per step."""
        evaluations = self._substeps * (4 if self._code in (_RK4, _MOMENTUM) else 1)
        return {"nodes": len(self._model.arrays.links.parent), "evaluations": evaluations, "substeps": self._substeps}


def _new_buffers(model: Model, momentum: bool) -> Buffers:
    links = model.arrays.links
    nq, nv, n = model.nq, model.nv, len(links.parent)
    roots = np.flatnonzero(links.parent < 0)
    ends = np.append(roots[1:], n)
    free = links.kind[roots] == FREE
    trees = np.stack([roots, ends], axis=1)[free] if momentum else np.zeros((0, 2))
    k = len(trees)
    return Buffers(
        np.zeros(nv), np.zeros(nv), np.zeros(nv), np.zeros(nq), np.zeros(nv), np.zeros(nq), np.zeros(nv), np.zeros(nq),
        np.zeros(nq), np.zeros(nv), np.zeros((n, 6)), np.ascontiguousarray(trees, np.int64), np.zeros((k, 9)), np.zeros((k, 9)),
        np.ones(1, np.int64),
    )  # fmt: skip


@inner
def _dynamics(links, drives, springs, h, q, qd, applied, wrenches, work, pull, b):
    """Fill b.qdd at (q, qd), implicit over h where h > 0; return 0, 1 + the failed freedom, or -2."""
    kinematics(links, q, qd, work)
    take_wrenches(wrenches, work.rows)
    drive_forces(drives, links.armature, h, q, qd, applied, b.tau, b.added)
    if len(springs.link) > 0 and h == 0.0:
        pull_springs(links, springs, qd, work, pull)
    status = accelerations(links, b.added, b.tau, work, b.qdd)
    if status == 0 and len(springs.link) > 0 and h > 0.0:
        status = implicit_springs(links, springs, h, qd, work, pull, b.qdd)
    return status


@inner
def _outer_forces(links, springs, i, last, tau, wrenches, rows, pull):
    """Return force and torque about the origin that gravity, wrenches, springs and base forces give a free tree."""
    fx = fy = fz = tx = ty = tz = 0.0
    gx, gy, gz = links.gravity[0], links.gravity[1], links.gravity[2]
    for k in range(i, last):
        m = rows[k, M]
        cx, cy, cz = m * rows[k, O] + rows[k, H + 7], m * rows[k, O + 1] + rows[k, H + 2], m * rows[k, O + 2] + rows[k, H + 3]
        ux, uy, uz = cross(cx, cy, cz, gx, gy, gz)
        fx, fy, fz = fx + m * gx, fy + m * gy, fz + m * gz
        tx, ty, tz = tx + ux, ty + uy, tz + uz
    for k in range(len(wrenches.link)):
        j = wrenches.link[k]
        if i <= j and j < last:
            w = wrenches.data
            px = rows[j, O] + rows[j, R] * w[k, 0] + rows[j, R + 1] * w[k, 1] + rows[j, R + 2] * w[k, 2]
            py = rows[j, O + 1] + rows[j, R + 3] * w[k, 0] + rows[j, R + 4] * w[k, 1] + rows[j, R + 5] * w[k, 2]
            pz = rows[j, O + 2] + rows[j, R + 6] * w[k, 0] + rows[j, R + 7] * w[k, 1] + rows[j, R + 8] * w[k, 2]
            ux, uy, uz = cross(px, py, pz, w[k, 3], w[k, 4], w[k, 5])
            fx, fy, fz = fx + w[k, 3], fy + w[k, 4], fz + w[k, 5]
            tx, ty, tz = tx + ux + w[k, 6], ty + uy + w[k, 7], tz + uz + w[k, 8]
    for k in range(len(springs.link)):
        for end in range(2):
            j = springs.link[k, end]
            if i <= j and j < last:
                s = pull.state
                f = s[k, 11] if end == 0 else -s[k, 11]
                ex, ey, ez = f * s[k, 0], f * s[k, 1], f * s[k, 2]
                c = 5 + 3 * end
                ux, uy, uz = cross(rows[j, O] + s[k, c], rows[j, O + 1] + s[k, c + 1], rows[j, O + 2] + s[k, c + 2], ex, ey, ez)
                fx, fy, fz = fx + ex, fy + ey, fz + ez
                tx, ty, tz = tx + ux, ty + uy, tz + uz
    # forces on the base's own freedoms: linear in world axes at its origin, angular in its axes
    v = links.v_start[i]
    ux, uy, uz = cross(rows[i, O], rows[i, O + 1], rows[i, O + 2], tau[v], tau[v + 1], tau[v + 2])
    ex = rows[i, R] * tau[v + 3] + rows[i, R + 1] * tau[v + 4] + rows[i, R + 2] * tau[v + 5]
    ey = rows[i, R + 3] * tau[v + 3] + rows[i, R + 4] * tau[v + 4] + rows[i, R + 5] * tau[v + 5]
    ez = rows[i, R + 6] * tau[v + 3] + rows[i, R + 7] * tau[v + 4] + rows[i, R + 8] * tau[v + 5]
    return fx + tau[v], fy + tau[v + 1], fz + tau[v + 2], tx + ux + ex, ty + uy + ey, tz + uz + ez


@inner
def _gather_push(links, springs, q, qd, weight, com_weight, wrenches, work, pull, b):
    """Add the outer forces on every free tree at a stage; the rows are evaluated anew, elimination has used them up."""
    kinematics(links, q, qd, work)
    for k in range(len(b.trees)):
        fx, fy, fz, tx, ty, tz = _outer_forces(links, springs, b.trees[k, 0], b.trees[k, 1], b.tau, wrenches, work.rows, pull)
        p = b.push
        p[k, 0], p[k, 1], p[k, 2] = p[k, 0] + weight * fx, p[k, 1] + weight * fy, p[k, 2] + weight * fz
        p[k, 3], p[k, 4], p[k, 5] = p[k, 3] + weight * tx, p[k, 4] + weight * ty, p[k, 5] + weight * tz
        p[k, 6], p[k, 7], p[k, 8] = p[k, 6] + com_weight * fx, p[k, 7] + com_weight * fy, p[k, 8] + com_weight * fz


@inner
def _read_aims(links, q, qd, work, b):
    """Set the momentum to keep to that of the state."""
    kinematics(links, q, qd, work)
    link_velocities(links, qd, work, b.velocities)
    for k in range(len(b.trees)):
        mass, cx, cy, cz, px, py, pz, lx, ly, lz = tree_momentum(b.trees[k, 0], b.trees[k, 1], work.rows, b.velocities)
        a = b.aims
        a[k, 0], a[k, 1], a[k, 2], a[k, 3], a[k, 4], a[k, 5] = cx, cy, cz, px, py, pz
        a[k, 6], a[k, 7], a[k, 8] = lx, ly, lz


@inner
def _keep_momentum(links, h, work, b, q, qd):
    """Advance the aims by the gathered outer forces and set the base of every free tree to them."""
    kinematics(links, q, qd, work)
    link_velocities(links, qd, work, b.velocities)
    rows = work.rows
    for k in range(len(b.trees)):
        i, last = b.trees[k, 0], b.trees[k, 1]
        mass, cx, cy, cz, px, py, pz, lx, ly, lz = tree_momentum(i, last, rows, b.velocities)
        a, p = b.aims, b.push
        for c in range(3):
            # c+ = c + h p/m + h^2/(6m) (F_1 + F_2 + F_3): the stage momenta of rk4, summed
            a[k, c] += (h * a[k, 3 + c] + h * h * p[k, 6 + c]) / mass
            a[k, 3 + c] += h * p[k, c]
            a[k, 6 + c] += h * p[k, 3 + c]
        # inertia about the com, momentum about it
        xx = yy = zz = xy = xz = yz = 0.0
        for j in range(i, last):
            m = rows[j, M]
            hx, hy, hz = rows[j, H + 7], rows[j, H + 2], rows[j, H + 3]
            dx, dy, dz = rows[j, O] - cx, rows[j, O + 1] - cy, rows[j, O + 2] - cz
            # J at o moved to the com: J + (|d|^2 m + 2 h.d) 1 - m d d^T - h d^T - d h^T
            s = m * (dx * dx + dy * dy + dz * dz) + 2.0 * (hx * dx + hy * dy + hz * dz)
            xx += rows[j, J] + s - m * dx * dx - 2.0 * hx * dx
            yy += rows[j, J + 1] + s - m * dy * dy - 2.0 * hy * dy
            zz += rows[j, J + 2] + s - m * dz * dz - 2.0 * hz * dz
            xy += rows[j, J + 3] - m * dx * dy - hx * dy - hy * dx
            xz += rows[j, J + 4] - m * dx * dz - hx * dz - hz * dx
            yz += rows[j, J + 5] - m * dy * dz - hy * dz - hz * dy
        ux, uy, uz = cross(cx, cy, cz, px, py, pz)
        ex, ey, ez = cross(a[k, 0], a[k, 1], a[k, 2], a[k, 3], a[k, 4], a[k, 5])
        good, wx, wy, wz = solve_symmetric_3(
            (xx, yy, zz, xy, xz, yz), a[k, 6] - ex - (lx - ux), a[k, 7] - ey - (ly - uy), a[k, 8] - ez - (lz - uz)
        )
        if not good:
            wx = wy = wz = 0.0
        rx, ry, rz = cross(wx, wy, wz, cx - rows[i, O], cy - rows[i, O + 1], cz - rows[i, O + 2])
        iq, iv = links.q_start[i], links.v_start[i]
        q[iq], q[iq + 1], q[iq + 2] = q[iq] + a[k, 0] - cx, q[iq + 1] + a[k, 1] - cy, q[iq + 2] + a[k, 2] - cz
        qd[iv] += (a[k, 3] - px) / mass - rx
        qd[iv + 1] += (a[k, 4] - py) / mass - ry
        qd[iv + 2] += (a[k, 5] - pz) / mass - rz
        r = (
            rows[i, R], rows[i, R + 1], rows[i, R + 2], rows[i, R + 3], rows[i, R + 4], rows[i, R + 5],
            rows[i, R + 6], rows[i, R + 7], rows[i, R + 8],
        )  # fmt: skip
        wx, wy, wz = rotate_back(r, wx, wy, wz)
        qd[iv + 3], qd[iv + 4], qd[iv + 5] = qd[iv + 3] + wx, qd[iv + 4] + wy, qd[iv + 5] + wz


@inner
def _rk4(links, drives, springs, h, applied, wrenches, work, pull, b, q, qd):
    """One classical Runge-Kutta step; the outer forces on the trees in b.trees are gathered at each stage."""
    nq, nv = len(q), len(qd)
    for i in range(nq):
        b.q_sum[i] = 0.0
        b.q_stage[i] = q[i]
    for i in range(nv):
        b.qd_sum[i] = 0.0
        b.qd_stage[i] = qd[i]
    for stage in range(4):
        status = _dynamics(links, drives, springs, 0.0, b.q_stage, b.qd_stage, applied, wrenches, work, pull, b)
        if status != 0:
            return status
        weight = (1.0 if stage == 0 or stage == 3 else 2.0) / 6.0
        if len(b.trees) > 0:
            com_weight = 1.0 / 6.0 if stage < 3 else 0.0
            _gather_push(links, springs, b.q_stage, b.qd_stage, weight, com_weight, wrenches, work, pull, b)
        coordinate_rates(links, b.q_stage, b.qd_stage, b.rates)
        ahead = 0.5 * h if stage < 2 else h
        for i in range(nq):
            b.q_sum[i] += weight * b.rates[i]
            b.q_stage[i] = q[i] + ahead * b.rates[i]
        for i in range(nv):
            b.qd_sum[i] += weight * b.qdd[i]
            b.qd_stage[i] = qd[i] + ahead * b.qdd[i]
    for i in range(nq):
        q[i] += h * b.q_sum[i]
    for i in range(nv):
        qd[i] += h * b.qd_sum[i]
    normalize(links, q)
    return 0


@inner
def _one_step(links, drives, springs, code, h, applied, wrenches, work, pull, b, q, qd):
    """One step of the integrator `code`; return the status of the dynamics."""
    if code == _RK4 or code == _MOMENTUM:
        if b.fresh[0] == 1 and len(b.trees) > 0:
            _read_aims(links, q, qd, work, b)
            b.fresh[0] = 0
        for k in range(len(b.trees)):
            for c in range(9):
                b.push[k, c] = 0.0
        status = _rk4(links, drives, springs, h, applied, wrenches, work, pull, b, q, qd)
        if status == 0 and len(b.trees) > 0:
            _keep_momentum(links, h, work, b, q, qd)
        return status
    status = _dynamics(links, drives, springs, h if code == _IMPLICIT else 0.0, q, qd, applied, wrenches, work, pull, b)
    if status != 0:
        return status
    if code == _EULER:
        advance(links, h, qd, q)
    qdd = b.qdd
    for v in range(len(qd)):
        qd[v] += h * qdd[v]
    if code != _EULER:
        advance(links, h, qd, q)
    return 0


@kernel
def full_steps(
    # model
    links, drives, springs,
    # in
    code, n, substeps, h, applied, wrenches, work, pull, b,
    # out
    q, qd,
):  # fmt: skip
    """Take n steps of `substeps` times h; stop at the first that fails and put back the state before it.

    Returns:
        steps taken, and 0; or 1 + a freedom without inertia; -1 - v for a freedom v that is not finite; -nv - 2 for a
        spring system that cannot be solved.
    """
    nq, nv = len(q), len(qd)
    for step in range(n):
        for i in range(nq):
            b.q_before[i] = q[i]
        for v in range(nv):
            b.qd_before[v] = qd[v]
        status = 0
        for _ in range(substeps):
            status = _one_step(links, drives, springs, code, h, applied, wrenches, work, pull, b, q, qd)
            if status != 0:
                break
        if status == -2:
            status = -nv - 2
        if status == 0:
            bad = 0
            for v in range(nv):
                bad += not abs(qd[v]) < 1e150
            for i in range(nq):
                bad += not abs(q[i]) < 1e150
            if bad > 0:
                status = -1
                for v in range(nv):
                    if not abs(qd[v]) < 1e150:
                        status = -1 - v
                        break
        if status != 0:
            for i in range(nq):
                q[i] = b.q_before[i]
            for v in range(nv):
                qd[v] = b.qd_before[v]
            b.fresh[0] = 1
            return step, status
    return n, 0
