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

from limberjack import scenes
from limberjack.errors import Diverged, LoopNotClosed
from limberjack.methods import Full, Multipliers
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.reduced.dynamics import forward_kinematics, jacobian, mass_matrix
from limberjack.simulation.simulation import Simulation
from limberjack.spatial.frames import matrix_from_quaternion
from limberjack_lab.bench.chain import difference
from limberjack_lab.bench.clock import Contender, race
from limberjack_lab.bench.elimination import Solve
from limberjack_lab.bench.peers import PinocchioTwin, to_mjcf
from limberjack_lab.bench.table import MISSING, Bar, Column, Table, Watch, peer

__all__ = ["OURS", "Balls", "consistent", "fill", "maximal_mjcf", "reduced_mjcf"]

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
    "full, semi_implicit": Full(),
    "multipliers, rattle, tree, 0.2 um": Multipliers(integrator="rattle", solver="tree", tolerance=2e-7),
    "multipliers, rattle, sparse, 0.2 um": Multipliers(integrator="rattle", solver="sparse", tolerance=2e-7),
}
# What the motions are compared with: second order in a step ten times shorter.
_EXACT = Multipliers(integrator="rattle", solver="sparse", substeps=10)

_COLUMNS = (
    Column("loops", "loops"),
    Column("who", "by"),
    Column("us", "one step", "us"),
    Column("error", "largest gap\nof a joint", "m"),
    Column("energy", "energy gained\nor lost", "rel"),
    Column("away", "bodies away from\nrattle, dt / 10", "m"),
    Column("gap", "accelerations:\nours and theirs", "rel"),
)


def _turned(rotations: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the vectors (n, 3) turned by the quaternions (n, 4)."""
    return np.einsum("nij,nj->ni", matrix_from_quaternion(rotations), vectors)


class Balls:
    """The balls of a model as pairs of points, to measure how far apart they are in any engine.

    Args:
        model: bodies on balls, all frames along the world's axes at q = 0.
    """

    def __init__(self, model: Model) -> None:
        self.specs = [model.joint_spec(name) for name in model.joint_names]
        index = {name: i for i, name in enumerate(model.body_names)} | {WORLD: -1}
        self.com = np.array([model.body(name).com for name in model.body_names])
        com = np.vstack([self.com, np.zeros(3)])
        self.ends = np.array([(index[spec.parent], index[spec.child]) for spec in self.specs])
        places = [(spec.position, spec.position_in_child) for spec in self.specs]
        self.points = np.array(places) - com[self.ends]  # (joints, 2, 3) from the com of each body

    def gap(self, places: np.ndarray, rotations: np.ndarray) -> float:
        """Return the largest distance of a pair, from the coms (n, 3) and quaternions (n, 4) of the bodies [m]."""
        places = np.vstack([places, np.zeros(3)])
        rotations = np.vstack([rotations, (1.0, 0.0, 0.0, 0.0)])
        a, b = (places[self.ends[:, k]] + _turned(rotations[self.ends[:, k]], self.points[:, k]) for k in range(2))
        return float(np.linalg.norm(a - b, axis=1).max())


def consistent(model: Model, stir: float = _STIR) -> np.ndarray:
    """Return velocities (nv,) drawn at random, less what the loops do not allow, weighed by the mass."""
    q, qd = model.q0, stir * np.random.default_rng(1).uniform(-1.0, 1.0, model.nv)
    if not model.loop_names:
        return qd
    places, _ = forward_kinematics(model, q)
    rows = []
    for name in model.loop_names:
        joint = model.joint_spec(name)
        at = places[model.body_index(joint.child)] + joint.position_in_child
        rows.append((jacobian(model, q, joint.child, at) - jacobian(model, q, joint.parent, at))[3:])
    j = np.vstack(rows)
    answer = np.linalg.solve(mass_matrix(model, q), j.T)
    return qd - answer @ np.linalg.lstsq(j @ answer, j @ qd, rcond=1e-12)[0]


@dataclass
class _Tree:
    """The tree with some loops, and the state all start from."""

    model: Model
    plain: Model  # the same without its loops
    balls: Balls
    qd: np.ndarray
    run: float
    kinetic: float = 0.0
    ends: np.ndarray | None = None  # coms at the end, ten times more finely


class _Found(NamedTuple):
    """A contender and what its run showed."""

    contender: Contender
    error: float | None
    energy: float | None
    ends: np.ndarray | None
    gap: float | None = None


def _watched(
    tree: _Tree, advance: Callable[[int], Any], look: Callable[[], tuple[np.ndarray, np.ndarray]]
) -> tuple[float, np.ndarray]:
    """Return the largest gap of a joint over the run and the coms at its end."""
    worst, places = 0.0, np.zeros(0)
    for _ in range(round(tree.run / DT / _LOOK)):
        advance(_LOOK)
        places, rotations = look()
        worst = max(worst, tree.balls.gap(places, rotations))
    return worst, places


# Ours


def _coms(sim: Simulation, balls: Balls) -> tuple[np.ndarray, np.ndarray]:
    """Return coms and quaternions; of maximal coordinates those stored, not those that the joints' would give."""
    pose = sim.snapshot().arrays.get("method.pose")
    if pose is not None:
        pose = pose[sim.model.arrays.body_link]
        return pose[:, :3], pose[:, 3:7]
    return sim.positions + _turned(sim.rotations, balls.com), sim.rotations


def _ours(tree: _Tree, method: Any) -> _Found:
    sim = Simulation(tree.model, method, dt=DT, qd=tree.qd)
    start, energy = sim.snapshot(), sim.energy()
    tree.kinetic = energy.kinetic
    error, ends = _watched(tree, sim.step, lambda: _coms(sim, tree.balls))
    drift = (sim.energy().total - energy.total) / energy.kinetic

    def restart() -> None:
        sim.restore(start)
        sim.step()  # what follows from the way back is done in it

    return _Found(Contender("", lambda: sim.step(_STRETCH), _STRETCH, restart), error, drift, ends)


# MuJoCo


def _numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in values)


def _connect(tree: Model, first: int, balls: Balls, base: np.ndarray) -> str:
    """Return MuJoCo's constraints for all joints from the `first` on; `base` is the com in each body's MuJoCo frame."""
    lines = ["<equality>"]
    for (a, b), points in zip(balls.ends[first:], balls.points[first:], strict=True):
        # a joint to the world hangs from the body: MuJoCo finds the other end
        body, point, other = (b, points[1], "") if a < 0 else (a, points[0], f' body2="body{b}"')
        place = _numbers(point + base[body])
        lines.append(f'<connect body1="body{body}"{other} anchor="{place}" solref="{2 * DT} 1"/>')
    return "\n".join([*lines, "</equality></mujoco>"]) if len(lines) > 1 else "</mujoco>"


def reduced_mjcf(plain: Model, balls: Balls) -> str:
    """Return MJCF of the tree with its loops as constraints."""
    number = count()
    text = re.sub("<body ", lambda _: f'<body name="body{next(number)}" ', to_mjcf(plain, dt=DT))
    return text.replace("</mujoco>", _connect(plain, plain.joint_count, balls, balls.com))


def maximal_mjcf(plain: Model, balls: Balls, solver: str) -> str:
    """Return MJCF of free bodies with all joints as constraints, solved by "Newton" or "CG"."""
    places, _ = forward_kinematics(plain, plain.q0)
    lines = [
        '<mujoco><compiler inertiafromgeom="false"/>',
        f'<option timestep="{DT}" solver="{solver}" gravity="{_numbers(plain.gravity)}">',
        '<flag contact="disable"/></option><worldbody>',
    ]
    for i, name in enumerate(plain.body_names):
        body = plain.body(name)
        lines.append(
            f'<body name="body{i}" pos="{_numbers(places[i] + balls.com[i])}"><freejoint/><inertial pos="0 0 0" '
            f'mass="{body.mass!r}" diaginertia="{_numbers(np.diag(body.inertia))}"/></body>'
        )
    return "\n".join([*lines, "</worldbody>", _connect(plain, 0, balls, np.zeros_like(balls.com))])


def _mujoco(mujoco: Any, tree: _Tree, text: str, maximal: bool) -> _Found:
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    qvel = tree.qd
    if maximal:
        # bodies start along the world's axes: (linear, angular) of each com
        qvel = Simulation(tree.plain, qd=tree.qd).velocities[:, [3, 4, 5, 0, 1, 2]].ravel()

    def restart() -> None:
        mujoco.mj_resetData(model, data)
        data.qvel[:] = qvel

    def look() -> tuple[np.ndarray, np.ndarray]:
        mujoco.mj_forward(model, data)
        return data.xipos[1:].copy(), data.xquat[1:].copy()

    restart()
    mujoco.mj_forward(model, data)
    before = float(data.energy.sum())
    error, ends = _watched(tree, lambda n: mujoco.mj_step(model, data, nstep=n), look)
    drift = (float(data.energy.sum()) - before) / tree.kinetic
    model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    step = Contender("", lambda: mujoco.mj_step(model, data, nstep=_STRETCH), _STRETCH, restart)
    return _Found(step, error, drift, ends)


# Pinocchio


def _pinocchio(pin: Any, tree: _Tree) -> _Found:
    """Return pinocchio's accelerations, without a step, and how far those of the bodies' turning are from ours."""
    twin = PinocchioTwin(tree.plain)
    model, q, v = twin.model, twin.q(tree.plain.q0), twin.v(tree.plain.q0, tree.qd)
    data, tau = model.createData(), np.zeros(model.nv)
    loops = tree.plain.joint_count
    if len(tree.balls.ends) == loops:
        contender = Contender("", lambda: pin.aba(model, data, q, v, tau))
    else:
        models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for ends, points in zip(tree.balls.ends[loops:], tree.balls.points[loops:], strict=True):
            sides: list[Any] = []
            for body, point in zip(ends, points, strict=True):
                link = int(tree.plain.arrays.body_link[body])
                sides += [twin.joints[link], pin.SE3(np.eye(3), point + tree.balls.com[body])]
            models.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, *sides, pin.ReferenceFrame.LOCAL))
        for one in models:
            datas.append(one.createData())
        pin.initConstraintDynamics(model, data, models, datas)
        limits = pin.ProximalSettings(1e-10, 1e-10, 10)
        contender = Contender("", lambda: pin.constraintDynamics(model, data, q, v, tau, models, datas, limits))
    qdd = contender.call()
    other = model.createData()
    pin.forwardKinematics(model, other, q, v, qdd)
    theirs = [pin.getClassicalAcceleration(model, other, k, pin.LOCAL_WORLD_ALIGNED).angular for k in twin.joints]
    solve = Solve(tree.model, qd=tree.qd)
    solve(1)
    return _Found(contender, None, None, None, difference(np.array(theirs), solve.saddle.a.reshape(-1, 6)[:, :3]))


def _rivals(mujoco: Any, pin: Any, tree: _Tree) -> dict[str, Callable[[], _Found]]:
    out: dict[str, Callable[[], _Found]] = {}
    if mujoco is not None:
        out["MuJoCo, reduced"] = lambda: _mujoco(mujoco, tree, reduced_mjcf(tree.plain, tree.balls), False)
        for solver in ("Newton", "CG"):
            text = maximal_mjcf(tree.plain, tree.balls, solver)
            out[f"MuJoCo, maximal, {solver}"] = lambda text=text: _mujoco(mujoco, tree, text, True)
    if pin is not None:
        word = "constraintDynamics" if tree.model.loop_names else "aba"
        out[f"pinocchio, {word}, no step"] = lambda: _pinocchio(pin, tree)
    return out


def _new_tree(bodies: int, loops: int, run: float) -> _Tree:
    model = scenes.baraff_tree(bodies=bodies, loops=loops)
    tree = _Tree(model, scenes.baraff_tree(bodies=bodies), Balls(model), consistent(model), run)
    exact = Simulation(model, _EXACT, dt=DT, qd=tree.qd)
    exact.step(round(run / DT / _LOOK) * _LOOK)
    tree.ends = _coms(exact, tree.balls)[0]
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
        except (Diverged, LoopNotClosed) as error:
            row["us"] = "lost"
            table.wrong.append(f"{who}, {loops} loops: {error}")
            continue
        found.contender.key = who
        runs.append(found.contender)
        row |= {"error": found.error, "energy": found.energy, "gap": found.gap}
        if found.ends is not None and tree.ends is not None:
            row["away"] = float(np.linalg.norm(found.ends - tree.ends, axis=1).mean())
    best = race(runs, seconds=seconds * len(runs), rounds=3)
    for row in rows:
        if row["who"] in best:
            row["us"] = table.trust(f"{row['who']}, {loops} loops", row["gap"] or 0.0, 1e6 * best[row["who"]].cpu)
    return rows


def _bar(table: Table, rows: list[dict[str, Any]], loops: int, measured: bool) -> None:
    def least(ours: bool) -> dict[str, Any] | None:
        kept = [
            row for row in rows
            if (row["who"] in OURS) == ours and isinstance(row.get("us"), float)
            and (not ours or row["error"] <= _ALLOWED)
        ]  # fmt: skip
        return min(kept, key=lambda row: row["us"], default=None)

    own, other = least(True), least(False)
    text, value = f"best peer / ours within 1 um, {loops} loops", None
    if own is not None and other is not None and measured:
        value = other["us"] / own["us"]
        text += f" ({other['who']} / {own['who']})"
    table.bars.append(Bar(text, value, _PROMISED.get(loops, 1.0)))


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
        rows = _measure(table, tree, makers | _rivals(mujoco, pin, tree), seconds)
        if mujoco is None or pin is None:
            rows.append({"loops": k, "who": f"some peers: {MISSING}"})
        part.rows += rows
        _bar(table, rows, k, bodies == 127 and run >= 1.0)
