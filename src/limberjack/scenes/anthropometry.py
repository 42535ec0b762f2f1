"""The human body in numbers: landmarks and segments of a standing adult, as fractions of height and mass.

Axes: x forward, y to the left, z up, origin on the floor between the feet. All positions are those of the
    zero
pose: upright, arms hanging, palms inwards, thumbs forward. Side segments are given for the left.

Sources of the facts:
- masses, centres of mass and radii of gyration of the segments: P. de Leva, "Adjustments to
  Zatsiorsky-Seluyanov's segment inertia parameters", J. Biomechanics 29 (1996), table 4, males (height 1.741
  m);
- heights and breadths of the landmarks: Drillis and Contini (1966), as in D. Winter, "Biomechanics and Motor
  Control of Human Movement". De Leva's three trunk segments are fitted between the hips and the notch of the
  breastbone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["SEGMENTS", "Segment", "Vector", "ball", "rod", "slab"]

Vector = tuple[float, float, float]

# Heights of the landmarks, and other places, per height of the body.
ANKLE, KNEE, HIP = 0.039, 0.285, 0.530
NAVEL, XIPHOID, NOTCH, C7 = 0.6089, 0.7256, 0.818, 0.8605
SHOULDER, ELBOW, WRIST = 0.818, 0.632, 0.486
HIP_Y, SHOULDER_Y = 0.050, 0.112
SPINE_X, HEEL_X, FOOT_LENGTH = -0.015, -0.040, 0.152
# De Leva's lengths are in mm, on men of 1741 mm.
LEVA = 1.0 / 1741.0


class Segment(NamedTuple):
    """A segment's share of the mass, its centre and radii of gyration about x, y, z, per height."""

    mass: float
    com: Vector
    gyration: Vector


def _radii(length: float, percent: Vector) -> Vector:
    """Return radii of gyration per height from percentages of a segment length [mm]."""
    x, y, z = (0.01 * p * length * LEVA for p in percent)
    return (x, y, z)


# De Leva gives radii about the sagittal (x), transverse (y) and longitudinal axis. The longitudinal axis of
# the foot is x; the palm looks inwards here and not forward, so the hand's first two change places.
SEGMENTS: dict[str, Segment] = {
    name: Segment(0.01 * percent, com, _radii(length, radii))
    for name, percent, com, length, radii in (
        ("head", 6.94, (0.0, 0.0, 1.0 - 0.5002 * (1.0 - C7)), 242.9, (30.3, 31.5, 26.1)),
        ("upper_trunk", 15.96, (0.0, 0.0, NOTCH - 0.2999 * (NOTCH - XIPHOID)), 170.7, (71.6, 45.4, 65.9)),
        ("middle_trunk", 16.33, (0.0, 0.0, XIPHOID - 0.4502 * (XIPHOID - NAVEL)), 215.5, (48.2, 38.3, 46.8)),
        ("lower_trunk", 11.17, (0.0, 0.0, NAVEL - 0.6115 * (NAVEL - HIP)), 145.7, (61.5, 55.1, 58.7)),
        (
            "upper_arm",
            2.71,
            (0.0, SHOULDER_Y, SHOULDER - 0.5772 * (SHOULDER - ELBOW)),
            281.7,
            (28.5, 26.9, 15.8),
        ),
        ("forearm", 1.62, (0.0, SHOULDER_Y, ELBOW - 0.4574 * (ELBOW - WRIST)), 268.9, (27.6, 26.5, 12.1)),
        ("hand", 0.61, (0.0, SHOULDER_Y, WRIST - 0.7900 * 86.2 * LEVA), 86.2, (51.3, 62.8, 40.1)),
        ("thigh", 14.16, (0.0, HIP_Y, HIP - 0.4095 * (HIP - KNEE)), 422.2, (32.9, 32.9, 14.9)),
        ("shank", 4.33, (0.0, HIP_Y, KNEE - 0.4459 * (KNEE - ANKLE)), 434.0, (25.5, 24.9, 10.3)),
        ("foot", 1.37, (HEEL_X + 0.4415 * FOOT_LENGTH, HIP_Y, 0.019), 258.1, (12.4, 24.5, 25.7)),
    )
}


def ball(radius: float) -> np.ndarray:
    """Return the inertia per mass of a ball, (3, 3)."""
    return np.eye(3) * (0.4 * radius**2)


def rod(length: float, radius: float, along: Vector) -> np.ndarray:
    """Return the inertia per mass of a round rod along a unit direction, (3, 3)."""
    d = np.outer(along, along)
    return (3 * radius**2 + length**2) / 12 * (np.eye(3) - d) + 0.5 * radius**2 * d


def slab(depth: float, width: float, height: float) -> np.ndarray:
    """Return the inertia per mass of an upright slab with an oval outline, (3, 3)."""
    x, y, z = depth**2 / 16, width**2 / 16, height**2 / 12
    return np.diag([y + z, x + z, x + y])
