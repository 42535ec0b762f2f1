"""Four identical figures at a time: the bits of figures stepped link by link, for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import limberjack as lj
from limberjack.methods import acceleration_steppers
from limberjack.model.arrays import LINK, figure_blocks
from limberjack.reduced.work import new_lanes


def tree(links: int = 12, hinge_root: bool = False) -> lj.Model:
    """Return a branching figure with motors, a universal and a ball joint among its hinges, free or on a hinge."""
    b = lj.Builder("tree")
    for i in range(links):
        b.add_body(f"b{i}", mass=1.0 + 0.1 * i, com=(0.02, 0.01 * (i % 3), -0.1), inertia=(0.02, 0.03, 0.015))
        parent, position = (f"b{(i - 1) // 2 if i % 3 else i - 1}", (0.05, 0.0, -0.2)) if i else ("world", (0, 0, 0.5))
        if i == 0 and not hinge_root:
            b.add_joint_free("j0", "world", "b0", start=(0, 0, 1, 1, 0, 0, 0))
        elif i == 5:
            b.add_joint_universal("j5", parent, "b5", position=position)
        elif i == 9:
            b.add_joint_ball("j9", parent, "b9", position=position)
        else:
            axis = ((0, 1, 0), (1, 0, 0), (0.6, 0.0, 0.8))[i % 3]
            b.add_joint_hinge(f"j{i}", parent, f"b{i}", axis=axis, position=position, damping=0.05 * (i % 2))
    return b.build()


def run(model: lj.Model, method: lj.Full, dt: float, steps: int = 25) -> lj.Simulation:
    """Return a simulation after fast motion under wrenches and joint forces."""
    random = np.random.default_rng(3)
    sim = lj.Simulation(model, method, dt=dt, qd=random.uniform(-2.0, 2.0, model.nv), energy_watch=False)
    sim.tau = random.uniform(-0.5, 0.5, model.nv)
    for k in (1, 17, model.body_count - 2):
        sim.apply_wrench(model.body_names[k], force=(1.0, -2.0, 3.0), torque=(0.1, 0.0, -0.2), point=(0.1, 0.2, 0.3))
    sim.step(steps)
    return sim


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4", "variational", "projected"])
@pytest.mark.parametrize("hinge_root", [False, True])
def test_bits_of_figures_stepped_link_by_link(integrator: str, hinge_root: bool, monkeypatch: pytest.MonkeyPatch):
    """Nine figures, two blocks of four and one left over, in other places and under other forces."""
    model = lj.Crowd(tree(hinge_root=hinge_root), 9).sim.model
    assert (figure_blocks(model.arrays.links, model.arrays.drives)[1][:, 0] == [12, 12, 0]).all()
    dt = 1 / 60 if integrator in ("variational", "projected") else 1e-3
    method = lj.Full(integrator=integrator)
    packed = run(model, method, dt)

    def none(blocks: np.ndarray) -> Any:
        return new_lanes(np.zeros((0, 3), np.int64))

    monkeypatch.setattr(acceleration_steppers, "new_lanes", none)
    single = run(model, method, dt)
    assert np.array_equal(packed.q, single.q) and np.array_equal(packed.qd, single.qd)


@pytest.mark.parametrize("integrator", ["semi_implicit", "variational"])
def test_the_same_bits_on_any_number_of_threads(integrator: str):
    """Blocks, whose trees take their substeps together, do not depend on how many threads share them."""
    model = lj.Crowd([tree(), tree(), lj.scenes.pendulum(links=3)], 22).sim.model
    dt = 1 / 60 if integrator == "variational" else 1e-3
    ends = [run(model, lj.Full(integrator=integrator, threads=n), dt) for n in (1, 2, 3)]
    assert len({sim.state_hash() for sim in ends}) == 1


def test_which_figures_are_stepped_together():
    """Four alike in a row; not those of other shape, with sliders, or too small."""
    whole = tree()
    model = lj.Crowd([*[whole] * 5, lj.scenes.pendulum(links=9), *[whole] * 8, *[lj.scenes.pendulum(links=3)] * 4])
    blocks, sizes = figure_blocks(model.sim.model.arrays.links, model.sim.model.arrays.drives)
    assert (sizes[:, 0] > 0).sum() == 3 and (blocks[1:, LINK] == blocks[:-1, LINK + 1]).all()
    assert blocks[0, LINK] == 0 and blocks[-1, LINK + 1] == len(model.sim.model.arrays.links.parent)
    b = lj.Builder("slider")
    for i in range(10):
        b.add_body(f"b{i}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        kind = b.add_joint_slide if i == 4 else b.add_joint_hinge
        kind(f"j{i}", f"b{i - 1}" if i else "world", f"b{i}", axis=(0, 1, 0), position=(0, 0, -0.1))
    arrays = lj.Crowd(b.build(), 8).sim.model.arrays
    assert not figure_blocks(arrays.links, arrays.drives)[1].any()


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_failure_names_its_joint_and_keeps_the_state():
    """A joint without inertia in one figure of four is reported as that of the figure."""
    b = lj.Builder("light")
    for i in range(8):
        b.add_body(f"b{i}", mass=1.0, com=(0, 0, -0.1), inertia=(0.01, 0.01, 0.01))
        b.add_joint_hinge(f"j{i}", f"b{i - 1}" if i else "world", f"b{i}", axis=(0, 1, 0), position=(0, 0, -0.2))
    crowd = lj.Crowd(b.build(), 8, method=lj.Full(integrator="semi_implicit"), dt=1e-3)
    tau = np.zeros((8, 8))
    tau[6, 5] = 1e300
    crowd.tau = tau
    before = crowd.q
    with pytest.raises(lj.LimberjackError, match="f006/"):
        crowd.step(5)
    assert np.isfinite(crowd.q).all() and (crowd.q[:4] == before[:4]).all() == (crowd.sim.steps == 0)
