"""Every reader of files as a target of fuzzing, the corpus that it starts from, and what must hold of it.

    python -m tests.soak.readers urdf -atheris_runs=1000000     # coverage-guided, by atheris (extra `fuzz`)
    python -m tests.soak.readers urdf crash-0a1b...             # a file that it found, again

A reader gives a value or raises a `LimberjackError`: nothing else, within SECONDS and MEGABYTES. Files that once broke
this stay in the corpus, which `make test` reads whole.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CORPUS = Path(__file__).parent / "corpus"
# Of one execution; what the process holds at most, its imports and compiled kernels included.
SECONDS, MEGABYTES = 2.0, 1024
# What a URDF is that stands beside the yaml.
ROBOT = (
    b'<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" '
    b'iyz="0"/></inertial></link><link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" '
    b'ixz="0" iyz="0"/></inertial></link><joint name="j" type="revolute"><parent link="a"/><child link="b"/>'
    b'<limit lower="-1" upper="1"/></joint></robot>'
)


def _read(name: str, kind: str) -> Callable[[Path, bytes], Any]:
    """Return a function that writes bytes to a file called `name` and reads it."""

    def run(folder: Path, data: bytes) -> Any:
        import limberjack as lj
        from limberjack.io import mesh_files, recordings

        path = folder / name
        path.write_bytes(data)
        if kind == "mesh":
            return mesh_files.read(path)
        if kind == "motion":
            return lj.Trajectory.load(path)
        if kind == "table":
            return lj.Trajectory.load(path, _double_pendulum())
        if kind == "state":
            return lj.resume(path)
        if kind == "recording":
            return recordings.read_trajectory(path)
        if kind == "yaml":
            (folder / "robot.urdf").write_bytes(ROBOT)
            return lj.load(folder / "robot.urdf")
        return lj.load(path)

    return run


def _state_content(folder: Path, data: bytes) -> Any:
    """Resume a saved simulation with another header and other bits in its arrays, its checksums made anew."""
    from limberjack.io import npz, state_files

    path = folder / "state.npz"
    arrays = npz.loads((CORPUS / "state" / "seed0").read_bytes(), path, state_files.LAYOUT)
    header, _, bits = data.partition(b"\0")
    arrays["header"] = np.frombuffer(header, np.uint8)
    for name in sorted(arrays):
        if name.startswith("state.") and bits:
            raw = arrays[name].tobytes()
            bits, raw = bits[len(raw) :], bits[: len(raw)] + raw[len(bits) :]
            arrays[name] = np.frombuffer(raw, arrays[name].dtype).reshape(arrays[name].shape)
    arrays["sha256"] = np.frombuffer(state_files._digest(arrays), np.uint8)
    npz.write(path, arrays)
    return _read("state.npz", "state")(folder, path.read_bytes())


def _recording_content(folder: Path, data: bytes) -> Any:
    """Replay a recording whose records have other content, their checksums made anew."""
    from limberjack.io import recordings

    seed = (CORPUS / "recording" / "seed0").read_bytes()
    begin = seed.index(b"\n") + 1
    at = begin + 9 + int.from_bytes(seed[begin + 1 : begin + 5], "little")
    out = [seed[:at]]
    while len(data) > 3:
        length = int.from_bytes(data[1:3], "little")
        out.append(recordings._record(b"HFISDE"[data[0] % 6], data[3 : 3 + length]))
        data = data[3 + length :]
    path = folder / "run.ljr"
    path.write_bytes(b"".join(out))
    recordings.read_trajectory(path)
    return recordings.replay(path)


_models: list[Any] = []


def _double_pendulum() -> Any:
    import limberjack as lj

    if not _models:
        _models.append(lj.scenes.double_pendulum())
    return _models[0]


TARGETS: dict[str, Callable[[Path, bytes], Any]] = {
    "urdf": _read("robot.urdf", "model"),
    "yaml": _read("robot.yaml", "yaml"),
    "mjcf": _read("robot.xml", "model"),
    "json": _read("model.json", "model"),
    "gltf": _read("model.gltf", "model"),
    "glb": _read("model.glb", "model"),
    "bvh": _read("clip.bvh", "model"),
    "obj": _read("mesh.obj", "mesh"),
    "stl": _read("mesh.stl", "mesh"),
    "dae": _read("mesh.dae", "mesh"),
    "ply": _read("mesh.ply", "mesh"),
    "csv": _read("motion.csv", "table"),
    "parquet": _read("motion.parquet", "table"),
    "motion": _read("motion.npz", "motion"),
    "state": _read("state.npz", "state"),
    "recording": _read("run.ljr", "recording"),
    # past the checksums, as somebody who means harm would
    "state_content": _state_content,
    "recording_content": _recording_content,
}


def check(target: str, folder: Path, data: bytes) -> bool:
    """Let a reader read bytes; return whether it took them. Anything but a value or a typed error raises."""
    import limberjack as lj

    begin = time.process_time()
    taken = True
    # Numbers too large to be squared overflow before they are refused.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            TARGETS[target](folder, data)
        except lj.LimberjackError as error:
            taken = False
            assert len(str(error)) < 20_000, f"a message of {len(str(error))} characters"
    spent = time.process_time() - begin
    assert spent < SECONDS, f"took {spent:.1f} s"
    return taken


def make_corpus() -> None:
    """Write the seeds: a small whole file of every kind. What was found later has other names and stays."""
    import limberjack as lj
    from limberjack.io import save

    model = lj.scenes.double_pendulum()
    tree = lj.Builder("tree")
    shell = {"vertices": np.eye(4, 3), "faces": [(0, 1, 2), (0, 2, 3), (0, 3, 1), (1, 3, 2)]}
    tree.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
    tree.add_joint_hinge("axle", "world", "arm", limits=(-1, 1), motor=lj.Motor(kp=2.0, max=3.0), damping=0.5)
    tree.add_shape_mesh("arm", **shell)
    tree.add_body("hand", mass=0.5, inertia=(0.1, 0.1, 0.1))
    tree.add_joint_ball("wrist", "arm", "hand", position=(0, 0, -1))
    tree.add_shape_capsule("hand", 0.1, 0.2, friction=0.7)
    rich = tree.build()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        sim = lj.Simulation(model, dt=1e-2)
        motion = sim.run(0.05, record=folder / "run.ljr")
        tiny = lj.Trajectory(model, motion.times[:2], motion.q[:2], motion.qd[:2])
        files = {"motion": ".npz", "csv": ".csv", "parquet": ".parquet"}
        made = {target: [tiny.save(folder / f"m{suffix}")] for target, suffix in files.items()}
        made["bvh"] = [lj.Trajectory(rich, [0.0, 0.1], np.tile(rich.q0, (2, 1)), np.zeros((2, rich.nv))).save(
            folder / "m.bvh")]  # fmt: skip
        made["state"], made["recording"] = [sim.save(folder / "s.npz")], [folder / "run.ljr"]
        state, recording = made["state"][0].read_bytes(), made["recording"][0].read_bytes()
        written = {"json": "t.json", "mjcf": "t.xml", "glb": "t.glb", "urdf": "t.urdf"}
        for target, file in written.items():
            made[target] = [save(one, folder / f"{k}{file}") for k, one in enumerate(_writable(target, model, rich))]
        for target, paths in made.items():
            (CORPUS / target).mkdir(parents=True, exist_ok=True)
            for k, path in enumerate(paths):
                (CORPUS / target / f"seed{k}").write_bytes(path.read_bytes())
    written_here = {
        "yaml": b"closed_loop: [['a', 'b']]\ntype: ['3d'] # a loop\njoint_name: ['j']\njoint_type: ['SPHERICAL']\n",
        "obj": b"# cube\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvn 0 0 1\nf 1 2 3\nf 1/1/1 3//1 4 2\nf -1 -2 -3\n",
        "stl": b"solid s\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"
        b"endsolid s\n",
        "ply": b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
        b"element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
        "dae": b'<COLLADA version="1.4.1"><asset><unit meter="1"/></asset><library_geometries><geometry id="g"><mesh>'
        b'<source id="p"><float_array id="a" count="9">0 0 0 1 0 0 0 1 0</float_array><technique_common><accessor '
        b'source="#a" count="3" stride="3"/></technique_common></source><vertices id="v"><input semantic="POSITION" '
        b'source="#p"/></vertices><triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p>'
        b'</triangles></mesh></geometry></library_geometries><library_visual_scenes><visual_scene id="s"><node>'
        b'<translate>1 0 0</translate><instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>'
        b'<scene><instance_visual_scene url="#s"/></scene></COLLADA>',
    }  # fmt: skip
    written_here |= {"gltf": GLTF, "state_content": _header(state), "recording_content": _contents(recording)}
    for target, data in written_here.items():
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        (CORPUS / target / "seed0").write_bytes(data)


# Small, so that most mutations change what it says.
GLTF = json.dumps({
    "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0, 2]}],
    "extensionsUsed": ["KHR_physics_rigid_bodies", "KHR_implicit_shapes"],
    "extensions": {
        "KHR_implicit_shapes": {"shapes": [{"type": "box", "box": {"size": [1, 2, 3]}}, {"type": "sphere"}]},
        "KHR_physics_rigid_bodies": {
            "physicsMaterials": [{"dynamicFriction": 0.5, "restitution": 0.1}],
            "physicsJoints": [{
                "limits": [{"linearAxes": [0, 1, 2], "min": 0, "max": 0}, {"angularAxes": [0, 1], "min": 0, "max": 0},
                           {"angularAxes": [2], "min": -1, "max": 1, "stiffness": 3}],
                "drives": [{"type": "angular", "axis": 2, "mode": "force", "stiffness": 2, "damping": 1}]}],
        }},
    "nodes": [
        {"name": "a", "translation": [0, 1, 0], "rotation": [0, 0, 0, 1], "scale": [1, 1, 1], "children": [1],
         "extensions": {"KHR_physics_rigid_bodies": {
             "motion": {"mass": 2, "inertiaDiagonal": [1, 1, 1], "linearVelocity": [0, 1, 0]},
             "collider": {"geometry": {"shape": 0}, "physicsMaterial": 0}}}},
        {"name": "j", "extensions": {"KHR_physics_rigid_bodies": {"joint": {"connectedNode": 2, "joint": 0}}}},
        {"name": "b", "mesh": 0, "translation": [0, 1, 0], "extensions": {"KHR_physics_rigid_bodies": {
            "motion": {"mass": 1}, "collider": {"geometry": {"shape": 1}}}}},
    ],
    "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
    "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
                  {"bufferView": 1, "componentType": 5123, "count": 3, "type": "SCALAR"}],
    "bufferViews": [{"buffer": 0, "byteOffset": 0, "byteLength": 36},
                    {"buffer": 0, "byteOffset": 36, "byteLength": 6}],
    "buffers": [{"byteLength": 42, "uri": "data:application/octet-stream;base64,"
                 "AAAAAAAAAAAAAAAAAACAPwAAAAAAAAAAAAAAAAAAgD8AAAAAAAABAAIA"}],
}).encode()  # fmt: skip


def _header(state: bytes) -> bytes:
    """Return the header of a saved simulation, and the bits of its arrays."""
    from limberjack.io import npz, state_files

    arrays = npz.loads(state, Path("state.npz"), state_files.LAYOUT)
    bits = b"".join(arrays[name].tobytes() for name in sorted(arrays) if name.startswith("state."))
    return arrays["header"].tobytes() + b"\0" + bits


def _contents(recording: bytes) -> bytes:
    """Return the records after the first as kind, length in two bytes, content."""
    out, at = b"", recording.index(b"\n") + 1
    while at < len(recording):
        length = int.from_bytes(recording[at + 1 : at + 5], "little")
        content = recording[at + 9 : at + 9 + length]
        if length < 2**16 and out or recording[at : at + 1] != b"H":
            out += bytes([b"HFISDE".index(recording[at])]) + length.to_bytes(2, "little") + content
        at += 9 + length
    return out


def _writable(target: str, model: Any, rich: Any) -> list[Any]:
    # A URDF has no cones and no motors of its own.
    return [model] if target == "urdf" else [rich]


def main(argv: list[str]) -> None:
    """Fuzz one target, or check the files named."""
    target, words = argv[1], argv[2:]
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = Path(tempfile.mkdtemp(prefix=f"limberjack-{target}-", dir=memory))
    files = [Path(word) for word in words if not word.startswith("-") and Path(word).is_file()]
    if files:
        for path in files:
            print(path, "read" if check(target, folder, path.read_bytes()) else "refused")
        return
    import atheris

    import limberjack as lj

    # Kernels are compiled from their code, which must not be instrumented: all that is not `io` is imported before.
    lj.Simulation(_double_pendulum()).step(2)
    for module in ("simulation.queries", "simulation.prescribed_motion", "simulation.reactions", "maximal.assemble"):
        importlib.import_module(f"limberjack.{module}")
    with atheris.instrument_imports(include=["limberjack.io"]):
        import limberjack.io
        import limberjack.io.biovision
        import limberjack.io.gltf_physics
        import limberjack.io.mesh_files
        import limberjack.io.mjcf
        import limberjack.io.native
        import limberjack.io.recordings
        import limberjack.io.state_files
        import limberjack.io.trajectory_files
        import limberjack.io.urdf  # noqa: F401
    for path in sorted((CORPUS / target).iterdir()):  # what is compiled on first use is compiled here
        check(target, folder, path.read_bytes())
    options = [f"-rss_limit_mb={MEGABYTES}", f"-timeout={10 * SECONDS:.0f}", "-max_len=20000", "-use_value_profile=1"]
    atheris.Setup([argv[0], *options, *words, str(folder.with_suffix(".new")), str(CORPUS / target)],
                  lambda data: check(target, folder, data))  # fmt: skip
    folder.with_suffix(".new").mkdir()
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
