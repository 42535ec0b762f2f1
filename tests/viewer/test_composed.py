"""Pictures made from poses of rigid clusters are those made from the poses of all bodies."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import viser
from tests.viewer.waiting import until
from websockets.sync.client import connect

import limberjack as lj
from limberjack.viewer.app import Viewer
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.part_poses import Composed
from limberjack.viewer.runner import Runner

# What a page sends first: it is shown nothing before it has told where it looks.
CAMERA = {
    "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (3.0, 0.0, 1.0), "fov": 0.8, "near": 0.1,
    "far": 100.0, "image_height": 720, "image_width": 1280, "look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0),
}  # fmt: skip


def plain(drawing, q):
    """Return the poses of parts and the ends of strings by forward kinematics."""
    poses = lj.forward_kinematics(drawing.model, q)
    return *drawing.part_poses(*poses), drawing.string_ends(*poses)


def assert_same(found, wanted):
    """Check a picture against poses, as far as single precision goes; quaternions but for their sign."""
    size = max(1.0, float(np.abs(wanted[0]).max()))
    assert np.abs(found.positions - wanted[0]).max() <= 1e-7 * size
    sign = np.sign((found.rotations * wanted[1]).sum(axis=1))[:, None]
    assert np.abs(sign * found.rotations - wanted[1]).max() <= 1e-7
    assert found.ends.shape == wanted[2].shape and np.abs(found.ends - wanted[2]).max(initial=0.0) <= 1e-7 * size


def strung():
    """Return a free figure with a spring to the world and one between its limbs."""
    builder = lj.Builder.from_spec(lj.scenes.humanoid().spec)
    names = builder.build().body_names
    builder.add_spring("world", names[5], at_a=(0.0, 0.0, 3.0), stiffness=50.0)
    builder.add_spring(names[20], names[-1], at_b=(0.0, 0.0, 0.1), stiffness=5.0)
    return builder.build()


@pytest.mark.parametrize("scene", ["strung", "pendulum"])
def test_parts_and_strings_are_where_kinematics_puts_them(scene, rng):
    """Across changes of the active set, jumps of q and pictures left out, parts and strings agree to 1e-7."""
    model = strung() if scene == "strung" else lj.scenes.pendulum(links=40)
    ignored = [word for word in model.features() if word not in lj.Adaptive.supports or word == "limits"]
    sim = lj.Simulation(model, lj.Adaptive(budget=6, update_every=3), dt=1e-3, ignore=ignored)
    sim.qd = 0.3 * rng.normal(size=model.nv)
    drawing = Drawing(model)
    composed, taken = Composed(drawing), 0
    for k in range(40):
        if k % 6 == 5:
            sim.tune(budget=int(rng.integers(0, 15)))
        if k == 20:
            sim.q = model.q0
        sim.step(2)
        if k % 3 == 0:
            continue
        cluster_roots = sim.cluster_roots()
        taken += cluster_roots is not None
        wanted = plain(drawing, sim.q)
        assert_same(composed.by_clusters(cluster_roots, sim.q), wanted)
        shown = composed.by_bodies(*lj.forward_kinematics(model, sim.q))
        assert_same(shown, wanted)
        assert np.abs(shown.middle - wanted[0][drawing.parts.body >= 0].mean(axis=0)).max() <= 1e-12 * 10.0
    assert taken > 10


def test_what_has_blown_up_stays_a_number():
    """Positions beyond single precision are shown far off, not as infinities."""
    model = lj.scenes.pendulum(links=1)
    shown = Composed(Drawing(model)).by_bodies(np.full((1, 3), 1e200), np.array([[1.0, 0.0, 0.0, 0.0]]))
    assert np.isfinite(shown.positions).all() and np.abs(shown.positions).max() >= 1e29


def test_frames_have_the_heads_of_clusters():
    """Frames of method adaptive name the first links of clusters, but not when something was set."""
    runner = Runner(lj.Simulation(lj.scenes.pendulum(links=6), lj.Adaptive(budget=2)), rate=200.0)
    runner.start()
    assert runner.frame(timeout=30.0).runs[0].cluster_roots is None
    runner.play()
    assert until(lambda: runner.frame(timeout=5.0).runs[0].cluster_roots is not None)
    runner.play(False)
    runner.ask(lambda sim: setattr(sim, "q", sim.model.q0))
    assert until(lambda: runner.frame(timeout=5.0).runs[0].cluster_roots is None)
    assert np.array_equal(runner.frame(timeout=5.0).q, runner.sim.model.q0)
    runner.stop()


def test_pages_see_clusters_and_then_another_method():
    """With a page open the stage is moved by clusters; after a switch of the method and a reset, by coordinates."""
    model = lj.scenes.pendulum(links=12)
    viewer = Viewer(lj.Simulation(model, lj.Adaptive(budget=3)), port=0)
    address, protocol = viewer.url.replace("http", "ws"), f"viser-v{viser.__version__}"

    def shown():
        """Return whether the stage shows the state of now."""
        q = viewer.runner.ask(lambda sim: sim.q.copy())
        at = plain(viewer._stages[0].drawing, q)[0]
        found = np.concatenate([handle.batched_positions for handle in viewer._stages[0]._handles])
        return np.allclose(found, at, atol=1e-5)

    try:
        with connect(address, origin=viewer.url.rstrip("/"), subprotocols=[protocol], max_size=None) as socket:
            socket.send(msgspec.msgpack.encode(CAMERA))
            assert until(viewer.server.get_clients)
            assert until(lambda: viewer.pictures > 2, 60.0), list(viewer.runner.problems)
            assert until(lambda: viewer.runner.frame(timeout=5.0).runs[0].cluster_roots is not None)
            viewer.toggle()
            assert until(shown)
            viewer.use_method("full")
            viewer.runner.ask(lambda sim: sim.step(5), timeout=300.0)
            assert until(lambda: viewer.runner.frame(timeout=5.0).runs[0].cluster_roots is None) and until(shown)
            viewer.use_method("adaptive")
            viewer.runner.ask(lambda sim: sim.step(5), timeout=300.0)
            assert until(shown)
            viewer.runner.reset()
            assert until(shown) and not viewer.runner.problems
    finally:
        viewer.close()
