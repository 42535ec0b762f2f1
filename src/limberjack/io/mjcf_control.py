"""The actuators, tendons, sensors and keyframes of a compiled MuJoCo model."""

from __future__ import annotations

from typing import Any

from limberjack.io.files import Taken
from limberjack.io.mjcf_parts import BALL, FREE, Parts
from limberjack.model.builder import Builder

__all__ = ["SENSOR_KINDS", "add_control", "joint_additions"]

# MuJoCo's codes, which its binary interface fixes.
_AT_JOINT, _AT_JOINT_IN_PARENT, _AT_TENDON, _AT_SITE = 0, 1, 3, 4
_FIXED_GAIN, _AFFINE_GAIN, _NO_BIAS, _AFFINE_BIAS = 0, 1, 0, 1
_DYNAMICS = {0: "", 1: "integrator", 2: "filter", 3: "exact_filter"}
_WRAP_JOINT, _WRAP_SITE = 1, 3
_LEFT_OUT = {2: "muscles", 3: "motors with currents", 4: "rotations", 5: "controllers", 6: "gains of users"}
_LEFT_AT = {2: "slider-cranks", 5: "adhesion of bodies"}
_SENSORS = {
    0: "touch", 1: "accelerometer", 2: "velocimeter", 3: "gyro", 4: "force", 5: "torque", 7: "rangefinder",
    9: "joint_position",
    10: "joint_velocity", 11: "tendon_position", 12: "tendon_velocity", 13: "actuator_position",
    14: "actuator_velocity", 15: "actuator_force", 16: "joint_actuator_force", 18: "ball_quaternion",
    19: "ball_velocity", 26: "frame_position", 27: "frame_quaternion", 28: "frame_x_axis", 29: "frame_y_axis",
    30: "frame_z_axis", 31: "frame_linear_velocity", 32: "frame_angular_velocity", 33: "frame_linear_acceleration",
    34: "frame_angular_acceleration", 35: "subtree_com", 36: "subtree_linear_velocity",
    37: "subtree_angular_momentum", 43: "potential_energy", 44: "kinetic_energy", 45: "clock",
}  # fmt: skip
SENSOR_KINDS = frozenset(_SENSORS.values())
_OBJECTS = {1: "com", 2: "body", 3: "joint", 5: "shape", 6: "point", 18: "tendon", 19: "actuator"}
_ELLIPSOIDS, _BOX = (2, 4), 6

Transmission = list[tuple[str, int, float]]


def joint_additions(parts: Parts) -> dict[int, dict[str, float]]:
    """Return per MuJoCo joint the damping and armature that actuators add to it."""
    m = parts.m
    out: dict[int, dict[str, float]] = {}
    for a in range(m.nactuator):
        if int(m.actuator_trntype[a]) not in (_AT_JOINT, _AT_JOINT_IN_PARENT):
            continue
        both = out.setdefault(int(m.actuator_trnid[a, 0]), {"damping": 0.0, "armature": 0.0})
        gear = float(m.actuator_gear[a, 0])
        for word in both:
            value = float(getattr(m, f"actuator_{word}")[a])
            both[word] += gear * gear * value if value else 0.0
        if m.actuator_dampingpoly[a].any():
            parts.notes.add("damping of actuators beyond its linear term is left out", parts.named("actuator", a))
    return out


def add_control(builder: Builder, parts: Parts, points: list[str], shapes: dict[int, str]) -> None:
    """Add tendons, actuators, sensors, keyframes and the time step.

    Args:
        builder: has all bodies, joints, shapes and points.
        parts: the compiled model.
        points: name of each site here.
        shapes: name of the shape of each geom that has one.
    """
    tendons = _add_tendons(builder, parts)
    actuators = _add_actuators(builder, parts, points)
    _add_sensors(builder, parts, {"point": dict(enumerate(points)), "shape": shapes, "tendon": tendons,
                                  "actuator": actuators})  # fmt: skip
    _add_keyframes(builder, parts, sorted(actuators))
    builder.set_timestep(float(parts.m.opt.timestep))


def _tendon_joints(parts: Parts, t: int) -> Transmission | None:
    """Return the joints of a fixed tendon; None for a spatial one."""
    m = parts.m
    wraps = range(m.tendon_adr[t], m.tendon_adr[t] + m.tendon_num[t])
    if not len(wraps) or any(int(m.wrap_type[w]) != _WRAP_JOINT for w in wraps):
        return None
    return [(parts.joints[int(m.wrap_objid[w])][0], 0, float(m.wrap_prm[w])) for w in wraps]


def _add_tendons(builder: Builder, parts: Parts) -> dict[int, str]:
    """Add fixed tendons and return their names."""
    m, out = parts.m, dict[int, str]()
    taken = Taken(*(parts.text(a) for a in m.name_tendonadr))
    for t in range(m.ntendon):
        joints, shown = _tendon_joints(parts, t), parts.named("tendon", t)
        name = parts.text(m.name_tendonadr[t]) or taken.take(f"tendon{t}", "")
        if joints is None:
            _add_cord(builder, parts, t, name)
            continue
        spring, damper = not parts.disabled("SPRING"), not parts.disabled("DAMPER")
        low, high = m.tendon_lengthspring[t].tolist()
        builder.add_tendon(
            name, joints, stiffness=float(m.tendon_stiffness[t]) * spring, damping=float(m.tendon_damping[t]) * damper,
            rest=(low, max(low, high)),
        )  # fmt: skip
        out[t] = name
        if m.tendon_limited[t]:
            parts.notes.add("limits of tendons are left out: their joints move beyond them", shown)
        if m.tendon_frictionloss[t]:
            parts.notes.add("friction of tendons is left out", shown)
        if m.tendon_armature[t]:
            parts.notes.add("armature of tendons is left out", shown)
    return out


def _add_cord(builder: Builder, parts: Parts, t: int, name: str) -> None:
    """Add a spatial tendon between two sites: a spring between bodies, and a rope where it has a largest length."""
    m, shown = parts.m, parts.named("tendon", t)
    wraps = range(m.tendon_adr[t], m.tendon_adr[t] + m.tendon_num[t])
    sites = [int(m.wrap_objid[w]) for w in wraps if int(m.wrap_type[w]) == _WRAP_SITE]
    bodies = [int(m.site_bodyid[s]) for s in sites]
    if len(sites) != 2 or len(wraps) != 2 or bodies[0] == bodies[1]:
        parts.notes.add("spatial tendons of more than two sites are left out, with their forces and limits", shown)
        return
    if bodies[1] == 0:
        sites, bodies = sites[::-1], bodies[::-1]
    a, b = (parts.bodies[body] for body in bodies)
    at_a, at_b = (m.site_pos[s] for s in sites)
    stiffness = 0.0 if parts.disabled("SPRING") else float(m.tendon_stiffness[t])
    damping = 0.0 if parts.disabled("DAMPER") else float(m.tendon_damping[t])
    low, high = m.tendon_lengthspring[t].tolist()
    if stiffness and low != high:
        parts.notes.add("springs of spatial tendons with an interval of rest are left out", shown)
        stiffness = 0.0
    if stiffness or damping:
        builder.add_spring(
            a, b, at_a=at_a, at_b=at_b, stiffness=stiffness, damping=damping, rest=max(0.0, low), name=f"{name}:spring"
        )
    if m.tendon_limited[t] and not parts.disabled("LIMIT"):
        least, most = m.tendon_range[t].tolist()
        rope = parts.unique(name, "rope")
        builder.add_joint_distance(rope, a, b, length=most, rope=True, position=at_a, position_in_child=at_b)
        if least > 0.0:
            parts.notes.add("smallest lengths of spatial tendons are left out", shown)
    if m.tendon_frictionloss[t]:
        parts.notes.add("friction of tendons is left out", shown)


def _add_actuators(builder: Builder, parts: Parts, points: list[str]) -> dict[int, str]:
    """Add the actuators whose force is linear in control, length and rate; return their names."""
    m, out = parts.m, dict[int, str]()
    taken = Taken(*(parts.text(a) for a in m.name_actuatoradr))
    for a in range(m.nactuator):
        shown = parts.named("actuator", a)
        if parts.disabled("ACTUATION") or (int(m.opt.disableactuator) >> int(m.actuator_group[a])) & 1:
            continue
        options = _law(parts, a)
        where = None if options is None else _transmission(parts, a, points, options["bias"])
        if options is None or where is None:
            which = _LEFT_OUT.get(int(m.actuator_gaintype[a]), _LEFT_AT.get(int(m.actuator_trntype[a]), "their kind"))
            parts.notes.add(f"actuators are left out ({which}), and have no entry in sim.control", shown)
            continue
        name = parts.text(m.name_actuatoradr[a]) or taken.take(f"actuator{a}", "")
        builder.add_actuator(name, kind="general", **options, **where)
        out[a] = name
    return out


def _law(parts: Parts, a: int) -> dict[str, Any] | None:
    """Return gain, bias and ranges of an actuator; None where its force is not linear."""
    m = parts.m
    gain, bias, dynamics = (int(getattr(m, f"actuator_{word}type")[a]) for word in ("gain", "bias", "dyn"))
    constant = gain == _FIXED_GAIN or (gain == _AFFINE_GAIN and not m.actuator_gainprm[a, 1:3].any())
    if not constant or bias not in (_NO_BIAS, _AFFINE_BIAS) or int(m.actuator_ctrlnum[a]) != 1:
        return None
    if dynamics not in _DYNAMICS:
        return None
    if dynamics and m.actuator_actearly[a]:
        parts.notes.add("actearly is left out: activations act a step later", parts.named("actuator", a))
    if m.actuator_delay[a] != 0:
        parts.notes.add("delays of actuators are left out: controls act at once", parts.named("actuator", a))
    limited = m.actuator_ctrllimited[a] and not parts.disabled("CLAMPCTRL")
    return {
        "gain": float(m.actuator_gainprm[a, 0]),
        "bias": m.actuator_biasprm[a, :3].tolist() if bias == _AFFINE_BIAS else [0.0, 0.0, 0.0],
        "control_range": m.actuator_ctrlrange[a].tolist() if limited else None,
        "force_range": m.actuator_forcerange[a].tolist() if m.actuator_forcelimited[a] else None,
        "dynamics": _DYNAMICS[dynamics],
        "time_constant": max(1e-15, float(m.actuator_dynprm[a, 0])) if dynamics > 1 else 0.0,
        "activation_range": m.actuator_actrange[a].tolist() if m.actuator_actlimited[a] else None,
    }


def _transmission(parts: Parts, a: int, points: list[str], bias: list[float]) -> dict[str, Any] | None:
    """Return what an actuator acts on, as arguments of the builder."""
    m = parts.m
    kind, target, gear = int(m.actuator_trntype[a]), int(m.actuator_trnid[a, 0]), m.actuator_gear[a].tolist()
    if kind == _AT_TENDON:
        joints = _tendon_joints(parts, target)
        return None if joints is None else {"joint": joints, "gear": gear[0]}
    if kind == _AT_SITE:
        alone = int(m.actuator_trnid[a, 1]) < 0 and not (bias[1] or bias[2])
        return {"point": points[target], "wrench": gear[3:] + gear[:3]} if alone else None
    if kind not in (_AT_JOINT, _AT_JOINT_IN_PARENT):
        return None
    form = int(m.jnt_type[target])
    if form in (FREE, BALL):
        if kind == _AT_JOINT_IN_PARENT or bias[1]:
            return None
        name, combined = parts.joints[target]
        first = {"point_on_line": 1, "point_on_plane": 2}.get(combined, 0)
        count = 6 if form == FREE else 3
        return {"joint": [(name, first + k, gear[k]) for k in range(count) if gear[k]]}
    name, combined = parts.joints[target]
    own = target - int(m.body_jntadr[m.jnt_bodyid[target]])
    dof = own if combined in ("point_on_line", "point_on_plane") else 0
    where: dict[str, Any] = {"joint": [(name, dof, gear[0])]}
    if m.jnt_actfrclimited[target]:
        where["joint_force_range"] = m.jnt_actfrcrange[target].tolist()
    return where


def _add_sensors(builder: Builder, parts: Parts, names: dict[str, dict[int, str]]) -> None:
    m = parts.m
    names = {**names, "joint": {j: name for j, (name, _) in parts.joints.items()}}
    names["body"] = names["com"] = dict(enumerate(parts.bodies))
    taken = Taken(*(parts.text(a) for a in m.name_sensoradr))
    for s in range(m.nsensor):
        shown, kind = parts.named("sensor", s), _SENSORS.get(int(m.sensor_type[s]), "")
        found = _sensor(parts, s, kind, names) if kind else None
        if found is None:
            parts.notes.add("sensors are left out, and have no value in sim.sensors", shown)
            continue
        name = parts.text(m.name_sensoradr[s]) or taken.take(f"sensor{s}", "")
        builder.add_sensor(name, kind, cutoff=max(0.0, float(m.sensor_cutoff[s])), **found)


def _sensor(parts: Parts, s: int, kind: str, names: dict[str, dict[int, str]]) -> dict[str, Any] | None:
    m = parts.m
    if kind in ("potential_energy", "kinetic_energy", "clock"):
        return {"on": "model"}
    on, i = _OBJECTS.get(int(m.sensor_objtype[s])), int(m.sensor_objid[s])
    if kind.startswith("subtree"):
        on = "body"
    of = names.get(on or "", {}).get(i)
    world = of == parts.bodies[0] and on in ("body", "com")
    if of is None or (world and not kind.startswith("frame")):
        return None
    if on == "joint" and int(m.jnt_type[i]) in (FREE, BALL) and not kind.startswith("ball"):
        return None
    if on == "joint" and parts.joints[i][1] in ("point_on_line", "point_on_plane"):
        return None
    if kind == "rangefinder" and not (on == "point" and int(m.sensor_dim[s]) == 1):
        return None
    out: dict[str, Any] = {"of": of, "on": on}
    if int(m.sensor_refid[s]) >= 0:
        frame = _OBJECTS.get(int(m.sensor_reftype[s]))
        reference = names.get(frame or "", {}).get(int(m.sensor_refid[s]))
        if reference is None:
            return None
        out |= {"relative_to": reference, "relative_on": frame}
    if kind == "touch":
        form = int(m.site_type[i])
        size = m.site_size[i].tolist()
        if form == _ELLIPSOIDS[0]:
            size = [size[0]] * 3
        if form not in (*_ELLIPSOIDS, _BOX):
            parts.notes.add(
                "touch sensors that are no box or ellipsoid count all of their body", parts.named("sensor", s)
            )
        else:
            out["data"] = [float(form == _BOX), *size]
    return out


def _add_keyframes(builder: Builder, parts: Parts, actuators: list[int]) -> None:
    """Add the keyframes, with the controls of the actuators that there are."""
    m = parts.m
    taken = Taken(*(parts.text(a) for a in m.name_keyadr))
    controls = [int(m.actuator_ctrladr[a]) for a in actuators]
    activations = [int(m.actuator_actadr[a]) for a in actuators if int(m.actuator_actadr[a]) >= 0]
    for k in range(m.nkey):
        name = parts.text(m.name_keyadr[k]) or taken.take(f"key{k}", "")
        builder.add_keyframe(name, m.key_qpos[k], m.key_qvel[k], m.key_ctrl[k][controls], m.key_act[k][activations])
