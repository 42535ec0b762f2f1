"""Every joint kind, defined once by both its sides: free directions S and locked rows.

The pose of the child's joint frame in the parent's is a product of elementary motions (factors), in order:

    T(q) = F_1 F_2 ... F_n,   F one of: turn about an axis (with pitch: a screw), slide along an axis, ball.

Free side: S(q), one column per dof, the relative twist (angular; linear of the child's origin) in the axes of
the parent's joint frame. Locked side: rows L(T) and error e(T) with L S = 0 and rank L + dof = 6. The locked rows
are those of a mask over (rx, ry, rz, tx, ty, tz) plus at most one coupled row; a compound joint's are the orthogonal
complement of S. Reversing a joint (parent and child swapped inside the tree, the user's q unchanged) reverses the
list of factors and inverts each.

| symbol | meaning |
|---|---|
| R, p | pose of the child's joint frame in the parent's |
| S | (6, nv) motion subspace |
| L, e | (6 - nv, 6) locked rows and their error: de/dt = L twist |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limberjack.model.spec import Joint
from limberjack.spatial.frames import (
    matrix_from_axis,
    matrix_from_quaternion,
    quaternion_from_matrix,
    skew,
    vector_from_matrix,
)

__all__ = [
    "BALL",
    "FREE",
    "GENERAL",
    "HINGE",
    "KINDS",
    "SLIDE",
    "Factor",
    "Kind",
    "coordinate_counts",
    "coordinates",
    "factors_of",
    "identity_coordinates",
    "locked",
    "motion_subspace",
    "motions_of",
    "reverse",
    "transform",
]

# Codes of links in kernels: four written out for speed, one for every product of factors.
HINGE, SLIDE, BALL, FREE, GENERAL = range(5)

# Codes of factors.
TURN, PUSH, SPIN, SPIN_BACK = range(4)

_X, _Y, _Z, _O = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)


class Factor(NamedTuple):
    """One elementary motion; `q`, `v` are its indices in the joint's coordinates and velocities."""

    kind: int
    axis: tuple[float, ...]
    point: tuple[float, ...]
    pitch: float
    q: int
    v: int


@dataclass(frozen=True)
class Kind:
    """A joint kind: sizes, factors (kind, axis), locked mask over (rx, ry, rz, tx, ty, tz), coupled row."""

    name: str
    motions: tuple[tuple[int, tuple[float, ...]], ...]
    mask: tuple[bool, ...]
    coupled: str = ""
    tree: bool = True

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return sum(4 if kind == SPIN else 1 for kind, _ in self.motions)

    @property
    def nv(self) -> int:
        """Number of dofs."""
        return sum(3 if kind == SPIN else 1 for kind, _ in self.motions)


def _mask(text: str) -> tuple[bool, ...]:
    return tuple(letter == "1" for letter in text)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("hinge", ((TURN, _Z),), _mask("110111")),
        Kind("slide", ((PUSH, _Z),), _mask("111110")),
        Kind("ball", ((SPIN, _Z),), _mask("000111")),
        Kind("free", ((PUSH, _X), (PUSH, _Y), (PUSH, _Z), (SPIN, _Z)), _mask("000000")),
        Kind("fixed", (), _mask("111111")),
        Kind("universal", ((TURN, _X), (TURN, _Y)), _mask("000111"), coupled="x_a.y_b"),
        Kind("cylindrical", ((PUSH, _Z), (TURN, _Z)), _mask("110110")),
        Kind("planar", ((PUSH, _X), (PUSH, _Y), (TURN, _Z)), _mask("110001")),
        Kind("screw", ((TURN, _Z),), _mask("110110"), coupled="t_z-pitch*angle"),
        Kind("point_on_line", ((PUSH, _Z), (SPIN, _Z)), _mask("000110")),
        Kind("point_on_plane", ((PUSH, _X), (PUSH, _Y), (SPIN, _Z)), _mask("000001")),
        Kind("compound", (), _mask("000000"), coupled="complement of S"),
        Kind("distance", (), _mask("000000"), coupled="length", tree=False),
        Kind("gear", (), _mask("000000"), coupled="ratio", tree=False),
        Kind("no_slip", (), _mask("000000"), coupled="v.direction", tree=False),
    )
}


def factors_of(joint: Joint) -> tuple[Factor, ...]:
    """Return the elementary motions of `joint`, in order, in its joint frame."""
    if joint.kind == "compound":
        return tuple(
            Factor(TURN if axis.kind == "hinge" else PUSH, axis.axis, axis.position, 0.0, i, i)
            for i, axis in enumerate(joint.axes)
        )
    out, q, v = [], 0, 0
    for kind, axis in KINDS[joint.kind].motions:
        out.append(Factor(kind, axis, _O, joint.pitch if joint.kind == "screw" else 0.0, q, v))
        q += 4 if kind == SPIN else 1
        v += 3 if kind == SPIN else 1
    return tuple(out)


def coordinate_counts(joint: Joint) -> tuple[int, int]:
    """Return how many coordinates and dofs a joint has."""
    kind, axes = KINDS[joint.kind], len(joint.axes)
    return (axes, axes) if joint.kind == "compound" else (kind.nq, kind.nv)


def motions_of(joint: Joint) -> tuple[int, ...]:
    """Return the kinds of a joint's factors: SPIN for a ball, TURN or PUSH for each scalar coordinate."""
    return tuple(factor.kind for factor in factors_of(joint))


def reverse(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """Return the factors of the inverse motion, in the same coordinates."""
    swap = {TURN: TURN, PUSH: PUSH, SPIN: SPIN_BACK, SPIN_BACK: SPIN}
    return tuple(
        f._replace(kind=swap[f.kind], axis=tuple(-x for x in f.axis) if f.kind in (TURN, PUSH) else f.axis)
        for f in reversed(factors)
    )


def identity_coordinates(joint: Joint) -> np.ndarray:
    """Return the coordinates at which the two joint frames coincide."""
    factors = factors_of(joint)
    q = np.zeros(sum(4 if f.kind in (SPIN, SPIN_BACK) else 1 for f in factors))
    for f in factors:
        if f.kind in (SPIN, SPIN_BACK):
            q[f.q] = 1.0
    return q


def _walk(
    factors: tuple[Factor, ...], q: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[tuple[Factor, np.ndarray, np.ndarray]]]:
    """Return the pose after all factors and, per factor, its world directions (3, k) and the point it acts at."""
    r, p, seen = np.eye(3), np.zeros(3), []
    for f in factors:
        if f.kind in (SPIN, SPIN_BACK):
            m = matrix_from_quaternion(np.asarray(q[f.q : f.q + 4]))
            seen.append((f, r @ m if f.kind == SPIN else -r, p.copy()))
            r = r @ (m if f.kind == SPIN else m.T)
            continue
        axis, point = np.asarray(f.axis), np.asarray(f.point)
        w = r @ axis
        seen.append((f, w[:, None], p + r @ point))
        if f.kind == PUSH:
            p = p + w * q[f.q]
        else:
            turn = matrix_from_axis(axis, np.array(q[f.q]))
            p = p + r @ (point - turn @ point) + w * (f.pitch * q[f.q])
            r = r @ turn
    return r, p, seen


def transform(factors: tuple[Factor, ...], q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, p), the child's joint frame in the parent's, at coordinates q."""
    r, p, _ = _walk(factors, q)
    return r, p


def motion_subspace(factors: tuple[Factor, ...], q: np.ndarray) -> np.ndarray:
    """Return S(q), (6, nv): columns of relative twist at the child's origin, parent's joint axes."""
    _, p, seen = _walk(factors, q)
    columns = np.zeros((6, sum(w.shape[1] for _, w, _ in seen)))
    for f, w, point in seen:
        for k in range(w.shape[1]):
            if f.kind == PUSH:
                columns[3:, f.v] = w[:, 0]
            else:
                columns[:3, f.v + k] = w[:, k]
                columns[3:, f.v + k] = np.cross(w[:, k], p - point) + f.pitch * w[:, k]
    return columns


def _twist_angle(r: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the turn about z in the rotation r and its derivative by the angular velocity (parent axes)."""
    a, b = r[1, 0] - r[0, 1], r[0, 0] + r[1, 1]
    columns = skew(r.T)  # columns[k] = [column k of r]
    rate = [-columns[k] for k in range(3)]  # d(column k)/dt = w x column = -[column] w
    da, db = rate[0][1] - rate[1][0], rate[0][0] + rate[1][1]
    return float(np.arctan2(a, b)), (b * da - a * db) / (a * a + b * b)


def locked(joint: Joint, r: np.ndarray, p: np.ndarray, near: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return (L, e) of a joint at relative pose (R, p): rows with de/dt = L twist, and the error itself.

    Rows of the mask first (rotations, then translations), the coupled row last. Rotations are swing errors for kinds
    that turn about z, the sine vector of the rotation for kinds that do not turn.
    """
    kind = KINDS[joint.kind]
    if joint.kind == "compound":
        return _locked_compound(joint, r, p, near)
    rows, errors = [], []
    if kind.mask[:3] == (True, True, False):
        column = skew(r[:, 2])
        rows += [np.r_[column[1], np.zeros(3)], np.r_[-column[0], np.zeros(3)]]
        errors += [-r[1, 2], r[0, 2]]
    elif kind.mask[:3] == (True, True, True):
        rate = 0.5 * (np.trace(r) * np.eye(3) - r)
        rows += [np.r_[rate[k], np.zeros(3)] for k in range(3)]
        errors += list(0.5 * np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]))
    for k in range(3):
        if kind.mask[3 + k]:
            rows.append(np.r_[np.zeros(3), np.eye(3)[k]])
            errors.append(p[k])
    if joint.kind == "universal":
        rows.append(np.r_[-skew(r[:, 1])[0], np.zeros(3)])
        errors.append(r[0, 1])
    elif joint.kind == "screw":
        angle, rate = _twist_angle(r)
        if near is not None:
            angle += 2 * np.pi * np.round((near[0] - angle) / (2 * np.pi))
        rows.append(np.r_[-joint.pitch * rate, 0.0, 0.0, 1.0])
        errors.append(p[2] - joint.pitch * angle)
    elif joint.kind == "distance":
        length = float(np.linalg.norm(p))
        rows.append(np.r_[np.zeros(3), p / length if length > 0 else (0.0, 0.0, 1.0)])
        errors.append(length - joint.length)
    return np.reshape(rows, (-1, 6)), np.array(errors, float)


def _locked_compound(
    joint: Joint, r: np.ndarray, p: np.ndarray, near: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    factors = factors_of(joint)
    q = coordinates(joint, r, p, near)
    s = motion_subspace(factors, q)
    basis = np.linalg.svd(s, full_matrices=True)[0][:, np.linalg.matrix_rank(s) :].T
    r0, p0 = transform(factors, q)
    return basis, basis @ np.r_[vector_from_matrix(r @ r0.T), p - p0]


def coordinates(joint: Joint, r: np.ndarray, p: np.ndarray, near: np.ndarray | None = None) -> np.ndarray:
    """Return the coordinates read off a relative pose, turns counted nearest to `near`; the locked part is dropped."""
    kind = joint.kind

    def unwrap(angle: float, k: int) -> float:
        reference = 0.0 if near is None else float(near[k])
        return angle + 2 * np.pi * np.round((reference - angle) / (2 * np.pi))

    twist = np.arctan2(r[1, 0] - r[0, 1], r[0, 0] + r[1, 1])
    if kind in ("hinge", "screw"):
        return np.array([unwrap(twist, 0)])
    if kind == "slide":
        return np.array([p[2]])
    if kind == "cylindrical":
        return np.array([p[2], unwrap(twist, 1)])
    if kind == "planar":
        return np.array([p[0], p[1], unwrap(twist, 2)])
    if kind == "universal":
        return np.array([unwrap(np.arctan2(r[2, 1], r[1, 1]), 0), unwrap(np.arctan2(r[0, 2], r[0, 0]), 1)])
    if kind == "compound":
        return _coordinates_compound(joint, r, p, near)
    components = {"free": (0, 1, 2), "point_on_line": (2,), "point_on_plane": (0, 1), "ball": ()}.get(kind)
    return np.zeros(0) if components is None else np.r_[p[list(components)], quaternion_from_matrix(r)]


def _coordinates_compound(joint: Joint, r: np.ndarray, p: np.ndarray, near: np.ndarray | None) -> np.ndarray:
    """Gauss-Newton on the pose difference, from `near`."""
    factors = factors_of(joint)
    q = np.zeros(len(joint.axes)) if near is None else np.array(near, float)
    for _ in range(60):
        r0, p0 = transform(factors, q)
        gap = np.r_[vector_from_matrix(r @ r0.T), p - p0]
        change = np.linalg.lstsq(motion_subspace(factors, q), gap, rcond=None)[0]
        q = q + change
        if np.abs(change).max(initial=0.0) < 1e-14:
            break
    return q
