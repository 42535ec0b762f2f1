"""Motions as pages, glTF scenes, films and pictures: what is in the files, and that they are whole."""

from __future__ import annotations

import base64
import json
import re
import struct
import sys
import zlib

import numpy as np
import pytest

import limberjack as lj
from limberjack.io import html
from limberjack.spatial.frames import matrix_from_quaternion


@pytest.fixture(scope="module")
def motion():
    """Half a second of a marionette: shapes of several kinds, springs, the ground."""
    return lj.Simulation(lj.scenes.marionette()).run(0.2)


def small(frames=3):
    model = lj.scenes.pendulum(links=3)
    q = np.linspace(0.0, 1.0, frames)[:, None] * np.ones(model.nq)
    return lj.Trajectory(model, np.arange(frames) / 10.0, q, np.zeros((frames, model.nv)))


# -- glTF ------------------------------------------------------------------------------------------


def opened(path):
    """Return the document of a .glb and a function that gives the array of an accessor."""
    data = path.read_bytes()
    magic, version, total = struct.unpack("<III", data[:12])
    assert (magic, version, total) == (0x46546C67, 2, len(data))
    length, kind = struct.unpack("<I4s", data[12:20])
    assert kind == b"JSON"
    document = json.loads(data[20 : 20 + length])
    blob = data[28 + length :]

    def array(index):
        accessor = document["accessors"][index]
        view = document["bufferViews"][accessor["bufferView"]]
        width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[accessor["type"]]
        kind = {5126: "<f4", 5123: "<u2", 5125: "<u4"}[accessor["componentType"]]
        raw = np.frombuffer(blob, kind, accessor["count"] * width, view["byteOffset"])
        return raw.reshape(accessor["count"], width)

    return document, array


def test_glb_moves_its_nodes_as_the_bodies_moved(motion, tmp_path):
    """Read back by the book, every body's node has the body's position and rotation in every frame."""
    document, array = opened(motion.save(tmp_path / "a.glb"))
    names = {node.get("name"): k for k, node in enumerate(document["nodes"])}
    moved = {}
    for channel in document["animations"][0]["channels"]:
        sampler = document["animations"][0]["samplers"][channel["sampler"]]
        assert np.allclose(array(sampler["input"])[:, 0], motion.times - motion.times[0], atol=1e-6)
        moved[channel["target"]["node"], channel["target"]["path"]] = array(sampler["output"])
    for i, name in enumerate(motion.model.body_names):
        node = names[name]
        place = moved[node, "translation"]
        turn = moved[node, "rotation"][:, [3, 0, 1, 2]]
        assert np.allclose(place, motion.positions[:, i], atol=1e-5)
        for k in (0, len(motion) // 2, -1):
            own = matrix_from_quaternion(motion.rotations[k, i])
            assert np.allclose(matrix_from_quaternion(turn[k].astype(float)), own, atol=1e-5)
        # neighbours on the same side: what plays it turns the short way
        assert ((turn[1:] * turn[:-1]).sum(axis=1) > 0.0).all()


def test_glb_shares_meshes_and_names_its_bodies(motion, tmp_path):
    """Every shape has a node below its body, equal forms share one mesh, and the world's z is up in the file's y."""
    document, _ = opened(motion.save(tmp_path / "a.glb"))
    meshes = [node["mesh"] for node in document["nodes"] if "mesh" in node]
    shapes = [shape for shape in motion.model.shapes if shape.kind != "plane"]
    assert len(meshes) >= len(shapes) and len(set(meshes)) < len(meshes)
    top = document["nodes"][document["scenes"][0]["nodes"][0]]
    x, y, z, w = top["rotation"]
    assert np.allclose(matrix_from_quaternion(np.array([w, x, y, z])) @ [0, 0, 1], [0, 1, 0], atol=1e-6)


def test_glb_of_one_frame_stands_still(tmp_path):
    """A single frame makes a scene without an animation."""
    document, _ = opened(small(1).save(tmp_path / "one.glb"))
    assert "animations" not in document


# -- pages -----------------------------------------------------------------------------------------


def data_of(path):
    return json.loads(re.search(r'type="application/json">(.*?)</script>', path.read_text(), flags=re.S).group(1))


def unpacked(text, width, frames):
    """Return the numbers of a packed series, by the book: planes of bytes of differences from frame to frame."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(width, -1)
    steps = np.ascontiguousarray(planes.T).view(f"<i{width}").reshape(frames, -1)
    return np.cumsum(steps, axis=0, dtype=steps.dtype)


def test_a_page_holds_the_motion(motion, tmp_path):
    """Positions come back to within the step, rotations to a thousandth of a degree or so, times to the digit."""
    (data,) = data_of(motion.save(tmp_path / "a.html"))["runs"]
    n, bodies = len(motion), motion.model.body_count
    places = unpacked(data["places"], 4, n).reshape(n, bodies, 3) * data["step"] + np.array(data["origin"])
    assert np.abs(places - motion.positions).max() <= 0.5 * data["step"] * (1 + 1e-6)
    turns = unpacked(data["turns"], 2, n).reshape(n, bodies, 4) / 32767.0
    assert np.abs(turns - motion.rotations).max() < 1.6e-5
    assert np.allclose(data["times"], motion.times, rtol=1e-8)


def test_a_page_holds_clusters(tmp_path):
    """Clusters choose a colour for each body and frame, the same for the same cluster; another shape is refused."""
    motion = small(3)
    clusters = np.array([[0, 0, 2], [0, 1, 1], [-1, -1, -1]])
    data = data_of(motion.save(tmp_path / "a.html", clusters=clusters))
    shown = unpacked(data["runs"][0]["clusters"], 2, 3)
    assert shown.min() >= 0 and shown.max() < len(data["palette"])
    for row, colors in zip(clusters, shown, strict=True):
        assert np.array_equal(row[:, None] == row, colors[:, None] == colors)
    assert "clusters" not in data_of(motion.save(tmp_path / "b.html"))["runs"][0]
    with pytest.raises(lj.ModelError, match=r"clusters: shape \(3, 2\)"):
        motion.save(tmp_path / "c.html", clusters=clusters[:, :2])


def test_a_page_holds_plots_and_motions_side_by_side(tmp_path):
    """Plots are the numbers given, gaps included; a motion beside has label, clusters and plots of its own.

    Motions of one model share its shapes in the file; a plot of another length is refused.
    """
    motion, other = small(3), small(2)
    beside = [("few", lj.Trajectory(motion.model, other.times, other.q, other.qd), {"plots": {"cost": [3.0, 4.0]}})]
    plots = {"cost": [1.0, np.nan, 2.5], "error": [0.0, 1.0, 2.0]}
    data = data_of(motion.save(tmp_path / "a.html", plots=plots, label="many", beside=beside))
    assert [run["label"] for run in data["runs"]] == ["many", "few"] and len(data["shapes"]) == 1
    assert data["runs"][0]["plots"] == {"cost": [1.0, None, 2.5], "error": [0.0, 1.0, 2.0]}
    assert data["runs"][1]["plots"] == {"cost": [3.0, 4.0]} and len(data["runs"][1]["times"]) == 2
    with pytest.raises(lj.ModelError, match=r'plot "cost": shape \(2,\)'):
        motion.save(tmp_path / "b.html", plots={"cost": [1.0, 2.0]})


def test_a_page_needs_nothing_else(motion, tmp_path):
    """No address of another file or server stands in the page, and its policy forbids asking for any."""
    text = motion.save(tmp_path / "a.html").read_text()
    assert not re.findall(r"(?:src|href)\s*=", text) and "http://" not in text and "https://" not in text
    assert "default-src 'none'" in text


def test_names_cannot_break_out_of_a_page(tmp_path):
    """A model called </script><script> is a title, not a script."""
    b = lj.Builder("</script><script>alert(1)</script>")
    b.add_body("a", mass=1.0, inertia=(1, 1, 1))
    model = b.build()
    trajectory = lj.Trajectory(model, [0.0], [model.q0], [model.qd0])
    path = trajectory.save(tmp_path / "evil.html")
    assert "<script>alert" not in path.read_text() and data_of(path)["name"] == model.name


def test_far_motions_keep_their_detail():
    """A body that goes a thousand kilometres away is still placed to within a hundredth of a typical part."""
    b = lj.Builder("probe")
    b.add_body("probe", mass=1.0, inertia=(1, 1, 1))
    model = b.build()
    q = np.tile(model.q0, (3, 1))
    q[:, 0] = (0.0, 1e6, 123456.789)
    data = html._motion(lj.Trajectory(model, [0.0, 1.0, 2.0], q, np.zeros((3, model.nv))), 1.0)
    places = unpacked(data["places"], 4, 3).reshape(3, 1, 3) * data["step"] + np.array(data["origin"])
    assert np.abs(places[:, 0, 0] - q[:, 0]).max() < 0.01


# -- films and pictures ----------------------------------------------------------------------------


def test_png_shows_the_moment_asked_for(tmp_path):
    """Pictures of two moments differ, the same moment gives the same bytes, and the size is as asked."""
    t, size = small(), {"width": 64, "height": 48}
    first, last, again = (
        t.save(tmp_path / f"{k}.png", time=time, **size).read_bytes() for k, time in enumerate((0.0, 0.2, 0.0))
    )
    assert first == again != last
    assert struct.unpack(">II", first[16:24]) == (64, 48)


def test_mp4_has_all_its_frames(tmp_path):
    """The film, decoded again, has as many pictures as the motion at that rate, and they move."""
    import imageio_ffmpeg

    path = small(11).save(tmp_path / "a.mp4", fps=10, width=96, height=64)
    reader = imageio_ffmpeg.read_frames(str(path))
    size = next(reader)["size"]
    frames = [np.frombuffer(frame, np.uint8).astype(int) for frame in reader]
    assert size == (96, 64) and len(frames) == 11
    assert np.abs(frames[0] - frames[-1]).max() > 40


def test_gif_has_all_its_frames(tmp_path):
    """The animation repeats, and has the pictures of the motion that differ."""
    from PIL import Image

    image = Image.open(small(5).save(tmp_path / "a.gif", fps=10, width=96, height=64))
    assert image.size == (96, 64) and image.n_frames == 5 and image.info.get("loop") == 0


def test_a_film_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    """When ffmpeg ends early its words are in the error, and the old file is whole."""
    path = tmp_path / "a.mp4"
    path.write_bytes(b"old")
    monkeypatch.setattr("limberjack.io.pictures._MP4", ["-c:v", "no_such_codec"])
    with pytest.raises(lj.FileError, match="no_such_codec"):
        small().save(path, width=32, height=32)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_films_need_their_extra(tmp_path, monkeypatch):
    """Without imageio-ffmpeg the error names what to install, and nothing is written."""
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(lj.MissingExtra, match=r"limberjack\[video\]"):
        small().save(tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["html", "glb", "png", "gif", "mp4"])
def test_nothing_cannot_be_drawn(suffix, tmp_path):
    """A trajectory without frames is refused by every writer of pictures."""
    model = lj.scenes.pendulum(links=2)
    empty = lj.Trajectory(model, np.zeros(0), np.zeros((0, model.nq)), np.zeros((0, model.nv)))
    with pytest.raises(lj.StateError, match="no frames"):
        empty.save(tmp_path / f"a.{suffix}")
    assert not list(tmp_path.iterdir())


def test_wrong_options_are_refused(tmp_path):
    """Odd sizes of films, moments that are no number, cameras that are none."""
    for name, options, word in (
        ("a.mp4", {"width": 33}, "even"), ("a.png", {"time": "soon"}, "time"), ("a.html", {"camera": 3}, "camera"),
        ("a.gif", {"speed": -1.0}, "speed"),
    ):  # fmt: skip
        with pytest.raises(lj.StateError, match=word):
            small().save(tmp_path / name, **options)
    assert not list(tmp_path.iterdir())
