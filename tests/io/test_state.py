"""Saved simulations: bit for bit, whole or not at all, and nothing in a file leads a kernel astray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import limberjack as lj
from limberjack.io import native, npz
from limberjack.io import state_files as state
from limberjack.methods import Method


def _chain():
    sim = lj.Simulation(lj.scenes.pendulum(links=12, spatial=True, start="random"), lj.Full(integrator="rk4"))
    sim.apply_wrench("link5", force=(1.0, 2.0, 3.0), torque=(0.1, 0.0, 0.0), point=(0.1, 0.2, -5.0))
    sim.tau = np.linspace(-1.0, 1.0, sim.model.nv)
    return sim


def _figure():
    sim = lj.Simulation(lj.scenes.humanoid(), lj.Full(integrator="momentum", substeps=1))
    sim.qd = 0.1 * np.sin(np.arange(sim.model.nv))
    return sim


def _puppet():
    return lj.Simulation(lj.scenes.marionette(limits="hard"), lj.Full(integrator="implicit"), dt=2e-3, ignore="limits")


def _every_kind():
    return lj.Simulation(lj.scenes.random_tree(bodies=30, seed=3), "full", dt=1e-3)


def _motor():
    builder = lj.Builder("motor")
    builder.add_body("arm", mass=1.0, com=(0.3, 0.0, 0.0), inertia=(0.01, 0.03, 0.03))
    motor = lj.Motor(kp=20.0, kd=1.0, max=5.0)
    builder.add_joint_hinge("axle", "world", "arm", axis=(0, 1, 0), motor=motor, armature=0.01)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="implicit"))
    sim.joint("axle").target = 1.25
    return sim


SIMULATIONS = {"chain": _chain, "figure": _figure, "puppet": _puppet, "every kind": _every_kind, "motor": _motor}


def test_names_in_files_do_not_follow_the_code():
    """Files of earlier versions stay readable: the keys of snapshots and the fingerprint of a model are fixed."""
    builder = lj.Builder("arm")
    builder.add_body("upper", mass=1.0, inertia=(0.25, 0.25, 0.125), com=(0, 0, -0.5))
    builder.add_body("fore", mass=0.5, inertia=(0.125, 0.125, 0.0625), com=(0, 0, -0.25))
    builder.add_joint_ball("shoulder", "world", "upper", damping=0.5)
    builder.add_joint_universal("elbow", "upper", "fore", position=(0, 0, -1), damping=0.25)
    sim = lj.Simulation(builder.build(), "full")
    drives = {"drives.place", "drives.scalar", "drives.ball_place", "drives.ball"}
    assert drives == {name for name in sim.snapshot().arrays if name.startswith("drives.")}
    fixed = "c3c4163231d31ff7491210ec91af239f0b28b55cca016e31effc731f86ad127d"
    assert state._fingerprint(sim.model) == fixed


@pytest.fixture
def saved(tmp_path):
    """A saved simulation and its path."""
    sim = _chain()
    sim.step(20)
    return sim, sim.save(tmp_path / "state.npz")


@pytest.mark.parametrize("make", SIMULATIONS.values(), ids=SIMULATIONS)
def test_a_resumed_simulation_goes_on_bit_for_bit(make, tmp_path):
    """State hash, clock, model and method come back equal, and so do the next hundred steps."""
    sim = make()
    sim.step(37)
    sim.dt = 0.7e-3
    sim.step(11)
    other = lj.resume(sim.save(tmp_path / "state.npz"))
    assert other.state_hash() == sim.state_hash()
    assert (other.time, other.steps, other.dt) == (sim.time, sim.steps, sim.dt)
    assert other.method == sim.method and other.ignored == sim.ignored
    assert native.dumps(other.model) == native.dumps(sim.model)
    sim.step(100)
    other.step(100)
    assert other.state_hash() == sim.state_hash()
    assert other.energy() == sim.energy()


def test_a_fresh_process_goes_on_bit_for_bit(saved):
    """A file resumed in another process, under another hash seed, gives the same hundred steps."""
    sim, path = saved
    sim.step(100)
    code = f"import limberjack as lj; sim = lj.resume({str(path)!r}); sim.step(100); print(sim.state_hash())"
    environment = os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": str(Path(lj.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == sim.state_hash()


def test_saving_changes_nothing(saved):
    """A simulation that was saved steps on as one that was not."""
    sim, _ = saved
    twin = _chain()
    twin.step(20)
    assert twin.state_hash() == sim.state_hash()
    assert sim.save(saved[1]).read_bytes() == sim.save(saved[1]).read_bytes()


def test_a_damaged_file_is_never_taken_for_a_whole_one(saved, rng):
    """Cut anywhere, or with any byte changed, a file is refused - or, where the byte had no meaning, reads the same."""
    sim, path = saved
    good, wanted = path.read_bytes(), sim.state_hash()
    refused = 0
    for cut in rng.integers(0, len(good), 60):
        path.write_bytes(good[:cut])
        with pytest.raises(lj.FileError):
            lj.resume(path)
    for place in rng.integers(0, len(good), 200):
        bad = bytearray(good)
        bad[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bad)
        try:
            assert lj.resume(path).state_hash() == wanted
        except lj.FileError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 150


def _rewritten(path, **changes):
    """Rewrite a saved simulation with changed arrays and header, and the right hash of all that."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    for name, value in changes.items():
        if name.startswith("header."):
            place = header
            *above, last = name.split(".")[1:]
            for key in above:
                place = place[key]
            place[last] = value
        elif value is None:
            del arrays[name]
        else:
            arrays[name] = value
    arrays["header"] = npz.from_text(json.dumps(header))
    arrays["sha256"] = np.frombuffer(state._digest(arrays), np.uint8)
    np.savez(path, **arrays)


WRONG = {
    "link out of range": ({"state.wrenches.link": np.array([10_000])}, "wrenches"),
    "link below range": ({"state.wrenches.link": np.array([-7])}, "wrenches"),
    "wrench of another shape": ({"state.wrenches.data": np.zeros((2, 9))}, "wrenches"),
    "places of drives": ({"state.drives.place": np.array([[5, 5]])}, "drives.place"),
    "short q": ({"state.q": np.zeros(3)}, "q differs"),
    "q not finite": ({"state.q": np.full(12, np.inf)}, "finite"),
    "q not a number": ({"state.q": np.full(12, np.nan)}, "NaN"),
    "q of another type": ({"state.q": np.zeros(12, np.int64)}, "q"),
    "no qd": ({"state.qd": None}, "qd"),
    "an array too many": ({"state.extra": np.zeros(3)}, "extra"),
    "steps below 0": ({"header.clock.steps": -1}, "step counter"),
    "steps a text": ({"header.clock.steps": "many"}, "step counter"),
    "dt 0": ({"header.clock.dt": {"hex": "0x0p+0"}}, "dt"),
    "dt infinite": ({"header.clock.dt": {"hex": "inf"}}, "dt"),
    "time not a number": ({"header.clock.base_time": {"hex": "nan"}}, "base_time"),
    "unknown method": ({"header.method": "magic"}, "magic"),
    "unknown option": ({"header.options.speed": 3}, "speed"),
    "unknown integrator": ({"header.options.integrator": "guess"}, "guess"),
    "ignored nonsense": ({"header.ignore": ["gravity"]}, "gravity"),
    "options no object": ({"header.options": 3}, "cannot be resumed"),
    "version": ({"version": np.array(99)}, "version 99"),
    "model": ({"model": npz.from_text("{}")}, "limberjack-model"),
}


@pytest.mark.parametrize(("changes", "word"), WRONG.values(), ids=WRONG)
def test_content_that_does_not_fit_is_refused_by_name(saved, changes, word):
    """A file with a right hash but wrong content is refused, and the message names the file and the thing."""
    _, path = saved
    _rewritten(path, **changes)
    with pytest.raises(lj.FileError) as caught:
        lj.resume(path)
    assert str(path) in str(caught.value) and word in str(caught.value)


def test_foreign_files_are_refused_by_name(saved, tmp_path):
    """Trajectories, other archives, texts, folders, missing and compressed files give a `FileError` that says so."""
    sim, path = saved
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    files = {
        "trajectory": lambda p: sim.run(0.01).save(p),
        "compressed": lambda p: np.savez_compressed(p, **arrays),
        "is not a saved simulation": lambda p: np.savez(p, a=np.zeros(3)),
        "not a whole": lambda p: p.write_text("no archive at all"),
        "is a folder": lambda p: p.mkdir(),
        "no such file": lambda p: None,
        "type object": lambda p: np.savez(p, **(arrays | {"state.q": np.array([{}], object)})),
        "type >f8": lambda p: np.savez(p, **(arrays | {"state.q": arrays["state.q"].astype(">f8")})),
    }
    for i, (word, make) in enumerate(files.items()):
        other = tmp_path / f"other{i}.npz"
        make(other)
        with pytest.raises(lj.FileError) as caught:
            lj.resume(other)
        assert word in str(caught.value) and other.name in str(caught.value)
    with pytest.raises(lj.FileError, match="no simulation writer"):
        sim.save(tmp_path / "state.txt")


def test_a_file_that_claims_too_much_is_not_expanded(saved, monkeypatch):
    """The size of the file bounds what is read: one above the cap is refused before anything is loaded."""
    monkeypatch.setattr(state, "LAYOUT", state.LAYOUT._replace(largest=1000))
    with pytest.raises(lj.FileError, match="larger"):
        lj.resume(saved[1])


@dataclass(frozen=True)
class _Own(Method):
    """A method made by a user."""

    name: ClassVar[str] = "own"
    supports: ClassVar[frozenset[str]] = frozenset({"armature", "springs", "motors"})

    def stepper(self, model, ignored=frozenset()):
        return lj.Full().stepper(model)


def test_what_cannot_be_saved_leaves_the_old_file_whole(saved, tmp_path):
    """A method no file can name is refused before writing, and a folder that is not there is named."""
    sim, path = saved
    before = path.read_bytes()
    with pytest.raises(lj.StateError, match='"own" cannot be saved'):
        lj.Simulation(sim.model, _Own()).save(path)
    assert path.read_bytes() == before
    with pytest.raises(lj.FileError, match="nowhere"):
        sim.save(tmp_path / "nowhere" / "state.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def test_a_model_that_compiles_otherwise_is_told(saved):
    """When the model's numbers are not those it was saved with, resuming warns that the bits will differ."""
    sim, path = saved
    _rewritten(path, **{"header.compiled": "0" * 64})
    with pytest.warns(lj.ModelWarning, match="not bit for bit"):
        other = lj.resume(path)
    assert other.state_hash() == sim.state_hash()


GRIPPED = ["full", "adaptive", "multipliers", "displacements", "impulses", lj.Full(integrator="semi_implicit")]


def _gripped(method, rotation=None):
    """Return a chain in the middle of being dragged, and the grip."""
    sim = lj.Simulation(lj.scenes.pendulum(links=6), method, dt=1 / 240)
    grip = sim.grab(sim.model.body_names[-1])
    grip.move(grip.point + (0.3, 0.2, -0.1), rotation)
    sim.step(20)
    return sim, grip


@pytest.mark.parametrize("rotation", [None, (1.0, 0.0, 0.0, 0.0)], ids=["point", "pose"])
@pytest.mark.parametrize("method", GRIPPED, ids=str)
def test_a_grip_goes_on_bit_for_bit(method, rotation, tmp_path):
    """A figure that is dragged while it is saved is dragged on, and `sim.grips` moves and releases its grips."""
    sim, grip = _gripped(method, rotation)
    resumed = lj.resume(sim.save(tmp_path / "held.npz"))
    assert resumed.state_hash() == sim.state_hash()
    (other,) = resumed.grips
    assert other.body == grip.body and (other.target == grip.target).all() and (other.point == grip.point).all()
    for one, held in ((sim, grip), (resumed, other)):
        one.step(30)
        held.move((0.1, 0.0, -2.0))
        one.step(10)
    assert resumed.state_hash() == sim.state_hash()
    grip.release(), other.release()
    sim.step(10), resumed.step(10)
    assert resumed.state_hash() == sim.state_hash() and resumed.grips == ()
    again = lj.resume(sim.save(tmp_path / "released.npz"))
    again.step(10), sim.step(10)
    assert again.state_hash() == sim.state_hash()


def test_options_tuned_while_gripping_stay():
    """A budget changed while a body is held is the budget after its release."""
    sim = lj.Simulation(lj.scenes.pendulum(links=12), lj.Adaptive(budget=3), dt=1e-3)
    sim.step(10)
    grip = sim.grab(sim.model.body_names[-1])
    sim.tune(budget=7)
    sim.step(30)
    grip.release()
    sim.step(30)
    assert sim.stats["active_joints"] == 7 and sim.method.budget == 7


@pytest.mark.parametrize("method", GRIPPED, ids=str)
def test_a_snapshot_brings_grips_back(method):
    """A grip released since the snapshot acts again, one made since is gone, one that stayed keeps its handle."""
    sim, grip = _gripped(method)
    snapshot = sim.snapshot()
    sim.step(20)
    there = sim.state_hash()
    late = sim.grab(sim.model.body_names[0])
    sim.step(5)
    sim.restore(snapshot)
    with pytest.raises(lj.errors.StateError, match="was released"):
        late.move((0.0, 0.0, 0.0))
    assert (grip.target == sim.grips[0].target).all()
    sim.step(20)
    assert sim.state_hash() == there
    grip.release()
    sim.restore(snapshot)
    assert len(sim.grips) == 1
    sim.step(20)
    assert sim.state_hash() == there


@pytest.mark.parametrize(
    "changes",
    [
        {"state.grips.body": np.array([[0, 99]])},
        {"state.grips.body": np.array([[3, 0]])},
        {"state.grips.body": np.zeros((2, 2), np.int64)},
        {"state.grips.data": np.full((1, 20), np.inf)},
        {"state.grips.data": np.zeros((1, 20))},
        {"state.grips.data": None},
    ],
)
def test_grips_that_do_not_fit_are_refused(changes, tmp_path):
    """Bodies that are not there, links that are not theirs, numbers that are none: refused by name."""
    path = _gripped("full")[0].save(tmp_path / "held.npz")
    _rewritten(path, **changes)
    with pytest.raises(lj.FileError, match="grips of this snapshot do not fit"):
        lj.resume(path)
