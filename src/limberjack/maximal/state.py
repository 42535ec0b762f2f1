"""State in maximal coordinates: poses and velocities of bodies, joint coordinates read off them when asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack._jit import kernel
from limberjack.constraints.row_forces import RowForces, forces_of_rows
from limberjack.constraints.rows import ANGLE, COMPOUND, COORDINATES, PICKED, ROWS
from limberjack.constraints.table import DRIVE, EQUALITY, Table
from limberjack.errors import Diverged, LimberjackError, LoopNotClosed, StateError, Status, UnsupportedByMethod
from limberjack.linear.choice import choose_solver
from limberjack.linear.ordering import Ordering
from limberjack.linear.saddle import first_constraints, new_saddle
from limberjack.maximal.bodies import AFFINE, PARTICLE, PLANAR, POSE, REGISTERED_BODY, RIGID, SCALABLE, SHAPE
from limberjack.maximal.forces import match_signs
from limberjack.maximal.impulse import apply_generalized_impulse, multipliers_of_force
from limberjack.maximal.inserted_rows import inserted_terms
from limberjack.maximal.measure import body_energies, spring_energies
from limberjack.maximal.rows import Maximal, free_joints_of, indices_of, lever_mobility, new_evaluation
from limberjack.maximal.scalable_bodies import (
    body_frames,
    body_velocities,
    close_tree,
    may_be_primary,
    point_motion,
    shape_columns,
    start_shapes,
)
from limberjack.maximal.soft_rows import new_soft_rows, no_soft_rows
from limberjack.maximal.solve import REPORT, Setup, State, evaluate_state
from limberjack.model.arrays import BALL_DRIVE, DOF, SCALAR_DRIVE, Drives, whole_span
from limberjack.model.compile import drives_of
from limberjack.model.joints import coordinate_counts, identity_coordinates
from limberjack.model.model import Model
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.measure import joint_energy
from limberjack.reduced.work import R, W, new_work
from limberjack.spatial.frames import matrix_from_quaternion
from limberjack.spatial.quaternions import quaternion_from_matrix
from limberjack.spatial.vectors import cross

__all__ = ["MaximalState", "compounds_of", "frees_of", "read_frees", "screws_of", "turns_of"]

# Where coordinates of joints are read off rows: terms and indices of angles, screws and compound joints.


def compounds_of(whole: Maximal) -> list[tuple[int, int, int]]:
    """Return (pair, q_start in q, axes) of the compound joints."""
    table, q_start = whole.table, {}
    for r in range(len(table.joint)):
        term = table.terms[table.term_start[r]]
        if table.role[r] == DRIVE and term[0] == COMPOUND and term[2] == 0:
            q_start[int(term[1])] = int(table.drive[r, 0])
    return [(int(pair), q_start[int(pair)], int(count)) for pair, _, count in table.compound if int(pair) in q_start]


def screws_of(model: Model, whole: Maximal) -> list[tuple[int, list[int], float]]:
    """Return (row, terms that read its angle, travel per turn) of each screw that closes a loop."""
    out, table = [], whole.table
    screws = {name for name in model.loop_names if model.joint_spec(name).kind == "screw"}
    for r in range(len(table.joint)) if screws else ():
        name = model.joint_names[table.joint[r]] if table.joint[r] < model.joint_count else ""
        terms = table.terms[table.term_start[r] : table.term_start[r + 1]]
        if name in screws and len(terms) == 2:
            pair, pitch = terms[1, 1], model.joint_spec(name).pitch
            own = np.flatnonzero((table.terms[:, 0] == ANGLE) & (table.terms[:, 1] == pair))
            if table.role[r] == EQUALITY and pitch != 0.0 and terms[1, 0] == ANGLE:
                out.append((r, own.tolist(), 2.0 * np.pi * pitch))
    return out


def turns_of(model: Model, whole: Maximal) -> list[tuple[int, int]]:
    """Return (term, q_index in q) of the terms that read an angle of a tree joint."""
    q_index: dict[tuple[bytes, bytes, int], int] = {}
    table = whole.table

    def key(t: int) -> tuple[bytes, bytes, int]:
        # gears have pairs of their own with the frames of the joints they couple
        pair = int(table.terms[t, 1])
        return table.pair_link[pair].tobytes(), table.pair_frame[pair].tobytes(), int(table.terms[t, 2])

    for r in range(len(table.joint)):
        if table.role[r] == DRIVE and table.speed[r] == 0:
            q_index[key(int(table.term_start[r]))] = int(table.drive[r, 0])
    out = []
    for t in range(len(table.weights)):
        if table.terms[t, 0] == ANGLE and q_index.get(key(t), model.nq) < model.nq:
            out.append((t, q_index[key(t)]))
    return out


def frees_of(free: list[tuple[int, int, int, str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the (link, index in q, index in qd) of free joints and of those that only move, as rows of two tables."""
    turning = [row[:3] for row in free if row[3] == "free"]
    moving = [row[:3] for row in free if row[3] != "free"]
    return np.array(turning, np.int64).reshape(-1, 3), np.array(moving, np.int64).reshape(-1, 3)


def read_frees(
    turning: np.ndarray, moving: np.ndarray, ends: np.ndarray, pose: np.ndarray, center: np.ndarray, q: np.ndarray,
    qd: np.ndarray,
) -> None:  # fmt: skip
    """Fill the coordinates and velocities of bodies on free joints.

    Args:
        turning, moving: of `frees_of`.
        ends: (n, 18 or more) rotation, position, angular and linear velocity of the centres of links.
        pose: (n, 7 or more) of the same, with quaternions.
        center: (n, 3) centres in the frames of links.
        q, qd: to be filled.
    """
    three = np.arange(3)
    for rows, turns in ((turning, True), (moving, False)):
        if not len(rows):
            continue
        link, at, to = rows.T
        e, c = ends[link], center[link]
        # sums written out: the same bits whatever library multiplies matrices
        lever = e[:, [0, 3, 6]] * c[:, :1] + e[:, [1, 4, 7]] * c[:, 1:2] + e[:, [2, 5, 8]] * c[:, 2:]
        spin = e[:, 12:15]
        q[at[:, None] + three] = e[:, 9:12] - lever
        qd[to[:, None] + three] = e[:, 15:18] - np.cross(spin, lever)
        if turns:
            q[at[:, None] + np.arange(3, 7)] = pose[link, 3:7]
            own = e[:, 0:3] * spin[:, :1] + e[:, 3:6] * spin[:, 1:2] + e[:, 6:9] * spin[:, 2:]
            qd[to[:, None] + np.arange(3, 6)] = own


# Up to this many rows of loops the forest is the faster solver.
_FEW = 24
# Limits no further away than this at the end of a step acted in it [m, rad].
_REACHED = 1e-6


@kernel
def _to_maximal(
    # model
    links, bodies, center,
    # in
    span, q, qd, work,
    # out
    origins, placed, pose, u,
):  # fmt: skip
    """Fill poses and velocities of the bodies from the coordinates of the tree; scales stay as they are.

    Bodies of registered kinds have coordinates of their own: of them only `placed` is filled, as if they were solids.
    """
    kinematics(links, span, q, qd, work)
    rows = work.rows
    for i in range(len(links.parent)):
        p = links.parent[i]
        vx = vy = vz = 0.0
        if p >= 0:
            vx, vy, vz = cross(rows[p, W], rows[p, W + 1], rows[p, W + 2], rows[i, 24], rows[i, 25], rows[i, 26])
            vx, vy, vz = vx + origins[p, 0], vy + origins[p, 1], vz + origins[p, 2]
        if links.kind[i] == 1:
            s = qd[links.v_start[i]]
            vx, vy, vz = vx + s * rows[i, R + 8], vy + s * rows[i, R + 9], vz + s * rows[i, R + 10]
        elif links.kind[i] != 0:
            for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
                vx += work.subspace[v, 3] * qd[v]
                vy += work.subspace[v, 4] * qd[v]
                vz += work.subspace[v, 5] * qd[v]
        origins[i, 0], origins[i, 1], origins[i, 2] = vx, vy, vz
        r = (
            rows[i, R], rows[i, R + 4], rows[i, R + 8], rows[i, R + 1], rows[i, R + 5], rows[i, R + 9],
            rows[i, R + 2], rows[i, R + 6], rows[i, R + 10],
        )  # fmt: skip
        x, y, z = center[i, 0], center[i, 1], center[i, 2]
        lx, ly, lz = r[0] * x + r[1] * y + r[2] * z, r[3] * x + r[4] * y + r[5] * z, r[6] * x + r[7] * y + r[8] * z
        wx, wy, wz = rows[i, W], rows[i, W + 1], rows[i, W + 2]
        cx, cy, cz = cross(wx, wy, wz, lx, ly, lz)
        kind, o = bodies.kind[i], bodies.start[i]
        vx, vy, vz = vx + cx, vy + cy, vz + cz
        x, y, z = rows[i, R + 3] + lx, rows[i, R + 7] + ly, rows[i, R + 11] + lz
        a, b, c, d = quaternion_from_matrix(r)
        placed[i, 0], placed[i, 1], placed[i, 2] = x, y, z
        placed[i, 3], placed[i, 4], placed[i, 5], placed[i, 6] = a, b, c, d
        placed[i, 7], placed[i, 8], placed[i, 9], placed[i, 10], placed[i, 11], placed[i, 12] = wx, wy, wz, vx, vy, vz
        if kind == REGISTERED_BODY:
            continue
        pose[i, 0], pose[i, 1], pose[i, 2] = x, y, z
        pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = a, b, c, d
        if kind == PLANAR:
            u[o], u[o + 1], u[o + 2] = vx, vy, wz
        elif kind == PARTICLE or kind == AFFINE:
            u[o], u[o + 1], u[o + 2] = vx, vy, vz
        else:
            u[o], u[o + 1], u[o + 2], u[o + 3], u[o + 4], u[o + 5] = wx, wy, wz, vx, vy, vz


class MaximalState:
    """Owns the poses and velocities of the bodies; q and qd are read off them.

    Methods in maximal coordinates add how they advance.

    Args:
        model: the model.
        whole: the model in maximal coordinates.
        solver: "tree", "sparse" or "auto" of the saddle system.
        strict: whether a loop left open is an error.
        few: rows of loops up to which "auto" takes the forest; beyond them it takes what is predicted to be faster.
        soft: whether springs, dampers, motors and grips that have rows are solved by their laws, see `soft_rows.py`.
    """

    def __init__(
        self, model: Model, whole: Maximal, *, solver: str = "auto", strict: bool = True, few: int = _FEW,
        soft: bool = False,
    ) -> None:  # fmt: skip
        self._model, self._strict = model, strict
        self.whole: Maximal = whole
        self._loop_drives = _loop_drives(model, whole)
        a = model.arrays
        self._links = a.links
        self._span = whole_span(a.links, a.drives)
        self._work = new_work(a.links)
        reads = int((whole.table.role == DRIVE).sum())
        counts = np.array([whole.equality_count, len(whole.names) - reads, len(whole.names)], np.int64)
        self._setup = Setup(
            whole.bodies,
            whole.system,
            whole.table,
            whole.row_block,
            whole.scalable_pairs,
            whole.center,
            counts,
            a.links.gravity,
            free_joints_of(model),
            self._soft_rows() if soft else no_soft_rows(),
        )
        self._e = new_evaluation(whole)
        self._loops, self._ordering = _choose_solver(whole, solver, few)
        self._room = 16
        self.new_saddle()
        n, nu = len(whole.bodies.kind), int(whole.bodies.start[-1])
        poses, speeds = (lambda: np.zeros((n, POSE))), (lambda: np.zeros(nu))
        nq, nv = whole.sizes
        q, qd = np.zeros(nq), np.zeros(nv)
        for name, (first, _) in whole.loops.items():
            start = identity_coordinates(model.joint_spec(name))
            q[first : first + len(start)] = start
        # the tree's coordinates first, those of loop joints after them
        self._q, self._qd = q[: model.nq], qd[: model.nv]
        self._q[:], self._qd[:] = model.q0, model.qd0
        self.loop_tau = np.zeros(nv - model.nv)
        self._s = State(
            poses(), speeds(), q, qd, np.zeros(nv), np.zeros(nv), poses(), speeds(), poses(),
            poses(), speeds(), poses(), speeds(), np.zeros(len(whole.table.weights)),
            np.zeros((len(whole.table.compound), ROWS - COORDINATES)), speeds(), speeds(), new_evaluation(whole),
            np.zeros(1, np.int64), np.zeros(len(whole.table.joint)), np.zeros(len(whole.table.joint)), np.zeros(n),
            lever_mobility(whole), np.zeros(REPORT),
        )  # fmt: skip
        self._still = np.zeros(nv)
        self._drive_span = self._span.copy()
        self._drive_span[DOF + 1] = nv
        self._origins, self._placed = np.zeros((n, 3)), np.zeros((n, 13))
        self._turns = turns_of(model, whole)
        self._screws = screws_of(model, whole)
        self._compounds = compounds_of(whole)
        self._affine_start = start_shapes(model, whole, self._s.pose, self._s.u)
        self._free = [
            (int(a.joint_link[i]), int(a.q_start[i]), int(a.v_start[i]), model.joint_spec(name).kind)
            for i, name in enumerate(model.joint_names[: model.body_count])
            if model.joint_spec(name).kind == "free" or _is_particle(model, name)
        ]
        self._read_offs = frees_of(self._free)
        self._time = 0.0
        # loops open at the start may be closed by the state given next: they are looked at in the first step
        self._closed = False
        self._put_state(check=False)

    def _soft_rows(self) -> Any:
        model, whole = self._model, self.whole
        drives = Drives(*(np.concatenate(pair) for pair in zip(model.arrays.drives, self._loop_drives, strict=True)))
        counts = model.joint_count, len(model.springs)
        return new_soft_rows(whole.table, whole.system.row_start, *counts, drives, first=0)

    def constraint_tables(self) -> tuple[Table, ...]:
        """Return the table of the rows."""
        return (self.whole.table,)

    def new_saddle(self) -> None:
        """Make the solver of the rows anew, with the room for rows that act at once that is now asked for."""
        rigid = bool((self.whole.bodies.kind == RIGID).all())
        self._tree, self._structure, self._saddle = new_saddle(
            self.whole.system, self.whole.equality_count, loops=self._loops, rigid=rigid, room=self._room,
            primary=may_be_primary(self.whole), ordering=self._ordering,
        )  # fmt: skip

    def _rebuild(self, base: Maximal, whole: Maximal, **options: Any) -> None:
        """Go on with the rows of `whole`, the state kept; `base` is the model without those that come and go."""
        self._refresh()
        s, own, drives = self._s, inserted_terms(base, self.whole), self._loop_drives
        pose, u, q, qd, closed, time = s.pose, s.u, s.q, s.qd, self._closed, self._time
        near, tau = np.delete(self._e.near, np.r_[own]), self.loop_tau
        MaximalState.__init__(self, self._model, whole, **options)
        self._s.pose[:], self._s.u[:], self._s.q[:], self._s.qd[:] = pose, u, q, qd
        own = inserted_terms(base, whole)
        self._e.near[:] = np.insert(near, own.start, np.zeros(own.stop - own.start))
        self.loop_tau[:], self._loop_drives, self._closed, self._time = tau, drives, closed, time
        self._start_compounds()
        self._seen, self._read = (self._q.copy(), self._qd.copy()), True

    def _joint_name(self, row: int) -> str:
        """Return the joint a row belongs to, "" for none."""
        if row < 0:
            return ""
        return self.whole.names[int(np.searchsorted(self.whole.system.row_start, row, side="right")) - 1]

    # State

    def _put_state(self, *, check: bool = True) -> None:
        """Take poses and velocities from q and qd; raise where a loop is open if `check`."""
        q, qd = self._q.copy(), self._qd.copy()
        bodies = self.whole.bodies
        pose, u = self._s.pose, self._s.u
        before = (pose.copy(), u.copy(), self._e.near.copy(), getattr(self, "_seen", None))
        scratch = (self._origins, self._placed)
        _to_maximal(self._links, bodies, self.whole.center, self._span, q, qd, self._work, *scratch, pose, u)
        link, q_index, _ = self._read_offs[0].T
        other = (pose[link, 3:7] * q[q_index[:, None] + np.arange(3, 7)]).sum(axis=1) < 0.0
        pose[link[other], 3:7] *= -1.0
        match_signs(self._setup, len(q), q, pose)
        for i in np.flatnonzero(bodies.kind == AFFINE):
            shape = self._s.pose[i, SHAPE : SHAPE + 9].reshape(3, 3)
            if self._affine_start:
                self._s.pose[i, SHAPE : SHAPE + 9] = (matrix_from_quaternion(self._s.pose[i, 3:7]) @ shape).ravel()
        self._affine_start = False
        for term, q_index in self._turns:
            self._e.near[term] = self._s.q[q_index]
        self._start_compounds()
        if (bodies.kind >= SCALABLE).any():
            evaluate_state(self._setup, self._time, self._e, self._s)
            close_tree(self._model, self.whole, self._placed, self._e.ends, pose, u)
        self._s.fresh[0] = 0
        self._seen = (q, qd)
        self._read = True
        self._q[:], self._qd[:] = q, qd
        try:
            self.check_loops(check)
        except LoopNotClosed:
            pose[:], u[:], self._e.near[:], seen = before
            if seen is not None:
                self._seen = seen
                self._q[:], self._qd[:] = seen
                self._start_compounds()
            raise

    def _start_compounds(self) -> None:
        """Let the search for the coordinates of compound joints begin at those now known."""
        for pair, start, count in self._compounds:
            for e in (self._e, self._s.predicted):
                e.state[pair, COORDINATES : COORDINATES + count] = self._s.q[start : start + count]

    def check_loops(self, check: bool = True) -> None:
        """Look at all rows and raise where a loop is open if `check`."""
        evaluate_state(self._setup, self._time, self._e, self._s)
        if self._fit_screws():
            evaluate_state(self._setup, self._time, self._e, self._s)
        q, qd = self._seen
        self._q[:], self._qd[:] = q, qd
        gap, row = float(self._s.report[1]), int(self._s.report[2])
        if check and gap > 1e-6 and self._strict:
            name = self._joint_name(row)
            raise LoopNotClosed(f'joint "{name}": gap {gap:.3g} m > 1e-6 m; close it with lj.assemble')

    def _fit_screws(self) -> bool:
        """Give screws that close loops the turns that their travel tells; return whether any changed."""
        changed = False
        for row, terms, travel in self._screws:
            turns = round(float(self._e.values[row, 0]) / travel)
            if turns:
                self._e.near[terms] += 2.0 * np.pi * turns
                changed = True
        return changed

    def _refresh(self) -> None:
        """Read q and qd off the poses, once after each advance."""
        if self._read:
            return
        evaluate_state(self._setup, self._time, self._e, self._s)
        read_frees(*self._read_offs, self._e.ends, self._s.pose, self.whole.center, self._q, self._qd)
        self._seen = (self._q.copy(), self._qd.copy())
        self._read = True

    @property
    def q(self) -> np.ndarray:
        """(nq,) coordinates of the tree joints."""
        self._refresh()
        return self._q

    @property
    def qd(self) -> np.ndarray:
        """(nv,) velocities."""
        self._refresh()
        return self._qd

    def carried_velocities(self) -> np.ndarray:
        """Return the velocities of the bodies; see `Stepper`."""
        return self._s.u

    def _all_drives(self, forces: Any) -> tuple[Drives, np.ndarray]:
        """Return drives and applied forces of all joints, those of loop joints after those of the tree."""
        drives, tau = forces.drives, forces.tau
        if self.whole.loops:
            drives = Drives(*(np.concatenate(pair) for pair in zip(drives, self._loop_drives, strict=True)))
            tau = np.concatenate([tau, self.loop_tau])
        self._drive_span[SCALAR_DRIVE + 1], self._drive_span[BALL_DRIVE + 1] = (
            len(drives.indices),
            len(drives.ball_indices),
        )
        return drives, tau

    def loop_forces(self, name: str) -> np.ndarray:
        """Return the forces applied to a loop joint, to be written."""
        if name not in self.whole.loops:
            raise StateError(f'joint "{name}" has no dof for a force')
        at = self.whole.loops[name][1] - self._model.nv
        return self.loop_tau[at : at + coordinate_counts(self._model.joint_spec(name))[1]]

    def _take_edits(self) -> None:
        """Take what was written to q and qd since they were read."""
        if self._read and not (np.array_equal(self._seen[0], self._q) and np.array_equal(self._seen[1], self._qd)):
            self._put_state()

    def invalidate(self) -> None:
        """Take q and qd that were set; what follows from state and forces is found again."""
        self._s.fresh[0] = 0
        self._take_edits()

    def apply_impulse(self, link: int, point: np.ndarray, impulse: np.ndarray, angular_impulse: np.ndarray) -> None:
        """Change velocities at once by an impulse at a point of a link's frame, all constraints maintained."""
        self._take_edits()
        evaluate_state(self._setup, self._time, self._e, self._s)
        bodies, o = self.whole.bodies, int(self.whole.bodies.start[link])
        lever = self._position_of(link, point) - self._s.pose[link, :3]
        turn = angular_impulse + np.cross(lever, impulse)
        whole, kind = np.zeros(len(self._s.u)), int(bodies.kind[link])
        if kind == RIGID:
            whole[o : o + 6] = np.concatenate([turn, impulse])
        elif kind == PLANAR:
            whole[o : o + 3] = [impulse[0], impulse[1], turn[2]]
        elif kind == PARTICLE:
            whole[o : o + 3] = impulse
        else:
            raise UnsupportedByMethod("impulses act on rigid and planar bodies and particles only")
        structures = (self._tree, self._structure)
        if apply_generalized_impulse(self._setup, *structures, self._time, whole, self._e, self._saddle, self._s):
            raise StateError("no impulses of the constraints answer this impulse")
        self._s.fresh[0] = 0
        self._read = False

    def row_forces(self, exerted: np.ndarray, forces: Any) -> RowForces:
        """Return the forces of loop joints, limits, gears and other constraints; see `Stepper`.

        They are the multipliers of all rows, those of the tree's joints included, that together with the drives exert
        what the step did: also what projections and impulses added to them.
        """
        evaluate_state(self._setup, self._time, self._e, self._s)
        whole, system, table = self.whole, self.whole.system, self.whole.table
        drives, applied = self._all_drives(forces)
        driven = bool(len(drives.indices) or len(drives.ball_indices) or applied.any())
        tau = self._s.tau if driven else np.zeros(len(self._s.tau))
        first, last = (int(c) for c in self._setup.constraints[1:])
        rows = int(system.row_start[first])
        multipliers = np.zeros(int(system.row_start[last]))
        multipliers[rows:] = tau[table.drive[rows : len(multipliers), 1]]
        force = self._generalized(exerted)
        row, at, velocity = indices_of(system, np.arange(first, last))
        np.subtract.at(force, velocity, self._e.j[at] * multipliers[rows + row])
        while True:
            status = multipliers_of_force(
                self._setup, self._tree, self._structure, self._time, _REACHED, force, self._e, self._saddle, self._s,
                multipliers,
            )  # fmt: skip
            if status != Status.MORE_ROWS:
                break
            self._room *= 2
            self.new_saddle()
        if status != 0:
            raise StateError("no forces of the constraints fit the motion of the last step")
        tree = table.joint[rows : len(multipliers)] < self._model.joint_count - len(self._model.loop_names)
        multipliers[rows:][tree] = 0.0
        return forces_of_rows(table, multipliers, self._e.wrench, whole.center)

    def _generalized(self, wrenches: np.ndarray) -> np.ndarray:
        """Return the generalized force (nu,) of a torque about the com and a force (6,) on each body."""
        bodies, out = self.whole.bodies, np.zeros(len(self._s.u))
        for i, kind in enumerate(bodies.kind):
            o = int(bodies.start[i])
            columns = {RIGID: [0, 1, 2, 3, 4, 5], PLANAR: [3, 4, 2], PARTICLE: [3, 4, 5]}[int(kind)]
            out[o : o + len(columns)] = wrenches[i, columns]
        return out

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return poses, velocities and turns counted."""
        self._take_edits()
        # "rattle" goes on with the forces it had before the velocities were made to fit
        going = np.minimum(self._s.fresh, 1)
        return {
            "pose": self._s.pose.copy(), "u": self._s.u.copy(), "near": self._e.near.copy(), "going": going,
            "picked": self._e.state[self.whole.table.compound[:, 0], PICKED:ROWS],
            "loop_tau": self.loop_tau.copy(), "loop_q": self._s.q[len(self._q) :].copy(),
            "force": self._s.force * going,
        }  # fmt: skip

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        self._s.pose[:], self._s.u[:], self._e.near[:] = arrays["pose"], arrays["u"], arrays["near"]
        self._s.force[:], self._s.fresh[:] = arrays["force"], 2 * arrays["going"]
        self.loop_tau[:] = arrays["loop_tau"]
        self._s.q[len(self._q) :] = arrays["loop_q"]
        self._start_compounds()
        self._e.state[self.whole.table.compound[:, 0], PICKED:ROWS] = arrays["picked"]
        self._seen = (self._q.copy(), self._qd.copy())
        self._read = True

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure, in the words of bodies and joints."""
        model, whole = self._model, self.whole
        if status == Status.OPEN_LOOP:
            gap, row = float(self._s.report[1]), int(self._s.report[2])
            name = self._joint_name(row)
            return LoopNotClosed, name, f'joint "{name}": gap {gap:.3g} m > 1e-8 m at {where}; try a smaller dt'
        if status == Status.INFEASIBLE:
            return Diverged, "", f"no forces of the constraints fit together at {where}"
        kind, velocity = Status.of(status)
        if kind == Status.NOT_FINITE:
            link = int(np.searchsorted(whole.bodies.start, velocity, side="right")) - 1
            body = model.body_names[int(np.flatnonzero(model.arrays.body_link == link)[0])]
            joint = next(name for name in model.joint_names if model.joint_spec(name).child == body)
            text = f'joint "{joint}" of body "{body}" is no longer finite at {where}'
            return Diverged, joint, f"{text}; try a smaller dt, damping or another integrator"
        return None

    def energy_and_momentum(self, forces: Any) -> tuple[float, ...] | None:
        """Return kinetic and potential energy, linear and angular momentum where bodies change size, else None."""
        if not (self.whole.bodies.kind >= SCALABLE).any():
            return None
        self._refresh()
        evaluate_state(self._setup, self._time, self._e, self._s)
        kinetic, potential, *momentum = body_energies(self.whole, self._setup.gravity, self._e, self._s)
        potential += spring_energies(self._model.arrays.springs, self._position_of)
        potential += float(joint_energy(self._all_drives(forces)[0], self._s.q))
        return kinetic, potential, *momentum

    def body_poses(self, rigid: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Return origins and quaternions of the body frames where bodies change size, else None."""
        if not (self.whole.bodies.kind >= SCALABLE).any():
            return None
        evaluate_state(self._setup, self._time, self._e, self._s)
        return body_frames(self._model, self.whole, self._s.pose, self._position_of, rigid)

    def body_velocities(self) -> np.ndarray | None:
        """Return angular velocities and velocities of the coms where bodies change size, else None."""
        if not (self.whole.bodies.kind >= SCALABLE).any():
            return None
        evaluate_state(self._setup, self._time, self._e, self._s)
        return body_velocities(self._model, self.whole, self._e.ends)

    def joint_error(self) -> tuple[float, float]:
        """Return the largest gap [m] and angle [rad] that any joint's locked directions are open by."""
        near, q = self._e.near.copy(), self._s.q.copy()
        evaluate_state(self._setup, self._time, self._e, self._s)
        # who looks changes nothing: coordinates read off the poses differ in last bits from those that were set
        self._e.near[:], self._s.q[:] = near, q
        table, e = self.whole.table, self._e
        rows = int(self.whole.system.row_start[self.whole.equality_count])
        names = self._model.joint_names
        gears = [k for k, name in enumerate(names) if self._model.joint_spec(name).kind == "gear"]
        locked = (table.role[:rows] == EQUALITY) & (table.speed[:rows] == 0) & ~np.isin(table.joint[:rows], gears)
        sliding = np.abs(e.wrench[:rows, 3:6]).max(axis=1, initial=0.0) > 0.0
        out = []
        for chosen in (locked & sliding, locked & ~sliding):
            square = np.bincount(table.joint[:rows][chosen], e.values[:rows, 0][chosen] ** 2, minlength=1)
            out.append(float(np.sqrt(square.max(initial=0.0))))
        return out[0], out[1]

    def _position_of(self, link: int, point: np.ndarray) -> np.ndarray:
        """Return where a point of a link's frame is in the world; of the world for link -1."""
        if link < 0:
            return point
        return point_motion(self.whole, self._e.ends, link, point - self.whole.center[link])[0]

    def body_coordinates(self, link: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates that a body has beyond those of a solid, and their rates."""
        columns, speeds = shape_columns(self._model, self.whole, link)
        return self._s.pose[link, columns].copy(), self._s.u[speeds].copy()

    def set_body_coordinates(self, link: int, coordinates: np.ndarray | None, rates: np.ndarray | None) -> None:
        """Set the coordinates that a body has beyond those of a solid, or their rates; bodies below it go along."""
        self._take_edits()
        self._refresh()
        columns, speeds = shape_columns(self._model, self.whole, link)
        if coordinates is not None:
            self._s.pose[link, columns] = coordinates
        if rates is not None:
            self._s.u[speeds] = rates
        self._put_state(check=False)
        self._closed = False


def _loop_drives(model: Model, whole: Maximal) -> Drives:
    """Return the drives of loop joints, with their indices after those of the tree."""
    joints = [model.joint_spec(name) for name in whole.loops]
    starts = np.array(list(whole.loops.values()), np.int64).reshape(-1, 2)
    drives = drives_of(joints, starts[:, 0], starts[:, 1], whole.sizes[1])[0]
    return Drives(*(np.ascontiguousarray(field) for field in drives))


def _choose_solver(whole: Maximal, solver: str, few: int) -> tuple[bool, Ordering | None]:
    """Return whether the sparse solver takes all equalities, and its order of elimination where it is known."""
    if solver != "auto":
        return solver == "sparse", None
    own = first_constraints(whole.system, whole.equality_count)
    choice = choose_solver(own, may_be_primary(whole)[: whole.equality_count], few=few)
    return choice.sparse, choice.ordering


def _is_particle(model: Model, name: str) -> bool:
    joint = model.joint_spec(name)
    if joint.kind != "compound":
        return False
    return next(body.body_kind for body in model.spec.bodies if body.name == joint.child) == "particle"
