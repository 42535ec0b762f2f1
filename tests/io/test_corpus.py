"""Files that readers are fuzzed from, and files made to use up time or memory: read, or refused by a typed error."""

from __future__ import annotations

import io
import time
import warnings
import zipfile

import numpy as np
import pytest
from tests.soak.readers import CORPUS, TARGETS, check

import limberjack as lj

FILES = [(target, path.name) for target in TARGETS for path in sorted((CORPUS / target).iterdir())]


@pytest.mark.parametrize(("target", "name"), FILES)
def test_the_corpus_is_read_or_refused(target, name, tmp_path):
    """Nothing but a value or a typed error comes of any file of the corpus; seeds are read."""
    data = (CORPUS / target / name).read_bytes()
    check(target, tmp_path, data)  # the first compiles
    assert check(target, tmp_path, data) or not name.startswith("seed")


@pytest.mark.parametrize(("target", "name"), FILES)
def test_a_corpus_changed_at_random_is_read_or_refused(target, name, tmp_path):
    """The same of forty mutations of each file."""
    data = (CORPUS / target / name).read_bytes()
    check(target, tmp_path, data)
    rng = np.random.default_rng(len(data))
    for _ in range(40):
        changed = bytearray(data)
        for _ in range(int(rng.integers(1, 5))):
            if changed:
                place = int(rng.integers(len(changed)))
                piece = [bytes([int(rng.integers(256))]), b"", b"-1", b"1e999", b"nan", b"[", b'"', b"99999999999"]
                changed[place : place + int(rng.integers(0, 3))] = piece[int(rng.integers(len(piece)))]
        check(target, tmp_path, bytes(changed))


def refused(path, load, seconds=5.0, **words):
    begin = time.process_time()
    with pytest.raises(lj.LimberjackError, **words) as caught:
        load(path)
    assert time.process_time() - begin < seconds and len(str(caught.value)) < 20_000


def test_equal_names_take_no_longer(tmp_path):
    """Nodes and joints that all have one name are numbered in time proportional to their number."""
    path = tmp_path / "names.gltf"
    node = '{"name":"a","extensions":{"KHR_physics_rigid_bodies":{"motion":{"mass":1}}}}'
    nodes = ",".join([node] * 20_000)
    path.write_text('{"asset":{"version":"2.0"},"extensionsUsed":["KHR_physics_rigid_bodies"],"nodes":[' + nodes + "]}")
    begin = time.process_time()
    with pytest.raises(lj.FileError):  # bodies without an inertia
        lj.load(path)
    assert time.process_time() - begin < 20.0


def test_archives_that_expand_are_refused(tmp_path):
    """A zip bomb, and one that claims more than it holds, are refused before anything is expanded."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.npy", b"\0" * 50_000_000)
    for load in (lj.Trajectory.load, lj.resume):
        refused(path, load, match="is compressed")


def test_tables_that_expand_are_refused(tmp_path):
    """A Parquet file of few bytes that claims many rows of one number is refused before it is expanded."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    model, path = lj.scenes.double_pendulum(), tmp_path / "bomb.parquet"
    names = ["time", *(f"{word}.{joint}" for word in ("q", "qd") for joint in model.joint_names)]
    table = arrow.table({name: arrow.array(np.zeros(1000)) for name in names})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    path.write_bytes(buffer.getvalue())
    assert len(lj.Trajectory.load(path, model)) == 1000
    words = arrow.table({name: arrow.array(["x"] * 10) for name in names})
    parquet.write_table(words, path)
    refused(path, lambda path: lj.Trajectory.load(path, model), match="must hold numbers")

    from limberjack.io import trajectory_files

    parquet.write_table(table, path)
    small = trajectory_files.LAYOUT._replace(largest=20_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trajectory_files, "LAYOUT", small)
        refused(path, lambda path: lj.Trajectory.load(path, model), match="claims 1000 rows")


@pytest.mark.parametrize("suffix", [".urdf", ".xml"])
def test_huge_attributes_are_refused_briefly(tmp_path, suffix):
    """An attribute of 20 MB where a number is expected is refused in a message that quotes little of it."""
    path, value = tmp_path / f"wide{suffix}", "1" * 20_000_000 + "x"
    mass = f'<inertial><mass value="{value}"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    text = {
        ".urdf": f'<robot name="r"><link name="a">{mass}</link></robot>',
        ".xml": f'<mujoco><worldbody><body pos="{value} 0 0"><geom size="1"/></body></worldbody></mujoco>',
    }
    path.write_text(text[suffix])
    with warnings.catch_warnings():
        warnings.simplefilter("error", lj.ModelWarning)
        try:
            refused(path, lambda path: lj.load(path, repair=False))
        except lj.ModelWarning as warning:
            assert len(str(warning)) < 20_000
