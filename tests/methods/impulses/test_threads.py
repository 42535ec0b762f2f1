"""The option `threads`: the bits of a step do not depend on how many threads share it."""

from __future__ import annotations

from typing import Any

import pytest

import limberjack as lj
from limberjack import scenes
from limberjack.contact.bundles import STRANDS


def piled_figures():
    """Return a pile of boxes and beside it arms that fall to the ground: contacts of free and of jointed bodies."""
    builder = lj.Builder("figures")
    builder.add_model(scenes.box_pile(boxes=300), "pile")
    for k in range(3):
        at = (5.0 + 2.0 * k, 0.1, 0.4)
        builder.add_body(f"arm{k}", mass=2.0, inertia=(0.02,) * 3)
        builder.add_joint_ball(f"hung{k}", "world", f"arm{k}", position=at, position_in_child=(-0.4, 0.0, 0.0))
        builder.add_shape_box(f"arm{k}", (0.3, 0.1, 0.1))
        builder.add_body(f"hand{k}", mass=1.0, inertia=(0.01,) * 3)
        builder.add_joint_ball(
            f"wrist{k}", f"arm{k}", f"hand{k}", position=(0.2, 0.0, 0.0), position_in_child=(-0.1, 0.0, 0.0)
        )
        builder.add_shape_sphere(f"hand{k}", 0.08)
    return builder.build()


CASES = {
    "pile": (lambda: scenes.box_pile(boxes=300), {}, 30),
    "game": (lambda: scenes.box_pile(boxes=300), {"accuracy": "game"}, 30),
    "pyramid": (lambda: scenes.pyramid(base=24), {}, 10),
    "figures": (piled_figures, {}, 12),
    "drum": (lambda: scenes.drum(boxes=150), {}, 20),
}


def run(case, threads):
    """Return the hashes of the state in a run whose steps are taken in several calls."""
    build, options, steps = CASES[case]
    sim = lj.Simulation(build(), lj.Impulses(threads=threads, **options), dt=1.0 / 60.0)
    if "drum" in sim.model.body_names:
        sim.move("drum", angular_velocity=(0.0, 0.8, 0.0))
    hashes = []
    for part in (1, steps // 2, steps - steps // 2 - 1):
        sim.step(part)
        hashes.append(sim.state_hash())
    assert sim.stats["threads"] == threads
    return hashes, sim


@pytest.mark.parametrize("case", CASES)
def test_threads_give_the_same_bits(case):
    """Two and three threads give the bits of one: piles, pyramids, figures beside boxes, a kinematic drum."""
    one, sim = run(case, 1)
    assert run(case, 2)[0] == one
    assert run(case, 3)[0] == one
    # the contacts are divided for threads, or this would test nothing
    assert sim.stats["contacts"] > 0
    if case in ("pile", "game", "pyramid", "figures"):
        stepper: Any = sim._stepper
        assert stepper._sweeps.bundles.count[STRANDS] > 1


def test_snapshots_and_restored_states_agree_on_threads():
    """A state restored on two threads goes on as on one."""
    sims = [lj.Simulation(scenes.box_pile(boxes=300), lj.Impulses(threads=n), dt=1.0 / 60.0) for n in (1, 2)]
    for sim in sims:
        sim.step(10)
        snapshot = sim.snapshot()
        sim.step(3)
        sim.restore(snapshot)
        sim.step(5)
    assert sims[0].state_hash() == sims[1].state_hash()


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "two", None])
def test_threads_are_a_whole_number(value):
    """Anything but a whole number from 1 on is refused by name."""
    with pytest.raises(lj.LimberjackError, match="threads"):
        lj.Impulses(threads=value)


def test_threads_cannot_change_while_running():
    """`tune` refuses another number of threads."""
    sim = lj.Simulation(scenes.box_pile(boxes=10), lj.Impulses(threads=2), dt=1.0 / 60.0)
    sim.step(1)
    with pytest.raises(lj.LimberjackError, match="threads"):
        sim.tune(threads=1)
