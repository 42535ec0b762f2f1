"""The same state under another method, gravity or options: transfer between simulations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from limberjack.errors import StateError, UnsupportedByMethod
from limberjack.methods import method_of
from limberjack.model.model import Model
from limberjack.simulation.simulation import Simulation, Snapshot

__all__ = ["transplant", "under_gravity", "under_method"]

_SHARED = ("drives.", "wrenches.")


def transplant(snapshot: Snapshot, sim: Simulation) -> None:
    """Set clock, state and forces of `sim` from a snapshot, also of another method; dt stays that of `sim`.

    A snapshot of the same method and options is restored bit for bit, its dt included.
    """
    own = sim.snapshot().arrays
    if set(own) == set(snapshot.arrays) and all(
        own[k].shape == v.shape or k.startswith(("wrenches", "method.list_")) for k, v in snapshot.arrays.items()
    ):
        sim.restore(snapshot)
        return
    for name in ("q", "qd"):
        if snapshot.arrays[name].shape != own[name].shape:
            raise StateError(f'a state of {snapshot.arrays[name].shape} {name} does not fit model "{sim.model.name}"')
        setattr(sim, name, snapshot.arrays[name])
    arrays = sim.snapshot().arrays
    shared = {k: v for k, v in snapshot.arrays.items() if k == "tau" or k.startswith(_SHARED)}
    time = snapshot.base_time + (snapshot.steps - snapshot.base_steps) * snapshot.dt
    sim.restore(Snapshot(snapshot.steps, snapshot.steps, time, sim.dt, arrays | shared))
    sim.touch()


def under_method(sim: Simulation, method: Any, *, lenient: bool = False) -> Simulation:
    """Return a simulation of the same model in the same state under another method, or other options of it.

    Args:
        sim: where the state comes from.
        method: name or method object.
        lenient: leave out what the method does not support instead of refusing.
    """
    method = method_of(method)
    ignored = [word for word in sim.ignored if word not in method.supports]
    if lenient:
        ignored += [word for word in sim.model.features() if word not in method.supports and word not in ignored]
    other = Simulation(sim.model, method, sim.dt, ignore=ignored)
    transplant(sim.snapshot(), other)
    return other


def under_gravity(sim: Simulation, gravity: tuple[float, float, float]) -> Simulation:
    """Return the same simulation, in the same state, under another gravity (3,) [m/s^2]."""
    model = Model(replace(sim.model.spec, gravity=tuple(float(x) for x in gravity)))
    if model.nq != sim.model.nq:
        raise UnsupportedByMethod(f'model "{model.name}" cannot be rebuilt under another gravity')
    other = Simulation(model, sim.method, sim.dt, ignore=sim.ignored)
    transplant(sim.snapshot(), other)
    return other
