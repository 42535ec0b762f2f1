"""Part of table `adaptive`: what peers offer instead, models reduced by hand and trees that sleep."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.chains import DT as ROD_DT
from limberjack_lab.bench.chains import turning_rod
from limberjack_lab.bench.clock import PERIOD, Contender, Segment, adaptive, microseconds, motion_error
from limberjack_lab.bench.crowd import DT, PUSH, ROLLOUT, Crowd
from limberjack_lab.bench.peers import PinocchioTwin, mujoco_model, mujoco_state, rollout
from limberjack_lab.bench.table import MISSING, Part, Table, Watch, columns, difference, peer, ratio

__all__ = ["fill"]

_ACTIVE = 10
# Steps of a push before crowds are timed, and steps in one sample.
_PUSHED, _STRETCH = 40, 100
# Motors: natural frequency of each joint alone [rad/s] and damping ratio.
_RATE, _RATIO = 10.0, 0.3

_COLUMNS = columns(
    "case: case; peer: peer; theirs: theirs [us]; ours: ours [us]; faster: theirs /|ours [x]; "
    "active: joints|simulated; gap: ours, all joints,|and theirs [rel]; "
    "error: ours: distance from|the full motion [m]"
)


def _enter(row: dict[str, Any], theirs: float | str | None, ours: float) -> None:
    row["theirs"], row["ours"] = theirs, ours
    row["faster"] = ratio(theirs, ours)


def _reduced(pin: Any, twin: PinocchioTwin, dt: float) -> list[Contender]:
    """Return pinocchio on a model reduced to a few joints: a step, its larger part, and reducing to others."""
    n, q = twin.model.nv, np.zeros(twin.model.nq)
    whole = twin.model.copy()
    for k in range(n):  # without the frames of its joints, buildReducedModel ends the process
        whole.addJointFrame(k + 1)

    def build(shift: int) -> tuple[Any, Any]:
        kept = {(int(k) + shift) % n for k in np.linspace(0, n - 1, _ACTIVE)}
        small = pin.buildReducedModel(whole, [k + 1 for k in range(n) if k not in kept], q)
        return small, small.createData()

    model, data = build(0)
    zeros, at, speed = np.zeros(model.nv), np.zeros(model.nq), np.zeros(model.nv)
    turn = iter(range(10**9))

    def step() -> None:
        nonlocal at, speed
        speed += dt * pin.aba(model, data, at, speed, zeros)
        at += dt * speed

    return [
        Contender("reduced", step),
        Contender("aba", lambda: pin.aba(model, data, zeros, zeros, zeros)),
        Contender("change", lambda: build(next(turn))),
    ]


def _reduction(table: Table, part: Part, links: int, twin: PinocchioTwin | None, seconds: float) -> None:
    scene = scenes.get("paper_pendulum", links=links)
    pendulum = Segment(adaptive(scene.model, _ACTIVE, scene.dt, round(1.0 / scene.dt)))
    rod = Segment(adaptive(turning_rod(links, _ACTIVE), _ACTIVE, ROD_DT, 1000))
    contenders = [pendulum.contender("step"), rod.contender("rod"), rod.ordinary().contender("ordinary")]
    pin: Any = peer("pinocchio", table)
    if pin is not None and twin is not None:
        contenders += _reduced(pin, twin, scene.dt)
    best = microseconds(contenders, seconds)
    case = f"{_ACTIVE} of {links} joints"
    for key, who in (("reduced", "pinocchio, reduced by hand: aba, q, v"), ("aba", "pinocchio, only its aba")):
        row: dict[str, Any] = part.add(case=f"{case}: a step", peer=who, active=_ACTIVE)
        _enter(row, best.get(key, MISSING), best["step"])
    row = part.add(case=f"{case}: they change", peer="pinocchio, buildReducedModel, createData", active=_ACTIVE)
    _enter(row, best.get("change", MISSING), PERIOD * (best["rod"] - best["ordinary"]))


def _sleeping(mujoco: Any, crowd: Crowd, whole: Any, pushed: int) -> tuple[Contender, Any, str]:
    """Return MuJoCo's step of a crowd that sleeps but for those pushed, its state, and how many are awake."""
    model = copy.copy(whole)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    data, start = mujoco.MjData(model), mujoco.MjData(model)
    data.qpos[:] = crowd.q
    for _ in range(30):  # trees fall asleep after some steps at rest
        mujoco.mj_step(model, data)
    data.xfrc_applied[1 + np.array(crowd.chests[:pushed]), :3] = PUSH
    for _ in range(_PUSHED):
        mujoco.mj_step(model, data)
    mujoco.mj_copyData(start, model, data)

    def run() -> None:  # many steps: the copy before leaves nothing of the model in the cache
        for _ in range(_STRETCH):
            mujoco.mj_step(model, data)

    step = Contender("mujoco", run, units=_STRETCH, prepare=lambda: mujoco.mj_copyData(data, model, start))
    return step, start, f"{start.ntree_awake} of {crowd.figures} awake"


def _sleep(table: Table, part: Part, crowd: Crowd, mujoco: Any, whole: Any, seconds: float) -> None:
    pushed = max(1, crowd.figures // 20)

    def moving(method: Any) -> lj.Simulation:
        sim = crowd.pushed(method, pushed)
        sim.step(_PUSHED)
        return sim

    full = moving(lj.Full(integrator="semi_implicit"))
    # All that moves, as MuJoCo does; and a tenth of it.
    methods = {
        "all joints that move": lj.Adaptive(tolerance=1e-6, update_every=PERIOD),
        "a tenth of them": lj.Adaptive(budget=pushed * (crowd.one.joint_count - 1) // 10, update_every=PERIOD),
    }
    segments = {word: Segment(moving(method), least=_STRETCH) for word, method in methods.items()}
    contenders, who, gap = [one.contender(word) for word, one in segments.items()], "MuJoCo, sleep", None
    if mujoco is None or not hasattr(mujoco.mjtEnableBit, "mjENBL_SLEEP"):
        who = f"MuJoCo: {MISSING if mujoco is None else 'without sleep'}"
    else:
        step, state, awake = _sleeping(mujoco, crowd, whole, pushed)
        contenders.append(step)
        gap, who = difference(state.qvel, full.qd), f"MuJoCo, sleep: {awake}"
    best = microseconds(contenders, seconds)
    for word, one in segments.items():
        row: dict[str, Any] = part.add(case=f"{crowd.figures} figures, {pushed} pushed: {word}", peer=who, gap=gap)
        theirs = MISSING if gap is None else table.trust(who, gap, best["mujoco"])
        _enter(row, theirs, best[word])
        one.restart()
        row["active"] = one.sim.stats["active_joints"]
        row["error"] = motion_error(moving(methods[word]), full.positions, 1.0)


def _gains(one: lj.Model) -> tuple[np.ndarray, np.ndarray]:
    """Return stiffness and damping (nv,) of the motors of a figure, by the inertia each joint feels alone."""
    inertia = 1.0 / np.diag(np.linalg.inv(lj.mass_matrix(one, one.q0)))
    inertia[:6] = 0.0
    return inertia * _RATE**2, 2.0 * _RATIO * _RATE * inertia


def _with_motors(crowd: Crowd) -> lj.Model:
    """Return the crowd with a PD motor on every joint, all figures aiming at the same pose."""
    spec, (kp, kd), joints = crowd.whole.spec, _gains(crowd.one), []
    target = crowd.one.q0
    for i, joint in enumerate(spec.joints):
        info = crowd.one.joint(crowd.one.joint_names[i % crowd.one.joint_count])
        if joint.kind != "free":
            v, q = info.v_start, info.q_start
            motors = (
                lj.Motor(kp=float(kp[v + k]), kd=float(kd[v + k]), target=float(target[q + k])) for k in range(info.nv)
            )
            joint = replace(joint, motor=tuple(motors))
        joints.append(joint)
    return lj.Model(replace(spec, name="moving crowd", joints=joints, shapes=[], points=[], excluded=[]))


def _spring_motors(mujoco: Any, model: Any, one: lj.Model) -> Any:
    """Return a MuJoCo model whose joints have the motors as springs and dampers, its cheapest way."""
    out, (kp, kd) = copy.copy(model), _gains(one)
    out.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
    figures = out.nv // one.nv
    out.dof_damping[:] = np.tile(kd, figures)
    out.qpos_spring[:] = np.tile(one.q0, figures)
    hinges = out.jnt_type == int(mujoco.mjtJoint.mjJNT_HINGE)
    out.jnt_stiffness[hinges] = np.tile(kp, figures)[out.jnt_dofadr[hinges]]
    return out


def _one_model(mujoco: Any, crowd: Crowd, whole: Any) -> tuple[str, Contender, np.ndarray]:
    model = _spring_motors(mujoco, whole, crowd.one)
    data, restart = mujoco_state(mujoco, model, crowd.q, crowd.qd)
    mujoco.mj_step(model, data)
    step = Contender("whole", lambda: mujoco.mj_step(model, data), prepare=restart)
    return "MuJoCo, one model of all, mj_step", step, data.qvel.copy()


def _rollout(mujoco: Any, crowd: Crowd) -> tuple[str, Contender, np.ndarray]:
    model = _spring_motors(mujoco, mujoco_model(crowd.one, dt=DT), crowd.one)
    run, after = rollout(mujoco, model, *crowd.states)
    step = Contender("rollout", lambda: run(ROLLOUT), units=ROLLOUT)
    return f"MuJoCo, rollout, {ROLLOUT} steps of each figure", step, after.ravel()


def _in_parallel(crowd: Crowd) -> tuple[str, Contender, None]:
    """Return pinocchio's accelerations of all figures with the forces of the motors given: less than a step."""
    call, _ = PinocchioTwin(crowd.one).in_parallel(*crowd.states)
    return "pinocchio, abaInParallel on one thread, no step", Contender("pin", call), None


def _moving(table: Table, part: Part, crowd: Crowd, mujoco: Any, whole: Any, seconds: float) -> None:
    model = _with_motors(crowd)
    full = lj.Simulation(model, lj.Full(integrator="semi_implicit"), dt=DT, qd=crowd.qd)
    budget = crowd.figures * (crowd.one.joint_count - 1) // 10
    ours = lj.Simulation(model, lj.Adaptive(budget=budget, update_every=PERIOD), dt=DT, qd=crowd.qd)
    others: list[tuple[str, Contender, np.ndarray | None]] = []
    if mujoco is not None:
        others += [_one_model(mujoco, crowd, whole), _rollout(mujoco, crowd)]
    pin: Any = peer("pinocchio", table)
    if pin is not None and hasattr(pin, "abaInParallel"):
        others.append(_in_parallel(crowd))
    full.step()
    after = full.qd
    full.step(_PUSHED - 1)
    ours.step(_PUSHED)
    error = motion_error(ours, full.positions, 1.0)
    segment = Segment(ours, least=_STRETCH)
    contenders = [segment.contender("ours"), *(one for _, one, _ in others)]
    best = microseconds(contenders, seconds)
    case = f"{crowd.figures} figures moving, a motor on every joint"
    active = segment.sim.stats["active_joints"]
    for who, contender, theirs in others or [(f"peers: {MISSING}", None, None)]:
        row: dict[str, Any] = part.add(case=case, peer=who, active=active, error=error)
        row["gap"] = None if theirs is None else difference(theirs, after)
        time_of = MISSING if contender is None else table.trust(who, row["gap"] or 0.0, best[contender.key])
        _enter(row, time_of, best["ours"])


def _bars(table: Table, rows: list[dict[str, Any]]) -> None:
    def least(*words: str) -> float | None:
        some = (row for row in rows if all(word in row["case"] + row["peer"] for word in words))
        return min((row["faster"] for row in some if row.get("faster") is not None), default=None)

    table.bar(f"pinocchio's reduced model / our step, {_ACTIVE} of 300 joints", least("a step", "reduced"), 3.0)
    table.bar("pinocchio's change of a reduced model / our update", least("they change"), 35.0)
    table.bar("MuJoCo asleep / our step, 10 of 200 figures pushed, all that moves", least("all joints that move"), 3.0)
    table.bar("best peer / our step, 200 figures moving, 10 % of joints", least("figures moving"), 8.0)


def fill(table: Table, figures: int, links: int, twin: PinocchioTwin | None, seconds: float, watch: Watch) -> None:
    """Measure the peers; `twin` is pinocchio's pendulum of `links` links."""
    part = table.part("what peers have instead", *_COLUMNS)
    table.note(
        "rel: largest difference of velocities over the largest; crowds without gravity, dampers and limits",
        f"motors: MuJoCo has them as joint springs and dampers; {_RATE:g} rad/s, ratio {_RATIO:g}",
    )
    watch("pinocchio's reduced models", 1)
    _reduction(table, part, links, twin, seconds)
    mujoco: Any = peer("mujoco", table)
    watch(f"MuJoCo compiles one model of {figures} figures (200 take about a minute)", 1)
    crowd = Crowd(figures, gravity=0.0)
    # compiled once for both cases, for that takes a minute
    whole = None if mujoco is None else mujoco_model(crowd.whole, dt=DT)
    watch("crowd asleep", 1)
    _sleep(table, part, crowd, mujoco, whole, seconds)
    watch("crowd moving", 1)
    _moving(table, part, crowd, mujoco, whole, seconds)
    _bars(table, part.rows)
