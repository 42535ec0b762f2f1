"""Snapshots: everything that feeds the next step of a simulation, its hash, and the way back."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from limberjack.errors import LimberjackError, StateError
from limberjack.model.arrays import drive_arrays, drives_from
from limberjack.reduced.constraint_set import Grip
from limberjack.reduced.forces import Wrenches
from limberjack.spatial.frames import matrix_from_quaternion, matrix_from_vector, quaternion_from_matrix

if TYPE_CHECKING:
    from limberjack.model.model import Model
    from limberjack.simulation.simulation import Simulation

__all__ = ["Snapshot", "displace", "restore", "restore_rows", "snapshot_of", "state_hash"]


@dataclass(frozen=True)
class Snapshot:
    """Everything that feeds the next step; opaque, for `Simulation.restore`."""

    steps: int
    base_steps: int
    base_time: float
    dt: float
    arrays: dict[str, np.ndarray]


def snapshot_of(sim: Simulation) -> Snapshot:
    """Return a snapshot of the simulation."""
    stepper, forces, clock = sim._stepper, sim.forces, sim._clock
    arrays = {"q": stepper.q.copy(), "qd": stepper.qd.copy(), "tau": forces.tau.copy()}
    arrays |= drive_arrays(forces.drives)
    if sim.model.actuators:
        arrays |= {"control": sim._control.values.copy(), "control.applied": sim._control.applied.copy()}
        if len(sim._control.activation):
            arrays["control.activation"] = sim._control.activation.copy()
    arrays |= {f"wrenches.{k}": v.copy() for k, v in forces.wrenches._asdict().items()}
    arrays |= {f"method.{k}": v for k, v in stepper.state_arrays().items()}
    arrays |= _grip_arrays(stepper.held_grips())
    arrays |= sim._kinematic.arrays(sim.model)
    return Snapshot(clock.steps, clock.base_steps, clock.base_time, clock.dt, arrays)


def restore(sim: Simulation, snapshot: Snapshot) -> None:
    """Set clock, state and forces to those of the snapshot."""
    if not isinstance(snapshot, Snapshot):
        raise StateError(f"restore() takes what snapshot() returned, got {snapshot!r}")
    arrays, before = snapshot.arrays, list(sim._stepper.held_grips())
    rows = sim._stepper.state_arrays(), sim.time
    own = {k[7:]: v for k, v in arrays.items() if k.startswith("method.")}
    clock = sim._clock
    time = snapshot.base_time + (snapshot.steps - snapshot.base_steps) * snapshot.dt
    try:
        restore_rows(sim, arrays, time)
        _require_fitting(sim, arrays)
    except LimberjackError:
        sim._stepper = sim._stepper.take_rows(*rows)
        _hold(sim, before)
        raise
    stepper, forces = sim._stepper, sim.forces
    clock.steps, clock.base_steps = snapshot.steps, snapshot.base_steps
    clock.base_time, clock.dt = snapshot.base_time, snapshot.dt
    stepper.q[:], stepper.qd[:], forces.tau[:] = arrays["q"], arrays["qd"], arrays["tau"]
    for array, saved in zip(forces.drives, drives_from(arrays), strict=True):
        array[:] = saved  # in place: compiled calls know the arrays
    applied = arrays.get("control.applied", forces.tau)
    sim._control.restore(sim, arrays.get("control"), applied, arrays.get("control.activation"))
    forces.wrenches = Wrenches(*(arrays[f"wrenches.{k}"].copy() for k in Wrenches._fields))
    sim._kinematic.restore(sim.model, arrays)
    sim._kinematic.apply(sim)
    stepper.set_state_arrays(own | {"clock": np.array(sim.time)})
    sim._watch.follow(sim, stepper.driven_rates | sim._kinematic.speeds())


def _require_fitting(sim: Simulation, arrays: dict[str, np.ndarray]) -> None:
    """Refuse a snapshot of another model or method."""
    for name, array in snapshot_of(sim).arrays.items():
        # lists are as long as what they list, and may be left out where that is nothing
        listed = "wrenches" in name or name.startswith(("list_", "method.list_"))
        same = listed or (name in arrays and arrays[name].shape == array.shape)
        if not same:
            raise StateError(
                f'this snapshot is not of model "{sim.model.name}" in method "{sim.method.name}": {name} differs'
            )


# -- grips -----------------------------------------------------------------------------------------

# Columns of the numbers of a grip: point, target, whether it has a rotation, the rotation, what it pulls with.
_POINT, _TARGET, _TURNS, _ROTATION, _PULL = slice(0, 3), slice(3, 6), 6, slice(7, 16), slice(16, 20)


def _grip_arrays(grips: Sequence[Grip]) -> dict[str, np.ndarray]:
    """Return bodies (n, 2: link and body) and numbers (n, 20) of grips; nothing where there are none."""
    if not grips:
        return {}
    numbers = np.zeros((len(grips), 20))
    for row, grip in zip(numbers, grips, strict=True):
        row[_POINT], row[_TARGET], row[_TURNS] = grip.point, grip.target, grip.rotation is not None
        row[_ROTATION] = (np.eye(3) if grip.rotation is None else grip.rotation).ravel()
        row[_PULL] = grip.stiffness, grip.damping, grip.most, grip.lever
    return {"grips.body": np.array([(grip.link, grip.body) for grip in grips], np.int64), "grips.data": numbers}


def restore_rows(sim: Simulation, arrays: dict[str, np.ndarray], time: float) -> None:
    """Let `sim` have the joints made while running, the driven coordinates and the grips of a snapshot at `time`."""
    own = {k[7:]: v for k, v in arrays.items() if k.startswith("method.list_")}
    sim._stepper = sim._stepper.take_rows(own, time)
    restore_grips(sim, arrays)


def restore_grips(sim: Simulation, arrays: dict[str, np.ndarray]) -> None:
    """Let `sim` have the grips of a snapshot: those it has keep their handles, others are released or made."""
    body = arrays.get("grips.body", np.zeros((0, 2), np.int64))
    data = arrays.get("grips.data", np.zeros((0, 20)))
    a = sim.model.arrays
    fits = body.dtype == np.int64 and data.dtype == float and body.shape == (len(data), 2) and data.shape[1:] == (20,)
    fits = fits and ((body[:, 1] >= 0) & (body[:, 1] < len(a.body_link))).all() and bool(np.isfinite(data).all())
    if not (fits and (a.body_link[body[:, 1]] == body[:, 0]).all() and (data[:, _PULL] > 0.0).all()):
        raise StateError(f'the grips of this snapshot do not fit model "{sim.model.name}"')
    held = list(sim._stepper.held_grips())
    wanted: list[Grip] = []
    for (link, b), row in zip(body.tolist(), data, strict=True):
        rotation = row[_ROTATION].reshape(3, 3).copy() if row[_TURNS] else None
        known = (grip for grip in held if grip.body == b and np.array_equal(grip.point, row[_POINT]))
        grip = next(known, None) or Grip(
            link, row[_POINT].copy(), row[_TARGET].copy(), None, *row[_PULL].tolist(), body=b
        )
        held = [other for other in held if other is not grip]
        grip.target, grip.rotation = row[_TARGET].copy(), rotation
        grip.stiffness, grip.damping, grip.most, grip.lever = row[_PULL].tolist()
        wanted.append(grip)
    if wanted or sim._stepper.held_grips():
        _hold(sim, wanted)


def _hold(sim: Simulation, grips: list[Grip]) -> None:
    """Let the stepper have these grips in this order."""
    for grip in list(sim._stepper.held_grips()):
        sim._stepper = sim._stepper.release(grip)
    for grip in grips:
        sim._stepper = sim._stepper.grab(grip)


def displace(model: Model, random: np.random.Generator, q: np.ndarray, qd: np.ndarray) -> None:
    """Displace coordinates and velocities by numbers from -0.01 to 0.01, coordinates within the hard limits."""
    step = random.uniform(-0.01, 0.01, model.nv)
    qd += random.uniform(-0.01, 0.01, model.nv)
    for iq, v in model.arrays.links.quaternions:
        turned = matrix_from_quaternion(q[iq : iq + 4]) @ matrix_from_vector(step[v : v + 3])
        q[iq : iq + 4] = quaternion_from_matrix(turned)
    low, high = model.arrays.limits.T
    for first_v, first_q, length in model.arrays.links.runs:
        v, at = slice(first_v, first_v + length), slice(first_q, first_q + length)
        inside = (low[v] <= q[at]) & (q[at] <= high[v])
        moved = q[at] + step[v]
        q[at] = np.where(inside, np.clip(moved, low[v], high[v]), moved)


def state_hash(snapshot: Snapshot) -> str:
    """Return the SHA-256 of a snapshot."""
    digest = hashlib.sha256(
        repr((snapshot.steps, snapshot.base_steps, snapshot.base_time.hex(), snapshot.dt.hex())).encode()
    )
    for name in sorted(snapshot.arrays):
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(snapshot.arrays[name]).tobytes())
    return digest.hexdigest()
