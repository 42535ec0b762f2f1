"""The option `accuracy`: one number for substeps, sweeps, contacts and joints."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack import scenes


def overlap(accuracy):
    """Return the deepest overlap of a pile of ten layers after two seconds [mm]."""
    sim = lj.Simulation(
        scenes.box_pile(boxes=160, layers=10), lj.Impulses(accuracy=accuracy, sleeping=False), dt=1.0 / 60.0
    )
    sim.step(120)
    return 1e3 * float(sim.stats["penetration"])


def test_a_finer_accuracy_has_smaller_overlaps():
    """A pile of ten layers overlaps by about what the accuracy says, less for finer ones."""
    found = [overlap(accuracy) for accuracy in ("game", "default", "tight")]
    assert found[0] > 2.0 * found[1] > 4.0 * found[2]
    for value, named in zip(found, (2.0, 0.5, 0.125), strict=True):
        assert value < 1.5 * named


def test_a_number_stands_for_the_word():
    """0.5 mm moves free bodies by the same bits as the default does."""
    hashes = set()
    for accuracy in ("default", 0.5):
        sim = lj.Simulation(scenes.box_pile(boxes=60), lj.Impulses(accuracy=accuracy), dt=1.0 / 60.0)
        sim.step(20)
        hashes.add(sim.state_hash())
    assert len(hashes) == 1


def test_options_that_are_given_go_first():
    """The accuracy fills what is None and changes nothing else."""
    game = lj.Impulses(accuracy="game").resolved()
    assert (game.joints, game.soft_sweeps, game.tolerance) == ("damped", 2, 1e-3)
    assert game.longest_substep == pytest.approx(1.0 / 240.0)
    own = lj.Impulses(accuracy="game", joints="global", tolerance=1e-6, soft_sweeps=5, frequency=33.0).resolved()
    assert (own.joints, own.tolerance, own.soft_sweeps, own.frequency) == ("global", 1e-6, 5, 33.0)
    default = lj.Impulses().resolved()
    assert (default.joints, default.soft_sweeps, default.tolerance) == ("global", 3, 1e-8)
    assert default.frequency == pytest.approx(120.0)


def test_joints_close_to_what_the_accuracy_says():
    """Joints of a chain stay closed to a millimetre at "game", and to the number given."""
    builder = lj.Builder("chain")
    for k in range(12):
        builder.add_body(f"link{k}", mass=0.2, inertia=(1e-3,) * 3)
        builder.add_joint_ball(
            f"j{k}", f"link{k - 1}" if k else "world", f"link{k}", position=(0.1 if k else 0.0, 0.0, 0.0),
            position_in_child=(-0.1, 0.0, 0.0),
        )  # fmt: skip
    for accuracy, most in (("game", 1e-3), (0.1, 1e-4)):
        sim, gap = lj.Simulation(builder.build(), lj.Impulses(accuracy=accuracy), dt=1.0 / 60.0), 0.0
        for _ in range(60):
            sim.step()
            gap = max(gap, sim.joint_error().metres)
        # each of the three rows of a joint may be open by the tolerance
        assert gap < 1.8 * most


@pytest.mark.parametrize("value", ["fast", 0.0, -1.0, 1e9, True, float("nan"), None])
def test_unknown_accuracies_are_refused(value):
    """Anything else raises and names the choices."""
    with pytest.raises(lj.LimberjackError, match="game"):
        lj.Impulses(accuracy=value)
    assert np.isfinite(lj.Impulses(accuracy=3).longest_substep)
