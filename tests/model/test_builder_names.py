"""Names, options and shapes of arguments: what a builder takes, and how it says what it does not."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pytest
from tests.model.test_builder_refuses import builder

import limberjack as lj
from limberjack.model.joints import KINDS


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda b: b.add_body("a"), "a"),
        (lambda b: b.add_body("world"), "world"),
        (lambda b: b.add_joint_slide("h", "b", "c"), "h"),
        (lambda b: b.add_joint_compound("j", "b", "c", [lj.Axis(name="h")]), "h"),
        (lambda b: b.add_joint_compound("j", "b", "c", [lj.Axis(name="x"), lj.Axis(name="x")]), "x"),
        (lambda b: b.add_joint_gear("k", "h", "k"), "k"),
        (lambda b: (b.add_point("p", "a", (0, 0, 0)), b.add_point("p", "b", (0, 0, 0))), "p"),
        (lambda b: (b.add_spring("a", "b", stiffness=1, name="s"), b.add_spring("a", "c", stiffness=1, name="s")), "s"),
        (lambda b: (b.add_shape_sphere("a", 1, name="s"), b.add_shape_sphere("b", 1, name="s")), "s"),
    ],
)
def test_names_are_given_once(call, name):
    """A second body, joint, axis, point, spring or shape of a name is refused, and the name said."""
    with pytest.raises(lj.ModelError, match=f'"?{name}"?'):
        call(builder())


@pytest.mark.parametrize("name", ["", None, 3, "line\nbreak", "\x00", b"bytes", ["a"]])
def test_names_are_printable_text(name):
    """Empty names, control characters and what is no text are refused everywhere."""
    for call in (
        lambda: lj.Builder(name),
        lambda: builder().add_body(name, mass=1),
        lambda: builder().add_joint_hinge(name, "b", "c"),
        lambda: builder().add_point(name, "a", (0, 0, 0)),
        lambda: builder().add_joint_compound("j", "b", "c", [lj.Axis(name=name)]),
    ):
        with pytest.raises(lj.ModelError):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.add_joint_hinge("j", "bb", "c"),
        lambda b: b.add_joint_hinge("j", "b", "bb"),
        lambda b: b.add_joint_distance("j", "bb", "c", length=1),
        lambda b: b.add_spring("a", "bb", stiffness=1),
        lambda b: b.add_point("p", "bb", (0, 0, 0)),
        lambda b: b.add_shape_box("bb", (1, 1, 1)),
        lambda b: b.exclude_collision("a", "bb"),
        lambda b: b.add_joint_gear("g", "h", "k", carrier="bb"),
    ],
)
def test_unknown_bodies_come_with_the_choices(call):
    """A body that was not added raises UnknownName that says the model and lists the bodies."""
    with pytest.raises(lj.UnknownName, match='no body "bb" in model "rig"; bodies are a, b, c, world'):
        call(builder())


def test_long_lists_of_choices_are_cut():
    """Of many names a dozen are shown, with their number and the nearest matches."""
    build = lj.Builder()
    for k in range(40):
        build.add_body(f"part{k}", mass=1)
    with pytest.raises(lj.UnknownName, match=r"did you mean part7\w*.*41 in all") as caught:
        build.add_point("p", "prt7", (0, 0, 0))
    assert len(str(caught.value)) < 400


def test_unknown_kinds_and_options_come_with_the_choices():
    """Joint kinds, options and axis kinds that do not exist are named with those that do."""
    with pytest.raises(lj.UnknownName, match='no joint kind "hing".*hinge'):
        builder().add_joint("hing", "j", "b", "c")
    with pytest.raises(lj.UnknownName, match='no option "dampin" in hinge joint "j".*damping'):
        builder().add_joint_hinge("j", "b", "c", dampin=1)
    with pytest.raises(lj.UnknownName, match='no axis kind "turn".*hinge, slide'):
        builder().add_joint_compound("j", "b", "c", [lj.Axis(name="x", kind="turn")])


def test_every_kind_can_be_added_by_its_name():
    """add_joint(kind, ...) and add_joint_KIND(...) are one for each kind."""
    extra = {"screw": {"pitch": 0.1}, "compound": {"axes": [lj.Axis(name="x")]}, "distance": {"length": 1.0}}
    extra["no_slip"] = {"axis": (0, 1, 0)}
    for kind in KINDS:
        ends = ("h", "k") if kind == "gear" else ("world", "c")
        specs = []
        for by_name in (True, False):
            build = builder()
            call = partial(build.add_joint, kind) if by_name else getattr(build, f"add_joint_{kind}")
            assert call("j", *ends, **extra.get(kind, {})) == "j"
            specs.append(build.build().joint_spec("j"))
        assert specs[0] == specs[1] and specs[0].kind == kind


def test_joints_join_two_bodies():
    """A body with itself, or the world as child, is refused."""
    with pytest.raises(lj.ModelError, match='joint "j" joins "b" to itself'):
        builder().add_joint_hinge("j", "b", "b")
    with pytest.raises(lj.ModelError, match='joint "j".*world cannot be a child'):
        builder().add_joint_hinge("j", "b", "world")
    with pytest.raises(lj.ModelError, match='joins "a" to itself'):
        builder().add_spring("a", "a", stiffness=1)


def test_free_joints_have_no_frames():
    """A free joint leads from the world and takes no frames: its coordinates are the body's pose itself."""
    with pytest.raises(lj.ModelError, match='free joint "j".*parent is the world'):
        builder().add_joint_free("j", "b", "c")
    for word, value in (
        ("position", (1, 0, 0)),
        ("rotation", (1, 0, 0, 0)),
        ("axis", (1, 0, 0)),
        ("position_in_child", (0, 0, 1)),
    ):
        with pytest.raises(lj.ModelError, match=f'free joint "j" has no {word}'):
            builder().add_joint_free("j", "world", "c", **{word: value})


def test_universal_axes_are_perpendicular():
    """Axes of a universal joint that are not perpendicular are refused, with the way out."""
    with pytest.raises(lj.ModelError, match='universal joint "j".*perpendicular.*compound'):
        builder().add_joint_universal("j", "b", "c", axis=(1, 0, 0), axis2=(1, 1, 0))


@pytest.mark.parametrize(
    "option", ["damping", "stiffness", "armature", "friction", "limits", "motor", "rest", "start", "start_velocity"]
)
@pytest.mark.parametrize("kind", ["fixed", "compound", "distance"])
def test_joints_without_dofs_take_no_properties(kind, option):
    """A joint that has no dofs, or has them on its axes, refuses their properties instead of dropping them."""
    value = {"limits": (-1, 1), "motor": lj.Motor(kp=1)}.get(option, 1.0)
    extra = {"compound": {"axes": [lj.Axis(name="x")]}, "distance": {"length": 1.0}}.get(kind, {})
    reason = "give it on its axes" if kind == "compound" else "it has no dofs"
    for call in (partial(builder().add_joint, kind), getattr(builder(), f"add_joint_{kind}")):
        with pytest.raises(lj.ModelError, match=f'{kind} joint "j" has no {option}: {reason}'):
            call("j", "b", "c", **{option: value}, **extra)


UNKNOWN = {
    "add_body": (("x",), 'no option "colour" in body "x"; options are body_kind, com, gravity_compensation, inertia'),
    "add_body_affine": (("x",), 'no option "colour" in body "x"'),
    "add_particle": (("x",), 'no option "colour" in particle "x"; options are mass, position'),
    "add_joint_hinge": (("x", "a", "b"), 'no option "colour" in hinge joint "x"'),
    "add_joint_gear": (("x", "h", "k"), 'no option "colour" in gear joint "x"; options are carrier, offset, ratio'),
    "add_gear": (("x", "h", "k"), 'no option "colour" in gear "x"; options are carrier, offset, ratio'),
    "add_joint": (("hinge", "x", "a", "b"), 'no option "colour" in hinge joint "x"'),
    "add_constraint": (("kind", "x", "a", "b"), 'no option "colour" in constraint "x"; options are data, position'),
    "add_shape_sphere": (("a", 1.0), 'in sphere on body "a" .did you mean color..; options are collide, color'),
    "add_shape_mesh": (("a",), 'no option "colour" in mesh on body "a"'),
    "add_spring": (("a", "b"), 'no option "colour" in spring'),
    "add_no_slip": (("x", "a"), 'no option "colour" in no slip "x"; options are direction, position'),
    "add_point": (("x", "a", (0, 0, 0)), 'no option "colour" in point "x"'),
}


@pytest.mark.parametrize("method", UNKNOWN)
def test_unknown_keywords_come_with_the_choices(method):
    """A keyword that a method does not take raises UnknownName with the element and the keywords there are."""
    arguments, text = UNKNOWN[method]
    with pytest.raises(lj.UnknownName, match=text):
        getattr(builder(), method)(*arguments, colour="red")


@pytest.mark.parametrize(
    ("method", "arguments", "text"),
    [
        ("add_joint_screw", ("x", "a", "b"), 'screw joint "x" needs pitch'),
        ("add_joint_distance", ("x", "a", "b"), 'distance joint "x" needs length'),
        ("add_particle", ("x",), 'particle "x" needs mass'),
        ("add_body_planar", ("x",), 'body "x" needs mass, inertia'),
    ],
)
def test_missing_keywords_are_named(method, arguments, text):
    """A keyword without a default that is not given raises ModelError with the element and the keyword."""
    with pytest.raises(lj.ModelError, match=text):
        getattr(builder(), method)(*arguments)


def test_every_keyword_is_spelled_out():
    """No method of the builder hides keywords behind ** or *: editors complete them and type checkers know them."""
    for name, method in inspect.getmembers(lj.Builder, inspect.isfunction):
        if name.startswith("add_"):
            kinds = [one.kind for one in inspect.signature(method).parameters.values()]
            assert inspect.Parameter.VAR_KEYWORD not in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds, name


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("gear", "no_slip")])
def test_defaults_are_real(kind):
    """Every default of a joint, given, changes nothing."""
    needed = {"screw": {"pitch": 0.1}, "compound": {"axes": [lj.Axis(name="x")]}, "distance": {"length": 1.0}}
    specs = []
    for spelled in (False, True):
        build = builder()
        add = getattr(build, f"add_joint_{kind}")
        defaults = {one.name: one.default for one in inspect.signature(add).parameters.values()}
        given = {word: value for word, value in defaults.items() if value is not inspect.Parameter.empty}
        add("j", "world", "c", **needed.get(kind, {}), **(given if spelled else {}))
        specs.append(build.build().joint_spec("j"))
    assert specs[0] == specs[1]


def test_compound_joints_take_one_to_six_axes():
    """No axes, seven axes and what is no axis are refused."""
    for axes in ([], [lj.Axis(name=f"x{k}") for k in range(7)]):
        with pytest.raises(lj.ModelError, match=f'compound joint "j" takes 1 to 6 axes, got {len(axes)}'):
            builder().add_joint_compound("j", "b", "c", axes)
    for axes in (["x"], 5, None):
        with pytest.raises(lj.ModelError, match='"j"'):
            builder().add_joint_compound("j", "b", "c", axes)


def test_compound_axes_are_found_by_name():
    """Each axis is a joint to the outside, with its own index; no bodies are put in between."""
    build = builder()
    axes = [
        lj.Axis(name="x", kind="slide"),
        lj.Axis(name="y", axis=(0, 1, 0)),
        lj.Axis(name="z", limits=(-1, 1), limit_stiffness=5),
    ]
    build.add_joint_compound("j", "b", "c", axes)
    model = build.build()
    whole = model.joint("j")
    assert whole.axis_names == ("x", "y", "z") and (whole.nq, whole.nv) == (3, 3) and model.body_count == 3
    for k, (name, kind) in enumerate((("x", "slide"), ("y", "hinge"), ("z", "hinge"))):
        one = model.joint(name)
        assert (one.kind, one.q_start, one.v_start, one.nq, one.nv) == (
            kind,
            whole.q_start + k,
            whole.v_start + k,
            1,
            1,
        )
        assert (one.parent, one.child) == ("b", "c") and model.joint_spec(name).name == "j"
    assert "x" not in model.joint_names and "j" in model.joint_names
    one = lj.Builder()
    one.add_body("a", mass=1, inertia=(1, 1, 1))
    one.add_joint_compound("same", "world", "a", [lj.Axis(name="same")])
    assert one.build().joint("same").axis_names == ("same",)


@pytest.mark.parametrize(
    ("a", "b", "fine"), [("h", "k", True), ("h", "x", True), ("ball", "k", False), ("h", "weld", False)]
)
def test_gears_couple_single_dofs(a, b, fine):
    """Gears take hinges, slides, screws and compound axes; other kinds are refused by name."""
    build = builder()
    for name in ("d", "e", "f"):
        build.add_body(name, mass=1, inertia=(1, 1, 1))
    build.add_joint_ball("ball", "b", "d")
    build.add_joint_fixed("weld", "b", "e")
    build.add_joint_compound("c", "b", "f", [lj.Axis(name="x"), lj.Axis(name="y", axis=(1, 0, 0))])
    if fine:
        build.add_joint_gear("g", a, b, ratio=-2, offset=0.1)
        spec = build.build().joint_spec("g")
        assert (spec.parent, spec.child, spec.ratio, spec.offset) == (a, b, -2, 0.1)
    else:
        with pytest.raises(lj.ModelError, match='gear "g": joint "(ball|weld)" is a (ball|fixed)'):
            build.add_joint_gear("g", a, b)


def test_gears_need_their_joints():
    """A gear of a joint that is not there raises UnknownName with the choices; so does one of a compound as a whole."""
    with pytest.raises(lj.UnknownName, match='no joint "q" in gear "g"; joints are h, k'):
        builder().add_joint_gear("g", "h", "q")
    build = builder()
    build.add_joint_compound("c", "b", "c", [lj.Axis(name="x"), lj.Axis(name="y", axis=(1, 0, 0))])
    with pytest.raises(lj.ModelError, match='"c" is a compound'):
        build.add_joint_gear("g", "h", "c")


LIMITS = [
    ("hinge", (-1, 2), [(-1, 2)]),
    ("hinge", np.array([-1.0, 2.0]), [(-1, 2)]),
    ("hinge", [(-1, 2)], [(-1, 2)]),
    ("hinge", None, None),
    ("hinge", (-np.inf, np.inf), [None]),
    ("hinge", (-np.inf, 1), [(-np.inf, 1)]),
    ("universal", (-1, 2), [(-1, 2), (-1, 2)]),
    ("universal", ((-1, 2), (-3, 4)), [(-1, 2), (-3, 4)]),
    ("universal", np.array([[-1.0, 2.0], [-3.0, 4.0]]), [(-1, 2), (-3, 4)]),
    ("universal", (None, (-3, 4)), [None, (-3, 4)]),
    ("ball", (0, 1), [(0, 1), None, None]),
    ("point_on_line", ((-1, 1), (0, 2)), [(-1, 1), (0, 2), None, None]),
]


@pytest.mark.parametrize(("kind", "limits", "wanted"), LIMITS)
def test_limits_take_one_pair_or_one_per_dof(kind, limits, wanted):
    """One pair for all or one each, tuples, lists or arrays; None and infinite pairs are no limit; a ball has one."""
    build = builder()
    build.add_joint(kind, "j", "b", "c", limits=limits)
    found = build.build().joint_spec("j").limits
    assert (found is None) if wanted is None else list(found) == wanted


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        ("hinge", (2, 1)), ("hinge", (1,)), ("hinge", (1, 2, 3)), ("hinge", 1.0), ("hinge", "ab"),
        ("hinge", (np.nan, 1)), ("hinge", [(1, 2), (3, 4)]), ("universal", [(1, 2), (3, 4), (5, 6)]),
        ("ball", (-1, 1)), ("ball", [(0, 1)] * 3),
    ],
)  # fmt: skip
def test_broken_limits_are_refused(kind, limits):
    """Pairs the wrong way round, too many, too few, no pairs at all and NaN are refused; a ball's start at 0."""
    with pytest.raises(lj.ModelError, match='limits of joint "j"'):
        builder().add_joint(kind, "j", "b", "c", limits=limits)


@pytest.mark.parametrize("motor", [5, "on", [1], [lj.Motor(), lj.Motor()], {}])
def test_motors_are_motor_objects(motor):
    """What is no motor, and a wrong number of them, is refused and the joint named."""
    with pytest.raises(lj.ModelError, match='motor of joint "j"'):
        builder().add_joint_hinge("j", "b", "c", motor=motor)


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), np.int64(1), np.array(0.5), 1, True])
def test_numpy_scalars_are_numbers(number):
    """Any scalar number will do wherever a number is taken, NumPy's included."""
    build = builder()
    build.add_joint_hinge(
        "j", "b", "c", damping=number, stiffness=number, armature=number, start=number, start_velocity=number,
        rest=number, motor=lj.Motor(kp=number, target=number),
    )  # fmt: skip
    model = build.build()
    spec = model.joint_spec("j")
    assert spec.damping == spec.stiffness == spec.start == (float(number),)
    assert lj.Simulation(model).joint("j").target == float(number)


def test_ball_motors_hold_the_target_given():
    """A ball's motor target, as tuple, list or array, is what the motor drives to."""
    for form in (tuple, list, np.array):
        build = builder()
        build.add_joint_ball("j", "b", "c", motor=lj.Motor(kp=1, target=form((0.0, 1.0, 0.0, 0.0))))
        assert lj.Simulation(build.build()).joint("j").target.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("motor", [lj.Motor(kp=1, target=0.5), lj.Motor(kd=1, velocity=2.0)])
def test_ball_motors_refuse_what_they_would_drop(motor):
    """An angle as target, or a velocity, means nothing to a ball's motor: refused, never silently left out."""
    with pytest.raises(lj.ModelError, match='"j"'):
        builder().add_joint_ball("j", "b", "c", motor=motor)


def test_ball_springs_are_the_same_about_all_axes():
    """Stiffnesses that differ within a ball are refused."""
    with pytest.raises(lj.ModelError, match='stiffness of joint "j" must be the same about all axes'):
        builder().add_joint_ball("j", "b", "c", stiffness=(1, 2, 3))
    builder().add_joint_point_on_line("j", "b", "c", stiffness=(5, 2, 2, 2))


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (lambda b: b.add_joint_hinge("j", "b", "c", axis=(0, 0, 0)), lambda b: b.add_joint_hinge("j", "b", "c")),
        (lambda b: b.add_joint_hinge("j", "b", "c", limits=(2, 1)), lambda b: b.add_joint_hinge("j", "b", "c")),
        (lambda b: b.add_joint_gear("j", "h", "k", ratio=np.nan), lambda b: b.add_joint_gear("j", "h", "k")),
        (lambda b: b.add_body("d", mass=-1), lambda b: b.add_body("d", mass=1, inertia=(1, 1, 1))),
        (lambda b: b.add_point("p", "a", (np.nan, 0, 0)), lambda b: b.add_point("p", "a", (0, 0, 0))),
        (lambda b: b.add_point("p", "zz", (0, 0, 0)), lambda b: b.add_point("p", "a", (0, 0, 0))),
        (
            lambda b: b.add_spring("a", "b", stiffness=-1, name="s"),
            lambda b: b.add_spring("a", "b", stiffness=1, name="s"),
        ),
        (
            lambda b: b.add_spring("a", "a", stiffness=1, name="s"),
            lambda b: b.add_spring("a", "b", stiffness=1, name="s"),
        ),
        (lambda b: b.add_shape_sphere("a", -1, name="s"), lambda b: b.add_shape_sphere("a", 1, name="s")),
        (
            lambda b: b.add_joint_compound("j", "b", "c", [lj.Axis(name="x"), lj.Axis(name="x")]),
            lambda b: b.add_joint_compound("j", "b", "c", [lj.Axis(name="x")]),
        ),
    ],
)
def test_a_refused_call_leaves_no_trace(bad, good):
    """After an error the builder is as before: the corrected call works and gives what it alone would."""
    build = builder()
    with pytest.raises(lj.ModelError):
        bad(build)
    good(build)
    other = builder()
    good(other)
    found, wanted = build.build(), other.build()
    assert found.joint_names == wanted.joint_names and found.body_names == wanted.body_names
    assert [s.name for s in found.shapes] == [s.name for s in wanted.shapes]
