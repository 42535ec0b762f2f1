"""A binary tree of bodies on balls with loops between its leaves: whole steps of ours and of peers, errors beside them.

Reduced: joints are the coordinates, loops are constraints. Maximal: every body is free, all joints are constraints.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import errors, scenes
from limberjack_lab.bench.clock import Contender, microseconds, repeated
from limberjack_lab.bench.frames import rotate
from limberjack_lab.bench.free_bodies import Bodies, connects, to_free_mjcf
from limberjack_lab.bench.maximal import EULER, accelerations
from limberjack_lab.bench.peers import PinocchioTwin, mujoco_state, to_mjcf
from limberjack_lab.bench.table import MISSING, Table, Watch, columns, difference, peer

__all__ = ["DT", "OURS", "consistent", "fill", "reduced_mjcf"]

DT = 1e-3
# Turning speeds of all balls at the start are drawn up to this, then made to fit the loops [rad/s].
_STIR = 0.1
# Steps of one sample, from the start; and between two looks at the joints.
_STRETCH, _LOOK = 100, 10
# Ours must keep all joints this well to count [m].
_ALLOWED = 1e-6
# At least so many times faster than the best peer, by loops, whatever the peer's error.
_PROMISED = {0: 1.3, 1: 5.0, 12: 9.0, 48: 1.7}

OURS: dict[str, Any] = {
    "full, semi_implicit": lj.Full(),
    "multipliers, rattle, tree, 0.2 um": lj.Multipliers(integrator="rattle", solver="tree", tolerance=2e-7),
    "multipliers, rattle, sparse, 0.2 um": lj.Multipliers(integrator="rattle", solver="sparse", tolerance=2e-7),
}
# pinocchio's functions for loops and their regularisation; with the mu of 1e-6 that its documentation names,
# accelerations by lcaba are wrong here by as much as they are large.
_PINOCCHIO = {"constraintDynamics": 1e-10, "lcaba": 1e-2}
# What the motions are compared with: second order in a step ten times shorter.
_EXACT = lj.Multipliers(integrator="rattle", solver="sparse", substeps=10)

_COLUMNS = columns(
    "loops: loops; who: by; us: one step [us]; error: largest gap|of a joint [m]; "
    "energy: energy gained|or lost [rel]; away: bodies away from|rattle, dt / 10 [m]; "
    "gap: accelerations:|ours and theirs [rel]"
)


def consistent(model: lj.Model, stir: float = _STIR) -> np.ndarray:
    """Return velocities (nv,) drawn at random, less what the loops do not allow, weighed by the mass."""
    q, qd = model.q0, stir * np.random.default_rng(1).uniform(-1.0, 1.0, model.nv)
    if not model.loop_names:
        return qd
    positions, _ = lj.forward_kinematics(model, q)
    rows = []
    for name in model.loop_names:
        joint = model.joint_spec(name)
        at = positions[model.body_index(joint.child)] + joint.position_in_child
        rows.append((lj.jacobian(model, q, joint.child, at) - lj.jacobian(model, q, joint.parent, at))[3:])
    j = np.vstack(rows)
    answer = np.linalg.solve(lj.mass_matrix(model, q), j.T)
    return qd - answer @ np.linalg.lstsq(j @ answer, j @ qd, rcond=1e-12)[0]


@dataclass
class _Tree:
    """The tree with some loops, and the state all start from."""

    model: lj.Model
    plain: lj.Model  # the same without its loops
    bodies: Bodies
    qd: np.ndarray
    run: float
    kinetic: float = 0.0
    ends: np.ndarray | None = None  # coms at the end, ten times more finely

    @property
    def looks(self) -> int:
        """How often the joints are looked at."""
        return round(self.run / DT / _LOOK)


class _Found(NamedTuple):
    """A contender and the errors of its run."""

    contender: Contender
    error: float | None
    energy: float | None
    ends: np.ndarray | None
    gap: float | None = None


def _ours(tree: _Tree, method: Any) -> _Found:
    sim = lj.Simulation(tree.model, method, dt=DT, qd=tree.qd)
    found, energy, worst = repeated("", sim, _STRETCH), sim.energy(), 0.0
    tree.kinetic = energy.kinetic
    for _ in range(tree.looks):
        sim.step(_LOOK)
        worst = max(worst, sim.joint_error().metres)
    drift = (sim.energy().total - energy.total) / energy.kinetic
    return _Found(found, worst, drift, _coms(sim, tree.bodies))


def _coms(sim: lj.Simulation, bodies: Bodies) -> np.ndarray:
    return sim.positions + rotate(sim.rotations, bodies.com)


def reduced_mjcf(plain: lj.Model, bodies: Bodies) -> str:
    """Return MJCF of the tree with its loops as constraints; `bodies` has the loops."""
    number = count()
    text = re.sub("<body ", lambda _: f'<body name="body{next(number)}" ', to_mjcf(plain, dt=DT))
    lines = connects(bodies, plain.joint_count, bodies.com, DT)
    return text.replace("</mujoco>", "\n".join(["<equality>", *lines, "</equality></mujoco>"]))


def _mujoco(mujoco: Any, tree: _Tree, text: str, maximal: bool) -> _Found:
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    qvel = tree.qd
    if maximal:
        # bodies start along the world's axes: (linear, angular) of each com
        qvel = lj.Simulation(tree.plain, qd=tree.qd).velocities[:, [3, 4, 5, 0, 1, 2]].ravel()
    data, restart = mujoco_state(mujoco, model, model.qpos0, qvel)
    mujoco.mj_forward(model, data)
    before = float(data.energy.sum())
    worst = 0.0
    for _ in range(tree.looks):
        mujoco.mj_step(model, data, nstep=_LOOK)
        mujoco.mj_forward(model, data)
        worst = max(worst, tree.bodies.gap(data.xipos[1:], data.xquat[1:]))
    drift = (float(data.energy.sum()) - before) / tree.kinetic
    model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    step = Contender("", lambda: mujoco.mj_step(model, data, nstep=_STRETCH), _STRETCH, restart)
    return _Found(step, worst, drift, data.xipos[1:].copy())


def _pinocchio(pin: Any, tree: _Tree, name: str) -> _Found:
    """Return pinocchio's accelerations by a function, without a step, and how far those of turning are from ours."""
    twin = PinocchioTwin(tree.plain)
    model, q, v = twin.model, twin.q(tree.plain.q0), twin.v(tree.plain.q0, tree.qd)
    data, tau = model.createData(), np.zeros(model.nv)
    loops = tree.plain.joint_count
    if len(tree.bodies.ends) == loops:
        contender = Contender("", lambda: pin.aba(model, data, q, v, tau))
    else:
        solve = getattr(pin, name)
        models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for ends, points in zip(tree.bodies.ends[loops:], tree.bodies.points[loops:], strict=True):
            sides: list[Any] = []
            for body, point in zip(ends, points, strict=True):
                link = twin.link_of[tree.bodies.names[body]]
                sides += [twin.joints[link], pin.SE3(np.eye(3), point + tree.bodies.com[body])]
            models.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, *sides, pin.ReferenceFrame.LOCAL))
        for one in models:
            datas.append(one.createData())
        if name == "lcaba":
            pin.computeJointMinimalOrdering(model, data, models)
        else:
            pin.initConstraintDynamics(model, data, models, datas)
        limits = pin.ProximalSettings(1e-10, _PINOCCHIO[name], 10)
        contender = Contender("", lambda: solve(model, data, q, v, tau, models, datas, limits))
    qdd = contender.call()
    other = model.createData()
    pin.forwardKinematics(model, other, q, v, qdd)
    theirs = [pin.getClassicalAcceleration(model, other, k, pin.LOCAL_WORLD_ALIGNED).angular for k in twin.joints]
    ours = accelerations(tree.model, EULER, tree.qd)
    return _Found(contender, None, None, None, difference(np.array(theirs), ours))


def _peers(mujoco: Any, pin: Any, tree: _Tree) -> dict[str, Callable[[], _Found]]:
    out: dict[str, Callable[[], _Found]] = {}
    if mujoco is not None:
        out["MuJoCo, reduced"] = lambda: _mujoco(mujoco, tree, reduced_mjcf(tree.plain, tree.bodies), False)
        for solver in ("Newton", "CG"):
            text = to_free_mjcf(tree.bodies, DT, solver=solver, contacts=False)
            out[f"MuJoCo, maximal, {solver}"] = lambda text=text: _mujoco(mujoco, tree, text, True)
    if pin is not None:
        for name in _PINOCCHIO if tree.model.loop_names else ("aba",):
            if hasattr(pin, name):
                out[f"pinocchio, {name}, no step"] = lambda name=name: _pinocchio(pin, tree, name)
    return out


def _new_tree(bodies: int, loops: int, run: float) -> _Tree:
    model = scenes.baraff_tree(bodies=bodies, loops=loops)
    tree = _Tree(model, scenes.baraff_tree(bodies=bodies), Bodies(model, reorder=False), consistent(model), run)
    exact = lj.Simulation(model, _EXACT, dt=DT, qd=tree.qd)
    exact.step(tree.looks * _LOOK)
    tree.ends = _coms(exact, tree.bodies)
    return tree


def _measure(
    table: Table, tree: _Tree, makers: dict[str, Callable[[], _Found]], seconds: float
) -> list[dict[str, Any]]:
    """Return a row for each maker: its error over the run, and its time, all taken in turns."""
    rows, runs, loops = [], [], len(tree.model.loop_names)
    for who, make in makers.items():
        row: dict[str, Any] = {"loops": loops, "who": who}
        rows.append(row)
        try:
            found = make()
        except (errors.Diverged, errors.LoopNotClosed) as error:
            row["us"] = "lost"
            table.wrong.append(f"{who}, {loops} loops: {error}")
            continue
        found.contender.key = who
        runs.append(found.contender)
        row |= {"error": found.error, "energy": found.energy, "gap": found.gap}
        if found.ends is not None and tree.ends is not None:
            row["away"] = float(np.linalg.norm(found.ends - tree.ends, axis=1).mean())
    best = microseconds(runs, seconds, rounds=3)
    for row in rows:
        if row["who"] in best:
            row["us"] = table.trust(f"{row['who']}, {loops} loops", row["gap"] or 0.0, best[row["who"]])
    return rows


def _bar(table: Table, rows: list[dict[str, Any]], loops: int) -> None:
    def least(ours: bool) -> dict[str, Any] | None:
        kept = [
            row for row in rows
            if (row["who"] in OURS) == ours and isinstance(row.get("us"), float)
            and (not ours or row["error"] <= _ALLOWED)
        ]  # fmt: skip
        return min(kept, key=lambda row: row["us"], default=None)

    own, other = least(True), least(False)
    text, value = f"best peer / ours within 1 um, {loops} loops", None
    if own is not None and other is not None:
        value = other["us"] / own["us"]
        text += f" ({other['who']} / {own['who']})"
    table.bar(text, value, _PROMISED.get(loops, 1.0))


def fill(table: Table, bodies: int, loops: tuple[int, ...], run: float, seconds: float, watch: Watch) -> None:
    """Measure trees of `bodies` bodies with so many `loops` over `run` seconds."""
    part = table.part(
        f"whole steps of {1e3 * DT:g} ms of {bodies} bodies on balls with loops; errors over {run:g} s", *_COLUMNS
    )
    table.note(f"start: turning speeds up to {_STIR:g} rad/s of all balls, made to fit the loops; all start alike")
    table.note("energy: of the start's kinetic energy; MuJoCo's constraints have solref (2 dt, 1)")
    mujoco, pin = peer("mujoco", table), peer("pinocchio", table)
    for k in loops:
        watch(f"{k} loops", 1)
        tree = _new_tree(bodies, k, run)
        makers: dict[str, Callable[[], _Found]] = {
            who: (lambda tree=tree, method=method: _ours(tree, method)) for who, method in OURS.items()
        }
        rows = _measure(table, tree, makers | _peers(mujoco, pin, tree), seconds)
        if mujoco is None or pin is None:
            rows.append({"loops": k, "who": f"some peers: {MISSING}"})
        part.rows += rows
        _bar(table, rows, k)
