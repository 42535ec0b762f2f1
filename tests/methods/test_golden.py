"""The same bits on every machine: hashes of known runs, kept in the repository."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import limberjack as lj

# No fused multiply-add, no libm, no reordered sums: these hold on any x86-64 and any number of threads. A change of a
# kernel's order of operations changes them on purpose, and only then.
GOLDEN = {
    "full, semi_implicit": "8f14f639bcd939b90a219fae",
    "full, implicit": "168dd16472953ea826175e64",
    "full, rk4": "f934edfd7ea66fe4942db16c",
    "full, momentum": "7025d376b395a96e04adebfa",
    "full, motors": "8a249e3c85ba6e853fafc24c",
    "full, motors, implicit": "963d8a3a3d17dd0c9560e2a5",
    "full, rows": "dbc38fb6f877d20d61eeca79",
    "full, rows, rk4": "125b9e9416fcf6d7300ce587",
    "full, rows, implicit": "2accf7aff745e1e68e342ec6",
    "full, contacts": "81b36bbfea1b0e367902ee5c",
    "full, contacts, rk4": "12710a7cad2dcc67eedcb956",
    "full, grip": "f83511edf6185468b5c5abc4",
    "full, dragged": "514caf5b083ed4b2481343c1",
    "full, shapes": "589c2ebea30410669cb7349c",
    "full, skate": "4399980fb2a6aed2f60986cb",
    "adaptive, budget": "02106d1e4b28642d8755720e",
    "adaptive, tolerance": "199083d712e8ded985aef131",
    "adaptive, mass metric": "77c582d6f199e5ee652464eb",
    "adaptive, motors, error bounded": "9cc5a9ef2dac283dd16727fa",
    "adaptive, motors": "f522880c7948fb7c2017112c",
    "adaptive, rows": "c86797d59fd61ffc7aacafe4",
    "adaptive, contacts": "7bdb57f728bf56b1c878cfe0",
    "adaptive, contacts, mass metric": "428d5c854166a14ec26a344d",
    "adaptive, grip": "124e5374df1a326719b00948",
    "adaptive, dragged": "53403ac8b7a232fca272e456",
    "full, variational": "da93a861d6ffa935668f7dfa",
    "full, variational, motors": "55b7c8b048906ff7354e4913",
    "full, variational, rows": "8ed88dc620a80184760717cc",
    "full, variational, contacts": "d620829e77447d82c51ded90",
    "full, variational, grip": "a62813810959d3e3796d5c39",
    "full, variational, dragged": "a075f72332d72f138980cd53",
    "full, variational, shapes": "7cb756d7bdfafcfaaca2a4af",
    "full, variational, skate": "e3738a567babf959ebd44eb0",
    "full, projected": "cd424bc6c9a1b746800a8bf8",
    "full, projected, contacts": "ec0a050625fc814670a694f6",
    "adaptive, variational": "dc8fcc7a41abc932b3f05bce",
    "adaptive, variational, tolerance": "da93a861d6ffa935668f7dfa",
    "adaptive, variational, motors": "97539fc848a78ddc2c16f70c",
    "adaptive, variational, contacts": "337233a9a32a65a397e7ae57",
    "adaptive, variational, dragged": "d9c7f864a1dd311ca535953f",
    "multipliers": "63b56d3b841f6c5fc0e3443b",
    "multipliers, rattle": "ed83889dfc9b7d3f513f0259",
    "multipliers, reduced": "a359c6257d8bfceb08452cef",
    "multipliers, baumgarte, rk4": "22aa22d4aca74d2edd680b42",
    "multipliers, motors": "afcdbf630cda114a71e510f1",
    "multipliers, motors, implicit": "1c056618f4d96d2d3dde0d34",
    "multipliers, rows": "ad1f8aaf0586a4e5300ad08e",
    "multipliers, rows, sparse": "2362aeb85249649cd0c5bd74",
    "multipliers, loops, krylov": "5e237a6be4123018aece0a74",
    "multipliers, rows, dense": "2a7dce6bc6d067efa838e828",
    "multipliers, rows, rattle": "502b745c872b136073aa6ae7",
    "multipliers, contacts": "5c7f0ab91754439b34181b1d",
    "multipliers, grip": "7bad3e0359ebb42dc59637b3",
    "multipliers, dragged": "6c84636c16dfd6a9b6fc2fa6",
    "multipliers, skate": "e13c0e7f03392e5dc3ef6d61",
    "multipliers, deformed": "04bc06e019768275a42c670f",
    "displacements, conserving": "2f4926e78e73e4688321299a",
    "displacements, damped": "d3691f1984065baa9d6ec5f4",
    "displacements, motors": "6923c85b1fe4e87399eca4c5",
    "displacements, rows": "18bee57eee43000b1102b6fb",
    "displacements, rows, damped": "d3683bfc7ee3d9dc44a168ab",
    "displacements, kinematic": "ae00c46771fb18b701380fff",
    "displacements, contacts": "4ec04130ebcb551f7a748980",
    "displacements, grip": "7676b9895cabb6ce0e5dc1fe",
    "displacements, skate": "e20a6d98da75be3ab49c6d95",
    "impulses": "0f139fc5f1520b05138dc00c",
    "impulses, motors": "018cfb55bdab9d76a8cd7bc7",
    "impulses, rows": "ab1b5cb2861e859bb2aca4b3",
    "impulses, rows, damped": "a9da619138360e239f8d6a48",
    "impulses, rows, sweeps": "bf008ba301fb0382a5f1ab66",
    "impulses, contacts": "9b1b1b5d176e7faa62c2fc72",
    "impulses, contacts, soft": "779485df8e1576be7ef8e7f8",
    "impulses, contacts, firm, damped": "a1adfbfd43a4a22c343dbed5",
    "impulses, contacts, hard": "c2132722aa86970a270b0934",
    "impulses, contacts, levels": "783a2fde98c89f94f4a6ed5d",
    "impulses, contacts, saved": "c936be79a9926c34cbb13c7f",
    "impulses, grip": "2c738622e39451d59394b85f",
    "impulses, dragged": "945e4f9e6e7e778d64a3101a",
    "impulses, attached": "8bb836862c86b66b134128f1",
    "impulses, attached, damped": "b8fb257e0bf95eacf641b8b2",
    "impulses, events": "ca69a9aa4bf2794429e7c965",
    "impulses, shapes": "fbdeeab6a56e1be43fee43ab",
    "impulses, skate": "da149b18c2a897b1024639be",
    "divide_and_conquer": "490eaecd2991f88f2e7b70e7",
    "divide_and_conquer, levels": "9e20f5f6c08f5a61d4009fde",
    "divide_and_conquer, motors": "93afd990937c5f72dd0961c1",
}

DT = 2.0**-10


def figure() -> lj.Model:
    """Return a floating tree of every kind of joint, built from plain numbers only."""
    builder = lj.Builder("golden", gravity=(0.25, 0.0, -9.75))
    kinds = ("hinge", "ball", "slide", "universal", "cylindrical", "planar", "screw", "point_on_line", "hinge", "hinge")
    builder.add_body("b0", mass=2.0, com=(0.125, 0.0, 0.25), inertia=(0.5, 0.375, 0.25), position=(0.0, 0.0, 1.0))
    for k, kind in enumerate(kinds, start=1):
        builder.add_body(f"b{k}", mass=1.0 + 0.125 * k, com=(0.0, 0.0625 * k, -0.25), inertia=(0.25, 0.1875, 0.125))
        extra = {"screw": {"pitch": 0.125}}.get(kind, {})
        builder.add_joint(
            kind, f"j{k}", f"b{(k - 1) // 2}", f"b{k}", position=(0.25, -0.125 * k, -0.5), damping=0.125, **extra
        )
    builder.add_spring("b3", "b7", stiffness=20.0, damping=0.5, rest=0.5)
    return builder.build()


def chain(builder: lj.Builder, links: int, prefix: str = "c", height: float = 4.0, **options: dict) -> None:
    """Add rods of half a metre that stand out from the world along x, on hinges about y; options by joint."""
    for k in range(links):
        builder.add_body(f"{prefix}{k}", mass=1.0 + 0.25 * k, com=(0.25, 0.0, 0.0), inertia=(0.0625, 0.125, 0.125))
        parent, place = (f"{prefix}{k - 1}", (0.5, 0.0, 0.0)) if k else ("world", (0.0, 0.0, height))
        own = options.get(f"j{k}", {})
        builder.add_joint_hinge(f"{prefix}j{k}", parent, f"{prefix}{k}", axis=(0, 1, 0), position=place, **own)


def plain(method) -> lj.Simulation:
    """Throw the figure about for 300 steps."""
    model = figure()
    sim = lj.Simulation(model, method, dt=DT, qd=np.linspace(-0.5, 0.5, model.nv))
    sim.step(300)
    assert np.count_nonzero(np.abs(sim.qd) > 0.125) > 6
    return sim


def motors(method) -> lj.Simulation:
    """Drive a chain of six rods with motors, one of them at its largest torque, against springs."""
    builder = lj.Builder("motors", gravity=(0.0, 0.0, -9.75))
    drives = {f"j{k}": {"motor": lj.Motor(kp=40.0, kd=2.0, target=0.25 * k - 0.5, max=64.0)} for k in range(0, 6, 2)}
    drives["j3"] = {"motor": lj.Motor(kd=1.0, velocity=8.0, max=0.5)}
    drives["j5"] = {"stiffness": 16.0, "damping": 0.25}
    chain(builder, 6, **drives)
    builder.add_spring("c2", "world", at_b=(1.0, 0.5, 5.0), stiffness=64.0, damping=0.5, rest=0.5)
    builder.add_spring("c5", "c1", stiffness=32.0, rest=1.0)
    sim = lj.Simulation(builder.build(), method, dt=DT)
    sim.step(256)
    assert np.abs(sim.q).max() > 0.25
    assert sim.qd[3] < 7.5  # the motor of j3 is cut: it asks for more than half a newton metre
    return sim


def closed(one_sided: bool = True) -> lj.Model:
    """Return two chains tied at their ends and a third one with a gear; with limits and a rope if `one_sided`."""
    builder = lj.Builder("closed", gravity=(0.0, 0.25, -9.75))
    limits = {"limits": (-0.5, 0.125)} if one_sided else {}
    chain(builder, 3, "a", j1=limits, j2={"damping": 0.0625})
    chain(builder, 3, "b", j1={"damping": 0.5})
    builder.add_joint_ball("tie", "a2", "b2", position=(0.5, 0.0, 0.0), position_in_child=(0.5, 0.0, 0.0))
    chain(builder, 3, "g", 2.0, j2={"limits": (-0.125, 0.125)} if one_sided else {})
    builder.add_gear("gear", "gj0", "gj1", ratio=-2.0)
    if one_sided:
        builder.add_joint_distance(
            "rope", "world", "g2", length=1.25, rope=True, position=(0.5, 0.0, 2.5), position_in_child=(0.5, 0.0, 0.0)
        )
    return builder.build()


def loops(method) -> lj.Simulation:
    """Let the closed model fall without what acts on one side only."""
    sim = lj.Simulation(closed(one_sided=False), method, dt=DT)
    sim.step(256)
    assert abs(sim.joint("aj1").q - sim.joint("bj1").q) > 0.03125
    assert sim.joint_error().metres < 1e-6
    return sim


def rows(method) -> lj.Simulation:
    """Let the closed model fall until its limits act and its rope is taut."""
    sim = lj.Simulation(closed(), method, dt=2.0**-9)
    at_limit = taut = 0
    for _ in range(32):
        sim.step(8)
        at_limit += min(abs(sim.joint("aj1").q - 0.125), abs(abs(sim.joint("gj2").q) - 0.125)) < 1e-3
        tip = sim.positions[-1] + 0.5 * turned(sim.rotations[-1])
        taut += np.linalg.norm(tip - (0.5, 0.0, 2.5)) > 1.25 - 1e-3
    assert at_limit > 2
    assert taut > 2
    assert sim.joint_error().metres < 1e-3
    return sim


def turned(rotation: np.ndarray) -> np.ndarray:
    """Return the x axis of a body turned by a quaternion (w, x, y, z)."""
    w, x, y, z = rotation
    return np.array([1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)])


def pile(dry: float) -> lj.Model:
    """Return a thrown box, a ball, a slab and a figure of five capsules over a rough plane; `dry` is in its joints."""
    builder = lj.Builder("pile", gravity=(0.0, 0.0, -9.75))
    builder.add_shape_plane(friction=0.5)
    builder.add_body("slab", mass=4.0, inertia=(0.25, 0.5, 0.625), position=(0.0, 0.0, 0.125))
    builder.add_shape_box("slab", (1.0, 0.75, 0.25), friction=0.25)
    builder.add_body("box", mass=1.0, inertia=(0.0625, 0.0625, 0.0625), position=(-0.25, 0.0, 0.5625))
    builder.add_shape_box("box", (0.5, 0.5, 0.5), friction=0.75, restitution=0.25)
    builder.add_body("ball", mass=0.5, inertia=(0.015625, 0.015625, 0.015625), position=(0.5, 0.0625, 0.5))
    builder.add_shape_sphere("ball", 0.1875, restitution=0.5)
    for k in range(5):
        builder.add_body(
            f"f{k}",
            mass=1.0 + 0.25 * k,
            com=(0.25, 0.0, 0.0),
            inertia=(0.03125, 0.0625, 0.0625),
            **({} if k else {"position": (-0.5, 1.0, 0.1875)}),
        )
        builder.add_shape_capsule(
            f"f{k}", 0.125, 0.5, position=(0.25, 0.0, 0.0), rotation=(0.5, 0.5, 0.5, 0.5), group=1, restitution=0.125
        )
        if k:
            builder.add_joint_hinge(
                f"fj{k}",
                f"f{k - 1}",
                f"f{k}",
                axis=(0, 1, 0),
                position=(0.5, 0, 0),
                limits=(-0.25, 0.5),
                friction=dry,
                start=-0.125,
            )
    return builder.build()


def contacts(method) -> lj.Simulation:
    """Throw what lies over a rough plane along it: bodies collide, slide, stick and tip."""
    model = pile(0.25 if lj.capabilities()[method.name]["friction"] else 0.0)
    qd = np.zeros(model.nv)
    thrown = {"slab": (1.0, 0.0, 0.0), "box": (2.0, 0.5, 0.0), "ball": (-1.0, 0.0, -1.0), "f0": (0.5, 1.0, 0.0)}
    for body, velocity in thrown.items():
        qd[model.joint(body).v][:3] = velocity
    sim = lj.Simulation(model, method, dt=2.0**-8, qd=qd)
    pairs, sliding, sticking = set(), 0, 0
    for _ in range(16):
        sim.step(6)
        for contact in sim.contacts():
            pairs.add(contact.bodies)
            along = contact.impulse @ contact.normal
            across = np.linalg.norm(contact.impulse - along * contact.normal)
            sliding += along > 0.0 and across > 0.2499 * along
            sticking += 0.0 < across < 0.2 * along
    assert {("slab", "world"), ("slab", "box"), ("f4", "world")} <= pairs
    assert sliding > 16
    assert sticking > 1
    return sim


def grip(method) -> lj.Simulation:
    """Draw the closed model about by its loop, let it go and let it swing on."""
    sim = lj.Simulation(closed(), method, dt=DT)
    handle = sim.grab("a2", (1.25, 0.0, 4.0))
    for k in range(8):
        handle.move((1.25 - 0.0625 * k, 0.0, 4.0 - 0.125 * k))
        sim.step(24)
    assert handle.point[2] < 3.5
    assert np.linalg.norm(handle.force) > 1.0
    handle.release()
    sim.step(64)
    assert abs(sim.joint("aj0").qd) > 0.125
    return sim


def dragged(method) -> lj.Simulation:
    """Pull the slab with a box on it over the plane by a grip at its rim."""
    sim = lj.Simulation(pile(0.0), method, dt=2.0**-8)
    handle = sim.grab("slab", (0.5, 0.25, 0.125))
    for k in range(8):
        handle.move((0.5 + 0.0625 * k, 0.25 + 0.03125 * k, 0.125))
        sim.step(12)
    assert sim.body("slab").position[0] > 0.25
    assert ("slab", "box") in {contact.bodies for contact in sim.contacts()}
    return sim


def attached(method) -> lj.Simulation:
    """Join and part free bodies while they fly over the plane, by call and by a rule of proximity."""
    builder = lj.Builder("attached", gravity=(0.0, 0.0, -9.75))
    builder.add_shape_plane()
    for k in range(4):
        builder.add_body(f"b{k}", mass=1.0 + k, inertia=(0.125, 0.1875, 0.25), position=(0.75 * k, 0.0, 1.0))
        builder.add_shape_box(f"b{k}", (0.5, 0.375, 0.25))
        builder.add_point(f"left{k}", f"b{k}", (-0.3125, 0.0, 0.0))
        builder.add_point(f"right{k}", f"b{k}", (0.3125, 0.0, 0.0))
    model = builder.build()
    qd = np.zeros(model.nv)
    qd[model.joint("b0").v] = (0.5, 0.0, 1.0, 0.0, 2.0, 0.0)
    qd[model.joint("b3").v] = (-1.0, 0.0, 2.0, 0.5, 0.0, 1.0)
    sim = lj.Simulation(model, method, dt=2.0**-8, qd=qd)
    hinge = sim.attach("b0", "b1", "hinge", point=(0.375, 0.0, 1.0), axis=(0.0, 1.0, 0.0))
    sim.attach("b1", "b2", "distance", at_a=(0.25, 0.0, 0.0), at_b=(-0.25, 0.0, 0.0))
    sim.add_rule(lj.Proximity(points=("left3",), others=("right2",), distance=0.25))
    sim.step(64)
    assert len(sim.attached) == 3
    sim.detach(hinge)
    sim.step(64)
    assert len(sim.attached) == 2
    assert sim.contacts()
    return sim


def billiard(method) -> lj.Simulation:
    """Let smooth balls collide among each other and with a plane, from event to event."""
    builder = lj.Builder("billiard", gravity=(0.0, 0.0, -9.75))
    builder.add_shape_plane(friction=0.0, restitution=1.0)
    for k in range(6):
        place = (0.375 * (k % 3), 0.125 * (k // 3), 0.5 + 0.5 * (k // 3))
        builder.add_body(f"b{k}", mass=1.0 + 0.5 * k, inertia=(0.0625, 0.0625, 0.0625), position=place)
        builder.add_shape_sphere(f"b{k}", 0.125 + 0.015625 * (k % 2), friction=0.0, restitution=1.0)
    model = builder.build()
    qd = np.zeros(model.nv)
    qd[model.joint("b0").v] = (2.0, 0.25, 0.0, 1.0, 0.0, 0.0)
    sim = lj.Simulation(model, method, dt=2.0**-6, qd=qd)
    before = sim.momentum().linear[0]
    sim.step(64)
    assert abs(sim.momentum().linear[0] - before) < 1e-9
    assert np.count_nonzero(np.abs(sim.velocities[:, 4]) > 0.03125) > 1
    return sim


def followed(method) -> lj.Simulation:
    """Let the closed model follow one of its bodies that is moved, with another joint driven."""
    sim = lj.Simulation(closed(), method, dt=DT)
    sim.drive("gj1", -0.5)
    for k in range(16):
        sim.move("a2", (1.0 - 0.015625 * k, 0.0, 4.0 - 0.03125 * k))
        sim.step(8)
    assert sim.joint("gj0").q > 0.0625
    assert abs(sim.joint("bj2").q) > 0.5
    return sim


def shapes(method) -> lj.Simulation:
    """Drop a cylinder, a mesh and a capsule onto a tilted box on the ground."""
    builder = lj.Builder("shapes", gravity=(0.0, 0.0, -9.75))
    builder.add_shape_plane()
    builder.add_shape_box("world", (2.0, 2.0, 0.5), rotation=(0.96, 0.28, 0.0, 0.0))
    corners = [(x, y, z) for x in (-0.25, 0.25) for y in (-0.125, 0.125) for z in (-0.125, 0.125)]
    faces = [
        (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4),
        (1, 5, 7), (1, 7, 3),
    ]  # fmt: skip
    for k in range(4):
        place = (0.375 * k - 0.5, 0.125 * k, 0.5 + 0.0625 * k)
        builder.add_body(f"b{k}", mass=1.0 + k, inertia=(0.0625, 0.09375, 0.125), position=place)
    builder.add_shape_cylinder("b0", 0.125, 0.25, friction=0.25)
    builder.add_shape_mesh("b1", vertices=corners, faces=faces)
    builder.add_shape_capsule("b2", 0.125, 0.25, restitution=0.25)
    builder.add_shape_mesh("b3", vertices=corners, faces=faces, friction=0.75)
    model = builder.build()
    sim = lj.Simulation(model, method, dt=2.0**-8, qd=np.linspace(-0.5, 0.5, model.nv))
    pairs = set()
    for _ in range(16):
        sim.step(6)
        pairs |= {contact.bodies for contact in sim.contacts()}
    assert {(f"b{k}", "world") for k in range(4)} <= pairs
    assert len(pairs) > 4
    return sim


def skate(method) -> lj.Simulation:
    """Let a body with a knife edge turn and glide, a rod with a heavy rotor hung from it."""
    builder = lj.Builder("skate", gravity=(0.25, -0.5, -9.75))
    builder.add_body("sled", mass=2.0, inertia=(0.25, 0.375, 0.5))
    builder.add_joint_planar("glide", "world", "sled")
    builder.add_no_slip("edge", "sled", direction=(0, 1, 0), position=(0.25, 0.0, 0.0))
    builder.add_body("rod", mass=1.0, com=(0.0, 0.0, -0.25), inertia=(0.0625, 0.0625, 0.03125))
    rotor = {"armature": 0.25} if lj.capabilities()[method.name]["armature"] else {}
    builder.add_joint_hinge("hang", "sled", "rod", axis=(0, 1, 0), start=0.5, **rotor)
    model = builder.build()
    sim = lj.Simulation(model, method, dt=DT, qd=(0.5, 0.25, 1.0, 0.0))
    sim.step(256)
    assert np.abs(sim.q).min() > 0.015625
    return sim


def deformed(method) -> lj.Simulation:
    """Swing a body that grows and one that stretches and shears on ball joints."""
    builder = lj.Builder("deformed", gravity=(0.0, 0.0, -9.75))
    inertia = (0.0625, 0.125, 0.09375)
    builder.add_body_scalable("grown", mass=1.0, inertia=inertia, position=(0.5, 0.0, 2.0), scale_stiffness=64.0)
    builder.add_body_affine("sheared", mass=2.0, inertia=inertia, position=(1.5, 0.0, 2.0), stiffness=256.0)
    builder.add_joint_ball("top", "world", "grown", position=(0, 0, 2), position_in_child=(-0.5, 0, 0))
    builder.add_joint_ball("mid", "grown", "sheared", position=(0.5, 0, 0), position_in_child=(-0.5, 0, 0))
    sim = lj.Simulation(builder.build(), method, dt=DT)
    sim.step(256)
    assert sim.body("sheared").position[2] < 1.75
    return sim


# Each run: the scene and the method with the options that take a path of their own.
RUNS = {
    "full, semi_implicit": (plain, lj.Full(integrator="semi_implicit")),
    "full, implicit": (plain, lj.Full(integrator="implicit")),
    "full, rk4": (plain, lj.Full(integrator="rk4")),
    "full, momentum": (plain, lj.Full(integrator="momentum")),
    "full, motors": (motors, lj.Full(integrator="semi_implicit")),
    "full, motors, implicit": (motors, lj.Full(integrator="implicit")),
    "full, rows": (rows, lj.Full(integrator="semi_implicit")),
    "full, rows, rk4": (rows, lj.Full(integrator="rk4")),
    "full, rows, implicit": (rows, lj.Full(integrator="implicit")),
    "full, contacts": (contacts, lj.Full(integrator="semi_implicit")),
    "full, contacts, rk4": (contacts, lj.Full(integrator="rk4")),
    "full, grip": (grip, lj.Full(integrator="semi_implicit")),
    "full, dragged": (dragged, lj.Full(integrator="semi_implicit")),
    "full, shapes": (shapes, lj.Full(integrator="semi_implicit")),
    "full, skate": (skate, lj.Full(integrator="semi_implicit")),
    "adaptive, budget": (plain, lj.Adaptive(budget=5, update_every=8, integrator="semi_implicit", metric="joints")),
    "adaptive, tolerance": (
        plain,
        lj.Adaptive(tolerance=2048.0, update_every=8, integrator="semi_implicit", metric="joints"),
    ),
    "adaptive, mass metric": (plain, lj.Adaptive(budget=4, metric="mass", update_every=8, integrator="semi_implicit")),
    "adaptive, motors, error bounded": (
        motors,
        lj.Adaptive(tolerance=2.0**14, error_bounded=True, integrator="semi_implicit", metric="joints"),
    ),
    "adaptive, motors": (
        motors,
        lj.Adaptive(budget=4, update_every=8, tree="forces", integrator="semi_implicit", metric="joints"),
    ),
    "adaptive, rows": (rows, lj.Adaptive(tolerance=4.0, update_every=4, integrator="semi_implicit", metric="joints")),
    "adaptive, contacts": (
        contacts,
        lj.Adaptive(budget=2, update_every=8, integrator="semi_implicit", metric="joints"),
    ),
    "adaptive, contacts, mass metric": (
        contacts,
        lj.Adaptive(budget=3, update_every=4, metric="mass", integrator="semi_implicit"),
    ),
    "adaptive, grip": (grip, lj.Adaptive(budget=6, update_every=8, integrator="semi_implicit", metric="joints")),
    "adaptive, dragged": (dragged, lj.Adaptive(budget=2, update_every=8, integrator="semi_implicit", metric="joints")),
    "full, variational": (plain, lj.Full()),
    "full, variational, motors": (motors, lj.Full()),
    "full, variational, rows": (rows, lj.Full()),
    "full, variational, contacts": (contacts, lj.Full()),
    "full, variational, grip": (grip, lj.Full()),
    "full, variational, dragged": (dragged, lj.Full()),
    "full, variational, shapes": (shapes, lj.Full()),
    "full, variational, skate": (skate, lj.Full()),
    "full, projected": (plain, lj.Full(integrator="projected")),
    "full, projected, contacts": (contacts, lj.Full(integrator="projected")),
    "adaptive, variational": (plain, lj.Adaptive(budget=5, update_every=8)),
    "adaptive, variational, tolerance": (plain, lj.Adaptive(tolerance=1.0, update_every=8)),
    "adaptive, variational, motors": (motors, lj.Adaptive(budget=4, update_every=8)),
    "adaptive, variational, contacts": (contacts, lj.Adaptive(budget=2, update_every=8)),
    "adaptive, variational, dragged": (dragged, lj.Adaptive(budget=2, update_every=8)),
    "multipliers": (plain, lj.Multipliers()),
    "multipliers, rattle": (plain, lj.Multipliers(integrator="rattle")),
    "multipliers, reduced": (plain, lj.Multipliers(coordinates="reduced")),
    "multipliers, baumgarte, rk4": (plain, lj.Multipliers(stabilization="baumgarte", integrator="rk4")),
    "multipliers, motors": (motors, lj.Multipliers()),
    "multipliers, motors, implicit": (motors, lj.Multipliers(integrator="implicit")),
    "multipliers, rows": (rows, lj.Multipliers(solver="tree")),
    "multipliers, rows, sparse": (rows, lj.Multipliers(solver="sparse")),
    "multipliers, loops, krylov": (loops, lj.Multipliers(solver="krylov")),
    "multipliers, rows, dense": (rows, lj.Multipliers(solver="dense")),
    "multipliers, rows, rattle": (rows, lj.Multipliers(integrator="rattle")),
    "multipliers, contacts": (contacts, lj.Multipliers()),
    "multipliers, grip": (grip, lj.Multipliers()),
    "multipliers, dragged": (dragged, lj.Multipliers()),
    "multipliers, skate": (skate, lj.Multipliers()),
    "multipliers, deformed": (deformed, lj.Multipliers()),
    "displacements, conserving": (plain, lj.Displacements()),
    "displacements, damped": (plain, lj.Displacements(mode="damped")),
    "displacements, motors": (motors, lj.Displacements()),
    "displacements, rows": (rows, lj.Displacements(iterations=4)),
    "displacements, rows, damped": (rows, lj.Displacements(mode="damped", iterations=4)),
    "displacements, kinematic": (followed, lj.Displacements(mode="kinematic", iterations=4)),
    "displacements, contacts": (contacts, lj.Displacements()),
    "displacements, grip": (grip, lj.Displacements(iterations=4)),
    "displacements, skate": (skate, lj.Displacements()),
    "impulses": (plain, lj.Impulses()),
    "impulses, motors": (motors, lj.Impulses()),
    "impulses, rows": (rows, lj.Impulses()),
    "impulses, rows, damped": (rows, lj.Impulses(joints="damped")),
    "impulses, rows, sweeps": (rows, lj.Impulses(joints="sweeps")),
    "impulses, contacts": (contacts, lj.Impulses()),
    "impulses, contacts, soft": (contacts, lj.Impulses(contacts="soft")),
    "impulses, contacts, firm, damped": (contacts, lj.Impulses(contacts="firm", joints="damped")),
    "impulses, contacts, hard": (contacts, lj.Impulses(contacts="hard", sleeping=False)),
    "impulses, contacts, levels": (contacts, lj.Impulses(joints="sweeps", levels=True, gradual=True)),
    "impulses, contacts, saved": (contacts, lj.Impulses(joints="sweeps", golden="always", joint_sweep="saved")),
    "impulses, grip": (grip, lj.Impulses()),
    "impulses, dragged": (dragged, lj.Impulses()),
    "impulses, attached": (attached, lj.Impulses()),
    "impulses, attached, damped": (attached, lj.Impulses(joints="damped")),
    "impulses, events": (billiard, lj.Impulses(events=True)),
    "impulses, shapes": (shapes, lj.Impulses()),
    "impulses, skate": (skate, lj.Impulses()),
    "divide_and_conquer": (plain, lj.DivideAndConquer()),
    "divide_and_conquer, levels": (plain, lj.DivideAndConquer(levels=True, integrator="euler")),
    "divide_and_conquer, motors": (motors, lj.DivideAndConquer()),
}


@pytest.mark.parametrize("run", RUNS)
def test_known_runs_end_in_known_bits(run):
    """Each run of the table, in which its joints, limits, contacts or grips act, ends in the state of its hash."""
    scene, method = RUNS[run]
    sim = scene(method)
    assert np.isfinite(sim.q).all()
    assert hashlib.sha256(sim.q.tobytes() + sim.qd.tobytes()).hexdigest()[:24] == GOLDEN[run]
