"""What the functions of the tree take and refuse: nothing that is not a number ever comes back."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


@pytest.fixture(scope="module")
def model():
    """A hinge and a ball."""
    builder = lj.Builder("pair")
    builder.add_body("a", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_body("b", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("h", "world", "a", axis=(0, 1, 0))
    builder.add_joint_ball("s", "a", "b", position=(0, 0, -1))
    return builder.build()


def calls(model, q, qd, tau, wrenches):
    """Return every function of the tree that takes these arrays, ready to call."""
    return {
        "forward_dynamics": lambda: lj.forward_dynamics(model, q, qd, tau, wrenches),
        "inverse_dynamics": lambda: lj.inverse_dynamics(model, q, qd, tau, wrenches),
        "mass_matrix": lambda: lj.mass_matrix(model, q),
        "forward_kinematics": lambda: lj.forward_kinematics(model, q),
        "jacobian": lambda: lj.jacobian(model, q, "b"),
    }


def good(model):
    """Return a valid (q, qd, tau, wrenches)."""
    return [model.q0.copy(), np.ones(model.nv), np.ones(model.nv), np.ones((model.body_count, 6))]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", range(4))
def test_what_is_not_finite_is_refused_by_place(model, which, bad):
    """NaN and infinity in any array raise StateError with the name and the place of the number."""
    arrays = good(model)
    place = (1, 2) if which == 3 else 2
    arrays[which][place] = bad
    text = ["q", "qd", "tau|qdd", "wrenches"][which]
    functions = calls(model, *arrays)
    for name in ("forward_dynamics", "inverse_dynamics") if which else functions:
        with pytest.raises(lj.StateError, match=rf"({text})\[{'1, 2' if which == 3 else 2}\] is"):
            functions[name]()


@pytest.mark.parametrize("which", range(4))
def test_wrong_shapes_are_refused(model, which):
    """An array of the wrong shape raises StateError with both shapes and the model's name."""
    arrays = good(model)
    arrays[which] = np.zeros(17)
    functions = calls(model, *arrays)
    for name in ("forward_dynamics", "inverse_dynamics") if which else functions:
        with pytest.raises(lj.StateError, match=r"must have shape \(.*\) for model \"pair\", got \(17,\)"):
            functions[name]()


@pytest.mark.parametrize("value", ["words", None, [[1.0], [2.0, 3.0]], object()])
def test_what_is_no_array_is_refused(model, value):
    """Things that are no numbers raise StateError, never a NumPy error."""
    _, qd, tau, wrenches = good(model)
    for call in calls(model, value, qd, tau, wrenches).values():
        with pytest.raises(lj.StateError):
            call()


def test_a_quaternion_of_length_zero_is_refused(model):
    """No pose belongs to the zero quaternion: every function raises StateError and none returns NaN."""
    arrays = good(model)
    arrays[0][1:] = 0.0
    for name, call in calls(model, *arrays).items():
        with pytest.raises(lj.StateError):
            call()
            pytest.fail(f"{name} took a quaternion of length 0")


def test_any_layout_and_type_of_numbers_works(model):
    """Lists, integers, float32, strided and read-only arrays give the result of plain float64 arrays."""
    q = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    qd = np.array([1.0, 2.0, 3.0, 4.0])
    wanted = lj.forward_dynamics(model, q, qd)
    strided = np.zeros(10)
    strided[::2] = q
    frozen = q.copy()
    frozen.setflags(write=False)
    for form in ([1, 1, 0, 0, 0], q.astype(np.float32), q.astype(int), strided[::2], frozen, tuple(q)):
        assert (lj.forward_dynamics(model, form, qd) == wanted).all()
        assert (lj.mass_matrix(model, form) == lj.mass_matrix(model, q)).all()


def test_unknown_bodies_are_named_with_the_choices(model):
    """A body that is not there raises UnknownName that lists those that are."""
    with pytest.raises(lj.UnknownName, match='no body "c" in model "pair"; bodies are a, b'):
        lj.jacobian(model, model.q0, "c")


def test_overflow_is_an_error(model):
    """A velocity whose square overflows raises StateError instead of returning infinity."""
    for function in (lj.forward_dynamics, lj.inverse_dynamics):
        with pytest.raises(lj.StateError, match="overflow"):
            function(
                model,
                model.q0,
                np.full(model.nv, 1e200),
                *([np.zeros(model.nv)] if function is lj.inverse_dynamics else []),
            )


def test_a_pose_without_inertia_names_its_joint():
    """Where a point mass lies on the axis of a joint, forward dynamics raises and names the joint."""
    builder = lj.Builder()
    builder.add_body("carrier")
    builder.add_body("bob", mass=1.0, com=(1, 0, 0))
    builder.add_joint_hinge("x", "world", "carrier", axis=(1, 0, 0))
    builder.add_joint_hinge("y", "carrier", "bob", axis=(0, 1, 0))
    model = builder.build()
    with pytest.raises(lj.StateError, match='joint "x" has no inertia to act on in this pose'):
        lj.forward_dynamics(model, [0.0, 0.0], [0.0, 0.0])
    assert np.isfinite(lj.forward_dynamics(model, [0.0, 0.5], [0.0, 0.0])).all()


def test_defaults_are_zero(model):
    """tau and wrenches left out act as zeros."""
    q, qd, *_ = good(model)
    zero = np.zeros(model.nv), np.zeros((model.body_count, 6))
    assert (lj.forward_dynamics(model, q, qd) == lj.forward_dynamics(model, q, qd, *zero)).all()
    assert (lj.inverse_dynamics(model, q, qd, qd) == lj.inverse_dynamics(model, q, qd, qd, zero[1])).all()


def test_motors_and_limits_do_not_act_on_the_functions():
    """forward_dynamics includes the tree, its rotors, dampers and springs; no motors, limits and friction."""
    builder, plain = lj.Builder(), lj.Builder()
    for b, extra in (
        (plain, {}),
        (builder, {"motor": lj.Motor(kp=50, kd=5, target=1), "friction": 3, "limits": (-0.1, 0.1)}),
    ):
        b.add_body("a", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
        b.add_joint_hinge("h", "world", "a", axis=(0, 1, 0), damping=0.2, stiffness=3, rest=0.1, armature=0.05, **extra)
    found, wanted = (lj.forward_dynamics(b.build(), [0.4], [1.0]) for b in (builder, plain))
    assert (found == wanted).all()
    soft = lj.Builder()
    soft.add_body("a", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    soft.add_joint_hinge(
        "h", "world", "a", axis=(0, 1, 0), damping=0.2, stiffness=3, rest=0.1, armature=0.05, limits=(-0.1, 0.1),
        limit_stiffness=100, limit_damping=1,
    )  # fmt: skip
    assert (lj.forward_dynamics(soft.build(), [0.4], [1.0]) == wanted).all()


def test_a_model_without_dofs_works():
    """No bodies, or bodies all fixed to the world: every function returns its empty or constant answer."""
    empty = lj.Builder().build()
    assert lj.forward_dynamics(empty, [], []).shape == (0,)
    assert lj.mass_matrix(empty, []).shape == (0, 0)
    assert lj.forward_kinematics(empty, [])[0].shape == (0, 3)
    builder = lj.Builder()
    builder.add_body("stone", mass=1.0)
    builder.add_joint_fixed("f", "world", "stone", position=(1, 2, 3))
    model = builder.build()
    assert lj.inverse_dynamics(model, [], [], []).shape == (0,)
    assert lj.forward_kinematics(model, [])[0].tolist() == [[1.0, 2.0, 3.0]]
    assert lj.jacobian(model, [], "stone").shape == (6, 0)
