"""`limberjack check`: what passes, what does not, and what is printed."""

from __future__ import annotations

import json

import pytest
from tests.io.mjcf_help import mjcf

from limberjack.cli.check_models import check_file
from limberjack.cli.commands import main

ARM = (
    '<geom type="plane" size="1 1 1"/><body name="a" pos="0 0 1"><joint name="j" axis="0 1 0" damping=".1"/>'
    '<geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/></body>'
)
SERVO = (
    '<actuator><position name="s" joint="j" kp="100" kv="5"/></actuator><keyframe><key qpos=".3" ctrl=".2"/></keyframe>'
)


def test_an_arm_passes_and_is_as_mujoco(tmp_path):
    """A servo arm passes, its free motion is MuJoCo's, it gains nothing, and contacts are as many."""
    row = check_file(mjcf(tmp_path, ARM, SERVO))
    assert row.passed and not row.problem and (row.dofs, row.actuators, row.timestep) == (1, 1, 0.002)
    assert row.difference is not None and row.difference < 1e-4
    assert row.gain is not None and row.gain < 1e-6
    assert row.contacts == (0, 0) and row.speed[0] < 1e-3 and row.speed[1] < 1e-3
    assert row.step_us[0] > 0.0 and row.step_us[1] > 0.0


def test_files_that_fail_are_told(tmp_path, capsys):
    """A file that cannot be read fails with its reason, others are checked all the same, and the status is 1."""
    good, bad = mjcf(tmp_path, ARM, SERVO), mjcf(tmp_path, "<body><joint/></body>", name="bad.xml")
    assert main(["check", str(bad), str(good), "--seconds", "0.1", "--json", str(tmp_path / "out.json")]) == 1
    out = capsys.readouterr().out
    assert "1 of 2 pass" in out and "FileError" in out
    rows = json.loads((tmp_path / "out.json").read_text())
    assert [row["passed"] for row in rows] == [False, True]


@pytest.mark.parametrize("words", [[], ["x.xml", "--seconds", "-1"], ["x.xml", "--method", "fastest"]])
def test_bad_arguments(words, capsys):
    """Bad arguments end with status 2 and one message."""
    assert main(["check", *words]) == 2
    assert capsys.readouterr().err
