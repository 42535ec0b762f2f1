"""`limberjack assemble`: closes scenes and files, says what stays open, writes a model that starts closed."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli.commands import main
from limberjack.maximal.assemble import Assembler, with_start


def test_a_scene_is_assembled_and_written(tmp_path, capsys):
    """The ring of figures closes; the model written starts closed."""
    out = tmp_path / "ring.json"
    sizes = [word for size in ("figures=6", "gap=0.8", "assembled=false") for word in ("--set", size)]
    assert main(["assemble", "ring_of_figures", *sizes, "--out", str(out)]) == 0
    assert "closed" in capsys.readouterr().out
    again = lj.assemble(lj.load(out))
    assert again.closed and again.iterations == 0


def test_what_stays_open_is_named(tmp_path, capsys):
    """A loop that cannot close ends with status 1 and the names of its joints; bad input with status 2."""
    builder = lj.Builder("short")
    for name in "ab":
        builder.add_body(name, mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_ball("left", "world", "a")
    builder.add_joint_ball("right", "world", "b", position=(3.0, 0.0, 0.0))
    builder.add_joint_ball("meet", "a", "b", position=(1.0, 0.0, 0.0), position_in_child=(1.0, 0.0, 0.0))
    path = tmp_path / "short.json"
    lj.save(builder.build(), path)
    assert main(["assemble", str(path)]) == 1
    assert "meet" in capsys.readouterr().out
    assert main(["assemble", str(path), "--pin", "elbow"]) == 2
    assert "elbow" in capsys.readouterr().err


def test_a_start_is_taken_over():
    """A model given other coordinates as its start has them, of every kind of joint and of bodies without one."""
    builder = lj.Builder("kinds")
    builder.add_body("loose", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_particle("grain", mass=1.0)
    for k, kind in enumerate(("hinge", "ball", "cylindrical", "compound")):
        builder.add_body(kind, mass=1.0, inertia=(0.1, 0.1, 0.1))
        if kind == "compound":
            builder.add_joint_compound(
                kind, "world", kind, [lj.Axis(name="x"), lj.Axis(name="y", axis=(1.0, 0.0, 0.0))]
            )
        else:
            builder.add_joint(kind, f"{kind}_joint", "world", kind, position=(k, 0.0, 0.0))
    model = builder.build()
    q = np.random.default_rng(0).normal(size=model.nq)
    for place, _ in model.arrays.links.quaternions:
        q[place : place + 4] /= np.linalg.norm(q[place : place + 4])
    assert np.abs(with_start(model, q).q0 - q).max() < 1e-12


MJCF = """<mujoco model="bars"><worldbody><site name="ground" pos="1.7 0 0.1"/>
  <body name="crank"><joint name="a" axis="0 1 0"/><geom type="capsule" size="0.05" fromto="0 0 0 0 0 1"/>
    <body name="coupler" pos="0 0 1"><joint name="b" axis="0 1 0"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 2 0 0"/>
      <body name="rocker" pos="2 0 0"><joint name="c" axis="0 1 0"/><site name="tip" pos="0 0 -1.3"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -1.3"/></body></body></body>
</worldbody><equality><connect name="d" site1="tip" site2="ground"/></equality></mujoco>"""

_INERTIAL = """<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>"""
URDF = f"""<robot name="hand"><link name="palm"/><link name="f1">{_INERTIAL}</link><link name="f2">{_INERTIAL}</link>
  <joint name="j1" type="revolute"><parent link="palm"/><child link="f1"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="j2" type="revolute"><parent link="f1"/><child link="f2"/><origin xyz="0.1 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/><mimic joint="j1" multiplier="0.5" offset="0.2"/></joint>
</robot>"""


def open_bars(tmp_path):
    """Return a native file of the bars whose loop is open at its start; an MJCF file would be loaded closed."""
    path = tmp_path / "bars.xml"
    path.write_text(MJCF)
    with pytest.warns(lj.ModelWarning, match="starts where they are closed"):
        model = lj.load(path)
    return lj.save(with_start(model, np.zeros(model.nq)), tmp_path / "bars.json")


def hand(tmp_path):
    path = tmp_path / "hand.urdf"
    path.write_text(URDF)
    return path


@pytest.mark.parametrize("make", [open_bars, hand])
def test_files_are_assembled(make, tmp_path, capsys):
    """Loops of a file that start open, and mimics of a URDF, close; what is written starts closed."""
    path, out = make(tmp_path), tmp_path / "closed.json"
    model = lj.load(path)
    start = Assembler(model)
    start.correct(0, 0)
    assert start.work.report[2] > 0.01
    assert main(["assemble", str(path), "--out", str(out)]) == 0
    assert "closed" in capsys.readouterr().out
    done = lj.assemble(lj.load(out))
    assert done.closed and done.iterations == 0
    assert np.abs(lj.load(out).q0 - model.q0).max() > 0.01
