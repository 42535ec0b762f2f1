"""For as long as it is told: no leak, no crash, no error without a name, no lost bit.

LIMBERJACK_SOAK_MINUTES (5) is the time for all of it, half of it for memory, and once more for a run that is shown and
recorded; LIMBERJACK_SOAK_SEED repeats a run.
Every cycle draws from the seed and its own number, so that a failure can be repeated alone.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli.warmup import jobs
from limberjack.methods import FEATURES
from limberjack.reduced.step import INTEGRATORS

pytestmark = pytest.mark.soak

MINUTES = float(os.environ.get("LIMBERJACK_SOAK_MINUTES", "5"))
SEED = int(os.environ.get("LIMBERJACK_SOAK_SEED", time.time_ns() % 2**32))
# The test of memory takes half of the time, the other three this long each [s].
SHARE = 60.0 * MINUTES / 6

URDF = """<?xml version="1.0"?>
<robot name="crane">
  <material name="red"><color rgba="0.8 0.1 0.1 1"/></material>
  <link name="base"><visual><geometry><box size="1 1 0.2"/></geometry><material name="red"/></visual></link>
  <link name="jib">
    <inertial><origin xyz="0.5 0 0" rpy="0 0.1 0"/><mass value="2"/>
      <inertia ixx="0.01" iyy="0.2" izz="0.2" ixy="0" ixz="0.001" iyz="0"/></inertial>
    <collision><origin xyz="0.5 0 0"/><geometry><cylinder radius="0.05" length="1"/></geometry></collision>
  </link>
  <link name="hook"><inertial><mass value="1"/><inertia ixx="0.03" iyy="0.03" izz="0.03"/></inertial></link>
  <link name="tail"><inertial><mass value="0.5"/><inertia ixx="0.01" iyy="0.01" izz="0.01"/></inertial></link>
  <joint name="slew" type="continuous"><parent link="base"/><child link="jib"/><axis xyz="0 0 1"/>
    <dynamics damping="2" friction="0.1"/></joint>
  <joint name="reach" type="prismatic"><parent link="jib"/><child link="hook"/><origin xyz="1 0 0" rpy="0 1.5 0"/>
    <axis xyz="0 0 1"/><limit lower="-0.5" upper="0.5" effort="10" velocity="1"/></joint>
  <joint name="sway" type="revolute"><parent link="hook"/><child link="tail"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1"/><mimic joint="slew" multiplier="2" offset="0.1"/></joint>
</robot>
"""
MJCF = """<mujoco model="arm">
  <compiler angle="degree" autolimits="true"/>
  <option gravity="0 0 -9.81" timestep="0.002"/>
  <default><joint damping="0.1" armature="0.01"/><geom density="500"/></default>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body name="base" pos="0 0 1"><freejoint name="root"/><geom type="box" size="0.1 0.2 0.1"/>
      <body name="upper" pos="0 0 -0.2">
        <joint name="a" type="hinge" axis="0 1 0" range="-90 90"/><joint name="b" type="hinge" axis="1 0 0" ref="10"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05"/><site name="elbow" pos="0 0 -0.4"/>
        <body name="lower" pos="0 0 -0.4"><joint name="c" type="ball" stiffness="1"/>
          <geom type="ellipsoid" size="0.05 0.05 0.2" pos="0 0 -0.2"/></body>
      </body>
      <body name="tool" pos="0.2 0 0"><joint name="d" type="slide" axis="1 0 0"/><geom size="0.05"/></body>
    </body>
  </worldbody>
  <equality><joint joint1="d" joint2="a" polycoef="0 0.5 0 0 0"/></equality>
  <actuator><position joint="a" kp="20" forcerange="-5 5"/><motor joint="d" gear="3"/></actuator>
</mujoco>
"""
NUMBERS = [b"nan", b"inf", b"-1", b"0", b"1e308", b"1e-308", b"99999999999", b"1e-20", b"-7.5", b"3"]
WORDS = [*NUMBERS, b"", b'"', b"<", b"/>", b"}", b"[", b"\0", b"\xff"]


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Have every kernel compiled before the clock of a test starts."""
    for _, job in jobs():
        job()


def _cycles(title: str, seconds: float = SHARE, most: int = 10**9) -> Iterator[tuple[int, np.random.Generator]]:
    """Yield the cycle and its own generator until the time is over; say at the end how many there were."""
    begin, cycle = time.monotonic(), 0
    while cycle < most and time.monotonic() - begin < seconds:
        yield cycle, np.random.default_rng([SEED, cycle])
        cycle += 1
    print(f"\n{title}: {cycle} cycles in {time.monotonic() - begin:.0f} s, seed {SEED}", flush=True)


def _resident() -> float:
    """Return the memory this process holds [MB]."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _model(rng: np.random.Generator, stiffest: float) -> lj.Model:
    """Return a small random model whose springs have up to 10^stiffest N/m."""
    seed, size = int(rng.integers(2**31)), int(rng.integers(1, 12))
    spatial, floating = bool(rng.integers(2)), bool(rng.integers(2))
    makers = [
        lambda: lj.scenes.pendulum(links=size, start="random", seed=seed, spatial=spatial),
        lambda: lj.scenes.random_tree(bodies=size, seed=seed, floating=floating),
        lambda: lj.scenes.ball_tree(bodies=size),
        lambda: lj.scenes.tethered_pendulum(links=size + 1, stiffness=float(10 ** rng.uniform(0, stiffest))),
        lambda: lj.scenes.double_pendulum(),
    ]
    if rng.random() < 0.02:
        makers = [lj.scenes.humanoid, lj.scenes.marionette, lambda: lj.scenes.crowd(figures=3, seed=seed)]
    return makers[int(rng.integers(len(makers)))]()


def _simulation(rng: np.random.Generator, dt: float, stiffest: float = 1.0) -> lj.Simulation:
    method = lj.Full(integrator=str(rng.choice(INTEGRATORS)), threads=int(rng.choice((1, 1, 1, 2))))
    return lj.Simulation(_model(rng, stiffest), method, dt=dt)


def test_memory_stays():
    """Models and simulations built, stepped and let go, up to 1e5 in five minutes, leave no memory and no thread."""
    places, held = [], []
    for cycle, rng in _cycles("build, step, free", 3 * SHARE, most=round(20_000 * MINUTES)):
        sim = _simulation(rng, 1e-3)
        sim.apply_wrench(sim.model.body_names[-1], force=rng.normal(size=3))
        sim.step(int(rng.integers(1, 20)))
        sim.energy(), sim.momentum(), sim.positions, sim.velocities
        lj.forward_dynamics(sim.model, sim.q, sim.qd)
        sim.restore(sim.snapshot())
        if cycle % 200 == 0:
            places.append(cycle)
            held.append(_resident())
    late = len(places) // 3  # the first third fills caches and pools
    assert len(places) > 5, "too short to tell"
    slope = np.polyfit(places[late:], held[late:], 1)[0]
    print(f"resident {held[0]:.0f} MB at first, {held[-1]:.0f} MB at last, {1e6 * slope:.0f} B per cycle")
    # 100 B per cycle are 10 MB over the 1e5; a forgotten simulation would be many kB. Short runs are noisy.
    assert slope * (places[-1] - places[late]) < 5.0 + 100e-6 * places[-1]
    gc.collect()
    assert threading.active_count() < 10


def test_a_long_run_keeps_its_pace(tmp_path):
    """A run with an open viewer, recorded all the time: neither memory nor the time of a step grows."""
    from limberjack.viewer.app import Viewer

    shown = Viewer(lj.Simulation(lj.scenes.humanoid(), dt=1 / 240), port=0, playing=True)
    sim = lj.Simulation(lj.scenes.pendulum(links=30), dt=1e-3)
    held, slowest, begin = [], [], time.monotonic()
    try:
        while (now := time.monotonic() - begin) < 60.0 * MINUTES or len(held) < 6:
            moments: list[float] = []
            look = lambda _, seen=moments: seen.append(time.perf_counter())  # noqa: E731
            sim.run(20.0, callback=look, record=tmp_path / "run.ljr")
            held.append((now, _resident()))
            slowest.append(float(np.quantile(np.diff(moments), 0.99)))
            sim.reset()
    finally:
        shown.close()
    third = max(2, len(held) // 3)
    hours, megabytes = np.array(held[third:]).T
    slope = float(np.polyfit(hours / 3600.0, megabytes, 1)[0])
    pace = float(np.median(slowest[-third:]) / np.median(slowest[:third]))
    frame = f"slowest hundredth of frames {1e3 * slowest[-1]:.2f} ms, {pace:.2f}x of the first"
    print(f"\n{now:.0f} s: {slope:.2f} MB/h, {frame}")
    assert slope * hours[-1] / 3600.0 < 3.0 + hours[-1] / 3600.0


@pytest.mark.filterwarnings("ignore::limberjack.errors.EnergyWarning")
def test_failures_have_names():
    """Whatever the scene, step, force and state, a simulation goes on with finite numbers or raises a typed error."""
    ends: Counter[str] = Counter()
    for cycle, rng in _cycles("random runs"):
        try:
            sim = _simulation(rng, float(10 ** rng.uniform(-6, 0.1)), stiffest=8.0)
            if rng.random() < 0.5:
                sim.qd = sim.qd + 10 ** rng.uniform(-3, 8) * rng.normal(size=sim.model.nv)
            if rng.random() < 0.3:
                sim.tau = 10 ** rng.uniform(-3, 12) * rng.normal(size=sim.model.nv)
            if rng.random() < 0.3:
                sim.apply_wrench(sim.model.body_names[0], force=10 ** rng.uniform(-3, 12) * rng.normal(size=3))
            sim.step(int(10 ** rng.uniform(0, 3)))
            ends["ran"] += 1
        except lj.LimberjackError as error:
            ends[type(error).__name__] += 1
            if not isinstance(error, lj.Diverged):
                continue
        except Exception as error:
            raise AssertionError(f"seed {SEED}, cycle {cycle}: {type(error).__name__}") from error
        assert np.isfinite(sim.q).all() and np.isfinite(sim.qd).all(), f"seed {SEED}, cycle {cycle}"
    print(dict(ends))
    assert ends["ran"] > 0


def _end(sim: lj.Simulation, steps: int) -> tuple[str, str]:
    """Return the state after more steps, and the words of the error where they failed.

    Without the energy watch: what it compares and keeps begins where a simulation is resumed.
    """
    sim.energy_watch = False
    try:
        sim.step(steps)
    except lj.Diverged as error:
        return sim.state_hash(), str(error)
    return sim.state_hash(), ""


def test_no_bit_is_lost(tmp_path):
    """Saved at a random step and resumed, or restored, a run ends in the same state as one that went on."""
    for cycle, rng in _cycles("save and resume"):
        sim = _simulation(rng, float(10 ** rng.uniform(-4, -3)))
        _end(sim, int(rng.integers(0, 60)))
        if rng.random() < 0.5:
            sim.apply_wrench(sim.model.body_names[-1], force=rng.normal(size=3), torque=rng.normal(size=3))
            sim.tau = rng.normal(size=sim.model.nv)
        if rng.random() < 0.3:
            sim.dt = float(10 ** rng.uniform(-4, -3))
        _end(sim, int(rng.integers(0, 60)))
        moment, path, more = sim.snapshot(), sim.save(tmp_path / "state.npz"), int(rng.integers(1, 60))
        wanted = _end(sim, more)
        assert _end(lj.resume(path), more) == wanted, f"seed {SEED}, cycle {cycle}: resumed"
        sim.restore(moment)
        assert _end(sim, more) == wanted, f"seed {SEED}, cycle {cycle}: restored"


def _mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Return `data` with one to eight pieces changed, cut out, doubled, moved or replaced by words that hurt."""
    for _ in range(int(rng.integers(2, 9)) if rng.random() < 0.3 else 1):
        a, b = sorted(int(x) for x in rng.integers(0, len(data) + 1, 2))
        b = min(b, a + int(10 ** rng.uniform(0, 2.5)))
        piece = data[a:b]
        choice = int(rng.choice((0, 1, 2, 3, 4, 4, 4, 4, 5, 6)))
        if choice == 0:
            piece = bytes(x ^ (1 << int(rng.integers(8))) for x in piece[:1]) + piece[1:]
        elif choice == 1:
            piece = b""
        elif choice == 2:
            piece = piece * int(rng.integers(2, 5))
        elif choice == 3:
            piece = WORDS[int(rng.integers(len(WORDS)))]
        elif choice == 4:
            # A number in place of a number, which keeps the file well formed.
            digits = [i for i in range(a, min(a + 400, len(data))) if data[i : i + 1].isdigit()]
            if digits:
                a = digits[int(rng.integers(len(digits)))]
                b, piece = a + 1, NUMBERS[int(rng.integers(len(NUMBERS)))]
        elif choice == 5 and len(data) > 10:
            c = int(rng.integers(0, len(data)))
            piece = data[c : c + len(piece)]
        elif choice == 6 and rng.random() < 0.1:
            return data[:a]
        data = data[:a] + piece + data[b:]
    return data


def _corpus(folder: Path) -> dict[str, bytes]:
    """Return whole files of every kind that is read."""
    model = lj.scenes.random_tree(bodies=6, seed=4)
    sim = lj.Simulation(model, dt=1e-3)
    motor = lj.Builder("motor")
    motor.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
    motor.add_joint_hinge("axle", "world", "arm", limits=(-1, 1), motor=lj.Motor(kp=2.0, max=3.0), stiffness=1.0)
    motor.add_shape_mesh("arm", vertices=np.eye(4, 3), faces=[(0, 1, 2), (0, 2, 3), (0, 3, 1), (1, 3, 2)])
    paths = [
        lj.save(model, folder / "tree.json"),
        lj.save(motor.build(), folder / "motor.json"),
        sim.run(0.05).save(folder / "motion.npz"),
        sim.save(folder / "state.npz"),
    ]
    return {path.name: path.read_bytes() for path in paths} | {"crane.urdf": URDF.encode(), "arm.xml": MJCF.encode()}


def test_strange_files_are_refused_by_name(tmp_path):
    """A file changed at random is read, and then steps, or is refused by a typed error; nothing else ever happens."""
    files, ends = _corpus(tmp_path), Counter()
    readers = {"motion.npz": lj.Trajectory.load, "state.npz": lj.resume}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lj.ModelWarning)
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
            readers.get(name, lj.load)(tmp_path / name)
    names = list(files)
    for cycle, rng in _cycles("mutated files"):
        name = names[int(rng.integers(len(names)))]
        path = tmp_path / name
        path.write_bytes(_mutated(files[name], rng))
        try:
            # Numbers too large to be squared overflow before they are refused.
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", lj.ModelWarning)
                found = readers.get(name, lj.load)(path)
                if isinstance(found, lj.Model):
                    found = lj.Simulation(found, ignore=FEATURES)
                if isinstance(found, lj.Simulation):
                    found.step(3)
            ends[f"{path.suffix} read"] += 1
        except lj.LimberjackError:
            ends[f"{path.suffix} refused"] += 1
        except Exception as error:
            kept = Path(f"soak-{SEED}-{cycle}{path.suffix}").absolute()
            kept.write_bytes(path.read_bytes())
            raise AssertionError(f"seed {SEED}, cycle {cycle}: {type(error).__name__}: {error}; see {kept}") from error
    print(dict(sorted(ends.items())))
