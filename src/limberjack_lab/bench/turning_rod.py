"""A rod that turns about its own axis and sags: a motion whose active region changes at every update.

Pendulums hardly ever change their region. Here the rod, of 1 m and 1 kg, is cut into links; some of its joints have
springs, all others are held by heavy rotors. The rod lies level and a motor turns it, so that gravity, which goes round
in its frame, bends the springs to and fro for ever. A joint that is released follows within an update period and comes
to rest, while those that are held fall behind: the largest accelerations and velocities are always elsewhere.

The springs sit at the joints the balanced assembly tree of a chain is cut at first, three for each joint that may be
simulated. All of them swing alike, whatever the number of links: their rotors are as heavy as what hangs on them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import limberjack as lj
from limberjack import scenes

__all__ = ["DT", "cuts", "turning_rod"]

DT = 0.02
# Natural frequency of the springs, such that one update period of 20 steps is a swing [rad/s], and their damping ratio.
_RATE, _RATIO = 0.3 / DT, 0.3
# The rod turns by this in one update period [rad].
_TURN = 0.5
# Rotors of the joints without springs, which hardly move, and of the one that turns the rod [kg m^2].
_HELD, _ROOT = 1e4, 10.0
# Of the rod: its links are discs, so that even thin ones have inertia to speak of beside the rotors [m].
_RADIUS = 0.1


def cuts(links: int, levels: int) -> list[int]:
    """Return the links above which the balanced assembly tree cuts a chain, level by level."""
    parts, out = [(0, links)], []
    for _ in range(levels):
        parts = [(low, high) for low, high in parts if high - low > 1]
        middles = [(low + high) // 2 for low, high in parts]
        out += middles
        parts = [half for (low, high), k in zip(parts, middles, strict=True) for half in ((low, k), (k, high))]
    return out


def turning_rod(links: int, budget: int) -> lj.Model:
    """Return the rod for a region of `budget` joints.

    Args:
        links: number of links.
        budget: joints simulated at a time; there are springs in three times as many.
    """
    plain = scenes.long_chain(links=links, length=1.0 / links, mass=1.0 / links, bend=0.0, damping=0.0).spec
    count = 3 * budget
    soft = {k: i % 2 for i, k in enumerate(cuts(links, count.bit_length())[:count])}

    def driven(k: int, joint: Any) -> Any:
        if k == 0:
            motor = lj.Motor(kd=0.2 * _ROOT / DT, velocity=_TURN / (20 * DT))
            return replace(joint, axis=(0.0, 0.0, 1.0), armature=(_ROOT,), motor=(motor,))
        if k not in soft:
            return replace(joint, armature=(_HELD,))
        rotor = (1.0 - k / links) ** 2
        stiffness, damping = rotor * _RATE**2, 2.0 * _RATIO * rotor * _RATE
        # Every other one bends upwards while the rest bend sideways.
        axis = (1.0, 0.0, 0.0) if soft[k] else (0.0, 1.0, 0.0)
        return replace(joint, axis=axis, armature=(rotor,), stiffness=(stiffness,), damping=(damping,))

    across = _RADIUS**2 / (4 * links) + 1.0 / (12 * links**3)
    inertia = (across, across, _RADIUS**2 / (2 * links), 0.0, 0.0, 0.0)
    bodies = [replace(body, inertia=inertia) for body in plain.bodies]
    joints = [driven(k, joint) for k, joint in enumerate(plain.joints)]
    # The chain hangs along -z: gravity along x makes the rod a level one.
    spec = replace(plain, name="turning_rod", gravity=(9.81, 0.0, 0.0), bodies=bodies, joints=joints, shapes=[])
    return lj.Model(spec)
