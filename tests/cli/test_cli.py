"""The command line: what it does, what it says, and how it ends on bad input."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli import commands as cli
from limberjack.cli import demo, runs, terminal, warmup
from limberjack.cli.commands import main
from limberjack.cli.doctor import EXTRAS
from limberjack.methods import METHODS

ROBOT = """<robot name="crane">
  <link name="base"/>
  <link name="jib">
    <inertial><origin xyz="0.5 0 0"/><mass value="2"/>
      <inertia ixx="0.01" iyy="0.2" izz="0.2" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="slew" type="continuous"><parent link="base"/><child link="jib"/><axis xyz="0 1 0"/></joint>
</robot>
"""
BROKEN_INERTIA = ROBOT.replace('ixx="0.01"', 'ixx="5.0"')
LIMITED = ROBOT.replace('type="continuous">', 'type="revolute"><limit lower="-1" upper="1" effort="9" velocity="9"/>')


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a few files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crane.urdf").write_text(ROBOT)
    (tmp_path / "dirty.urdf").write_text(BROKEN_INERTIA)
    (tmp_path / "limited.urdf").write_text(LIMITED)
    (tmp_path / "torn.urdf").write_text(ROBOT[:300])
    (tmp_path / "wrong.json").write_text('{"format": "limberjack-model",\n "version": }')
    (tmp_path / "junk.npz").write_bytes(b"PK junk")
    (tmp_path / "table.csv").write_text("time\n0.0\n")
    (tmp_path / "a_folder").mkdir()
    return tmp_path


# Processes started in another folder find the package these tests run against, wherever that came from.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(lj.__file__).parent.parent)}


def _python(*words):
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=600)


# argv, and what the one message must name
BAD = {
    "no target": (["run"], ["scene", "file"]),
    "misspelt scene": (["run", "pendulm"], ["pendulm", "did you mean pendulum", "humanoid", ".urdf"]),
    "missing file": (["run", "robot.urdf"], ["robot.urdf", "no such file"]),
    "unknown suffix": (["run", "robot.stp"], ["robot.stp", ".urdf", ".json"]),
    "a folder": (["info", "a_folder"], ["a_folder"]),
    "torn file": (["info", "torn.urdf"], ["torn.urdf:"]),
    "broken json": (["info", "wrong.json"], ["wrong.json:2"]),
    "dirt, not repaired": (["info", "dirty.urdf", "--no-repair"], ["dirty.urdf:5", "jib"]),
    "junk trajectory": (["convert", "junk.npz", "x.csv"], ["junk.npz"]),
    "junk state": (["run", "--resume", "junk.npz"], ["junk.npz"]),
    "unknown option of a scene": (["run", "pendulum", "--set", "lings=3"], ["lings", "links"]),
    "option without value": (["run", "pendulum", "--set", "links"], ["--set", "NAME=VALUE", "links"]),
    "wrong value of an option": (["run", "pendulum", "--set", "links=many"], ["links", "many"]),
    "option of a file": (["run", "crane.urdf", "--set", "links=3"], ["--set", "crane.urdf"]),
    "base of a scene": (["run", "pendulum", "--base", "free"], ["--base", "pendulum"]),
    "unknown base": (["info", "crane.urdf", "--base", "loose"], ["loose", "fixed", "free"]),
    "unknown method": (["run", "pendulum", "--method", "fall"], ["fall", "full"]),
    "unknown integrator": (["run", "pendulum", "--integrator", "rk5"], ["rk5", "rk4", "semi_implicit"]),
    "unknown method option": (["run", "pendulum", "--option", "speed=9"], ["speed", "integrator"]),
    "unknown feature": (["run", "pendulum", "--ignore", "limit"], ["limit", "limits", "contacts"]),
    "feature not honoured": (["run", "limited.urdf", "--method", "divide_and_conquer"], ["limits", "--ignore limits"]),
    "dt 0": (["run", "pendulum", "--dt", "0"], ["dt", "0"]),
    "dt not a number": (["run", "pendulum", "--dt", "nan"], ["dt", "nan"]),
    "seconds below 0": (["run", "pendulum", "--seconds", "-1"], ["--seconds", "-1"]),
    "rate 0": (["run", "pendulum", "--rate", "0"], ["--rate"]),
    "unknown output": (["run", "pendulum", "--out", "x.mp5"], ["x.mp5", ".npz", ".csv"]),
    "output a folder": (["run", "pendulum", "--out", "a_folder"], ["a_folder"]),
    "output nowhere": (["run", "pendulum", "--out", "no/where.npz"], ["no/where.npz", '"no"']),
    "state of unknown kind": (["run", "pendulum", "--save-state", "x.csv"], ["x.csv", ".npz"]),
    "same file twice": (["run", "pendulum", "--out", "x.npz", "--save-state", "./x.npz"], ["x.npz", "twice"]),
    "resume and a scene": (["run", "pendulum", "--resume", "junk.npz"], ["--resume", "SCENE|FILE"]),
    "resume and a method": (["run", "--resume", "junk.npz", "--method", "full"], ["--resume", "--method"]),
    "resume nothing": (["run", "--resume", "gone.npz"], ["gone.npz"]),
    "convert to unknown": (["convert", "crane.urdf", "crane.stp"], ["crane.stp", ".json"]),
    "convert model to motion": (
        ["convert", "crane.urdf", "x.mp4"],
        ["x.mp4", "holds a motion", "limberjack run crane.urdf"],
    ),
    "convert table without model": (["convert", "table.csv", "x.html"], ["table.csv", "--model"]),
    "convert model given twice": (["convert", "crane.urdf", "x.json", "--model", "crane.urdf"], ["--model", ".csv"]),
    "unknown table": (["bench", "chains"], ["chains", "chain"]),
    "bench result nowhere": (["bench", "--json", "no/where.json"], ["no/where.json"]),
    "demo into a file": (["demo", "--out", "crane.urdf"], ["crane.urdf"]),
}


@pytest.mark.parametrize(("argv", "named"), BAD.values(), ids=BAD)
def test_bad_input_ends_with_status_2_and_one_message(argv, named, folder, capsys):
    """Bad input: status 2, one message that names what is wrong and the choices, no traceback, no file touched."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert err.startswith("limberjack: ") and err.endswith("\n") and err.count("\n") == 1
    assert "Traceback" not in err + out
    for word in named:
        assert word in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


USAGE = {
    "unknown command": (["runn"], ["runn", "scenes"]),
    "unknown flag": (["run", "pendulum", "--secnds", "3"], ["--secnds", "--seconds"]),
    "not a number": (["run", "pendulum", "--seconds", "soon"], ["--seconds", "soon"]),
    "no value": (["run", "pendulum", "--dt"], ["--dt"]),
    "no output": (["convert", "crane.urdf"], ["OUT"]),
}


@pytest.mark.parametrize(("argv", "named"), USAGE.values(), ids=USAGE)
def test_usage_errors_end_with_status_2(argv, named, folder, capsys):
    """Arguments that cannot be read: status 2, a message on stderr that names them, nothing on stdout."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert not out and "Traceback" not in err
    for word in named:
        assert word in err


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("pendulum", "--links", "5"), "--links is an option of the scene: --set links=5"),
        (("pendulum", "--budget=20"), "--budget is an option of method adaptive: --method adaptive --option budget=20"),
        (("pendulum", "--budget"), "--method adaptive --option budget=VALUE"),
        (("pendulum", "--option", "budget=2"), 'method "full" has no option "budget"; adaptive has: --method adaptive'),
    ],
)
def test_options_of_scenes_and_methods_are_hinted_at(argv, hint, capsys):
    """Who gives an option of a scene or a method as one of the command is told how to give it."""
    assert main(["run", *argv]) == 2
    assert hint in capsys.readouterr().err


def test_a_film_that_cannot_be_made_is_refused_before_the_run(folder, monkeypatch, capsys):
    """Without the extra for films nothing is simulated, and the extra is named."""
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert main(["run", "pendulum", "--out", str(folder / "swing.mp4")]) == 2
    out, err = capsys.readouterr()
    assert "limberjack[video]" in err and "pendulum" not in out


def test_bad_input_of_a_process(folder):
    """As a process too: status 2, one line on stderr, nothing on stdout."""
    for argv in (["run", "pendulm"], ["info", "torn.urdf"], ["run", "pendulum", "--out", "x.mp5"]):
        done = _python("-m", "limberjack", *argv)
        assert done.returncode == 2 and not done.stdout
        assert done.stderr.startswith("limberjack: ") and done.stderr.count("\n") == 1


def test_debug_shows_the_traceback(folder, monkeypatch):
    """With LIMBERJACK_DEBUG set, errors are raised as they are."""
    monkeypatch.setenv("LIMBERJACK_DEBUG", "1")
    with pytest.raises(lj.FileError):
        main(["info", "torn.urdf"])


def test_unforeseen_errors_are_one_message_too(monkeypatch, capsys):
    """A bug ends with status 1, a message that says so, and no traceback; too little memory with status 2."""
    for error, status, word in ((RuntimeError("odd"), 1, "internal error"), (MemoryError(), 2, "memory")):

        def fail(self, error=error):
            raise error

        monkeypatch.setattr(cli.Scenes, "__call__", fail)
        assert main(["scenes"]) == status
        assert word in capsys.readouterr().err


def test_help_loads_nothing_heavy():
    """`limberjack --help` and `limberjack` list all commands without loading NumPy, Numba or rich."""
    code = (
        "import sys; from limberjack.cli.commands import main; status = main(sys.argv[1:]);"
        "print(status, [m for m in ('numba', 'numpy', 'rich', 'matplotlib') if m in sys.modules])"
    )
    for argv in ([], ["--help"], ["run", "--help"]):
        done = _python("-c", code, *argv)
        assert done.stdout.endswith("0 []\n")
    done = _python("-m", "limberjack", "--help")
    assert done.returncode == 0
    for command in ("run", "scenes", "info", "convert", "warmup", "bench", "demo"):
        assert command in done.stdout


def test_version(capsys):
    """`limberjack --version` prints the package's version."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"limberjack {lj.__version__}\n"


def test_a_reader_that_goes_away_is_no_error():
    """Output into a closed pipe ends the command without a traceback."""
    command = [sys.executable, "-m", "limberjack", "scenes"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert err == ""


def test_run_is_what_the_library_does(folder, capsys):
    """`run` records what `Simulation.run` does, writes every --out, and tells bodies, steps, drifts and files."""
    argv = ["run", "pendulum", "--set", "links=5", "--seconds", "0.5", "--integrator", "rk4", "--dt", "0.002"]
    assert main([*argv, "--out", "a.npz", "--out", "b.csv"]) == 0
    out = capsys.readouterr().out
    for word in ("5 bodies", "250 of 0.002 s", "real-time factor", "energy drift", "momentum drift", "a.npz", "b.csv"):
        assert word in out
    sim = lj.Simulation(lj.scenes.pendulum(links=5), lj.Full(integrator="rk4"), dt=0.002)
    wanted = sim.run(0.5)
    found = lj.Trajectory.load("a.npz")
    assert np.array_equal(found.q, wanted.q) and np.array_equal(found.times, wanted.times)
    assert len((folder / "b.csv").read_text().splitlines()) == len(wanted) + 1


def test_quiet_prints_nothing(folder, capfd):
    """--quiet leaves stdout and stderr empty and still writes the file."""
    assert main(["run", "crane.urdf", "--seconds", "0.05", "--quiet", "--out", "a.npz"]) == 0
    assert capfd.readouterr() == ("", "")
    assert (folder / "a.npz").is_file()


def test_run_takes_the_scenes_own_settings(folder, capsys):
    """Without options a scene runs with its own method, step, time and drive."""
    assert main(["run", "crowd", "--set", "figures=2", "--seconds", "0.05", "--rate", "200", "--out", "a.npz"]) == 0
    assert "energy change" in capsys.readouterr().out
    assert np.abs(lj.Trajectory.load("a.npz").qd[-1]).max() > 0.1  # the push moved them; there is no gravity


def test_resume_goes_on_bit_for_bit(folder, capsys):
    """Half a run, its state saved and resumed, ends in the same state as the whole run."""
    scene = ["run", "marionette", "--integrator", "implicit", "--quiet"]
    assert main([*scene, "--seconds", "0.2", "--save-state", "whole.npz"]) == 0
    assert main([*scene, "--seconds", "0.1", "--save-state", "half.npz"]) == 0
    assert main(["run", "--resume", "half.npz", "--seconds", "0.1", "--quiet", "--save-state", "half.npz"]) == 0
    assert lj.resume("half.npz").state_hash() == lj.resume("whole.npz").state_hash()
    assert main(["run", "--resume", "half.npz", "--seconds", "0.01", "--dt", "0.0005"]) == 0
    assert "20 of 0.0005 s, to t = 0.21 s" in capsys.readouterr().out


def test_energy_and_momentum_are_watched():
    """A free figure without dampers keeps energy and momentum; the report says how well, and how many steps it took."""
    sim = lj.Simulation(lj.scenes.humanoid(limits=None, damping=0.0), lj.Full(integrator="momentum"), dt=1e-3)
    sim.joint("left_shoulder_flexion").q, sim.joint("right_knee").q = 2.0, 0.5
    sim.qd = np.concatenate([(4.2, 0.0, 10.8), (0.0, -4.0, 0.0), np.zeros(sim.model.nv - 6)])
    report = runs.measured_run(sim, 0.2)
    assert report.steps == 200 and report.times[-1] == sim.time
    assert runs.is_lossless(sim.model) and report.energy_drift < 1e-6
    assert report.momentum_drift is not None and report.momentum_drift < 1e-11
    held = runs.measured_run(lj.Simulation(lj.scenes.pendulum(links=3)), 0.05)
    assert held.momentum_drift is None
    assert not runs.is_lossless(lj.scenes.pendulum(links=3, damping=0.1))
    assert not runs.is_lossless(lj.scenes.humanoid())


@pytest.mark.parametrize(
    ("name", "status", "handler"),
    [
        ("SIGINT", 130, "default_int_handler"),
        ("SIGTERM", 143, "default_int_handler"),
        ("SIGTERM", 143, "SIG_IGN"),  # as a shell starts what a script runs in the background
    ],
)
def test_a_signal_saves_what_was_recorded(folder, name, status, handler):
    """A real Ctrl-C, or an end by the system: everything recorded until then is saved, and the message says where."""
    code = f"""
import os, signal, sys, threading
from limberjack.simulation import simulation
from limberjack.cli.commands import main
from limberjack.cli.doctor import EXTRAS
signal.signal(signal.SIGINT, signal.{handler})  # a parent may have had it ignored
run = simulation.Simulation.run
def interrupted(self, *given, **options):
    threading.Timer(0.4, os.kill, (os.getpid(), signal.{name})).start()
    return run(self, *given, **options)
simulation.Simulation.run = interrupted
sys.exit(main(sys.argv[1:]))
"""
    argv = ["run", "pendulum", "--set", "links=20", "--seconds", "1e6", "--out", "part.npz", "--save-state", "s.npz"]
    done = _python("-c", code, *argv)
    assert done.returncode == status
    assert done.stderr.count("\n") == 1 and "interrupted" in done.stderr
    assert "part.npz" in done.stderr and "s.npz" in done.stderr
    trajectory, sim = lj.Trajectory.load("part.npz"), lj.resume("s.npz")
    assert len(trajectory) > 1 and sim.time >= trajectory.times[-1] > 0.0


def test_divergence_saves_what_was_recorded(folder, capsys):
    """A run that falls apart: status 2, joint and time in the message, the motion until then saved."""
    argv = ["run", "tethered_pendulum", "--set", "stiffness=1e8", "--integrator", "euler", "--dt", "0.01"]
    assert main([*argv, "--seconds", "3000", "--out", "part.npz"]) == 2
    err = capsys.readouterr().err
    assert "joint" in err and "(t = " in err and "part.npz" in err
    assert len(lj.Trajectory.load("part.npz")) >= 1


def test_info_tells_what_is_there(folder, capsys):
    """`info` shows counts, joints by kind, mass, features with the methods that honour them, and warnings last."""
    assert main(["info", "dirty.urdf"]) == 0
    out = capsys.readouterr().out
    for word in ("crane", "2: 1 fixed, 1 hinge", "2 kg"):
        assert word in out
    assert "dirty.urdf:" in out.splitlines()[-1] and "jib" in out.splitlines()[-1]
    assert main(["info", "limited.urdf"]) == 0
    assert "limits" in capsys.readouterr().out


def test_info_speaks_json(folder, capsys):
    """`info --json` is one JSON object of all that, for files and scenes."""
    assert main(["info", "dirty.urdf", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["joints"] == {"fixed": 1, "hinge": 1} and facts["nv"] == 1 and len(facts["warnings"]) >= 1
    assert main(["info", "limited.urdf", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["features"]["limits"]["example"] == 'joint "slew"'
    assert "full" in facts["features"]["limits"]["methods"]
    assert "divide_and_conquer" not in facts["features"]["limits"]["methods"]
    assert main(["info", "marionette", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bodies"] == 89 and facts["nv"] == 95 and facts["springs"] == 5 and facts["loops"] == []
    assert "full" in facts["features"]["springs"]["methods"]


def test_warnings_of_a_run_are_told_shortly(folder, capsys):
    """`run` tells what was repaired, each in a line on stderr with file and line number."""
    assert main(["run", "dirty.urdf", "--seconds", "0.01", "--quiet"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("limberjack: warning: dirty.urdf:") and "jib" in err


def test_names_cannot_command_the_terminal(capsys):
    """Control characters in a name are written out, not sent."""
    assert main(["run", "evil\x1b[31m\x07"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err and "\x07" not in err and "\\x1b[31m" in err


def test_scenes_lists_all(capsys):
    """`scenes` names every scene and its options."""
    assert main(["scenes"]) == 0
    out = capsys.readouterr().out
    for info in lj.scenes.describe():
        assert info.name in out
        for option in info.options:
            assert option in out


def test_settings_are_read_as_numbers_words_and_lists():
    """NAME=VALUE gives whole numbers, numbers, truth values, none, texts, and tuples of those."""
    words = {
        "links=50": 50, "mass=1e-2": 0.01, "spatial=true": True, "limits=none": None, "start=random": "random",
        "gravity=0,0,-1.62": (0, 0, -1.62), "gravity=(0, 0, -1.62)": (0, 0, -1.62), "limits=Soft": "Soft",
    }  # fmt: skip
    for text, value in words.items():
        assert terminal.setting(text, "--set")[1] == value
        assert type(terminal.setting(text, "--set")[1]) is type(value)


def test_convert(folder, capsys):
    """`convert` writes models as JSON without loss and motions as CSV, and says where."""
    assert main(["convert", "crane.urdf", "crane.json"]) == 0
    assert lj.load("crane.json").body_names == lj.load("crane.urdf").body_names
    assert main(["convert", "pendulum", "p.json", "--set", "links=4"]) == 0
    assert lj.load("p.json").body_count == 4
    trajectory = lj.Simulation(lj.load("p.json")).run(0.1)
    trajectory.save("a.npz")
    assert main(["convert", "a.npz", "a.csv"]) == 0
    assert "a.csv" in capsys.readouterr().out
    table = np.loadtxt("a.csv", delimiter=",", skiprows=1)
    assert np.array_equal(table[:, 1:5], trajectory.q)


def test_convert_between_all_formats(folder, capsys):
    """A model goes through every format that it can be written in, and a motion too; a motion gives its model."""
    for first, second in (("crane.urdf", "a.xml"), ("a.xml", "b.glb"), ("b.glb", "c.gltf"), ("c.gltf", "d.urdf")):
        assert main(["convert", first, second]) == 0
    first, last = lj.load("crane.urdf"), lj.load("d.urdf")
    q, qd = [0.3] * first.nq, [0.5] * first.nv
    np.testing.assert_allclose(lj.forward_dynamics(last, q, qd), lj.forward_dynamics(first, q, qd), rtol=1e-9)
    lj.Simulation(first, ignore=("limits",)).run(0.1).save("a.npz")
    for first, second in (("a.npz", "b.parquet"), ("b.parquet", "c.csv"), ("a.npz", "d.bvh"), ("d.bvh", "e.glb")):
        assert main(["convert", first, second]) == 0
    assert main(["convert", "c.csv", "f.npz", "--model", "crane.urdf"]) == 0
    np.testing.assert_array_equal(lj.Trajectory.load("f.npz").q, lj.Trajectory.load("a.npz").q)
    assert (
        main(["convert", "a.npz", "g.json"]) == 0 and lj.load("g.json").body_names == lj.load("crane.urdf").body_names
    )
    assert main(["convert", "crane.urdf", "h.png"]) == 0 and main(["convert", "crane.urdf", "i.usda"]) == 0
    assert Path("h.png").stat().st_size > 1000 and "upAxis" in Path("i.usda").read_text()


@pytest.mark.parametrize(("module", "name", "extra"), [("pxr", "x.usd", "usd"), ("pyarrow", "x.parquet", "parquet")])
def test_missing_extras_are_told_before_the_run(module, name, extra, folder, monkeypatch, capsys):
    """What a suffix needs is looked for before anything is loaded or simulated."""
    monkeypatch.setitem(sys.modules, module, None)
    for words in (["run", "pendulum", "--out", name], ["convert", "junk.npz", name]):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert f"limberjack[{extra}]" in err and not out


def test_the_viewer_is_looked_for_before_the_scene(monkeypatch, capsys):
    """Without the extra of the viewer nothing is built."""
    monkeypatch.setitem(sys.modules, "viser", None)
    assert main(["view", "no_such_scene"]) == 2
    assert "limberjack[view]" in capsys.readouterr().err


def test_doctor(capsys):
    """`doctor` names versions, every extra with what it is for, the cache, threads, and the time of a step."""
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("numba", "kernel cache", "threads", "reference step", "us", *(f"extra {extra}" for extra in EXTRAS)):
        assert word in out


def test_doctor_knows_every_extra_for_users():
    """The extras of `doctor` are those that `all` brings, and each module is one that the package looks for."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    everything = project["optional-dependencies"]["all"][0]
    assert set(re.search(r"\[(.*)\]", everything)[1].split(",")) == set(EXTRAS)
    source = "".join(path.read_text() for path in Path(lj.__file__).parent.rglob("*.py") if path.name != "doctor.py")
    for extra, (module, _) in EXTRAS.items():
        assert re.search(rf'["(]{module}[".].*{extra}', source), f"nothing asks for {extra}"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell, capsys):
    """The completion of a shell knows every command and its options."""
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    for word in (*cli._COMMANDS, "--seconds", "--integrator"):
        assert word in out


def test_warmup_compiles_every_kernel(capsys):
    """After `warmup` every kernel of every room is in the cache; a second call says there was nothing to do."""
    assert main(["warmup"]) == 0
    out = capsys.readouterr().out
    if "already compiled" not in out:
        assert main(["warmup"]) == 0
        out = capsys.readouterr().out
    folder = warmup.cache_folder()
    assert "already compiled" in out.splitlines()[-2] and str(folder) in out.splitlines()[-1]
    files = {path.name.partition("-")[0] for path in folder.glob("*/*.nbi")}
    kernels = set()
    for name, module in list(sys.modules.items()):
        # Solvers are libraries: the methods compile what they use of them.
        if name.startswith("limberjack.") and not name.startswith(("limberjack_lab.bench", "limberjack.linear")):
            for value in vars(module).values():
                # Those called by kernels only are compiled with their callers.
                own = hasattr(value, "py_func") and value.py_func.__module__ == name
                if own and not {"no_cpython_wrapper", "inline"} & set(value.targetoptions):
                    kernels.add(f"{name.rpartition('.')[2]}.{value.py_func.__qualname__}")
    assert {"step.take_steps", "measure.energies", "measure.tree_accelerations"} <= kernels
    assert kernels <= files


def test_warmup_of_one_method(capsys):
    """`warmup full` runs the jobs of that method alone; every job of a method is among them, and names are checked."""
    titles = [title for title, _ in warmup.jobs()]
    chosen = [title for _, title in warmup._chosen(["full"])]
    assert chosen == ["collision"] + [title for title in titles if "full" in title]
    assert {"method full", "loops in full", "contacts in full"} <= set(chosen)
    assert all(f"method {name}" in [title for _, title in warmup._chosen([name])] for name in METHODS)
    assert [title for _, title in warmup._chosen([])] == titles
    assert main(["warmup", "ful"]) == 2
    assert 'no method "ful"' in capsys.readouterr().err


def test_what_is_compiled_is_shown():
    """While functions compile, their number and names are shown, and nothing is left behind."""
    import io

    import numba
    from rich.console import Console

    @numba.njit
    def shown_function(x):
        return x + 1

    seen: list[str] = []

    class Screen(io.StringIO):
        def write(self, text):
            seen.append(text)
            return super().write(text)

    with warmup.watched(Console(file=Screen(), force_terminal=True, width=120), "full"):
        shown_function(1)
        time.sleep(0.3)
    assert "function 1, shown_function" in "".join(seen) and "0:00:00" in "".join(seen)


_INTERRUPTED = """
import time
from limberjack.cli.warmup import compilers

if __name__ == "__main__":
    with compilers(2) as pool:
        job = pool.submit(time.sleep, 600.0)
        while not job.running():
            time.sleep(0.01)
        print("running", flush=True)
        job.result()
"""


def test_an_interruption_ends_what_compiles(tmp_path):
    """Ctrl-C, which a terminal sends to all processes, ends compiling within seconds, with one traceback at most."""
    import signal
    import subprocess

    (tmp_path / "wait.py").write_text(_INTERRUPTED)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # a job in the background of a shell ignores Ctrl-C, and so would its children
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "wait.py")], start_new_session=True, preexec_fn=heard, **pipes
    )
    assert process.stdout is not None and process.stdout.readline() == "running\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60.0)
    assert process.returncode != 0 and errors.count("Traceback") == 1 and "KeyboardInterrupt" in errors


def test_compile_times_are_those_of_each_function_alone():
    """The profile of compiling counts a function's own time and signatures, and sums up to the whole."""
    import numba
    from numba.core import event

    @numba.njit
    def callee(x):
        return x + 1

    @numba.njit
    def caller(x):
        return callee(x) * 2

    times = warmup._CompileTimes()
    with event.install_listener("numba:compile", times):
        assert caller(1) == 4 and caller(1.0) == 4.0
    names = {name.rpartition(".")[2]: name for name in times.spent}
    assert set(names) == {"callee", "caller"}
    assert [times.spent[names[k]][1] for k in ("callee", "caller")] == [2, 2]
    lines = warmup._profile_lines(times.spent, 1)
    total = sum(seconds for seconds, _ in times.spent.values())
    assert len(lines) == 2 and lines[-1].endswith("for 4 functions") and f"{total:.2f} s" in lines[-1]
    assert min(seconds for seconds, _ in times.spent.values()) > 0.0 and warmup._profile_lines(times.spent, 0) == []


def test_bench_hands_on_its_arguments(folder, monkeypatch):
    """`bench` runs the tables named, or all, and returns the status of the run."""
    from limberjack_lab import bench

    calls = []

    def run(names, quick=False, json_path=None, against=None):
        calls.append((names, quick, json_path and str(json_path), against and str(against)))
        return 1

    monkeypatch.setattr(bench, "run", run)
    assert main(["bench", "chain", "--quick", "--json", "numbers.json", "--against", "old.json"]) == 1
    assert main(["bench"]) == 1
    assert calls == [(["chain"], True, "numbers.json", "old.json"), (list(bench.TABLES), False, None, None)]


@pytest.fixture
def short_demo(monkeypatch):
    """Let the demonstration be one chapter that compares budgets and one that does not, each short and small."""

    def swing(budget):
        method = "full" if budget is None else lj.Adaptive(budget=budget)
        return demo.Scenario(lj.Simulation(lj.scenes.paper_pendulum(links=10, start="random"), method, dt=1e-3))

    crowd, stairs = demo.CHAPTERS[0], demo.CHAPTERS[2]
    runs = demo._budgets(swing, (1,))
    chapters = (
        dataclasses.replace(crowd, name="swing", runs=runs, seconds=0.2),
        dataclasses.replace(stairs, name="still", runs=runs[-1:], seconds=0.1),
    )
    monkeypatch.setattr(demo, "CHAPTERS", chapters)
    monkeypatch.setattr(demo, "prepare", lambda console: None)


def test_demo_leaves_a_page(folder, short_demo, capsys):
    """`demo` prints one table and leaves recordings, pictures and plots, and a page that refers to files that exist."""
    assert main(["demo", "--out", "results/here"]) == 0
    out, results = capsys.readouterr().out, folder / "results" / "here"
    assert str(results / "index.html") in out and "swing, 1 joint " in out
    names = {"errors.png", "index.html", "still.html", "still.png"}
    names |= {f"swing-{budget}.{kind}" for budget in ("1", "all") for kind in ("html", "png")}
    assert {path.name for path in results.iterdir()} == names
    page = (results / "index.html").read_text()
    assert set(re.findall(r'(?:src|data-page)="([^"]+)"', page)) == names - {"index.html"}
    assert '"clusters"' in (results / "swing-1.html").read_text()
    assert '"clusters"' not in (results / "swing-all.html").read_text()


def test_demo_measures_against_all_joints(short_demo):
    """Errors are distances from the run with all joints, which has none; one joint of ten is some way off."""
    few, whole = (demo._simulated(demo.CHAPTERS[0], run) for run in demo.CHAPTERS[0].runs)
    demo._compare([few, whole])
    assert not whole.error.any() and whole.speedup == 1.0
    apart = np.linalg.norm(few.trajectory.positions[-1] - whole.trajectory.positions[-1], axis=1).mean()
    assert few.error[-1] == pytest.approx(apart) and few.error[0] == 0.0 < apart
    assert few.clusters.shape == few.trajectory.positions.shape[:2] and len(np.unique(few.clusters[-1])) <= 2


def test_demo_writes_numbers_in_fitting_units():
    """Times of a step are in microseconds or milliseconds; speed-ups have no exponent."""
    assert [demo._time(x) for x in (5.023, 369.2, 27559.0)] == ["5.02 us", "369 us", "27.6 ms"]
    assert [demo._factor(x) for x in (1.04, 9.96, 119.7)] == ["1.0", "10.0", "120"]


def test_demo_does_without_matplotlib(folder, short_demo, monkeypatch, capsys):
    """Without the plot extra everything but the plots is there, and the first line says what to install."""

    def absent(module, extra):
        raise lj.MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"')

    monkeypatch.setattr(demo, "require", absent)
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert 0 <= out.index("limberjack[plot]") < out.index(demo.CHAPTERS[0].title)  # before anything is simulated
    assert "index.html" in os.listdir("demo-output") and "errors.png" not in os.listdir("demo-output")


@pytest.mark.slow
def test_the_whole_demo_runs(folder):
    """Every chapter ends with joints closed to a millimetre and bodies where finite numbers say."""
    for chapter in demo.CHAPTERS:
        for run in chapter.runs:
            done = demo._simulated(chapter, run)
            assert np.isfinite(done.trajectory.positions).all()
            assert done.scenario.sim.joint_error()[0] < 1e-3
