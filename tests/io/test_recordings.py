"""Recordings: written while a run goes on, whole after the death of the process, repeated bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli.commands import main
from limberjack.io import recordings

METHODS = {
    "full": "full",
    "adaptive": lj.Adaptive(budget=4, update_every=5),
    "multipliers": "multipliers",
    "displacements": "displacements",
    "impulses": "impulses",
    "divide_and_conquer": "divide_and_conquer",
}


def chain():
    """Return a hanging chain with a motor, of hinges that every method takes."""
    builder = lj.Builder("chain")
    for k in range(6):
        builder.add_body(f"b{k}", mass=1.0, com=(0, 0, -0.2), inertia=(0.02, 0.02, 0.01))
        ends = f"b{k - 1}" if k else "world", f"b{k}"
        builder.add_joint_hinge(f"j{k}", *ends, position=(0, 0, -0.4 if k else 0), axis=(0, 1, 0), start=0.3 * (k < 2))
    return builder.build()


def push(sim):
    """Change wrenches, joint forces and the step as the time says; a drive without a state of its own."""
    if 0.2 <= sim.time < 0.22:
        sim.apply_wrench("b5", force=(3.0, 1.0, 0.0), point=(0.1, 0.0, -2.0))
    if 0.5 <= sim.time < 0.52:
        sim.clear_wrenches()
        sim.tau = np.linspace(-1.0, 1.0, sim.model.nv)
    if 0.8 <= sim.time < 0.82:
        sim.dt = 1 / 960


def recorded(path, method, seconds=1.5, drive=push):
    sim = lj.Simulation(chain(), method, dt=1 / 480)
    motion = sim.run(seconds, callback=drive, record=path)
    return sim, motion


@pytest.mark.parametrize("method", METHODS)
def test_a_replay_repeats_every_step(tmp_path, method):
    """In every method, with forces set on the way, a replay ends in the same state, hashed every second."""
    sim, motion = recorded(tmp_path / "run.ljr", METHODS[method])
    found = lj.replay(tmp_path / "run.ljr")
    assert found.divergence is None and found.ended and not found.cut
    assert found.steps == sim.steps and found.hashes >= 2
    assert found.sim.state_hash() == sim.state_hash()
    again = lj.Trajectory.load(tmp_path / "run.ljr")
    assert (again.q == motion.q).all() and (again.qd == motion.qd).all() and (again.times == motion.times).all()


def test_recording_changes_nothing(tmp_path):
    """A run that is recorded ends in the state of one that is not."""
    ends = set()
    for path in (tmp_path / "run.ljr", None):
        sim = lj.Simulation(lj.scenes.humanoid(), dt=1 / 240)
        sim.run(0.5, record=path)
        ends.add(sim.state_hash())
    assert len(ends) == 1


def test_grips_budgets_and_joints_made_on_the_way_are_repeated(tmp_path):
    """What is grabbed, moved, tuned and attached while recording is part of the recording."""

    def handle(sim):
        if sim.steps == 40:
            sim.grab("b5")
        elif sim.grips and sim.steps < 200:
            sim.grips[0].move((0.002 * sim.steps, 0.1, -2.0))
        elif sim.grips:
            sim.grips[0].release()
        if sim.steps == 120 and sim.method.name == "adaptive":
            sim.tune(budget=2)

    for method in ("full", lj.Adaptive(budget=4), "multipliers", "impulses"):
        sim, _ = recorded(tmp_path / "run.ljr", method, 1.0, handle)
        found = lj.replay(tmp_path / "run.ljr")
        assert found.divergence is None and found.sim.state_hash() == sim.state_hash()

    builder = lj.Builder("two")
    for k in range(2):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(k, 0, 0))
    sim = lj.Simulation(builder.build(), "impulses", dt=1 / 240)
    sim.run(1.2, record=tmp_path / "two.ljr", callback=lambda s: s.attach("b0", "b1") if s.steps == 120 else None)
    found = lj.replay(tmp_path / "two.ljr")
    assert found.divergence is None and found.sim.attached == sim.attached


def test_the_first_step_that_differs_is_named(tmp_path, monkeypatch):
    """A velocity that differs by its last bit from step 100 on is found at step 100."""
    recorded(tmp_path / "run.ljr", "full", drive=None)
    read = recordings._read

    def other(path):
        found = read(path)
        step = type(found.sim).step

        class Other(type(found.sim)):
            __slots__ = ()

            def step(self, n=1):
                step(self, n)
                if self.steps == 100:
                    qd = self.qd.copy()
                    qd[3] = np.nextafter(qd[3], 9.0)
                    self.qd = qd

        found.sim.__class__ = Other
        return found

    monkeypatch.setattr(recordings, "_read", other)
    divergence = lj.replay(tmp_path / "run.ljr").divergence
    assert divergence is not None and divergence.step == 100


def test_the_command_records_and_replays(tmp_path, monkeypatch, capsys):
    """`run --record`, `replay` and `convert` go together; a step that differs ends with status 1."""
    monkeypatch.chdir(tmp_path)
    words = ["run", "pendulum", "--set", "links=5", "--seconds", "1.5", "--record", "run.ljr", "--quiet"]
    assert main(words) == 0
    assert main(["replay", "run.ljr", "--quiet"]) == 0
    assert main(["replay", "run.ljr"]) == 0
    assert "1500 steps and 2 hashes are equal" in capsys.readouterr().out
    assert main(["convert", "run.ljr", "run.csv"]) == 0
    assert main(["run", "pendulum", "--record", "run.npz"]) == 2
    assert main(["replay", "run.csv"]) == 2


def test_damage_is_refused_by_its_place(tmp_path):
    """Bits that were flipped anywhere, another version and files of others are refused; a torn tail is cut."""
    path = tmp_path / "run.ljr"
    recorded(path, "full", 1.2)
    data, rng = path.read_bytes(), np.random.default_rng(5)
    frames = len(lj.Trajectory.load(path))
    for _ in range(300):
        place = int(rng.integers(len(data)))
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << int(rng.integers(8))]) + data[place + 1 :])
        try:
            found = lj.Trajectory.load(path)
        except lj.FileError as error:
            assert str(path) in str(error)
        else:  # in the last records, which may be torn
            assert len(found) <= frames and place > len(data) - 100
    begin = data.index(b"\n") + 1
    for cut in (*range(0, 200, 17), *rng.integers(200, len(data), 60).tolist()):
        path.write_bytes(data[:cut])
        try:
            assert 0 < len(lj.Trajectory.load(path)) <= frames
        except lj.FileError:
            assert cut < begin + 20_000
    path.write_bytes(data + b"\0" * 5000)
    assert len(lj.Trajectory.load(path)) == frames
    path.write_bytes(data.replace(b"recording 1", b"recording 9", 1))
    with pytest.raises(lj.FileError, match="has version 9; this release reads version 1"):
        lj.replay(path)
    with pytest.raises(lj.FileError, match="is not a recording"):
        path.write_bytes(b"PK" + data)
        lj.replay(path)


WRITER = textwrap.dedent(
    """
    import os, sys, limberjack as lj
    sim = lj.Simulation(lj.scenes.pendulum(links=10), dt=1e-3)
    def note(sim):
        os.write(1, sim.steps.to_bytes(8, "little"))  # the frame of this step was written
    while True:
        sim.run(1e6, record=sys.argv[1], callback=note)
    """
)


def killed(path, after):
    """Let a process record, kill it, and return the step of the last frame that it had said to be written."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], env=environment, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        said = writer.stdout.read(8)
        time.sleep(after)
        writer.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        said += writer.stdout.read()
    return int.from_bytes(said[len(said) // 8 * 8 - 8 : len(said) // 8 * 8], "little")


def test_every_frame_survives_a_kill(tmp_path):
    """A process killed at any moment leaves every frame that it had written, and the replay agrees with all of them."""
    for k in range(3):
        path = tmp_path / f"run{k}.ljr"
        last = killed(path, 0.05 + 0.07 * k)
        motion = lj.Trajectory.load(path)
        assert round(motion.times[-1] / 1e-3) >= last > 0
        found = lj.replay(path)
        assert found.divergence is None and not found.ended and found.steps >= last


@pytest.mark.soak
def test_every_frame_survives_two_hundred_kills(tmp_path):
    """The same 200 times, at random moments."""
    rng, cut = np.random.default_rng(), 0
    path = tmp_path / "run.ljr"
    for _ in range(int(os.environ.get("LIMBERJACK_SOAK_KILLS", "200"))):
        last = killed(path, float(rng.uniform(0.0, 0.4)))
        found = recordings._read(path)
        cut += found.cut > 0
        assert found.frames[-1].step >= last
    print(f"torn tails: {cut}")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told(tmp_path, monkeypatch):
    """Where the disk is full, the run ends by name, and the recording holds what was written before."""
    path, write = tmp_path / "run.ljr", os.write
    sim = lj.Simulation(chain(), dt=1e-3)
    count = [0]

    def full(file, data):
        count[0] += 1
        if count[0] > 20:
            write(file, bytes(data)[:7])  # what still has room
            file = os.open("/dev/full", os.O_WRONLY)
        return write(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(recordings.os, "write", full)
        with pytest.raises(lj.FileError, match=r"run\.ljr: cannot write: No space left.*is kept"):
            sim.run(2.0, record=path)
    found = recordings._read(path)
    assert len(found.frames) > 10 and not found.cut and not found.ended
    assert sim.recorded is not None and len(sim.recorded) >= len(found.frames)
    assert lj.replay(path).divergence is None


@pytest.mark.filterwarnings("ignore::limberjack.errors.EnergyWarning")
def test_a_diverged_run_ends_at_its_last_good_state(tmp_path):
    """Frames that led out of bounds are not part of the recording."""
    builder = lj.Builder("stiff")
    builder.add_body("arm", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("j", "world", "arm", axis=(0, 1, 0), stiffness=1e5, start=0.1)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="euler"), dt=0.02)
    with pytest.raises(lj.Diverged):
        sim.run(20.0, record=tmp_path / "run.ljr")
    motion = lj.Trajectory.load(tmp_path / "run.ljr")
    assert motion.times[-1] <= sim.time and len(motion) == len(sim.recorded)
    assert lj.replay(tmp_path / "run.ljr").divergence is None
