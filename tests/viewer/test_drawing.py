"""What there is to see of a model: meshes, parts, bones, strings, and where a camera must stand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj
from limberjack.model.shape_kinds import mesh_mass
from limberjack.spatial.frames import matrix_from_quaternion
from limberjack.viewer import geometry
from limberjack.viewer.camera import Eye, bounds, checked_eye, framed, seen_from
from limberjack.viewer.drawing import Drawing, arrows, multiplied, string_poses, turned


def bare(kind="hinge"):
    """Return an arm of two bodies without shapes."""
    b = lj.Builder("bare")
    for name in ("upper", "lower"):
        b.add_body(name, mass=1.0, com=(0, 0, -0.25), inertia=(0.02, 0.02, 0.01))
    b.add_joint_hinge("shoulder", "world", "upper", axis=(0, 1, 0), position=(0, 0, 1))
    b.add_joint(kind, "elbow", "upper", "lower", position=(0, 0, -0.5))
    return b.build()


@pytest.mark.parametrize(
    "mesh, volume",
    [
        (geometry.sphere(48), 4 / 3 * math.pi),
        (geometry.box(), 1.0),
        (geometry.cylinder(64), math.pi),
        (geometry.capsule(0.5, 2.0, 48), math.pi * 0.25 * 2 + 4 / 3 * math.pi * 0.125),
    ],
)
def test_meshes_are_closed_and_face_outwards(mesh, volume):
    """Signed tetrahedra over the faces add up to the volume; normals are unit and point away from the middle."""
    got, centre, _ = mesh_mass(mesh.vertices, mesh.faces)
    assert got == pytest.approx(volume, rel=0.02) and np.allclose(centre, 0.0, atol=1e-9)
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    assert (np.einsum("ij,ij->i", np.cross(b - a, c - a), a) > 0.0).all()
    assert np.allclose(np.linalg.norm(mesh.normals, axis=1), 1.0)
    assert (np.einsum("ij,ij->i", mesh.normals, mesh.vertices) > 0.0).all()


def test_a_press_without_a_point_is_found_by_its_ray():
    """Where the page sends no point or no instance, the part nearest to the ray is gripped, where the ray passes it."""
    import asyncio
    from types import SimpleNamespace
    from unittest.mock import MagicMock

    from limberjack.viewer.stage import Stage

    model = lj.scenes.pendulum(links=3)
    server, calls = MagicMock(), []
    eye = Eye(np.array((0.0, -4.0, 0.0)), np.zeros(3))
    stage = Stage(server, Drawing(model), eye, lambda *given: calls.append(given), lambda body: None)
    stage.show(np.array([0.3, 0.2, -0.4]))
    batch = max(range(len(stage._handles)), key=lambda k: stage._starts[k + 1] - stage._starts[k])
    drag = server.scene.add_batched_meshes_simple.return_value.on_drag.return_value.call_args_list[2 * batch].args[0]
    camera = SimpleNamespace(
        position=eye.position, look_at=eye.target, fov=eye.angle, image_width=1200, image_height=800
    )
    unknown = (math.nan,) * 3
    for row in range(stage._starts[batch], stage._starts[batch + 1]):
        place = stage._shown[row].astype(float)
        right, up, ahead = eye.axes()
        off = place - eye.position
        scale = 0.5 / np.tan(0.5 * eye.angle) / (off @ ahead)
        screen = (0.5 + scale * (off @ right) / 1.5, 0.5 - scale * (off @ up))
        for index in (None, row - stage._starts[batch]):
            event = SimpleNamespace(
                phase="start", client_id=1, instance_index=index, start_position=unknown, end_position=unknown,
                start_screen_pos=screen, end_screen_pos=(screen[0] + 0.1, screen[1]),
                client=SimpleNamespace(camera=camera),
            )  # fmt: skip
            calls.clear()
            asyncio.run(drag(event))
            (start, body, point, hold), (update, _, moved, same) = calls
            assert (start, update) == ("start", "update") and hold == same
            assert body == model.body_names[int(stage.drawing.parts.body[row])]
            assert np.allclose(point, place, atol=1e-6)
            assert moved[0] > point[0] + 0.1 and np.allclose(moved[1:], point[1:], atol=0.1)


def test_parts_stand_where_matrices_put_them():
    """Poses of parts are those of their shapes on their bodies, composed as 3 x 3 matrices (naive twin)."""
    model = lj.scenes.humanoid()
    sim = lj.Simulation(model)
    drawing = Drawing(model)
    at, turn = drawing.part_poses(sim.positions, sim.rotations)
    assert len(at) == sum(shape.kind != "plane" for shape in model.shapes)
    for k in range(0, len(at), 7):
        i = int(drawing.parts.body[k])
        r = matrix_from_quaternion(sim.rotations[i])
        assert np.allclose(at[k], sim.positions[i] + r @ drawing.parts.position[k], atol=1e-12)
        own = matrix_from_quaternion(drawing.parts.rotation[k])
        assert np.allclose(matrix_from_quaternion(turn[k]), r @ own, atol=1e-12)


def test_quaternions_multiply_and_turn_as_matrices_do():
    """`multiplied` and `turned` agree with products of rotation matrices."""
    rng = np.random.default_rng(3)
    a, b = (q / np.linalg.norm(q, axis=1, keepdims=True) for q in rng.normal(size=(2, 20, 4)))
    v = rng.normal(size=(20, 3))
    for k in range(20):
        ra, rb = matrix_from_quaternion(a[k]), matrix_from_quaternion(b[k])
        assert np.allclose(matrix_from_quaternion(multiplied(a, b)[k]), ra @ rb)
        assert np.allclose(turned(a, v)[k], ra @ v[k])


def test_bodies_without_shapes_are_bones_from_joint_to_joint():
    """A bare body is drawn from its joint to the next; the last one through its centre of mass."""
    drawing = Drawing(bare())
    assert sorted(drawing.parts.body) == [0, 1]
    sim = lj.Simulation(bare())
    box = bounds(drawing, sim.positions[None], sim.rotations[None])
    assert box[1, 2] == pytest.approx(1.0, abs=0.3) and box[0, 2] == pytest.approx(0.0, abs=0.3)


@pytest.mark.parametrize("name", lj.scenes.names())
def test_every_scene_shows_something(name):
    """Whatever the scene, there are parts, each with a size, and a camera can be found."""
    few = {"figures": 2}
    small = {"crowd": few, "adaptive_crowd": few, "stadium": few, "long_chain": {"links": 50}}
    model = lj.scenes.get(name, **small.get(name, {})).model
    drawing = Drawing(model)
    assert set(range(model.body_count)) <= set(drawing.parts.body)
    assert (drawing.extents > 0.0).all() and np.isfinite(drawing.extents).all()


def test_collision_shapes_hide_behind_what_is_meant_to_be_seen():
    """Of a body with a coloured display shape and a plain colliding one only the former is drawn."""
    b = lj.Builder("robot")
    b.add_body("link", mass=1.0, inertia=(1, 1, 1))
    b.add_shape_box("link", (1, 1, 1))
    b.add_shape_sphere("link", 0.5, collide=False, color=(1, 0, 0, 1))
    drawing = Drawing(b.build())
    assert len(drawing.parts.body) == 1 and np.allclose(drawing.parts.color, [[1, 0, 0]])


def test_a_box_is_framed_whole():
    """All corners of any box lie inside the picture of the camera that frames it, and one is near its edge."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        low = rng.normal(size=3) * 10.0 ** rng.uniform(-2, 3)
        box = np.stack([low, low + rng.uniform(0.01, 1.0, 3) * 10.0 ** rng.uniform(-2, 3)])
        aspect = rng.uniform(0.5, 2.5)
        eye = framed(box, aspect, seen_from(box) if rng.random() < 0.5 else rng.normal(size=3) + (0, 0, 2))
        right, up, ahead = eye.axes()
        corners = np.array([[box[i, 0], box[j, 1], box[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
        off = corners - eye.position
        tall = math.tan(0.5 * eye.angle) * (off @ ahead)
        assert (off @ ahead > 0.0).all()
        used = np.maximum(np.abs(off @ up) / tall, np.abs(off @ right) / (tall * aspect))
        assert 0.5 < used.max() < 1.0


def test_a_window_that_changes_its_shape_keeps_its_camera():
    """A camera that was told where to look is known as such in a window of another shape, one that was moved is not."""
    from types import SimpleNamespace

    from limberjack.viewer.framing import Framing

    model = lj.scenes.pendulum(links=3)
    framing = Framing(Drawing(model), [np.zeros(3)], 1, None, None)
    eye = framing.home(1.5)
    framing.tell(eye)
    camera = SimpleNamespace(position=eye.position, look_at=eye.target, aspect=1.5)
    framing.step_back(framing.box[0] - 0.5, framing.box[1] + 0.5, [camera])
    wide = camera.position
    assert not np.allclose(wide, eye.position) and framing.is_ours(camera)
    camera.aspect = 0.9  # the panel is docked
    assert framing.is_ours(camera)
    framing.step_back(framing.box[0] - 0.5, framing.box[1] + 0.5, [camera])
    assert np.allclose(camera.position, framing.home(0.9).position) and not np.allclose(camera.position, wide)
    camera.position = camera.position + (0.5, 0.5, 0.0)
    assert not framing.is_ours(camera)


def test_a_camera_that_was_given_follows_before_the_model_leaves_its_picture():
    """However far the motion to come leads, the camera moves along once the model is off by a part of its distance."""
    from types import SimpleNamespace

    from limberjack.viewer.framing import Framing

    b = lj.Builder("ball")
    b.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_shape_sphere("ball", 0.2)
    eye = Eye(np.array((0.0, -4.0, 0.0)), np.zeros(3))
    there = [np.array([x, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]) for x in (0.0, 9.0, 0.0)]
    framing = Framing(Drawing(b.build()), there, 1, eye, None)
    framing.tell(eye)
    camera = SimpleNamespace(position=eye.position, look_at=eye.target, aspect=1.0)
    for x in (0.0, 0.3):
        framing.follow(np.array((x, 0.0, 0.0)), [camera])
        assert np.allclose(camera.look_at, 0.0)
    framing.follow(np.array((3.0, 0.0, 0.0)), [camera])
    assert abs(camera.look_at[0] - 3.0) < math.tan(0.5 * eye.angle) * 4.0


def test_a_camera_that_a_user_has_turned_follows_though_its_page_reports_late():
    """Reports that are three frames old neither hold the camera back nor change its direction; a new target is kept."""
    from types import SimpleNamespace

    from limberjack.viewer.framing import Framing

    b = lj.Builder("ball")
    b.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_shape_sphere("ball", 0.2)
    framing = Framing(Drawing(b.build()), [np.array([0.0, 0, 0, 1, 0, 0, 0])], 1, None, None)
    eye = framing.home(1.0)
    framing.tell(eye)
    turned = np.array((0.3, 2.0, 0.4))
    camera = SimpleNamespace(position=eye.target + turned, look_at=eye.target, aspect=1.0)
    old = [(camera.position, camera.look_at)] * 3
    for k in range(200):
        middle = np.array((0.02 * k, 0.0, 0.0))
        framing.follow(middle, [camera])
        old.append((camera.position, camera.look_at))
        if k % 2:
            camera.position, camera.look_at = old[-4]
    camera.position, camera.look_at = old[-1]
    assert np.allclose(camera.position - camera.look_at, turned)
    assert abs(camera.look_at[0] - middle[0]) < 0.3
    aside = np.array((0.0, 0.5, 0.0))
    camera.position, camera.look_at = camera.position + aside, camera.look_at + aside
    framing.follow(middle + (0.4, 0.0, 0.0), [camera])
    assert camera.look_at[1] == pytest.approx(0.5) and camera.look_at[0] > middle[0]


def test_strings_span_their_ends():
    """The pose of a string takes the ends of a unit rod along z to where they belong, whatever the direction."""
    rng = np.random.default_rng(5)
    ends = rng.normal(size=(50, 2, 3))
    ends[0] = [[0, 0, 1], [0, 0, -1]]
    middle, turn, length = string_poses(ends)
    for side, sign in ((0, -0.5), (1, 0.5)):
        rod = np.stack([np.zeros(50), np.zeros(50), sign * length], axis=1)
        assert np.allclose(middle + turned(turn, rod), ends[:, side], atol=1e-9)


def test_thin_parts_are_thickened_to_a_pixel():
    """No half width stays below a pixel, wide ones stay as they are."""
    drawing = Drawing(lj.scenes.pendulum(links=5))
    thick = drawing.half_widths * drawing.thickened(0.5) / drawing.parts.scale
    assert thick.min() >= 0.5 - 1e-12
    assert np.array_equal(drawing.thickened(0.0), drawing.parts.scale)


@pytest.mark.parametrize("camera", [1.0, ((0, 0, 0), (0, 0, 0)), ((0, 0, np.nan), (0, 0, 0)), ((0, 0), (1, 1)), None])
def test_wrong_cameras_are_refused(camera):
    """What is not two different finite points is a StateError."""
    with pytest.raises(lj.StateError, match="camera"):
        checked_eye(camera)
    assert isinstance(checked_eye(((1, 2, 3), (0, 0, 0))), Eye)


def test_arrows_point_where_their_vectors_do():
    """Shafts go from the points along the vectors; heads end at the tips, on both sides; no vector gives no length."""
    points, vectors = np.array([[0, 0, 1.0], [1, 2, 3], [0, 0, 0]]), np.array([[0, 0, 2.0], [1, -1, 0], [0, 0, 0]])
    found = arrows(points, vectors)
    assert np.array_equal(found[:3], np.stack([points, points + vectors], axis=1))
    for sides in (found[3:6], found[6:]):
        assert np.allclose(sides[:, 1], points + vectors)
    middle = 0.5 * (found[3:6, 0] + found[6:, 0])
    assert np.allclose(middle, points + 0.8 * vectors)
    assert np.allclose(np.linalg.norm(found[3:6, 0] - middle, axis=1), 0.12 * np.linalg.norm(vectors, axis=1))


def test_collision_shapes_are_a_group_of_their_own():
    """A collision shape without colour is drawn where asked for, or where its body has no other; glass may be off."""
    b = lj.Builder("robot")
    for name in ("clothed", "bare"):
        b.add_body(name, mass=1.0, inertia=(1, 1, 1))
        b.add_shape_sphere(name, 0.3, friction=0.5)
    b.add_shape_box("clothed", (0.2, 0.2, 0.2), color=(1, 0, 0, 1), collide=False)
    b.add_shape_box("clothed", (1, 1, 1), color=(1, 1, 1, 0.2), collide=False)
    model = b.build()
    shown = lambda **options: sorted(  # noqa: E731
        (d.groups[k], d.opacities[k], int(i))
        for d in [Drawing(model, **options)]
        for k, i in zip(d.parts.geometry, d.parts.body, strict=True)
    )
    plain = [("visual", 0.2, 0), ("visual", 1.0, 0), ("visual", 1.0, 1)]
    assert shown() == plain
    assert shown(collision=True) == [("collision", 1.0, 0), *plain]
    assert shown(glass=False) == plain[1:]


def test_geoms_that_mujoco_hides_are_collision_shapes(tmp_path):
    """Of a body with visual geoms in group 2 and collision geoms in group 3, only the former are drawn."""
    path = tmp_path / "arm.xml"
    path.write_text(
        "<mujoco><worldbody><body name='arm'><joint type='hinge' axis='0 1 0'/>"
        "<geom type='box' size='.1 .1 .3' group='2' contype='0' conaffinity='0' rgba='1 0 0 1'/>"
        "<geom type='capsule' size='.15 .3' group='3'/></body></worldbody></mujoco>"
    )
    model = lj.load(path)
    assert set(Drawing(model).groups) == {"visual"} and len(Drawing(model).parts.body) == 1
    assert set(Drawing(model, collision=True).groups) == {"visual", "collision"}
