"""Disks that fill up and folders that cannot be written: a clean error, the old file whole, no scraps."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import limberjack as lj

FILES = (
    "m.json", "m.urdf", "m.xml", "m.glb", "m.gltf", "t.npz", "t.csv", "t.parquet", "t.html", "t.bvh", "t.glb", "s.npz",
)  # fmt: skip
CODE = textwrap.dedent(
    """
    import os, resource, sys
    import limberjack as lj

    folder, limit = sys.argv[1], int(sys.argv[2])
    model = lj.scenes.pendulum(links=3)
    sim = lj.Simulation(model, dt=1e-2)
    motion = sim.run(0.2)

    def write(name):
        path = os.path.join(folder, name)
        {"m": lambda: lj.save(model, path), "t": lambda: motion.save(path), "s": lambda: sim.save(path)}[name[0]]()

    for name in sys.argv[3:]:  # what is imported is imported here
        write(name)
    old = {name: open(os.path.join(folder, name), "rb").read() for name in sys.argv[3:]}
    sim.step(5)
    motion = sim.run(0.5)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for name in sys.argv[3:]:
        try:
            write(name)
            raise SystemExit(name + " was written")
        except lj.FileError as error:
            assert name in str(error) and "cannot write" in str(error), error
    assert sorted(os.listdir(folder)) == sorted(old)
    for name, data in old.items():
        assert open(os.path.join(folder, name), "rb").read() == data, name
    """
)


@pytest.mark.skipif(os.name != "posix", reason="no limits on this system")
def test_a_full_disk_leaves_every_old_file_whole(tmp_path):
    """Every writer of models, motions and simulations, where a file can have no more than 300 bytes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-B", "-c", CODE, str(tmp_path), "300", *FILES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", ["m.json", "t.npz", "s.npz", "run.ljr"])
def test_folders_that_cannot_be_written_are_named(name):
    """A folder that nobody can write to is told with the name of the file."""
    folder = "/proc/1/fdinfo" if os.path.isdir("/proc/1/fdinfo") else "/nowhere"
    sim = lj.Simulation(lj.scenes.pendulum(links=2), dt=1e-2)
    path = f"{folder}/{name}"
    with pytest.raises(lj.FileError, match=name):
        if name == "run.ljr":
            sim.run(0.1, record=path)
        elif name == "m.json":
            lj.save(sim.model, path)
        else:
            (sim if name == "s.npz" else sim.run(0.1)).save(path)
