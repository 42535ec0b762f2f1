"""`limberjack check`: real models, loaded, run and compared with MuJoCo.

Each file is loaded and run for two seconds from its first keyframe, or its start, with the controls of that keyframe,
in its own time step. Energy, that in motors included, must not rise: controls are constant. Free motion is compared
with that of MuJoCo over 0.1 s without contacts; MuJoCo takes steps of a tenth there: the difference is ours.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.errors import LimberjackError, LoopNotClosed, ModelWarning, require
from limberjack.maximal.assemble import assemble
from limberjack.simulation.handles import require_closed_loops

if TYPE_CHECKING:
    from limberjack.model.model import Model
    from limberjack.simulation.simulation import Simulation

__all__ = ["Row", "check", "check_file"]

_FREE, _FINER = 0.1, 10
# Energy may rise by this part of the energy that falling by the size of the model frees: errors of integrators.
_GAIN = 0.02


@dataclass
class Row:
    """What was found about one file; None where there is nothing to compare.

    Attributes:
        file: its path.
        passed: whether it was loaded and ran without gaining energy.
        problem: what went wrong, "" for nothing.
        dofs: number of dofs.
        actuators: number of controls.
        timestep: [s].
        difference: largest difference of a coordinate from MuJoCo's after 0.1 s of free motion [rad or m].
        contacts: at the end, and MuJoCo's.
        gain: largest rise of energy above the start [J].
        speed: largest speed of a dof at the end [rad/s or m/s], and MuJoCo's.
        step_us: processor time per step [us], and MuJoCo's.
        notes: what was left out or repaired, as the loader says it.
    """

    file: str
    passed: bool = False
    problem: str = ""
    dofs: int = 0
    actuators: int = 0
    timestep: float = 0.0
    difference: float | None = None
    contacts: tuple[int | None, int | None] = (None, None)
    gain: float | None = None
    speed: tuple[float | None, float | None] = (None, None)
    step_us: tuple[float | None, float | None] = (None, None)
    notes: tuple[str, ...] = ()


def check(paths: list[Path], seconds: float, method: str, console: Any, json_path: Path | None) -> int:
    """Check files one after the other, print a table, and return the number of those that did not pass."""
    from rich.progress import Progress, SpinnerColumn

    rows: list[Row] = []
    width = min(48, max(len(_short(path)) for path in paths))
    _print(console, _TITLES, width)
    columns = (SpinnerColumn(), *Progress.get_default_columns())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("checking", total=len(paths))
        for path in paths:
            row = check_file(path, seconds, method)
            rows.append(row)
            _print(console, _cells(row), width)
            if row.problem:
                console.print(f"      {row.problem}", soft_wrap=True)
            progress.advance(task)
    _print_notes(rows, console)
    failed = sum(not row.passed for row in rows)
    console.print(f"{len(rows) - failed} of {len(rows)} pass; pairs of numbers are ours / MuJoCo's")
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return failed


def check_file(path: Path, seconds: float = 2.0, method: str = "full") -> Row:
    """Return what is found about one file.

    Args:
        path: a model file.
        seconds: how long it is run [s].
        method: that runs it.
    """
    from limberjack.io import load
    from limberjack.simulation.simulation import Simulation

    row = Row(str(path))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            model = load(path)
        row.notes = tuple(str(w.message).replace(f"{path}: ", "") for w in caught if w.category is ModelWarning)
        row.dofs, row.actuators = model.nv, len(model.actuators)
        sim = Simulation(model, method)
        row.timestep = sim.dt
        start, moved = _start_of(sim)
        row.notes += (moved,) if moved else ()
        sim.q = start
        peer = _peer(path, model, start)
        _run(sim, seconds, row)
        if peer is not None:
            peer.run(seconds, row)
            row.difference = peer.difference(method)
        row.passed = not row.problem
    except LimberjackError as error:
        row.problem = f"{type(error).__name__}: {str(error).replace(f'{path}: ', '')}"
    return row


def _start_of(sim: Simulation) -> tuple[np.ndarray, str]:
    """Go to the first keyframe, and return where to start, and a note where loops that are open there were closed."""
    if sim.model.keyframes:
        sim.reset(next(iter(sim.model.keyframes)))
    try:
        require_closed_loops(sim)
    except LoopNotClosed as error:
        found = assemble(sim.model, sim.q)
        return found.q, f"started from a pose that closes the loops ({error})"
    return sim.q, ""


def _scale(model: Model) -> float:
    """Return the energy that falling by the size of the model frees [J]."""
    a = model.arrays
    weight = float(a.body_mass[a.body_link >= 0].sum()) * max(9.81, float(np.linalg.norm(model.gravity)))
    lengths = np.linalg.norm(a.links.placement[:, 9:], axis=1)
    way = lengths.tolist()
    for i, p in enumerate(a.links.parent.tolist()):
        way[i] = way[i] + way[p] if p >= 0 else 0.0
    return weight * max(0.1, max(way, default=0.0))


def _run(sim: Simulation, seconds: float, row: Row) -> None:
    """Run a simulation, and note contacts, speed, time per step and how much energy rises."""
    total = round(seconds / sim.dt)
    every = max(1, round(0.01 / sim.dt))
    sim.step(1)
    begin, level = sim.energy().total, _scale(sim.model)
    most, spent, done = begin, 0.0, 1
    while done < total:
        n = min(every, total - done)
        clock = time.process_time()
        sim.step(n)
        spent += time.process_time() - clock
        done += n
        most = max(most, sim.energy().total)
    row.gain = most - begin
    # fast bodies have contacts ahead of time, which do not act
    row.contacts = (sum(bool(contact.impulse.any()) for contact in sim.contacts()), row.contacts[1])
    row.speed = (float(np.abs(sim.qd).max(initial=0.0)), row.speed[1])
    row.step_us = (spent / max(1, total - 1) * 1e6, row.step_us[1])
    if not np.isfinite(sim.q).all():
        row.problem = "the state is not finite"
    elif row.gain > _GAIN * level and not _works(sim):
        row.problem = f"energy rises by {row.gain:.3g} J, the model falling by its size frees {level:.3g} J"


def _works(sim: Simulation) -> bool:
    """Return whether constant controls or forces do work of their own: joint forces, and wrenches of the model."""
    return bool(sim.forces.tau.any() or len(sim.forces.wrenches.link))


class _Peer:
    """The same model in MuJoCo, with its coordinates in our order."""

    def __init__(self, mujoco: Any, compiled: Any, model: Model, start: np.ndarray) -> None:
        self._mujoco, self.m, self._model, self._start = mujoco, compiled, model, start
        self._q = np.arange(compiled.nq)
        if not (compiled.nq == model.nq and compiled.nv == model.nv):
            raise ValueError("another number of coordinates")
        names = [mujoco.mj_id2name(compiled, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(compiled.njnt)]
        if all(name for name in names) and all(compiled.jnt_type[j] >= 2 for j in range(compiled.njnt)):
            order = {name: int(compiled.jnt_qposadr[j]) for j, name in enumerate(names)}
            own = [model.dof_name(v) for v in range(model.nv)]
            if set(own) == set(order):
                self._q = np.array([order[name] for name in own], int)

    def _data(self) -> Any:
        data = self._mujoco.MjData(self.m)
        state = next(iter(self._model.keyframes.values()), None)
        data.qpos[self._q] = self._start
        if state is not None:
            data.qvel[:] = state.qd
        if state is not None and self.m.nkey:
            data.ctrl[:] = self.m.key_ctrl[0]
        return data

    def run(self, seconds: float, row: Row) -> None:
        """Run MuJoCo as it is, and note contacts, speed and time per step."""
        data, steps = self._data(), round(seconds / self.m.opt.timestep)
        clock = time.process_time()
        for _ in range(steps):
            self._mujoco.mj_step(self.m, data)
        row.step_us = (row.step_us[0], (time.process_time() - clock) / max(1, steps) * 1e6)
        row.contacts = (row.contacts[0], int(data.ncon))
        row.speed = (row.speed[0], float(np.abs(data.qvel).max(initial=0.0)))

    def difference(self, method: str) -> float | None:
        """Return the largest difference of a coordinate after free motion; quaternions up to their sign."""
        from limberjack.simulation.simulation import Simulation

        # ropes are limits of tendons in MuJoCo: where there are any, all limits act on both sides
        ropes = any(self._model.joint_spec(name).rope for name in self._model.loop_names)
        features = self._model.features().keys() & {"contacts", "friction", *(() if ropes else ("limits",))}
        sim = Simulation(self._model, method, ignore=sorted(features))
        if self._model.keyframes:
            sim.reset(next(iter(self._model.keyframes)))
        sim.q = self._start
        flags = self._mujoco.mjtDisableBit
        before = int(self.m.opt.disableflags), float(self.m.opt.timestep)
        self.m.opt.disableflags |= int(flags.mjDSBL_CONTACT | flags.mjDSBL_FRICTIONLOSS)
        self.m.opt.disableflags |= 0 if ropes else int(flags.mjDSBL_LIMIT)
        self.m.opt.timestep /= _FINER
        data, steps = self._data(), max(1, round(_FREE / sim.dt))
        try:
            for _ in range(steps * _FINER):
                self._mujoco.mj_step(self.m, data)
        finally:
            self.m.opt.disableflags, self.m.opt.timestep = before
        sim.step(steps)
        theirs, mine = np.array(data.qpos[self._q]), sim.q.copy()
        for iq, _ in self._model.arrays.links.quaternions:
            if mine[iq : iq + 4] @ theirs[iq : iq + 4] < 0.0:
                mine[iq : iq + 4] *= -1.0
        out = float(np.abs(mine - theirs).max(initial=0.0))
        return out if math.isfinite(out) else None


def _peer(path: Path, model: Model, start: np.ndarray) -> _Peer | None:
    """Return the model in MuJoCo; None where MuJoCo does not read the file or has other coordinates."""
    try:
        mujoco = require("mujoco", extra="mjcf")
        spec = mujoco.MjSpec.from_file(str(path.resolve()))
        if path.suffix == ".urdf":
            # MuJoCo does not find the meshes of packages; free motion needs none.
            for geom in list(spec.geoms):
                spec.delete(geom)
            for mesh in list(spec.meshes):
                spec.delete(mesh)
            spec.compiler.balanceinertia = True
        spec.option.timestep = model.timestep or 1e-3
        return _Peer(mujoco, spec.compile(), model, start)
    except Exception:  # whatever MuJoCo raises: there is then nothing to compare with
        return None


_TITLES = ("file", "dofs", "controls", "dt [ms]", "difference", "contacts", "gain [J]", "speed", "us/step", "")
_WIDTHS = (0, 4, 8, 7, 10, 9, 8, 17, 11, 4)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        _short(Path(row.file)), str(row.dofs), str(row.actuators), f"{row.timestep * 1e3:g}", _number(row.difference),
        _pair(row.contacts, "d"), _number(row.gain), _pair(row.speed, ".1g"), _pair(row.step_us, ".0f"),
        "pass" if row.passed else "FAIL",
    )  # fmt: skip


def _print(console: Any, cells: tuple[str, ...], width: int) -> None:
    rest = (cell.rjust(w) for cell, w in zip(cells[1:], _WIDTHS[1:], strict=True))
    console.print("  ".join((cells[0][:width].ljust(width), *rest)), soft_wrap=True)


def _short(path: Path) -> str:
    return "/".join(path.parts[-2:])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def _pair(values: tuple[Any, Any], form: str) -> str:
    return " / ".join("-" if value is None else format(value, form) for value in values)


def _print_notes(rows: list[Row], console: Any) -> None:
    """Print what was left out or repaired once per kind, with the number of files."""
    kinds: dict[str, int] = {}
    for row in rows:
        for kind in dict.fromkeys(_kind_of(note) for note in row.notes):
            kinds[kind] = kinds.get(kind, 0) + 1
    if kinds:
        console.print("Left out or repaired:")
    for kind, count in sorted(kinds.items(), key=lambda item: -item[1]):
        console.print(f"  {count:3d} files: {kind}", soft_wrap=True)


def _kind_of(note: str) -> str:
    """Return a note without the names in it."""
    text = note.split(": ")[-1] if note.split(":")[-1].strip()[:1] not in ('"', "n") else note.rsplit(": ", 1)[0]
    return text[:110]
