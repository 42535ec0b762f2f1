"""Models for the tests of the adaptive method, and its twin run beside it."""

from __future__ import annotations

import dataclasses

import numpy as np
from tests.naive import adaptive as twin
from tests.naive.models import KINDS, add_body, add_joint, quaternion, random_model, random_state
from tests.naive.twin import Twin

import limberjack as lj

# Metric values nearer than this, relatively, are a tie that rounding decides.
TIE = 1e-9


def motorised(model, rng, share=0.5):
    """Return the model with motors, some of them at their maximum, on about this share of its joints."""

    def motor(spin):
        target = tuple(quaternion(rng)) if spin else float(rng.uniform(-1, 1))
        most = float(rng.uniform(0.1, 2.0)) if rng.random() < 0.3 else np.inf
        velocity = 0.0 if spin else float(rng.uniform(-0.5, 0.5))
        return lj.Motor(kp=rng.uniform(1, 5), kd=rng.uniform(0.0, 0.5), target=target, max=most, velocity=velocity)

    builder = lj.Builder.from_spec(model.spec)
    joints = builder._spec.joints
    for k, joint in enumerate(joints):
        place = model.joint(joint.name)
        if rng.random() > share or joint.kind in ("fixed", "free"):
            continue
        if joint.axes:
            axes = tuple(dataclasses.replace(axis, motor=motor(False)) for axis in joint.axes)
            joints[k] = dataclasses.replace(joint, axes=axes)
            continue
        plain = place.nv - 3 * (place.nq - place.nv)
        motors = [motor(v == plain) if v <= plain else None for v in range(place.nv)]
        joints[k] = dataclasses.replace(joint, motor=tuple(motors))
    return builder.build(merge_fixed=model.spec.merge_fixed)


def forest(rng, seed, bodies=9):
    """Return a random forest with drives: one to three bases, fixed or free, any joints or plain ones only."""
    kinds = ("hinge", "slide", "ball") if seed % 4 == 3 else KINDS
    model = random_model(rng, bodies=bodies, bases=1 + seed % 3, kinds=kinds, merge_fixed=bool(seed % 2))
    return motorised(model, rng)


def star(rng, arms=20, gravity=(0.0, 0.0, -9.81)):
    """Return a free hub with many arms of two bodies each, or one."""
    builder = lj.Builder("star", gravity=gravity)
    add_body(builder, rng, "hub")
    for k in range(arms):
        add_body(builder, rng, f"arm{k}")
        add_joint(builder, rng, ("hinge", "ball", "slide", "universal")[k % 4], f"joint{k}", "hub", f"arm{k}")
        if k % 5 == 0:
            add_body(builder, rng, f"hand{k}")
            add_joint(builder, rng, "hinge", f"wrist{k}", f"arm{k}", f"hand{k}")
    return builder.build()


def chain(links=12, *, free=False, gravity=(0.0, 0.0, -9.81), **options):
    """Return a chain of hinges about changing axes, hung from the world or free."""
    builder = lj.Builder("chain", gravity=gravity)
    above = "world"
    for k in range(links):
        builder.add_body(f"b{k}", mass=1.0 + 0.1 * k, com=(0, 0, -0.15), inertia=(0.02, 0.02 + 5e-5 * k, 0.005))
        axis = ((0, 1, 0), (1, 0, 0), (0.6, 0, 0.8))[k % 3]
        if not (free and k == 0):
            place = (0, 0, -0.3 if k else 0.0)
            builder.add_joint_hinge(f"j{k}", above, f"b{k}", position=place, axis=axis, **options)
        above = f"b{k}"
    return builder.build()


def random_weights(rng, model):
    """Return weights of most joints: numbers and full symmetric positive definite matrices."""
    out = {}
    for name in model.joint_names:
        nv = model.joint(name).nv
        if nv and model.joint(name).kind != "free" and rng.random() < 0.8:
            root = rng.normal(size=(nv, nv))
            out[name] = float(rng.uniform(0.2, 3)) if rng.random() < 0.5 else root @ root.T + 0.1 * np.eye(nv)
    return out


def joints_of(model):
    """Return the names of the joints that count against a budget."""
    infos = [model.joint(name) for name in model.joint_names]
    return [info.name for info in infos if info.nv and not info.is_loop and info.kind != "free"]


def figures_of(sim):
    """Return the figure of each joint that counts, by name."""
    tree, nodes = sim._stepper.assembly, twin.Nodes(sim.model, sim._stepper.assembly)
    return {nodes.names[c]: int(tree.tree_index[c]) for c in range(len(tree.parent)) if nodes.counted[c]}


def simulation(model, rng, dt=5e-3, *, moving=True, integrator="semi_implicit", **options):
    """Return an adaptive simulation from a random state, moving or at rest; it chooses as the paper and the twin do."""
    q, qd = random_state(rng, model)
    method = lj.Adaptive(integrator=integrator, **({"metric": "joints", "horizon": 0.0} | options))
    # long explicit steps of random trees may gain energy; here each step is compared
    return lj.Simulation(model, method, dt=dt, q=q, qd=qd if moving else 0 * qd, energy_watch=False)


class Beside:
    """A simulation with the twin beside it: each step starts from the simulation's state and region and must agree.

    The region is updated at the first step, at the first after q or qd was set, and whenever `update_every` steps have
    been taken since the last update. A force that was set acts from the next step on; whether it brings the update
    forward is the simulation's choice, which the twin follows.

    Attributes:
        compared: steps that were compared.
        updates: those among them that began with an update of the region.
        early: updates that a force brought forward.
    """

    def __init__(self, sim, *, near=1e-9, **options):
        self.sim, self.model, self.near = sim, sim.model, near
        self.options = twin.Options(**options)
        self.acting = twin.nothing(sim.model)
        self.edited, self.changed, self.pushed, self.until = set(), True, False, 0
        self.compared = self.updates = self.early = 0
        self._edit_moving()

    @property
    def active(self):
        """The simulation's active region, bool per node."""
        return np.array(self.sim._stepper.active, bool)

    def _link(self, joint):
        return int(self.model.arrays.joint_link[self.model.joint(joint).index])

    def _edit_moving(self):
        """Note the links whose joints move although they are not in the region."""
        links, nodes = self.model.arrays.links, twin.Nodes(self.model, self.sim._stepper.assembly)
        inside = set(nodes.freedoms(self.active | nodes.base))
        for i in range(len(links.parent)):
            own = range(links.v_start[i], links.v_start[i] + links.dof[i])
            if any(self.sim.qd[v] != 0 and v not in inside for v in own):
                self.edited.add(i)
        self.changed = True

    def set_qd(self, joint, value):
        """Set the velocity of one joint."""
        self.sim.joint(joint).qd = value
        self._edit_moving()

    def set_q(self, joint, value):
        """Set the coordinates of one joint."""
        self.sim.joint(joint).q = value
        self.changed = True

    def set_tau(self, tau):
        """Set the joint forces."""
        for name in self.model.joint_names:
            place = self.model.joint(name).v
            if (tau[place] != self.acting.tau[place]).any():
                self.edited.add(self._link(name))
        self.sim.tau = tau
        self.acting.tau = np.array(tau, float)
        self.pushed = True

    def apply_wrench(self, body, wrench):
        """Add a wrench (torque, force) at the com of a body."""
        self.sim.apply_wrench(body, torque=wrench[:3], force=wrench[3:])
        b = self.model.body_index(body)
        self.acting.wrenches[b] += wrench
        if self.model.arrays.body_link[b] >= 0:
            self.edited.add(int(self.model.arrays.body_link[b]))
        self.pushed = True

    def set_target(self, joint, target):
        """Move the target of a motor."""
        self.sim.joint(joint).target = target
        self.acting.targets[joint] = target
        self.edited.add(self._link(joint))
        self.pushed = True

    def step(self):
        """Take a step and compare; return the twin's record of the update it began with, or None."""
        sim, tree, active = self.sim, self.sim._stepper.assembly, self.active
        q, qd, h, integrator = sim.q, sim.qd, sim.dt, sim.method.integrator
        record, tied, jacobians = None, False, Twin(self.model).jacobians(q)
        before = sim.stats["updates"]
        sim.step()
        updated, due = sim.stats["updates"] > before, self.changed or self.until == 0
        assert updated if due else self.pushed or not updated, f"step {sim.steps}: an update is due: {due}"
        self.early += updated and not due
        if updated:
            edited = sorted(self.edited)
            record = twin.update(
                self.model, tree, active, q, qd, h, self.options, self.acting, edited, integrator, jacobians
            )  # fmt: skip
            active, qd, tied = record.active, record.qd, record.margin < TIE
            self.edited, self.changed, self.pushed, self.until = set(), False, False, self.options.update_every
        self.until -= 1
        wanted = twin.step(self.model, tree, active, q, qd, h, self.acting, integrator, jacobians)
        if tied:
            return record
        nodes = twin.Nodes(self.model, tree)
        counted = set(joints_of(self.model))
        assert set(sim.active_joints) & counted == nodes.joints(active), f"step {sim.steps}: other joints are active"
        for what, found, right in zip(("q", "qd"), (sim.q, sim.qd), wanted, strict=True):
            error = np.abs(found - right).max(initial=0.0)
            limit = self.near * (1 + np.abs(right).max(initial=0.0))
            assert error < limit, f"step {sim.steps}: {what} is off by {error:.3g}"
        if record is not None:
            self._compare_stats(record)
        self.compared += 1
        self.updates += record is not None
        return record

    def _compare_stats(self, record):
        """Assert that the error left out and the energy removed by the update are the twin's."""
        whole, left = record.chosen.errors[0], record.chosen.errors[-1]
        found = self.sim.stats["error_estimate"]
        assert abs(found - left) <= 1e-8 * whole + 1e-12, f"error_estimate is {found:.6g} and not {left:.6g}"
        found = self.sim.stats["energy_removed"]
        limit = self.near * (1 + abs(record.lost))
        assert abs(found - record.lost) < limit, f"energy_removed is {found:.6g} and not {record.lost:.6g}"

    def run(self, steps):
        """Take steps, as `step`."""
        return [self.step() for _ in range(steps)]
