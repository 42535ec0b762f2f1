"""Trajectories: what they hold, and the files they go to and come from."""

from __future__ import annotations

import csv
import io
import random
import zipfile

import numpy as np
import pytest

from limberjack.errors import FileError, LimberjackError, StateError, UnknownName
from limberjack.io import native
from limberjack.io.trajectory_files import read_npz
from limberjack.model.builder import Builder
from limberjack.model.spec import Axis
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.simulation.trajectory import Trajectory


def figure():
    """Return a floating body with a ball, a compound joint and a hinge whose name has a comma."""
    b = Builder("figure")
    for name in ("root", "arm", "hand", "tail"):
        b.add_body(name, mass=1.0, com=(0, 0, 0.1), inertia=(1, 1, 1))
    b.add_joint_free("float", "world", "root")
    b.add_joint_ball("shoulder", "root", "arm", position=(0, 0, 1))
    b.add_joint_compound("wrist", "arm", "hand", axes=[Axis(name="bend"), Axis(name="reach", kind="slide")])
    b.add_joint_hinge("tail, long", "root", "tail", axis=(0, 1, 0))
    b.add_joint_ball("loop", "hand", "tail")
    return b.build()


def motion(frames=5, model=None):
    model = model or figure()
    rng = np.random.default_rng(1)
    q = rng.normal(size=(frames, model.nq))
    for start, _ in model.arrays.links.quaternions:
        q[:, start : start + 4] /= np.linalg.norm(q[:, start : start + 4], axis=1, keepdims=True)
    return Trajectory(model, np.arange(frames) * 0.1, q, rng.normal(size=(frames, model.nv)))


# -- the class -------------------------------------------------------------------------------------------


def test_poses_are_those_of_forward_kinematics():
    """Positions and rotations of each frame are the model's forward kinematics at its coordinates."""
    trajectory = motion()
    assert trajectory.positions.shape == (5, 4, 3) and trajectory.rotations.shape == (5, 4, 4)
    for i, q in enumerate(trajectory.q):
        positions, rotations = forward_kinematics(trajectory.model, q)
        assert np.array_equal(trajectory.positions[i], positions)
        assert np.array_equal(trajectory.rotations[i], rotations)
    assert trajectory.positions is trajectory.positions


def test_arrays_are_copies_that_cannot_be_written():
    """Nothing a caller holds or gets can change a trajectory."""
    model = figure()
    times = np.zeros(2)
    trajectory = Trajectory(model, times, np.tile(model.q0, (2, 1)), np.zeros((2, model.nv)))
    times[0] = 7.0
    assert trajectory.times[0] == 0.0
    for array in (trajectory.times, trajectory.q, trajectory.qd, trajectory.positions, trajectory.rotations):
        assert array.dtype == np.float64
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_parts_are_found_by_name():
    """Joints, compound axes and bodies give their columns; loops have none; unknown names say which there are."""
    trajectory = motion()
    assert np.array_equal(trajectory.joint("shoulder").q, trajectory.q[:, 7:11])
    assert np.array_equal(trajectory.joint("shoulder").qd, trajectory.qd[:, 6:9])
    assert np.array_equal(trajectory.joint("reach").q, trajectory.q[:, 12:13])
    assert trajectory.joint("wrist").q.shape == (5, 2)
    assert trajectory.joint("loop").q.shape == (5, 0)
    assert np.array_equal(trajectory.body("hand").positions, trajectory.positions[:, 2])
    assert trajectory.body("hand").rotations.shape == (5, 4)
    with pytest.raises(UnknownName, match='no joint "knee" in model "figure"'):
        trajectory.joint("knee")
    with pytest.raises(UnknownName, match='no body "foot"'):
        trajectory.body("foot")


def test_length_and_text():
    """len counts frames and the text says what it is of."""
    assert len(motion()) == 5
    assert repr(motion()) == 'Trajectory("figure": 5 frames, 0 to 0.4 s)'
    assert repr(motion(0)) == 'Trajectory("figure": 0 frames)'


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": np.zeros((5, 3))}, r'q of a trajectory of model "figure" must have shape \(5, 14\), got \(5, 3\)'),
        ({"qd": np.zeros((4, 12))}, r"qd of a trajectory .* must have shape \(5, 12\), got \(4, 12\)"),
        ({"times": np.zeros((5, 1))}, "times of a trajectory must have 1 dimensions"),
        ({"times": [0, 1, 2, 1, 3]}, r"times must not decrease: .*2\.0.* then .*1\.0"),
        ({"times": [0, 1, 2, 3, np.nan]}, "times of a trajectory must be finite, frame 4 is not"),
        ({"qd": np.full((5, 12), np.inf)}, "qd of a trajectory must be finite, frame 0 is not"),
        ({"q": "abc"}, "q of a trajectory must be numbers"),
        ({"q": None}, "q of a trajectory"),
    ],
)
def test_wrong_arrays_are_refused(change, text):
    """Wrong shapes, times that run backwards and numbers that are none raise, naming the array."""
    good = motion()
    arrays = {"times": good.times, "q": good.q, "qd": good.qd} | change
    with pytest.raises(StateError, match=text):
        Trajectory(good.model, **arrays)


# -- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [0, 1, 50])
def test_npz_comes_back_bit_for_bit(tmp_path, frames):
    """Every array and the model itself come back from a file as they were."""
    trajectory = motion(frames)
    path = trajectory.save(tmp_path / "a.npz")
    copy = Trajectory.load(path)
    assert path == tmp_path / "a.npz"
    for name in ("times", "q", "qd"):
        assert getattr(copy, name).tobytes() == getattr(trajectory, name).tobytes()
        assert getattr(copy, name).shape == getattr(trajectory, name).shape
    assert native.dumps(copy.model) == native.dumps(trajectory.model)
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]


def test_models_without_freedoms_have_trajectories(tmp_path):
    """A model of nothing that moves can be recorded and read back."""
    trajectory = motion(3, Builder("nothing").build())
    copy = Trajectory.load(trajectory.save(tmp_path / "a.npz"))
    assert copy.q.shape == (3, 0) and copy.positions.shape == (3, 0, 3)


def test_npz_opens_with_numpy_alone(tmp_path):
    """The file is an ordinary one: NumPy reads its arrays without pickle."""
    trajectory = motion()
    with np.load(trajectory.save(tmp_path / "a.npz"), allow_pickle=False) as data:
        assert sorted(data) == ["format", "model", "q", "qd", "times", "version"]
        assert np.array_equal(data["q"], trajectory.q)
        assert native.loads(data["model"].tobytes()).name == "figure"


def test_same_trajectory_same_bytes(tmp_path):
    """Writing twice gives the same file: no times or paths get in."""
    one, two = motion().save(tmp_path / "a.npz"), motion().save(tmp_path / "b.npz")
    assert one.read_bytes() == two.read_bytes()


def test_csv_has_a_name_and_every_bit_of_each_number(tmp_path):
    """Columns are named after joints and axes, and reading the text gives every number back exactly."""
    trajectory = motion()
    path = trajectory.save(tmp_path / "a.csv")
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == [
        "time",
        *(f"q.float[{i}]" for i in range(7)),
        *(f"q.shoulder[{i}]" for i in range(4)),
        "q.bend",
        "q.reach",
        "q.tail, long",
        *(f"qd.float[{i}]" for i in range(6)),
        *(f"qd.shoulder[{i}]" for i in range(3)),
        "qd.bend",
        "qd.reach",
        "qd.tail, long",
    ]
    values = np.array(rows, float)
    assert np.array_equal(values, np.c_[trajectory.times, trajectory.q, trajectory.qd])


def test_unknown_suffixes_name_the_known_ones(tmp_path):
    """Saving or loading by a suffix nobody registered says which there are."""
    with pytest.raises(FileError, match=r'no trajectory writer for ".xyz"; there is .*\.csv.*\.npz'):
        motion().save(tmp_path / "a.xyz")
    with pytest.raises(FileError, match=r'no trajectory reader for ".html"; there is .*\.npz'):
        Trajectory.load(tmp_path / "a.html")
    with pytest.raises(FileError, match="no such file"):
        Trajectory.load(tmp_path / "a.npz")
    (tmp_path / "b.npz").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        Trajectory.load(tmp_path / "b.npz")


# -- files from strangers --------------------------------------------------------------------------------


def arrays_of(trajectory):
    return {
        "format": np.frombuffer(b"limberjack-trajectory", np.uint8),
        "version": np.array(1),
        "model": np.frombuffer(native.dumps(trajectory.model).encode(), np.uint8),
        "times": trajectory.times,
        "q": trajectory.q,
        "qd": trajectory.qd,
    }


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": np.frombuffer(b"other", np.uint8)}, "is not a Limberjack trajectory"),
        ({"version": np.array(2)}, "has version 2; this release reads version 1"),
        ({"version": np.array([1])}, '"version" must be 0-dimensional i8'),
        ({"model": np.frombuffer(b"{}", np.uint8)}, "is not a Limberjack model"),
        ({"model": np.zeros(3)}, '"model" must be 1-dimensional u1'),
        ({"q": np.zeros((5, 3))}, r"q of a trajectory of model .* must have shape"),
        ({"q": np.zeros((5, 14), np.float32)}, '"q" must be 2-dimensional f8, got 2-dimensional float32'),
        ({"q": np.zeros((5, 14), ">f8")}, '"q" must be 2-dimensional f8'),
        ({"times": np.full(5, np.nan)}, "times of a trajectory must be finite"),
        ({"times": -np.arange(5.0)}, "times must not decrease"),
        ({"extra": np.zeros(3)}, "is not a Limberjack trajectory: it holds .*extra"),
        ({"q": None}, "is not a Limberjack trajectory: it holds"),
        ({"times": np.array([object()] * 5, object)}, "."),
    ],
)
def test_foreign_arrays_are_refused(tmp_path, change, text):
    """Missing, surplus, misshapen and pickled arrays raise a FileError; nothing in them is run."""
    arrays = {name: value for name, value in (arrays_of(motion()) | change).items() if value is not None}
    path = tmp_path / "a.npz"
    np.savez(path, allow_pickle=True, **arrays)
    with pytest.raises(FileError, match=text) as caught:
        Trajectory.load(path)
    assert str(caught.value).startswith(str(path))


def test_zip_bombs_are_refused(tmp_path):
    """A compressed archive is refused by its directory, before a byte of it is expanded."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, **(arrays_of(motion()) | {"q": np.zeros((200_000, 14))}))
    assert path.stat().st_size < 100_000
    with pytest.raises(FileError, match="is compressed"):
        Trajectory.load(path)


def test_headers_that_lie_about_size_are_refused(tmp_path):
    """An array header that claims more numbers than follow is refused without making room for them."""
    good = motion().save(tmp_path / "a.npz")
    path = tmp_path / "b.npz"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "q.npy":
                data = data.replace(b"(5, 14)", b"(5, 14000000000000)").replace(b" " * 12 + b"\n", b"\n", 1)
            new.writestr(name, data)
    with pytest.raises(FileError, match="which is not what follows"):
        Trajectory.load(path)


def test_overlapping_members_are_refused(tmp_path):
    """Members that share their bytes, so that they sum to more than the file, are refused."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in (arrays_of(motion()) | {"q": np.zeros((1000, 14))}).items():
            stream = io.BytesIO()
            np.save(stream, value)
            archive.writestr(f"{name}.npy", stream.getvalue())
        q = archive.getinfo("q.npy")
        for other in archive.infolist():
            other.header_offset, other.file_size, other.compress_size = q.header_offset, q.file_size, q.compress_size
    with pytest.raises(FileError):
        Trajectory.load(path)


def test_torn_files_are_refused(tmp_path):
    """A file cut anywhere raises a FileError."""
    data = motion().save(tmp_path / "a.npz").read_bytes()
    path = tmp_path / "b.npz"
    for size in sorted({*range(0, len(data), 97), *range(len(data) - 40, len(data))}):
        path.write_bytes(data[:size])
        with pytest.raises(FileError):
            read_npz(path)


def test_changed_bytes_are_seen(tmp_path):
    """With any byte changed a file raises a FileError or gives what was saved: no number changes unseen."""
    trajectory = motion()
    data = bytearray(trajectory.save(tmp_path / "a.npz").read_bytes())
    path = tmp_path / "b.npz"
    rng = random.Random(3)
    refused = 0
    for _ in range(600):
        at, value = rng.randrange(len(data)), rng.randrange(256)
        old, data[at] = data[at], value
        path.write_bytes(data)
        data[at] = old
        try:
            copy = read_npz(path)
        except LimberjackError as error:
            assert isinstance(error, FileError)
            refused += 1
        else:
            assert np.array_equal(copy.q, trajectory.q) and np.array_equal(copy.qd, trajectory.qd)
            assert np.array_equal(copy.times, trajectory.times)
            assert native.dumps(copy.model) == native.dumps(trajectory.model)
    assert refused > 500
