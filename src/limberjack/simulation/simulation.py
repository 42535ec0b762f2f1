"""`Simulation`: one model, one method, a clock, forces and a recorder."""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from limberjack import _registry
from limberjack.errors import Diverged, LimberjackError, StateError, UnknownName
from limberjack.methods import method_of, require_support
from limberjack.model.arrays import Drives, whole_span
from limberjack.model.compile import drives_of
from limberjack.model.joints import coordinate_counts
from limberjack.model.model import Model
from limberjack.reduced.dynamics import array_of, forward_kinematics
from limberjack.reduced.forces import Wrenches, no_wrenches
from limberjack.reduced.measure import body_velocities, energies, joint_energy
from limberjack.reduced.work import new_work
from limberjack.simulation.handles import BodyHandle, JointError, JointHandle, PointHandle, loops_error
from limberjack.simulation.recorder import Bar, Frames, Uninterrupted
from limberjack.simulation.runtime_joints import Attaching
from limberjack.simulation.trajectory import Trajectory

__all__ = ["Energy", "Forces", "JointError", "Momentum", "Simulation", "Snapshot", "resume"]

# One compiled call lasts about this long: short enough for Ctrl-C, long enough that the call costs nothing.
_CHUNK_SECONDS = 0.03


class Energy(NamedTuple):
    """Energies [J]."""

    kinetic: float
    potential: float
    total: float


class Momentum(NamedTuple):
    """Linear momentum [kg m/s] and angular momentum about the world origin [kg m^2/s]."""

    linear: np.ndarray
    angular: np.ndarray


@dataclass
class Forces:
    """What acts on the model: joint forces, lasting wrenches, and the joints' own drives."""

    tau: np.ndarray
    drives: Drives
    wrenches: Wrenches


@dataclass(frozen=True)
class Snapshot:
    """Everything that feeds the next step; opaque, for `Simulation.restore`."""

    steps: int
    base_steps: int
    base_time: float
    dt: float
    arrays: dict[str, np.ndarray]


class Simulation(Attaching):
    """One model moved by one method.

    Args:
        model: the model.
        method: "full" or a method object such as `lj.Full(integrator="rk4")`.
        dt: time step [s].
        q: (nq,) start coordinates; `model.q0` when None.
        qd: (nv,) start velocities; `model.qd0` when None.
        ignore: features of the model to leave out although the method cannot honour them, e.g. ("limits",).
    """

    def __init__(
        self,
        model: Model,
        method: Any = "full",
        dt: float = 1e-3,
        *,
        q: Any = None,
        qd: Any = None,
        ignore: Iterable[str] = (),
    ) -> None:
        if not isinstance(model, Model):
            raise StateError(
                f"model must be a lj.Model, got {type(model).__name__}; load one with lj.load or build one"
            )
        self.model, self.method = model, method_of(method)
        if not isinstance(ignore, Iterable):
            raise StateError(f"ignore must name features, like ('limits',), got {ignore!r}")
        self.ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        require_support(model, self.method, self.ignored)
        self._dt = _checked_dt(dt)
        # methods of users need not know what to leave out
        ignored = (frozenset(self.ignored),) if self.ignored else ()
        self._stepper = self.method.stepper(model, *ignored)
        drives = Drives(*(array.copy() for array in model.arrays.drives))
        self.forces = Forces(np.zeros(model.nv), drives, no_wrenches())
        self._steps = self._base_steps = 0
        self._base_time = 0.0
        self._per_chunk, self._compiled = 1, False
        self._poses: tuple[np.ndarray, np.ndarray] | None = None
        self._work: Any = None
        self._loop_drives: Any = None
        self.recorded: Trajectory | None = None
        if q is not None:
            self.q = q
        if qd is not None:
            self.qd = qd

    def __repr__(self) -> str:
        return f'Simulation("{self.model.name}", {self.method}, dt={self.dt:g}, time={self.time:.6g})'

    # Clock

    @property
    def steps(self) -> int:
        """Steps taken since the start."""
        return self._steps

    @property
    def time(self) -> float:
        """Time [s]: a whole number of steps times dt, never a sum."""
        return self._base_time + (self._steps - self._base_steps) * self._dt

    @property
    def dt(self) -> float:
        """Time step [s]; may be changed while running."""
        return self._dt

    @dt.setter
    def dt(self, value: float) -> None:
        value = _checked_dt(value)
        self._base_time, self._base_steps, self._dt = self.time, self._steps, value

    # State

    @property
    def q(self) -> np.ndarray:
        """(nq,) coordinates: a read-only copy; assign to set."""
        return _view(self._stepper.q)

    @q.setter
    def q(self, value: Any) -> None:
        new = array_of(value, (self.model.nq,), "q", self.model)
        for place, v in self.model.arrays.links.quaternions:
            length = float(np.linalg.norm(new[place : place + 4]))
            if abs(length - 1.0) > 1e-3:
                name = self.model.dof_name(int(v))
                raise StateError(
                    f'q[{place}:{place + 4}] of joint "{name}" must be a unit quaternion, its length is {length:.6g}'
                )
            if abs(length - 1.0) > 1e-15:
                new[place : place + 4] /= length
        self._stepper.q[:] = new
        self.touch()

    @property
    def qd(self) -> np.ndarray:
        """(nv,) velocities: a read-only copy; assign to set."""
        return _view(self._stepper.qd)

    @qd.setter
    def qd(self, value: Any) -> None:
        self._stepper.qd[:] = array_of(value, (self.model.nv,), "qd", self.model)
        self.touch()

    @property
    def tau(self) -> np.ndarray:
        """(nv,) joint forces applied until changed: a read-only copy; assign to set."""
        return _view(self.forces.tau)

    @tau.setter
    def tau(self, value: Any) -> None:
        self.forces.tau[:] = array_of(value, (self.model.nv,), "tau", self.model)
        self.touch()

    @property
    def positions(self) -> np.ndarray:
        """(body_count, 3) origins of the body frames in the world [m]."""
        return self._body_poses()[0]

    @property
    def rotations(self) -> np.ndarray:
        """(body_count, 4) quaternions of the body frames, body to world."""
        return self._body_poses()[1]

    @property
    def velocities(self) -> np.ndarray:
        """(body_count, 6) angular velocity, then velocity of the com, world axes."""
        found = getattr(self._stepper, "body_speeds", lambda: None)()
        if found is not None:
            return found
        a, (work, links, span) = self.model.arrays, self._scratch()
        out = np.empty((self.model.body_count, 6))
        q, qd = self._stepper.q, self._stepper.qd
        body_velocities(a.links, a.body_link, a.body_offset, a.body_com, span, q, qd, work, links, out)
        return out

    def joint(self, name: str) -> JointHandle:
        """Return the handle of a joint, or of one axis of a compound joint."""
        return JointHandle(self, name)

    def body(self, name: str) -> BodyHandle:
        """Return the handle of a body."""
        return BodyHandle(self, name)

    def point(self, name: str) -> PointHandle:
        """Return the handle of a named point."""
        for point in self.model.points:
            if point.name == name:
                return PointHandle(self, name, point.body, point.position)
        raise UnknownName("point", name, f'model "{self.model.name}"', [point.name for point in self.model.points])

    @property
    def active_joints(self) -> list[str]:
        """Names of the joints that are simulated now."""
        link = self.model.arrays.joint_link
        moving = self._stepper.active_links() & (self.model.arrays.links.dof > 0)
        return [self.model.joint_names[i] for i in np.flatnonzero((link >= 0) & np.append(moving, False)[link])]

    @property
    def active_links(self) -> np.ndarray:
        """Per link of the model, whether its joint is simulated now."""
        return self._stepper.active_links()

    def tune(self, **options: Any) -> None:
        """Change options of the method while running, such as `budget=10`; those it cannot change are refused."""
        known = [item.name for item in fields(self.method)]
        for name in options:
            if name not in known:
                raise UnknownName("option", name, f'method "{self.method.name}"', known)
        retune = getattr(self._stepper, "retune", None)
        if retune is None:
            raise StateError(f'method "{self.method.name}" has no options that can be changed while running')
        method = replace(self.method, **options)
        retune(method)
        self.method = method

    @property
    def stats(self) -> dict[str, Any]:
        """What the last step did."""
        return self._stepper.stats()

    def touch(self) -> None:
        """Tell the engine that the state or a force was changed; setters do it themselves."""
        self._poses = None
        self._stepper.changed()

    # Running

    def step(self, n: int = 1) -> None:
        """Take n steps; Ctrl-C stops between steps and keeps the state."""
        if not isinstance(n, (int, np.integer)) or n < 0:
            raise StateError(f"n must be a whole number >= 0, got {n!r}")
        left = int(n)
        if not self._compiled:
            # Compiling takes long and may be interrupted; the steps themselves are counted and taken together.
            self._stepper.advance(0, self._dt, self.forces, self.time)
            self._compiled = True
        while left > 0:
            chunk = min(left, self._per_chunk)
            begin = clock.perf_counter()
            with Uninterrupted():
                taken, status = self._stepper.advance(chunk, self._dt, self.forces, self.time)
                self._steps += int(taken)
                self._poses = None
            spent = clock.perf_counter() - begin
            if status:
                raise self._failure(int(status))
            left -= chunk
            # Aim at _CHUNK_SECONDS per call, and grow at most twofold on the word of a short one.
            self._per_chunk = max(1, min(2 * chunk, int(chunk * _CHUNK_SECONDS / max(spent, 1e-9))))

    def run(
        self,
        seconds: float,
        *,
        progress: bool = False,
        rate: float = 60.0,
        callback: Callable[[Simulation], None] | None = None,
    ) -> Trajectory:
        """Simulate for `seconds`, record, and return the trajectory.

        Ctrl-C raises as usual; what was recorded until then is kept in `sim.recorded`.

        Args:
            seconds: how long [s].
            progress: show a progress bar.
            rate: frames per second of the recording.
            callback: called with the simulation after each recorded frame.
        """
        seconds = _checked(seconds, "seconds", low=0.0)
        every = max(1, round(1.0 / (_checked(rate, "rate", low=1e-9) * self._dt)))
        total = round(seconds / self._dt)
        frames = Frames(self)
        try:
            with Bar(progress, total, f"{self.model.name}, {self.method.name}") as tick:
                done = 0
                while done < total:
                    n = min(every, total - done)
                    self.step(n)
                    done += n
                    frames.add()
                    tick(n)
                    if callback is not None:
                        callback(self)
        finally:
            self.recorded = frames.trajectory()
        return self.recorded

    # Measures

    def energy(self) -> Energy:
        """Return kinetic, potential and total energy [J]; gravity counts from the world origin."""
        kinetic, potential = self._measure()[:2]
        return Energy(kinetic, potential, kinetic + potential)

    def momentum(self) -> Momentum:
        """Return linear and angular momentum, the latter about the world origin."""
        out = self._measure()
        return Momentum(np.array(out[2:5]), np.array(out[5:8]))

    def joint_error(self) -> JointError:
        """Return the largest gap [m] and angle [rad] of joints; in reduced coordinates those of the tree are exact."""
        gaps = getattr(self._stepper, "joint_gaps", None)
        if gaps is not None:
            return JointError(*gaps())
        return loops_error(self)

    def contacts(self) -> list[Any]:
        """Return the contacts of the last step, none in methods without: bodies, position, normal, depth, impulse."""
        return getattr(self._stepper, "contacts", list)()

    def clusters(self, since: int = -1) -> Any:
        """Return where the rigid clusters of method adaptive are, and which links are in them.

        Args:
            since: the version of an earlier report: links are listed only if their places are other ones since then.

        Returns:
            `Clusters`, or None: in other methods, and while something that was set waits for the next step.
        """
        return getattr(self._stepper, "clusters", lambda since: None)(since)

    def cluster_heads(self) -> np.ndarray | None:
        """Return the first link of each rigid cluster, or None when `clusters` is None."""
        return getattr(self._stepper, "cluster_heads", lambda: None)()

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Return everything that feeds the next step."""
        arrays = {"q": self._stepper.q.copy(), "qd": self._stepper.qd.copy(), "tau": self.forces.tau.copy()}
        arrays |= {f"drives.{k}": v.copy() for k, v in self.forces.drives._asdict().items()}
        arrays |= {f"wrenches.{k}": v.copy() for k, v in self.forces.wrenches._asdict().items()}
        arrays |= {f"method.{k}": v for k, v in self._stepper.memory().items()}
        return Snapshot(self._steps, self._base_steps, self._base_time, self._dt, arrays)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to `snapshot`; the next steps are the same bit for bit."""
        if not isinstance(snapshot, Snapshot):
            raise StateError(f"restore() takes what snapshot() returned, got {snapshot!r}")
        arrays = snapshot.arrays
        own = self.snapshot().arrays
        for name, array in own.items():
            # lists are as long as what they list
            listed = "wrenches" in name or name.startswith("method.list_")
            same = name in arrays and (listed or arrays[name].shape == array.shape)
            if not same:
                raise StateError(
                    f'this snapshot is not of model "{self.model.name}" in method "{self.method.name}": {name} differs'
                )
        self._steps, self._base_steps = snapshot.steps, snapshot.base_steps
        self._base_time, self._dt = snapshot.base_time, snapshot.dt
        self._stepper.q[:], self._stepper.qd[:], self.forces.tau[:] = arrays["q"], arrays["qd"], arrays["tau"]
        self.forces.drives = Drives(*(arrays[f"drives.{k}"].copy() for k in Drives._fields))
        self.forces.wrenches = Wrenches(*(arrays[f"wrenches.{k}"].copy() for k in Wrenches._fields))
        memory = {k[7:]: v for k, v in arrays.items() if k.startswith("method.")}
        self._stepper.remember(memory | {"clock": np.array(self.time)})
        self._poses = None

    def state_hash(self) -> str:
        """Return the SHA-256 of the clock and of everything that feeds the next step."""
        snapshot = self.snapshot()
        digest = hashlib.sha256(
            repr((snapshot.steps, snapshot.base_steps, snapshot.base_time.hex(), snapshot.dt.hex())).encode()
        )
        for name in sorted(snapshot.arrays):
            digest.update(name.encode() + b"\0" + np.ascontiguousarray(snapshot.arrays[name]).tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write model, method and state to a file that `lj.resume` continues from, bit for bit; return its path."""
        path = Path(path)
        _registry.lookup("simulation writer", path)(self, path)
        return path

    # Helpers

    def _body_poses(self) -> tuple[np.ndarray, np.ndarray]:
        if self._poses is None:
            plain = forward_kinematics(self.model, self._stepper.q)
            poses: tuple[np.ndarray, ...] = getattr(self._stepper, "body_frames", lambda _: None)(plain) or plain
            for array in poses:
                array.setflags(write=False)
            self._poses = poses[0], poses[1]
        return self._poses

    def _scratch(self) -> tuple[Any, np.ndarray, np.ndarray]:
        if self._work is None:
            a = self.model.arrays
            self._work = (
                new_work(a.links),
                np.zeros((len(a.links.parent), 6)),
                whole_span(a.links, a.drives),
            )
        return self._work

    def _measure(self) -> tuple[float, ...]:
        a = self.model.arrays
        own = getattr(self._stepper, "measured", lambda forces: None)(self.forces)
        if own is not None:
            return own
        work, links, span = self._scratch()
        out = energies(a.links, self.forces.drives, a.springs, span, self._stepper.q, self._stepper.qd, work, links)
        return (out[0], out[1] + a.fixed_potential + self._loop_energy(), *out[2:])

    def _loop_energy(self) -> float:
        """Return the energy in springs, soft limits and motors of loop joints."""
        if self._loop_drives is None:
            joints = [self.model.joint_spec(name) for name in self.model.loop_names]
            joints = [joint for joint in joints if coordinate_counts(joint)[1]]
            sizes = np.array([coordinate_counts(joint) for joint in joints], np.int64).reshape(-1, 2)
            starts = np.cumsum(sizes, axis=0) - sizes
            drives = drives_of(joints, starts[:, 0], starts[:, 1], int(sizes[:, 1].sum()))[0]
            self._loop_drives = ([joint.name for joint in joints], drives)
        names, drives = self._loop_drives
        if not (len(drives.place) or len(drives.ball_place)):
            return 0.0
        return float(joint_energy(drives, np.concatenate([np.atleast_1d(self.joint(name).q) for name in names])))

    def _failure(self, status: int) -> LimberjackError:
        where = f"step {self._steps + 1} (t = {self.time:.6g} s); the state before it is kept"
        explain = getattr(self._stepper, "explain", None)
        told = None if explain is None else explain(status, where)
        if told is not None:
            kind, name, text = told
            return kind(text, name, self._steps, self.time) if kind is Diverged else kind(text)
        if status > 0:
            name = self.model.dof_name(status - 1)
            body = self.model.joint_spec(name).child
            text = f'joint "{name}" of body "{body}" has no inertia to act on at {where}'
            return Diverged(text, name, self._steps, self.time)
        if -status - 1 > self.model.nv:
            return Diverged(f"the springs' forces cannot be found at {where}", "", self._steps, self.time)
        name = self.model.dof_name(-status - 1)
        body = self.model.joint_spec(name).child
        text = f'joint "{name}" of body "{body}" is no longer finite at {where}'
        text += "; try a smaller dt, damping or another integrator"
        return Diverged(text, name, self._steps, self.time)


def resume(path: str | Path) -> Simulation:
    """Return the simulation saved in a file, ready to go on bit for bit."""
    return _registry.lookup("simulation reader", path)(Path(path))


def _view(array: np.ndarray) -> np.ndarray:
    out = array.copy()
    out.setflags(write=False)
    return out


def _checked(value: Any, what: str, low: float) -> float:
    try:
        out = float(value)
    except (TypeError, ValueError):
        raise StateError(f"{what} must be a number, got {value!r}") from None
    if not np.isfinite(out) or out < low:
        raise StateError(f"{what} must be a finite number >= {low:g}, got {value!r}")
    return out


def _checked_dt(value: Any) -> float:
    out = _checked(value, "dt", low=0.0)
    if not 0.0 < out <= 1.0:
        raise StateError(f"dt must be > 0 and <= 1 s, got {value!r}")
    return out
