"""Snapshots: everything that feeds the next step of a simulation, its hash, and the way back."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from limberjack.errors import StateError
from limberjack.model.arrays import drive_arrays, drives_from
from limberjack.reduced.forces import Wrenches

if TYPE_CHECKING:
    from limberjack.simulation.simulation import Simulation

__all__ = ["Snapshot", "restore", "snapshot_of", "state_hash"]


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
    arrays |= {f"wrenches.{k}": v.copy() for k, v in forces.wrenches._asdict().items()}
    arrays |= {f"method.{k}": v for k, v in stepper.state_arrays().items()}
    if len(sim._kinematic):
        arrays |= {"kinematic": sim._kinematic.data.copy(), "arriving": sim._kinematic.arriving.copy()}
    return Snapshot(clock.steps, clock.base_steps, clock.base_time, clock.dt, arrays)


def restore(sim: Simulation, snapshot: Snapshot) -> None:
    """Set clock, state and forces to those of the snapshot."""
    if not isinstance(snapshot, Snapshot):
        raise StateError(f"restore() takes what snapshot() returned, got {snapshot!r}")
    arrays = snapshot.arrays
    for name, array in snapshot_of(sim).arrays.items():
        # lists are as long as what they list
        listed = "wrenches" in name or name.startswith("method.list_")
        same = name in arrays and (listed or arrays[name].shape == array.shape)
        if not same:
            raise StateError(
                f'this snapshot is not of model "{sim.model.name}" in method "{sim.method.name}": {name} differs'
            )
    stepper, forces, clock = sim._stepper, sim.forces, sim._clock
    clock.steps, clock.base_steps = snapshot.steps, snapshot.base_steps
    clock.base_time, clock.dt = snapshot.base_time, snapshot.dt
    stepper.q[:], stepper.qd[:], forces.tau[:] = arrays["q"], arrays["qd"], arrays["tau"]
    forces.drives = drives_from(arrays)
    forces.wrenches = Wrenches(*(arrays[f"wrenches.{k}"].copy() for k in Wrenches._fields))
    if len(sim._kinematic):
        sim._kinematic.data[:], sim._kinematic.arriving[:] = arrays["kinematic"], arrays["arriving"]
    own = {k[7:]: v for k, v in arrays.items() if k.startswith("method.")}
    stepper.set_state_arrays(own | {"clock": np.array(sim.time)})


def state_hash(snapshot: Snapshot) -> str:
    """Return the SHA-256 of a snapshot."""
    digest = hashlib.sha256(
        repr((snapshot.steps, snapshot.base_steps, snapshot.base_time.hex(), snapshot.dt.hex())).encode()
    )
    for name in sorted(snapshot.arrays):
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(snapshot.arrays[name]).tobytes())
    return digest.hexdigest()
