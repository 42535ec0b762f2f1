"""The public interface: its names, its documentation, what importing it costs, and the README's code."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import limberjack as lj

ROOT = Path(__file__).parents[1]
NAMES = [
    "Adaptive", "Assembly", "Axis", "Builder", "Crowd", "Displacements", "DivideAndConquer", "Full", "Impulses",
    "LimberjackError", "Model", "Motor", "Multipliers", "Simulation", "Trajectory", "assemble", "bias_forces",
    "capabilities", "center_of_mass", "centroidal_momentum", "compare", "difference", "distance", "errors",
    "forward_dynamics", "forward_dynamics_derivatives", "forward_kinematics", "integrate", "inverse_dynamics",
    "inverse_dynamics_derivatives", "jacobian", "load", "mass_matrix", "operational_inertia", "pose", "ray_cast",
    "register_body_kind", "register_constraint", "register_joint", "replay", "resume", "save", "scenes", "view",
]  # fmt: skip
# Reached through their modules, and at the top level too, where programs may have them from.
MODULES_OF = {
    "collision.query": ("CollisionQuery",),
    "errors": (
        "BudgetWarning", "ClusterLost", "Diverged", "EnergyWarning", "FileError", "LoopNotClosed", "MissingExtra",
        "ModelError", "ModelWarning", "StateError", "UnknownName", "UnsupportedByMethod", "UnsupportedVersion",
    ),
    "methods.adaptive.options": ("View",),
    "model.proximity": ("Proximity",),
    "simulation.trackers": ("Pace", "Tracker"),
}  # fmt: skip


def test_the_public_names():
    """Exactly these names are public; a change of this list is a change of the interface."""
    assert sorted(lj.__all__) == sorted(NAMES)
    assert set(NAMES) <= set(dir(lj))
    for name in NAMES:
        assert getattr(lj, name) is not None


def test_names_of_modules_are_at_the_top_level_too():
    """What is reached through its module is the same object at the top level."""
    for module, names in MODULES_OF.items():
        for name in names:
            assert getattr(lj, name) is getattr(importlib.import_module(f"limberjack.{module}"), name)


def test_modules_load_on_first_use():
    """Every module of the package is an attribute of it, without an import; so are errors of the errors."""
    rooms = [path.stem for path in Path(lj.__file__).parent.iterdir() if not path.name.startswith(("_", "py.typed"))]
    code = f"import limberjack as lj; print(*(getattr(lj, name).__name__ for name in {rooms!r})); lj.errors.Diverged"
    assert python(code).split() == [f"limberjack.{name}" for name in rooms]


def test_the_package_is_typed():
    """Type checkers are told that the package has annotations."""
    assert (Path(lj.__file__).parent / "py.typed").is_file()


def test_unknown_names_come_with_the_choices():
    """A name that is not there raises AttributeError that lists those that are."""
    with pytest.raises(AttributeError, match='no "Simulatoin".*Simulation'):
        _ = lj.Simulatoin


def test_all_errors_have_one_root():
    """Every error derives from LimberjackError, and from the built-in error it specialises."""
    errors = [value for value in vars(lj.errors).values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert len(errors) > 10
    for error in errors:
        assert issubclass(error, lj.LimberjackError) or error in (lj.ModelWarning, lj.EnergyWarning, lj.BudgetWarning)
    assert issubclass(lj.ModelError, ValueError) and issubclass(lj.StateError, ValueError)
    assert issubclass(lj.MissingExtra, ImportError) and issubclass(lj.UnsupportedVersion, ImportError)
    assert issubclass(lj.FileError, lj.ModelError)
    assert issubclass(lj.UnknownName, lj.ModelError) and issubclass(lj.ModelWarning, UserWarning)


def python(code):
    """Run code in a new process and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import limberjack",
        "import limberjack as lj; lj.Builder, lj.scenes, lj.Motor, lj.errors.ModelError",
        "import limberjack as lj; lj.scenes.names(); lj.scenes.pendulum(links=3)",
    ],
)
def test_importing_is_cheap(code):
    """Importing the package, and building models, loads neither Numba nor any optional dependency."""
    heavy = "numba scipy matplotlib trimesh mujoco pinocchio viser gymnasium distributed imageio_ffmpeg".split()
    loaded = python(f"{code}\nimport sys\nprint(*sys.modules)").split()
    assert not set(heavy) & set(loaded)


def members():
    """Yield (name, object) of every public function, class, method and property."""
    for name in (*NAMES, *(name for names in MODULES_OF.values() for name in names)):
        value = getattr(lj, name)
        yield name, value
        if inspect.isclass(value):
            for word, member in vars(value).items():
                plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
                if not word.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
                    yield f"{name}.{word}", plain
        elif inspect.ismodule(value):
            for word in value.__all__:
                yield f"{name}.{word}", getattr(value, word)


def handles():
    """Yield the public members of what a simulation hands out."""
    from limberjack.simulation.handles import BodyHandle, JointHandle, PointHandle

    for value in (BodyHandle, JointHandle, PointHandle):
        for word, member in vars(value).items():
            if not word.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"{value.__name__}.{word}", member


def test_everything_public_is_documented():
    """Every public function, class, method and property has a docstring that says something."""
    missing = [name for name, value in (*members(), *handles()) if len((inspect.getdoc(value) or "").split()) < 3]
    assert not missing


def test_every_option_of_a_function_is_documented():
    """The docstring of a public function names every argument it takes; a model needs no explanation."""
    missing = []
    for name in NAMES:
        value = getattr(lj, name)
        if inspect.isfunction(value):
            text = inspect.getdoc(value) or ""
            words = [word for word in inspect.signature(value).parameters if word not in ("model", "path")]
            missing += [f"{name}({word})" for word in words if not re.search(rf"\b{word}\b", text)]
    assert not missing


def test_the_readme_runs(tmp_path, monkeypatch, capsys):
    """The Python of the README runs as it stands and writes what it says."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    assert blocks, "the README shows no Python"
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out
    for name in re.findall(r'save\("(.*?)"\)', "".join(blocks)):
        assert (tmp_path / name).stat().st_size > 0


def test_the_version_is_the_projects():
    """__version__ is the one pyproject.toml states."""
    stated = re.search(r'^version = "(.*?)"', (ROOT / "pyproject.toml").read_text(), flags=re.M)
    assert stated and lj.__version__ == stated.group(1)
