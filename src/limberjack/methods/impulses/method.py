"""The running side of `Impulses`: state in maximal coordinates, contacts from step to step, sleep."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from limberjack.collision.detect import Contact, Detector, grown, new_detector
from limberjack.collision.narrow import new_scratch
from limberjack.collision.shapes import shape_names
from limberjack.constraints.black_box import raise_failed
from limberjack.constraints.table import DRIVE, EQUALITY
from limberjack.contact.bundles import BODIES, new_bundles
from limberjack.contact.figure_sweeps import Figures, new_figures
from limberjack.contact.graph import Graph, new_graph
from limberjack.contact.sweeps import RA, STEP_N, STEP_T, N, S, Sweeps, new_sweeps
from limberjack.contact.warm_start import WarmStart, new_warm_start
from limberjack.errors import Diverged, LimberjackError, StateError, Status, UnsupportedByMethod
from limberjack.maximal.bodies import RIGID
from limberjack.maximal.impulse import apply_generalized_impulse
from limberjack.maximal.inserted_rows import set_targets
from limberjack.maximal.measure import body_energies, spring_energies
from limberjack.maximal.rows import Maximal, new_maximal
from limberjack.maximal.scalable_bodies import rigid_model
from limberjack.maximal.soft_rows import GRIPPED, new_soft_rows
from limberjack.maximal.solve import evaluate_state
from limberjack.methods.impulses.ball_joint_impulses import new_ball_joints
from limberjack.methods.impulses.events import Billiard, take_event_steps
from limberjack.methods.impulses.islands import STILL
from limberjack.methods.impulses.joint_contacts import Rounds, new_rounds
from limberjack.methods.impulses.joint_solve import SUM
from limberjack.methods.impulses.motion import (
    ALL,
    FREE,
    GRIP,
    GRIP_IMPULSE,
    GRIP_LEVER,
    GRIP_TURN,
    JOINED,
    LED_BY_ROWS,
    MOVED,
    Bulk,
)
from limberjack.methods.impulses.options import GOLDEN, JOINT_SWEEP, JOINTS, Impulses
from limberjack.methods.impulses.post_stabilize import Rows
from limberjack.methods.impulses.pre_stabilize import MOST_SUBSTEPS
from limberjack.methods.impulses.resistance import new_resistance
from limberjack.methods.impulses.runtime_joints import AttachedState
from limberjack.methods.impulses.step import set_inverses, set_rows, take_ball_joint_steps, take_steps
from limberjack.methods.impulses.team import help_out
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.arrays import BALL_DRIVE, SCALAR_DRIVE, Drives
from limberjack.model.model import Model
from limberjack.reduced.constraint_set import Grip
from limberjack.reduced.measure import joint_energy
from limberjack.spatial.clock import COUNTS
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix
from limberjack.spatial.threads import STOP, Team, new_team

__all__ = ["ImpulsesStepper"]

# Damping of soft and firm contacts as a multiple of the critical: of soft ones high enough that columns in piles, which
# sway at a hertz or two on them, come to rest within a second; twice that and few sweeps no longer converge.
_SOFT, _FIRM = 20.0, 10.0
# Overlap pushed out by hard contacts per second.
_RATE = 10.0
# Contacts of islands with at most this many are firm, those of masses this far apart hard.
_SMALL, _RATIO = 200.0, 100.0
# Moved bodies nearer than this are where they are to be [m, rad].
_ARRIVED = 1e-12
# An island slower than this for so long sleeps [m/s, s].
_SLOW, _PATIENCE = 5e-3, 0.5


class ImpulsesStepper(AttachedState):
    """Takes the steps of `Impulses`."""

    prescribes_poses = True

    def __init__(self, model: Model, options: Impulses, ignored: frozenset[str]) -> None:
        options = options.resolved()
        if "bodies" in ignored:
            model = rigid_model(model)
        soft = options.joints != "sweeps"
        whole = new_maximal(model, ignored, springs=soft, drives=soft)
        for i in np.flatnonzero(whole.bodies.kind != RIGID):
            name = model.body_names[int(np.flatnonzero(model.arrays.body_link == i)[0])]
            raise UnsupportedByMethod(f'method "impulses" moves rigid bodies only; body "{name}" is of another kind')
        self._options = options
        helpers = 0 if options.events else options.threads - 1
        self._team = new_team(helpers, 64 + len(whole.bodies.kind) // BODIES)
        self._pool = ThreadPoolExecutor(helpers, "limberjack-impulses") if helpers else None
        self._scratches = [new_scratch() for _ in range(helpers)]
        self._bulk = _new_bulk(whole, self._team)
        self._own = (self._bulk.mass.copy(), self._bulk.own.copy(), self._bulk.round.copy())
        self._moves: dict[int, np.ndarray] = {}  # poses of the coms of moved links
        springs = model.arrays.springs
        self._springs = springs._replace(**{name: getattr(springs, name)[:0] for name in springs._fields if soft})
        self._shape_names = shape_names(model)
        hidden = tuple(self._shape_names) if "contacts" in ignored else ()
        self._detector: Detector = new_detector(model, whole.center, hidden, self._team)
        _set_extents(self._detector, self._bulk)
        self._cache: WarmStart = new_warm_start(len(self._detector.contacts.depth))
        self._figures: Figures = new_figures(None, len(self._bulk.mass), 0)
        self._new_scratch()
        self._billiard = None
        if options.events:
            self._billiard = Billiard(model, whole, self._detector.shapes, self._detector.filters, self._shape_names)
        self._rubs = "friction" not in ignored
        g = np.array(model.gravity)
        self._up = -g / np.linalg.norm(g) if np.linalg.norm(g) > 0.0 else np.zeros(3)
        self.grips: list[Grip] = []
        self._free_grips, self._grip_link, self._grip = list[Grip](), np.zeros(0, np.int64), np.zeros((0, GRIP))
        self._last, self._shown = (0.0, 1), 0
        super().__init__(model, whole)
        self.rows_changed()
        self._wake()

    def rows_changed(self) -> None:
        """Set up what depends on the rows."""
        model, whole = self._model, self.whole
        rows = len(whole.table.joint)
        friction_rows, most = _friction_rows(model, whole) if self._rubs else ([], [])
        limits = len(whole.names) - whole.equality_count - int((whole.table.role == DRIVE).sum())
        drives = Drives(*(np.concatenate(pair) for pair in zip(model.arrays.drives, self._loop_drives, strict=True)))
        soft = new_soft_rows(whole.table, whole.system.row_start, model.joint_count, len(model.springs), drives, limits)
        self._bulk.jointed[:] = _jointed(model, whole)
        led_rows = self._find_led()
        self._rows = Rows(
            np.zeros(rows), np.zeros(rows), np.zeros(rows), np.array(friction_rows, np.int64), np.array(most, float),
            np.full(len(whole.table.pair_link), -1, np.int64), np.zeros((16, 6)), np.zeros((len(whole.bodies.kind), 7)),
            np.zeros((limits + len(soft.row) + len(friction_rows), 4)), np.zeros(1), np.zeros(4), soft, led_rows,
        )  # fmt: skip
        kinds, part = self._detector.shapes.kind, float(self._options.resistance)
        self._resistance = new_resistance(model, whole, kinds, part)
        self._rows.compound[whole.table.compound[:, 0]] = np.arange(len(whole.table.compound))
        damped = self._options.joints == "damped" or whole.equality_count == 0
        self._balls = new_ball_joints(whole, self._bulk) if damped and not len(model.springs) else None

    def new_saddle(self) -> None:
        """Make the solver of the rows anew, and with it the figures that respond as one."""
        super().new_saddle()
        limits = int(self._setup.constraints[1] - self._setup.constraints[0])
        self._figures = new_figures(self._tree, len(self._bulk.mass), limits)
        self._rounds = self._rounds._replace(figures=self._figures)

    def _find_led(self) -> np.ndarray:
        """Mark the bodies whose motion is prescribed, by calls or by rows on them and other led ones; return the rows.

        Joints taken one after the other respond as their bodies do, so that rows lead nothing with joints="sweeps".
        """
        led, system, table, rows = self._bulk.led, self.whole.system, self.whole.table, []
        led[:] = FREE
        led[list(self._moves)] = MOVED
        equal = (table.role == EQUALITY) if self._options.joints != "sweeps" else np.zeros(len(table.role), bool)
        constraints: dict[int, list[int]] = {}
        for c in range(self.whole.equality_count):
            for i in system.incidence_body[system.incidence_start[c] : system.incidence_start[c + 1]]:
                constraints.setdefault(int(i), []).append(c)
        found = True
        while found:
            found = False
            for i, own in constraints.items():
                blocks, on = [], []
                for c in own if led[i] == FREE else []:
                    first, last = int(system.row_start[c]), int(system.row_start[c + 1])
                    at = np.arange(int(system.incidence_start[c]), int(system.incidence_start[c + 1]))
                    others = [int(j) for j in system.incidence_body[at] if j != i]
                    if all(led[j] != FREE for j in others):
                        t = int(at[system.incidence_body[at] == i][0])
                        block = self._e.j[system.block_start[t] : system.block_start[t + 1]].reshape(-1, 6)
                        blocks.append(block[equal[first:last]])
                        on += (first + np.flatnonzero(equal[first:last])).tolist()
                if len(on) >= 6 and np.linalg.matrix_rank(np.concatenate(blocks), tol=1e-6) == 6:
                    led[i], found = LED_BY_ROWS, True
                    rows += on
        self._bulk.led_count[0] = int((led != FREE).sum())
        self._bulk.carried[:] = 0
        return np.array(rows, np.int64)

    def _new_scratch(self) -> None:
        room, n = len(self._detector.contacts.depth), len(self._bulk.mass)
        self._graph: Graph = new_graph(n, room)
        self._sweeps: Sweeps = new_sweeps(room, new_bundles(n, room, self._team))
        self._rounds: Rounds = new_rounds(self._cache, self._figures)

    def _grow(self) -> None:
        """Make room for more contacts; what the last step pushed with stays."""
        self._detector = grown(self._detector)
        room = len(self._detector.contacts.depth)
        if room > len(self._cache.impulse):
            before, count = self._cache, int(self._cache.count[0])
            self._cache = new_warm_start(room)
            self._cache.count[0] = count
            self._cache.name[:count], self._cache.impulse[:count] = before.name[:count], before.impulse[:count]
        self._new_scratch()

    def _put_state(self, *, check: bool = True) -> None:
        super()._put_state(check=check)
        self._wake()

    def _wake(self) -> None:
        """Wake all bodies; their poses or forces were changed from outside."""
        self._bulk.asleep[:] = 0
        self._bulk.calm[:] = STILL
        set_inverses(self._s.pose, self._s.u.copy(), self._bulk)

    def invalidate(self) -> None:
        """Take q and qd that were set; all bodies wake."""
        super().invalidate()
        self._wake()

    def _how(self, h: float) -> np.ndarray:
        """Return the numbers that `take_steps` goes by, for substeps h; see `islands.py`."""
        o = self._options
        assert o.joints and o.tolerance and o.frequency and o.soft_sweeps
        small = {"auto": _SMALL, "firm": math.inf}.get(o.contacts, -1.0)
        ratio = {"auto": _RATIO, "hard": -1.0}.get(o.contacts, math.inf)
        patience = _PATIENCE if o.sleeping else math.inf
        shared = [o.shock, o.tolerance, float(JOINTS[o.joints]), _SLOW, patience, small, ratio]
        # swept joints beside limits are neither accelerated nor projected
        limits = len(self.whole.names) - self.whole.equality_count - int((self.whole.table.role == DRIVE).sum())
        shared += [
            1.0 if o.gradual else -1.0 if limits else 0.0,
            float(GOLDEN[o.golden]),
            float(JOINT_SWEEP[o.joint_sweep]),
            float(o.levels),
        ]
        soft = [o.soft_sweeps, 1, *_softness(min(o.frequency, 0.25 / h), _SOFT, h)]
        firm = [o.sweeps, max(1, o.sweeps // 5), *_softness(0.5 / h, _FIRM, h)]
        hard = [0 if o.shock else o.sweeps, 0, min(_RATE, 0.2 / h), 1.0, 0.0]
        return np.array([*shared, *soft, *firm, *hard])

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        self._take_edits()
        self._time, taken = time, 0
        if not self._closed:
            set_targets(self._base, self.whole, self._attached, time, 0.0)
            try:
                self.check_loops()
            finally:
                raise_failed()
            self._closed = True
        self._bulk.spent[:] = 0
        while True:
            ahead = self.steps_ahead(n - taken, dt, time + taken * dt)
            if self._prescribe_velocities(dt):
                ahead = min(ahead, 1)
            more, status = self._take(ahead, dt, forces, time + taken * dt)
            self.count_steps(more)
            taken += more
            raise_failed()
            if status or taken == n:
                break
        return taken, status

    def _take(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        """Take up to n steps with the joints there are now."""
        if self._billiard is not None:
            return self._take_events(n, dt, forces)
        drives, tau = self._all_drives(forces)
        driven = bool(len(drives.indices) or len(drives.ball_indices) or tau.any())
        # drives that are soft rows have no other force
        explicit = drives if self._options.joints == "sweeps" else Drives(*(field[:0] for field in drives))
        span = self._drive_span.copy()
        span[SCALAR_DRIVE + 1], span[BALL_DRIVE + 1] = len(explicit.indices), len(explicit.ball_indices)
        equality_rows = self.whole.system.row_start[self.whole.equality_count]
        general = driven or len(self._rows.friction_rows) or self.whole.table.target[:equality_rows].any()
        general = general or len(self._row_grips) or len(self._driven)
        loose = None if general else self._balls
        substeps = self._options.substeps or max(1, math.ceil(dt / self._options.longest_substep - 1e-9))
        h = dt / substeps
        how, taken = self._how(h), 0
        while True:
            d = self._detector
            touching = (d.broad, d.contacts, self._cache, self._graph, self._sweeps)
            grips, clock = (self._grip_link, self._grip), (n - taken, substeps, h)
            if loose is None:
                structures = (self._tree, self._structure)
                more, status = self._with_helpers(
                    take_steps, self._setup, *structures, self._springs, explicit, drives, self._still, span,
                    d.shapes, d.filters, how, driven, *clock, time + taken * dt, self._up, forces.wrenches, tau, *grips,
                    self._rows, *touching, self._rounds, self._bulk, self._resistance, self._e, self._saddle, self._s,
                )  # fmt: skip
            else:
                balls, structure, factored = loose
                more, status = self._with_helpers(
                    take_ball_joint_steps, self._setup, structure, d.shapes, d.filters, how, *clock, self._up,
                    forces.wrenches, *grips,
                    *touching, self._rounds, self._bulk, self._resistance, balls, factored, self._s,
                )  # fmt: skip
            taken += int(more)
            if status == Status.MORE_CONTACTS:
                self._grow()
            elif status == Status.MORE_ROWS:
                self._room *= 2
                self.new_saddle()
            else:
                break
        self._time = time + taken * dt
        if taken:
            self._last, self._shown = (dt, substeps), int(self._detector.contacts.count[0])
        self._read = n == 0 and self._read
        return taken, int(status)

    def _with_helpers(self, steps: Callable[..., tuple[int, int]], *arguments: Any) -> tuple[int, int]:
        """Take steps while other threads help."""
        if self._pool is None:
            return steps(*arguments)
        d = self._detector
        shared = (d.broad, d.contacts, self._cache, self._graph, self._sweeps, self._bulk, self._s)
        self._team.signal[STOP] = 0
        others = [
            self._pool.submit(help_out, self._setup, d.shapes, d.filters, scratch, *shared)
            for scratch in self._scratches
        ]
        try:
            return steps(*arguments)
        finally:
            self._team.signal[STOP] = 1
            for other in others:
                other.result()

    def _take_events(self, n: int, dt: float, forces: Forces) -> tuple[int, int]:
        """Take up to n steps from collision to collision."""
        assert self._billiard is not None
        self._billiard.prepare(self._s.pose, self._s.u, forces, self.grips)
        taken, status = take_event_steps(
            n, dt, self._setup.gravity, self._bulk.mass, self._billiard.collision_pairs, self._s
        )
        self._last, self._read = (dt, 1), n == 0 and self._read
        return int(taken), int(status)

    def apply_impulse(self, link: int, point: np.ndarray, impulse: np.ndarray, angular_impulse: np.ndarray) -> None:
        """Change velocities at once by an impulse, all constraints maintained; all bodies wake."""
        super().apply_impulse(link, point, impulse, angular_impulse)
        self._wake()

    # Contacts

    def contacts(self) -> list[Contact]:
        """Return the contacts of the last step, gaps up to the margin included."""
        model, d = self._model, self._detector
        owner = {shape.name: shape.body for shape in model.shapes}
        out, dt = [], self._last[0]
        set_rows(self._shown, self._sweeps)
        for t in range(self._shown):
            k = int(self._graph.order[t])
            row = self._sweeps.row[t]
            normal = row[N : N + 3].copy()
            impulse = row[STEP_N] * normal + row[STEP_T : STEP_T + 3]
            a, b = (self._shape_names[int(i)] for i in (d.contacts.shape_a[k], d.contacts.shape_b[k]))
            position = self._s.pose[self._sweeps.link[t, 0], :3] + row[RA : RA + 3]
            depth, force = -float(row[S]), impulse / dt
            key = int(d.contacts.key[k])
            out.append(Contact((owner[a], owner[b]), (a, b), position, normal, depth, impulse, force, key))
        return out

    # Grips: soft rows of the joints' solve where the body has joints, else impulses on the body alone

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; see `Stepper`."""
        self.grips.append(grip)
        self.reset_grips()
        return self

    def release(self, grip: Grip) -> Stepper:
        """Remove a grip."""
        self.grips = [other for other in self.grips if other is not grip]
        self.reset_grips()
        return self

    def reset_grips(self) -> None:
        """Set up the rows of all grips again."""
        self._take_edits()
        jointed = _jointed(self._model, self._base)
        for one in self._attached:
            for link in (self._link_of(one.joint.parent), self._link_of(one.joint.child)):
                if link >= 0:
                    jointed[link] = 1
        swept = self._options.joints == "sweeps"
        before, self._row_grips = self._row_grips, [
            grip for grip in self.grips if jointed[grip.link] and not swept
        ]  # fmt: skip
        if before or self._row_grips:
            self._change(list(self._attached))
        self._set_grips()
        self._wake()

    def move_grip(self, grip: Grip) -> None:
        """Take the target of a grip, which has changed."""
        k = self._index_in(self._free_grips, grip)
        if k >= 0:
            self._grip[k] = self._numbers(grip)
        else:
            frame = self.whole.table.pair_frame[self.whole.table.row_pair[self._grip_row(grip), 0]]
            if grip.rotation is not None:
                frame[:9] = grip.rotation.ravel()
            frame[9:12] = grip.target
        self._wake()
        self.invalidate()

    def held_grips(self) -> Sequence[Grip]:
        """Return the grips."""
        return self.grips

    def grip_force(self, grip: Grip) -> np.ndarray:
        """Return the force (3,) a grip pulled with in the last step, world axes."""
        k = self._index_in(self._free_grips, grip)
        if k >= 0:
            return self._grip[k, GRIP_IMPULSE : GRIP_IMPULSE + 3].copy()
        substep = float(self._rows.fastest[1]) or self._last[0] / self._last[1]
        if substep == 0.0:
            return np.zeros(3)
        row = self._grip_row(grip)
        at = int(self._rows.soft.first[0]) + int(np.flatnonzero(self._rows.soft.row == row)[0])
        axes = self.whole.table.pair_frame[self.whole.table.row_pair[row, 0], :9].reshape(3, 3)
        return axes @ self._rows.sums[at : at + 3, SUM] / substep

    def _index_in(self, grips: list[Grip], grip: Grip) -> int:
        return next((k for k, other in enumerate(grips) if other is grip), -1)

    def _grip_row(self, grip: Grip) -> int:
        """Return the first row of a grip of a body with joints."""
        soft = self._rows.soft
        row = int(soft.row[soft.kind == GRIPPED][0])
        for one in self._row_grips:
            if one is grip:
                return row
            row += 3 if one.rotation is None else 6
        raise StateError("the grip was released")

    def _set_grips(self) -> None:
        self._free_grips = [grip for grip in self.grips if self._index_in(self._row_grips, grip) < 0]
        self._grip_link = np.array([grip.link for grip in self._free_grips], np.int64)
        self._grip = np.array([self._numbers(grip) for grip in self._free_grips]).reshape(-1, GRIP)

    def _numbers(self, grip: Grip) -> np.ndarray:
        """Return the row of a grip for the kernels."""
        inertia, row = self._model.arrays.links.inertia[grip.link], np.zeros(GRIP)
        arm = grip.point - inertia[6:9] / inertia[9]  # from the com, where the poses of this method are
        row[:GRIP_IMPULSE] = [*arm, *grip.target, grip.stiffness, grip.damping, grip.most]
        if grip.rotation is not None:
            row[GRIP_LEVER], row[GRIP_TURN:] = grip.lever, quaternion_from_matrix(grip.rotation)
        return row

    # Prescribed motion

    def move(self, link: int, position: np.ndarray | None, rotation: Any) -> None:
        """Prescribe the pose of a link's frame, reached within the next step; None frees it.

        It has infinite mass and, in that step, the velocity of the motion, which contacts see; none afterwards. Where
        joints forbid the motion, it goes on until the pose is reached.
        """
        self._take_edits()
        if self._billiard is not None:
            raise StateError('method "impulses" with events=True moves no body; they move from collision to collision')
        if position is None:
            self._moves.pop(link, None)
        else:
            turn = np.array(rotation, float)
            center = position + matrix_from_quaternion(turn) @ self.whole.center[link]
            self._moves[link] = np.concatenate([center, turn])
        self._set_moved()
        self._wake()

    def _set_moved(self) -> None:
        """Make the moved links heavy, and the others as they are."""
        mass, own, rounded = self._own
        moved = np.isin(np.arange(len(mass)), list(self._moves))
        bulk = self._bulk
        bulk.mass[:] = np.where(moved, np.inf, mass)
        bulk.own[:] = np.where(moved[:, None], 0.0, own)
        bulk.round[:] = np.where(moved, 1, rounded)
        rows = self._find_led()
        self._rows = self._rows._replace(led_rows=rows)

    def _prescribe_velocities(self, dt: float) -> bool:
        """Fill the velocities with which moved links arrive within dt; return whether any is under way."""
        some = False
        for link, target in self._moves.items():
            pose = self._s.pose[link]
            way = np.concatenate([_turn_between(pose[3:7], target[3:]), target[:3] - pose[:3]])
            if np.abs(way).max() < _ARRIVED:
                way[:] = 0.0
            self._bulk.prescribed[link] = way / dt
            some = some or bool(way.any())
        return some

    def drive(self, name: str, axis: int, rate: float | None, time: float) -> Stepper:
        """Prescribe the rate of a joint coordinate from its value now; None frees it."""
        if self._options.joints == "sweeps":
            raise StateError('method "impulses" with joints="sweeps" drives no joint; use joints="global" or "damped"')
        super().drive(name, axis, rate, time)
        self._wake()
        return self

    def tune(self, options: Any) -> None:
        """Continue with other options; `joints`, `events` and `threads` stay as they are."""
        options = options.resolved()
        for word in ("joints", "events", "threads"):
            if getattr(options, word) != getattr(self._options, word):
                now = getattr(self._options, word)
                raise StateError(f'method "impulses" cannot change {word} while running; it is {now!r}')
        self._options = options
        self._wake()

    # Snapshots

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return poses, velocities, sleep, and impulses of contacts by name."""
        count = int(self._cache.count[0])
        collisions = {} if self._billiard is None else {"collisions": self._billiard.collision_pairs.count.copy()}
        swept = {"list_joint_forces": self._rows.force.copy()} if self._options.joints == "sweeps" else {}
        fast = {"list_fastest": self._rows.fastest.copy()} if self._rows.fastest[0] else {}
        return super().state_arrays() | collisions | swept | fast | {
            "asleep": self._bulk.asleep.copy(), "calm": self._bulk.calm.copy(),
            "list_contacts": self._cache.name[:count].copy(), "list_impulses": self._cache.impulse[:count].copy(),
            "list_moved": np.array([(link, *pose) for link, pose in self._moves.items()]).reshape(-1, 8),
        }  # fmt: skip

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        super().set_state_arrays(arrays)
        self._moves = {int(row[0]): row[1:].copy() for row in arrays["list_moved"]}
        self._set_moved()
        self._wake()
        self._bulk.asleep[:], self._bulk.calm[:] = arrays["asleep"], arrays["calm"]
        if self._billiard is not None:
            self._billiard.collision_pairs.count[:] = arrays["collisions"]
        if self._options.joints == "sweeps":
            self._rows.force[:] = arrays["list_joint_forces"]
        self._rows.fastest[:] = arrays.get("list_fastest", 0.0)
        count = len(arrays["list_contacts"])
        while count > len(self._cache.impulse):
            self._detector.contacts.count[1] = count
            self._grow()
        self._cache.count[0] = count
        self._cache.name[:count], self._cache.impulse[:count] = arrays["list_contacts"], arrays["list_impulses"]
        self._shown = 0

    # Reports

    def energy_and_momentum(self, forces: Forces) -> tuple[float, ...] | None:
        """Return energy and momentum of the bodies where there are joints, which may be open a little; else None."""
        if not self.whole.equality_count:
            return None
        kinetic, potential, *momentum = self._energies_on_joints()
        potential += spring_energies(self._model.arrays.springs, self._position_of)
        potential += float(joint_energy(self._all_drives(forces)[0], self._s.q)) + self._model.arrays.fixed_potential
        return kinetic, potential, *momentum

    def _energies_on_joints(self) -> tuple[float, ...]:
        """Return energies and momenta with the velocities brought onto the joints, as every step begins.

        What moved the bodies onto their joints leads off them at the end; when a chain snaps taut by a few percent of
        all energy.
        """
        s, before = self._s, self._s.u.copy()
        status = apply_generalized_impulse(
            self._setup, self._tree, self._structure, self._time, np.zeros(len(before)), self._e, self._saddle, s
        )
        if status != 0:
            s.u[:] = before
        evaluate_state(self._setup, self._time, self._e, s)
        out = body_energies(self.whole, self._setup.gravity, self._e, s)
        s.u[:] = before
        evaluate_state(self._setup, self._time, self._e, s)
        return out

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure, in the words of bodies and joints."""
        found = self._billiard.explain(status, where) if self._billiard is not None else None
        if found is not None:
            return found
        if status == Status.OPEN_LOOP and self._options.joints == "sweeps":
            gap, name = float(self._s.report[1]), self._joint_name(int(self._s.report[2]))
            text = f'joint "{name}" is open by {gap:.3g} m at {where}; try a smaller dt, more substeps or sweeps'
            return Diverged, name, f'{text}, or joints="global"'
        if status == Status.NOT_CONVERGED:
            square, _, link, _ = self._rows.fastest
            body = self._model.body_names[int(np.flatnonzero(self._model.arrays.body_link == int(link))[0])]
            frequency = math.sqrt(square)
            text = (
                f'the forces of its joints give body "{body}" a frequency of {frequency:.3g} rad/s at {where}: a step '
            )
            text += f"would take more than {MOST_SUBSTEPS} substeps; the body needs more mass, its neighbours less, or "
            return Diverged, "", f"{text}dt < {MOST_SUBSTEPS / frequency:.2g} s"
        if status == Status.POSE_NOT_FINITE:
            return Diverged, "", f"a pose is no longer finite at {where}; try a smaller dt"
        return super().explain(status, where)

    def stats(self) -> dict[str, Any]:
        """Return bodies, contacts, islands, levels, sleepers, and what the joints' solve did and took."""
        touching = self._shown
        if self._billiard is not None:
            return {"bodies": len(self._bulk.mass), "collisions": int(self._billiard.collision_pairs.count[0])}
        set_rows(touching, self._sweeps)
        return {
            "bodies": len(self._bulk.mass),
            "rows": int(self.whole.system.row_start[self.whole.equality_count]),
            "contacts": touching,
            "islands": int(self._graph.count[0]),
            "levels": int(self._graph.facts[: int(self._graph.count[0]), 2].max(initial=0)),
            "asleep": int(self._bulk.asleep.sum()),
            "penetration": float(-min(self._sweeps.row[:touching, S].min(initial=0.0), 0.0)),
            "projection_iterations": int(self._s.report[0]),
            "joint_error": float(self._s.report[1]),
            "substeps": self._last[1],
            "joint_share": self._joint_share(),
            "threads": self._options.threads,
        }

    def _joint_share(self) -> float | None:
        """Return the part of the time of the last steps that joints took; None where there is no telling."""
        whole = int(self._bulk.spent[ALL])
        return int(self._bulk.spent[JOINED]) / whole if COUNTS and whole else None


def _turn_between(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the rotation vector (3,) in the world from one quaternion to another."""
    v, u = end[1:], -start[1:]
    turn = end[0] * u + start[0] * v + np.cross(v, u)
    w, size = float(end[0] * start[0] - v @ u), float(np.linalg.norm(turn))
    angle = 2.0 * math.atan2(size, abs(w))
    return turn * (math.copysign(angle, w) / size if size > 1e-12 else 2.0)


def _softness(frequency: float, damping: float, h: float) -> tuple[float, float, float]:
    """Return rate, scale and give of contacts of a frequency, damped so many times the critical."""
    omega = 2.0 * math.pi * frequency
    reach = 2.0 * damping + h * omega
    stiff = h * omega * reach
    return omega / reach, stiff / (1.0 + stiff), 1.0 / (1.0 + stiff)


def _new_bulk(whole: Maximal, team: Team) -> Bulk:
    """Return what impulses need of the bodies."""
    n, bodies = len(whole.bodies.kind), whole.bodies
    full = bodies.inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    inverse = np.linalg.inv(full) if n else full
    own = np.ascontiguousarray(inverse.reshape(-1, 9)[:, [0, 4, 8, 1, 2, 5]])
    moments = np.linalg.eigvalsh(full) if n else np.ones((0, 3))
    mean = np.trace(full, axis1=1, axis2=2) / 3.0
    same = np.abs(full - mean[:, None, None] * np.eye(3)).max(axis=(1, 2), initial=0.0) <= 1e-12 * mean
    zeros = lambda: np.zeros(n)  # noqa: E731
    return Bulk(
        bodies.inertia, own, bodies.mass.copy(), np.zeros((n, 7)), zeros(), same.astype(np.int64),
        np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros((n, 3)), np.zeros(n, np.int64), zeros(), zeros(),
        zeros(), zeros(), zeros(), moments[:, 2] / moments[:, 0] - 1.0, np.zeros(n, np.int64), zeros(),
        np.zeros((n, 3)), np.zeros(n, np.int64), np.zeros(1, np.int64), np.zeros((n, 6)), np.zeros(n, np.int64),
        np.zeros(3, np.int64), team,
    )  # fmt: skip


def _jointed(model: Model, whole: Maximal) -> np.ndarray:
    """Return which bodies have joints or springs."""
    out, system = np.zeros(len(whole.bodies.kind), np.int64), whole.system
    out[system.incidence_body[: system.incidence_start[whole.equality_count]]] = 1
    # with joints="sweeps" springs are no rows
    springs = model.arrays.springs.link.ravel()
    out[springs[springs >= 0]] = 1
    return out


def _set_extents(detector: Detector, bulk: Bulk) -> None:
    shapes = detector.shapes
    for k, link in enumerate(shapes.link):
        if link >= 0 and np.isfinite(shapes.radius[k]):
            far = float(np.linalg.norm(shapes.offset[k, :3]) + shapes.radius[k])
            bulk.extent[link] = max(bulk.extent[link], far)


def _friction_rows(model: Model, whole: Maximal) -> tuple[list[int], list[float]]:
    """Return the constraints along coordinates of joints with dry friction, and the friction."""
    constraints, most = [], []
    table, start = whole.table, whole.system.row_start
    for c in range(len(start) - 1):
        r = int(start[c])
        if table.role[r] == DRIVE and table.drive[r, 1] < model.nv:
            # each of a ball's three rows is a constraint of its own, with the joint's first dof plus its axis
            force = float(model.arrays.friction[int(table.drive[r, 1])])
            if force > 0.0:
                constraints.append(c)
                most.append(force)
    return constraints, most
