"""Random mechanisms that close, states on their loops, and accelerations by the dense saddle system."""

from __future__ import annotations

import numpy as np
from tests.naive import moving
from tests.naive.models import add_body, add_joint, axes, frames, random_state
from tests.naive.twin import Twin
from tests.scenes.loop_help import loop_rows

import limberjack as lj
from limberjack.model.joints import factors_of, transform
from limberjack.spatial.frames import compose, invert, matrix_from_quaternion, quaternion_from_matrix

LOOPS = (
    "hinge", "slide", "ball", "fixed", "universal", "cylindrical", "planar", "screw", "point_on_line",
    "point_on_plane", "distance", "compound",
)  # fmt: skip
TREE = ("ball", "hinge", "universal", "ball", "cylindrical")


def chain(rng, kinds=TREE, gravity=(0.0, 0.0, -9.81), passive=False):
    """Return a builder with a chain b0, b1, ... of random bodies on joints j0, j1, ... of these kinds."""
    builder = lj.Builder("looped", gravity=gravity)
    above = "world"
    for k, kind in enumerate(kinds):
        add_body(builder, rng, f"b{k}")
        add_joint(builder, rng, kind, f"j{k}", above, f"b{k}", passive)
        above = f"b{k}"
    return builder


def close(builder, rng, q, kind, name, parent, child, **options):
    """Add a joint that fits the poses at q: its frame in the child is where its own random coordinates put it."""
    model = builder.build()
    positions, rotations = lj.forward_kinematics(model, q)

    def pose(body):
        if body == "world":
            return np.eye(3), np.zeros(3)
        i = model.body_index(body)
        return matrix_from_quaternion(rotations[i]), positions[i]

    place = frames(rng)
    if kind == "distance":
        named = ((parent, "position"), (child, "position_in_child"))
        ends = [compose(*pose(body), np.eye(3), place[word])[1] for body, word in named]
        length = float(np.linalg.norm(ends[1] - ends[0]))
        builder.add_joint_distance(
            name, parent, child, length=length, position=place["position"],
            position_in_child=place["position_in_child"], **options,
        )  # fmt: skip
        return
    if kind == "screw":
        options["pitch"] = rng.uniform(-0.2, 0.2)
    if kind == "compound":
        options["axes"] = axes(rng, name, 3, passive=False)
    trial = lj.Builder()
    for body in "ab":
        trial.add_body(body, mass=1.0, inertia=(1, 1, 1))
    own = {word: value for word, value in options.items() if word in ("pitch", "axes")}
    getattr(trial, f"add_joint_{kind}")("t", "a", "b", **own)
    spec = trial.build().joint_spec("t")
    own, _ = random_state(rng, trial.build())
    own = own[trial.build().joint("t").q]
    above = compose(*pose(parent), matrix_from_quaternion(place["rotation"]), place["position"])
    below = compose(*above, *transform(factors_of(spec), own))
    r, p = compose(*invert(*pose(child)), *below)
    place |= {"position_in_child": p, "rotation_in_child": quaternion_from_matrix(r)}
    getattr(builder, f"add_joint_{kind}")(name, parent, child, **place, **options)


def closed(rng, kind, kinds=TREE, parent="world", **options):
    """Return a random chain closed by a joint "loop" of the kind named from `parent` to its last body; q and qd."""
    builder = chain(rng, kinds)
    q = random_state(rng, builder.build(), 0.6)[0]
    close(builder, rng, q, kind, "loop", parent, f"b{len(kinds) - 1}", **options)
    model = builder.build()
    return model, q, fitting(model, q, rng.uniform(-1, 1, model.nv))


def fitting(model, q, qd):
    """Return the velocity nearest to qd that keeps the loops closed."""
    rows = loop_rows(model, q)[1]
    return qd - np.linalg.pinv(rows, rcond=1e-9) @ (rows @ qd)


def looped_accelerations(model, q, qd, tau=None, rows=loop_rows):
    """Return qdd with the loops kept: the dense saddle system, the bias of its rows by differences along qd."""
    twin = Twin(model)
    mass, free = lj.mass_matrix(model, q), lj.forward_dynamics(model, q, qd, tau)
    J = rows(model, q)[1]
    bias = moving.rate(lambda t: rows(model, twin.moved(q, qd, t))[1] @ qd)
    response = np.linalg.solve(mass, J.T)
    return free - response @ np.linalg.lstsq(J @ response, J @ free + bias, rcond=1e-10)[0]


def read_accelerations(sim, first=4e-3, levels=5):
    """Return qdd of a simulation in an integrator of first order, by steps from the same state ever smaller."""
    q, qd, dt = sim.q.copy(), sim.qd.copy(), sim.dt
    table = []
    for k in range(levels):
        sim.dt = first / 2**k
        sim.q, sim.qd = q, qd
        sim.step(1)
        row = [(sim.qd - qd) / sim.dt]
        for j in range(k):
            row.append(row[j] + (row[j] - table[k - 1][j]) / (2 ** (j + 1) - 1))
        table.append(row)
    sim.dt, sim.q, sim.qd = dt, q, qd
    return table[-1][-1]
