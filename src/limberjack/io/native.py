"""The native model format: JSON that holds `model.spec` without loss.

    {"format": "limberjack-model", "version": 1, "name": ..., "gravity": [...], "merge_fixed": true,
     "bodies": [...], "joints": [...], "shapes": [...], "springs": [...], "points": [...], "excluded": [...]}

Each element is an object with the fields of its record in `limberjack.model.spec`; fields at their default
are left out. Numbers are written with the fewest digits that give every bit back, infinities (only where a
rule allows them) as "inf" and "-inf", the vertices and faces of meshes as base64 of little-endian float64 and
int32. The reader is strict: unknown and repeated keys, wrong types, NaN and other
versions are refused with the path within the document, and every element goes through `Builder`, so the rules
of models hold for files too.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from limberjack.errors import FileError, ModelError, UnknownName
from limberjack.io.files import atomic_write
from limberjack.io.xml import read_bytes
from limberjack.model.builder import Builder
from limberjack.model.joints import KINDS, SPIN
from limberjack.model.kinematic import KINEMATIC, register_kinematic
from limberjack.model.model import Model
from limberjack.model.registered import CONSTRAINT_KINDS, REGISTERED_BODY_KINDS, RegisteredBody, RegisteredConstraint
from limberjack.model.spec import (
    Actuator,
    Axis,
    Body,
    Joint,
    Keyframe,
    Motor,
    Point,
    Sensor,
    Shape,
    Spec,
    Spring,
    Tendon,
)

__all__ = ["FORMAT", "VERSION", "dumps", "loads", "read", "write"]

FORMAT = "limberjack-model"
VERSION = 1

_ORIGIN, _NO_TURN = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
_FRAMES = {
    "position": _ORIGIN, "rotation": _NO_TURN, "position_in_child": _ORIGIN, "rotation_in_child": _NO_TURN,
}  # fmt: skip
# Defaults of the format where the record itself has none: those of the builder's functions.
_DEFAULTS: dict[type, dict[str, Any]] = {
    Body: {"mass": None, "com": _ORIGIN, "inertia": None, "position": None, "rotation": None},
    RegisteredBody: {"mass": None, "com": _ORIGIN, "inertia": None, "position": None, "rotation": None},
    Joint: _FRAMES,
    RegisteredConstraint: _FRAMES,
    Shape: {
        "position": _ORIGIN, "rotation": _NO_TURN, "friction": 0.5, "restitution": 0.0, "density": None,
        "color": None, "collide": True, "group": 0,
    },
    Spring: {"at_a": _ORIGIN, "at_b": _ORIGIN, "damping": 0.0, "rest": 0.0},
}  # fmt: skip
for _class in (
    Motor, Axis, Body, RegisteredBody, Joint, RegisteredConstraint, Shape, Spring, Point, Actuator, Tendon, Sensor,
    Keyframe,
):  # fmt: skip
    _given = {f.name: f.default for f in dataclasses.fields(_class) if f.default is not dataclasses.MISSING}
    _DEFAULTS[_class] = _DEFAULTS.get(_class, {}) | _given
_KEYS = {_class: [(field.name, field.type) for field in dataclasses.fields(_class)] for _class in _DEFAULTS}


def read(
    path: Path,
    *,
    repair: bool = True,
    base: str = "fixed",
    roots: Sequence[Path] = (),
    package_paths: Sequence[Path] = (),
    collision: str = "hull",
) -> Model:
    """Return the model in a native JSON file, as written: the options of other formats are ignored."""
    del repair, base, roots, package_paths, collision
    return loads(read_bytes(Path(path)), path)


def write(model: Model, path: str | Path) -> None:
    """Write `model` to `path`, atomically."""
    atomic_write(path, dumps(model).encode())


# -- out -------------------------------------------------------------------------------------------


def dumps(model: Model) -> str:
    """Return the JSON text of `model`, one element a line."""
    spec = model.spec
    head = {"format": FORMAT, "version": VERSION}
    head |= {name: getattr(spec, name) for name in ("name", "gravity", "merge_fixed")}
    if spec.timestep is not None:
        head["timestep"] = spec.timestep
    parts = [f"{_text(key)}: {_text(_plain(value))}" for key, value in head.items()]
    for key in _LISTS:
        rows = ",\n".join(_text(_plain(item)) for item in getattr(spec, key))
        if key in _NEWER and not rows:
            continue
        parts.append(f"{_text(key)}: [\n{rows}\n]" if rows else f"{_text(key)}: []")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Return `value` as JSON types; fields of records that are at their default are left out."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return str(number) if math.isinf(number) else number
    if isinstance(value, np.ndarray) and value.ndim == 2:
        kind = "<f8" if value.dtype.kind == "f" else "<i4"
        return base64.b64encode(np.ascontiguousarray(value, kind).tobytes()).decode()
    defaults = _DEFAULTS.get(type(value))
    if defaults is None:
        return [_plain(x) for x in value]
    out = {}
    for name, kind in _KEYS[type(value)]:
        x = getattr(value, name)
        default = defaults.get(name, dataclasses.MISSING)
        if x is default:
            continue
        if type(x) is int and kind != "int":
            x = float(x)
        # Compared by repr too, so that -0.0 is not taken for a default of 0.0.
        if type(x) is not type(default) or x != default or repr(x) != repr(default):
            out[name] = _plain(x)
    return out


# -- in: what a field may hold ---------------------------------------------------------------------


class _Wrong(Exception):
    """A value that the format does not allow; `path` is extended as it propagates."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path = ""


class _Pairs(list):
    """A JSON object as its pairs, so that a repeated key is seen."""


Reader = Callable[[Any], Any]


def _fail(value: Any, wanted: str) -> NoReturn:
    shown = "an object" if isinstance(value, _Pairs) else json.dumps(value)
    raise _Wrong(f"must be {wanted}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")


def _refuse(message: str) -> NoReturn:
    raise _Wrong(message)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else _fail(value, "a string")


def _truth(value: Any) -> bool:
    return value if isinstance(value, bool) else _fail(value, "true or false")


def _integer(value: Any) -> int:
    return value if type(value) is int and abs(value) < 2**63 else _fail(value, "an integer")


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        _fail(value, "a number")
    try:
        out = float(value)
    except OverflowError:
        out = math.inf
    return out if math.isfinite(out) else _fail(str(value)[:40], "a finite number")


def _extended(value: Any) -> float:
    """Read a number, or an infinity by its name."""
    return float(value) if isinstance(value, str) and value in ("inf", "-inf") else _number(value)


def _at(where: str, read: Reader, value: Any) -> Any:
    try:
        return read(value)
    except _Wrong as wrong:
        wrong.path = where + wrong.path
        raise


def _sequence(read: Reader, size: int | None = None) -> Reader:
    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or isinstance(value, _Pairs):
            _fail(value, "a list")
        if size is not None and len(value) != size:
            raise _Wrong(f"must have {size} entries, got {len(value)}")
        return tuple(_at(f"[{i}]", read, item) for i, item in enumerate(value))

    return read_all


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _array(kind: str) -> Reader:
    def read_array(value: Any) -> np.ndarray:
        try:
            data = base64.b64decode(_string(value), validate=True)
        except (binascii.Error, ValueError):
            raise _Wrong("must be base64") from None
        width = 3 * np.dtype(kind).itemsize
        if len(data) % width:
            raise _Wrong(f"must hold rows of {width} bytes, got {len(data)} bytes")
        return np.frombuffer(data, kind).reshape(-1, 3)

    return read_array


def _record(cls: type, **readers: Reader) -> Reader:
    """Return a reader of objects of the dataclass `cls`; fields without a default are required."""
    defaults = _DEFAULTS[cls]
    required = [name for name in readers if name not in defaults]

    def read_record(value: Any) -> Any:
        return cls(**(defaults | _object(value, readers, required)))

    return read_record


def _object(value: Any, readers: dict[str, Reader], required: Iterable[str]) -> dict[str, Any]:
    if not isinstance(value, _Pairs):
        _fail(value, "an object")
    out: dict[str, Any] = {}
    for key, item in value:
        if key not in readers:
            raise _Wrong(f'has the unknown key "{key}"; keys are {", ".join(readers)}')
        if key in out:
            raise _Wrong(f'has the key "{key}" twice')
        out[key] = _at(f".{key}", readers[key], item)
    for key in required:
        if key not in out:
            raise _Wrong(f'lacks the key "{key}"')
    return out


def _target(value: Any) -> Any:
    return _sequence(_number, 4)(value) if isinstance(value, list) else _number(value)


_three, _four, _some = _sequence(_number, 3), _sequence(_number, 4), _optional(_sequence(_number))
_maybe, _limit = _optional(_number), _optional(_sequence(_extended, 2))
_motor = _optional(_record(Motor, kp=_number, kd=_number, target=_target, max=_extended, velocity=_number))
_axis = _record(
    Axis, name=_string, kind=_string, axis=_three, position=_three, limits=_limit, limit_stiffness=_maybe,
    limit_damping=_maybe, damping=_number, stiffness=_number, rest=_number, armature=_number,
    friction=_number, motor=_motor, start=_number, start_velocity=_number,
)  # fmt: skip
_JOINT: dict[str, Reader] = dict(
    name=_string, kind=_string, parent=_string, child=_string, position=_three, rotation=_four,
    position_in_child=_three, rotation_in_child=_four, axis=_three, axis2=_optional(_three),
    pitch=_number, axes=_sequence(_axis), start=_some, start_velocity=_some,
    limits=_optional(_sequence(_limit)), limit_stiffness=_some, limit_damping=_some, damping=_some,
    stiffness=_some, rest=_some, armature=_some, friction=_some, motor=_optional(_sequence(_motor)),
    length=_number, rope=_truth, ratio=_number, offset=_number, carrier=_optional(_string),
    cone=_maybe, twist=_limit,
)  # fmt: skip
_plain_joint, _custom_joint = _record(Joint, **_JOINT), _record(
    RegisteredConstraint, **_JOINT, data=_sequence(_number), second_parent=_optional(_string),
    second_child=_optional(_string), second_position=_three, second_rotation=_four, second_position_in_child=_three,
    second_rotation_in_child=_four,
)  # fmt: skip


def _joint(value: Any) -> Any:
    """Return a joint, or a constraint of a kind that is registered now."""
    kind = dict(value).get("kind") if isinstance(value, _Pairs) else None
    if kind == KINEMATIC:
        register_kinematic()
    return (_custom_joint if isinstance(kind, str) and kind in CONSTRAINT_KINDS else _plain_joint)(value)


_BODY: dict[str, Reader] = dict(
    name=_string, mass=_maybe, com=_three, inertia=_optional(_sequence(_number, 6)), position=_optional(_three),
    rotation=_optional(_four), body_kind=_string, scale=_some, scale_stiffness=_number, scale_rest=_some,
    gravity_compensation=_number,
)  # fmt: skip
_plain_body = _record(Body, **_BODY)
_own_body = _record(RegisteredBody, **_BODY, rates=_sequence(_number), data=_sequence(_number))


def _body(value: Any) -> Any:
    """Return a body, or one of a kind that is registered now."""
    kind = dict(value).get("body_kind") if isinstance(value, _Pairs) else None
    return (_own_body if isinstance(kind, str) and kind in REGISTERED_BODY_KINDS else _plain_body)(value)


def _transmission(value: Any) -> tuple[str, int, float]:
    """Return one (joint, dof, coefficient) of a transmission."""
    if not isinstance(value, list) or len(value) != 3:
        _fail(value, "a joint, a dof and a coefficient")
    return _at("[0]", _string, value[0]), _at("[1]", _integer, value[1]), _at("[2]", _number, value[2])


# Lists that a document may lack: those of models without actuators.
_NEWER = ("excluded_shapes", "tendons", "actuators", "sensors", "keyframes", "timestep")
_LISTS: dict[str, Reader] = {
    "bodies": _body,
    "joints": _joint,
    "shapes": _record(
        Shape, name=_string, body=_string, kind=_string, size=_sequence(_number), position=_three,
        rotation=_four, friction=_number, restitution=_number, density=_maybe, color=_optional(_four),
        collide=_truth, group=_integer, vertices=_optional(_array("<f8")), faces=_optional(_array("<i4")),
        hull=_truth, friction_rule=_string, torsional_friction=_number, rolling_friction=_number, margin=_number,
    ),
    "springs": _record(
        Spring, name=_string, a=_string, b=_string, at_a=_three, at_b=_three, stiffness=_number,
        damping=_number, rest=_number,
    ),
    "points": _record(Point, name=_string, body=_string, position=_three, rotation=_four),
    "excluded": _sequence(_string, 2),
    "excluded_shapes": _sequence(_string, 2),
    "tendons": _record(
        Tendon, name=_string, transmission=_sequence(_transmission), stiffness=_number, damping=_number,
        rest=_sequence(_number, 2),
    ),
    "actuators": _record(
        Actuator, name=_string, transmission=_sequence(_transmission), gain=_number, bias=_three, control_range=_limit,
        force_range=_limit, joint_force_range=_limit, point=_string, wrench=_sequence(_number, 6), dynamics=_string,
        time_constant=_number, activation_range=_limit,
    ),
    "sensors": _record(
        Sensor, name=_string, kind=_string, of=_string, on=_string, relative_to=_string, relative_on=_string,
        cutoff=_number, data=_sequence(_number),
    ),
    "keyframes": _record(
        Keyframe, name=_string, q=_sequence(_number), qd=_sequence(_number), control=_sequence(_number),
        activation=_sequence(_number),
    ),
}  # fmt: skip
_DOCUMENT: dict[str, Reader] = {
    "format": _string, "version": _integer, "name": _string, "gravity": _three, "merge_fixed": _truth,
    "timestep": _maybe, **{key: _sequence(reader) for key, reader in _LISTS.items()},
}  # fmt: skip


# -- in: from text to model ------------------------------------------------------------------------


def loads(data: bytes | str, path: object = "<text>") -> Model:
    """Return the model whose JSON text is `data`; errors name `path`."""
    document = _parse(data, path)
    try:
        _check_version(document)
        values = _object(document, _DOCUMENT, [key for key in _DOCUMENT if key not in _NEWER])
    except _Wrong as wrong:
        where = wrong.path.lstrip(".") or "the document"
        raise FileError(path, f"{where} {wrong}") from None
    lists = {key: list(values.get(key, ())) for key in _LISTS}
    spec = Spec(values["name"], values["gravity"], values["merge_fixed"], **lists, timestep=values.get("timestep"))
    try:
        return Builder.from_spec(_checked(spec, path)).build(merge_fixed=spec.merge_fixed)
    except FileError:
        raise
    except ModelError as error:
        raise FileError(path, str(error)) from error


def _parse(data: bytes | str, path: object) -> Any:
    def constant(name: str) -> NoReturn:
        raise FileError(path, f"{name} is not allowed in a model")

    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return json.loads(text, object_pairs_hook=_Pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise FileError(path, f"is not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except FileError:
        raise
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FileError(path, f"is not a model: {reason}") from None


def _check_version(document: Any) -> None:
    """Refuse another format or version before its fields are read: they may have other names."""
    head = dict(document) if isinstance(document, _Pairs) else {}
    if head.get("format") != FORMAT:
        raise _Wrong(f'is not a Limberjack model: "format" must be "{FORMAT}"')
    version = head.get("version")
    if type(version) is not int or version != VERSION:
        raise _Wrong(f"has version {json.dumps(version)}; this release reads version {VERSION}")


def _checked(spec: Spec, path: object) -> Spec:
    """Return `spec` after every element went through a builder."""
    builder = Builder(spec.name, gravity=spec.gravity)
    try:
        builder.set_timestep(spec.timestep)
    except ModelError as error:
        raise FileError(path, str(error)) from error
    for key, add in _ADDERS.items():
        for i, item in enumerate(getattr(spec, key)):
            try:
                add(builder, item)
                made = getattr(builder._spec, key)
                made[-1] = _keep_bits(item, made[-1])
            except (ModelError, _Wrong) as error:
                raise FileError(path, f"{key}[{i}]{getattr(error, 'path', '')}: {error}") from error
    return builder._spec


def _keep_bits(written: Any, checked: Any, normal: bool = False) -> Any:
    """Return `checked`, numbers that differ by rounding alone as written; refuse what the builder left out.

    Builder normalises axes and quaternions, which may move the last bit of one that is normal already.
    """
    if type(checked) is type(written) and not isinstance(checked, np.ndarray) and written == checked:
        return written
    if isinstance(checked, float) and isinstance(written, float):
        close = normal and abs(written - checked) <= 2e-15
        return written if close else checked if normal else _refuse(f"must be {_text(_plain(checked))} here")
    if type(checked) is type(written) and type(checked) in _DEFAULTS:
        out = {}
        for name, value in _values(checked).items():
            pair = getattr(written, name), value, normal or name in _NORMALISED
            out[name] = _at(f".{name}", lambda three: _keep_bits(*three), pair)
        return type(checked)(**out)
    if isinstance(checked, tuple) and isinstance(written, tuple) and len(checked) == len(written):
        pairs = enumerate(zip(written, checked, strict=True))
        return tuple(_at(f"[{i}]", lambda both: _keep_bits(both[0], both[1], normal), pair) for i, pair in pairs)
    if isinstance(checked, np.ndarray) and isinstance(written, np.ndarray):
        return checked
    raise _Wrong(f"must be {_text(_plain(checked))} here")


def _add_body(builder: Builder, body: Body) -> None:
    if isinstance(body, RegisteredBody):
        numbers = {"coordinates": body.scale, "rates": body.rates, "data": body.data}
        builder.add_body_registered(body.body_kind, body.name, mass=0.0 if body.mass is None else body.mass, **numbers)
        return
    builder.add_body(**_values(body))


def _add_joint(builder: Builder, joint: Joint) -> None:
    if isinstance(joint, RegisteredConstraint):
        given = {name: getattr(joint, name) for name in _FRAMES}
        if joint.second_child is not None:
            words = ("parent", "child", *_FRAMES)
            given |= {f"second_{word}": getattr(joint, f"second_{word}") for word in words}
        builder._put_constraint(joint.kind, joint.name, joint.parent, joint.child, joint.data, given)
        return
    if joint.kind not in _TAKES:
        raise UnknownName("joint kind", joint.kind, "Limberjack", _TAKES)
    defaults, needed = _DEFAULTS[Joint], _NEEDS.get(joint.kind, ())
    given = {name: getattr(joint, name) for name in defaults}
    given = {n: x for n, x in given.items() if x is not None and (x != defaults[n] or n in needed)}
    for name in given:
        if name not in _TAKES[joint.kind]:
            _at(f".{name}", _refuse, f"has no meaning for a {joint.kind} joint")
    for name in ("limits", "motor"):
        if name in given:
            given[name] = _at(f".{name}", lambda values: _slots(joint.kind, values), given[name])
    builder.add_joint(joint.kind, joint.name, joint.parent, joint.child, **given)


def _slots(kind: str, values: Sequence[Any]) -> list[Any]:
    """Return the entries that the builder takes, one per dof: those of a ball are at its first index."""
    columns: list[int] = []
    width = 0
    for motion, _ in KINDS[kind].motions:
        columns.append(width)
        width += 3 if motion == SPIN else 1
    if len(values) != width:
        raise _Wrong(f"must have {width} entries, got {len(values)}")
    return [values[column] for column in columns]


def _add_shape(builder: Builder, shape: Shape) -> None:
    if shape.kind not in _SIZES:
        raise UnknownName("shape kind", shape.kind, "Limberjack", _SIZES)
    count = _SIZES[shape.kind]
    if len(shape.size) != count:
        _at(".size", _refuse, f"must have {count} entries for a {shape.kind}, got {len(shape.size)}")
    options = _values(shape, "body", "kind", "size", "vertices", "faces")
    size: tuple[Any, ...] = (shape.size,) if shape.kind == "box" else shape.size
    if shape.kind == "mesh":
        size, options = (), options | {"vertices": shape.vertices, "faces": shape.faces}
    else:
        options.pop("hull")
    getattr(builder, f"add_shape_{shape.kind}")(shape.body, *size, **options)


def _add_sensor(builder: Builder, sensor: Sensor) -> None:
    relative = ("relative_on",) if not sensor.relative_to else ()
    builder.add_sensor(**_values(sensor, *relative))


def _values(record: Any, *skip: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name, _ in _KEYS[type(record)] if name not in skip}


_ADDERS: dict[str, Callable[[Builder, Any], Any]] = {
    "bodies": _add_body,
    "joints": _add_joint,
    "shapes": _add_shape,
    "springs": lambda builder, spring: builder.add_spring(**_values(spring)),
    "points": lambda builder, point: builder.add_point(**_values(point)),
    "excluded": lambda builder, pair: builder.exclude_collision(*pair),
    "excluded_shapes": lambda builder, pair: builder.exclude_shapes(*pair),
    "tendons": lambda builder, tendon: builder.add_tendon(
        tendon.name, tendon.transmission, **_values(tendon, "name", "transmission")
    ),
    "actuators": lambda builder, actuator: builder.add_actuator(
        actuator.name, actuator.transmission, kind="general", **_values(actuator, "name", "transmission")
    ),
    "sensors": _add_sensor,
    "keyframes": lambda builder, keyframe: builder.add_keyframe(**_values(keyframe)),
}
_NORMALISED = ("axis", "axis2", "rotation", "rotation_in_child", "start", "rest")
_SIZES = {"sphere": 1, "box": 3, "capsule": 2, "cylinder": 2, "plane": 0, "mesh": 1}
_PER_FREEDOM = (
    "start", "start_velocity", "limits", "limit_stiffness", "limit_damping", "damping", "stiffness", "rest",
    "armature", "friction", "motor",
)  # fmt: skip
# Which options a kind takes, and which of them its function must be given.
_TAKES: dict[str, tuple[str, ...]] = {kind: (*_FRAMES, "axis", *_PER_FREEDOM) for kind in KINDS}
_TAKES |= {
    "free": _PER_FREEDOM,
    "fixed": (*_FRAMES, "axis"),
    "universal": (*_TAKES["universal"], "axis2"),
    "screw": (*_TAKES["screw"], "pitch"),
    "compound": (*_FRAMES, "axis", "axes"),
    "distance": ("position", "position_in_child", "length", "rope"),
    "gear": ("ratio", "offset", "carrier"),
    "no_slip": ("position_in_child", "axis"),
    "ball": (*_TAKES["ball"], "cone", "twist"),
}
_NEEDS = {"universal": ("axis", "axis2"), "screw": ("pitch",), "compound": ("axes",), "distance": ("length",)}
_NEEDS["no_slip"] = ("axis",)
