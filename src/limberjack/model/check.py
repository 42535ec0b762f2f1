"""The rules every model obeys.

Checks of values (`number`, `vector`, `unit`, ...) return the converted value or raise naming the element and the value.
Checks of inertias say what is wrong with one (`inertia_problem`), repair it (`repaired_inertia`), and find joints of a
whole tree that have no inertia to act on (`singular_link`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import joints as jt
from limberjack.model.arrays import Links
from limberjack.spatial import frames

__all__ = [
    "color",
    "frame_rotation",
    "has_degenerate_inertia",
    "inertia_problem",
    "inertia_six",
    "is_iterable",
    "is_number",
    "limit",
    "name",
    "number",
    "numbers",
    "principal_moments",
    "repaired_inertia",
    "singular_link",
    "unit",
    "vector",
]

_QUATERNION_SLACK = 1e-3
# A body's principal moments must satisfy a + b >= c; files round, so a little slack.
_TRIANGLE_SLACK = 1e-6
# A joint-space inertia below this, relative to the largest entry of the link's inertia, counts as zero.
_SINGULAR = 1e-12


def is_number(value: Any) -> bool:
    """Return whether `value` is one number: Python's, NumPy's, or an array without dimensions."""
    return isinstance(value, (int, float, np.number)) or (isinstance(value, np.ndarray) and value.ndim == 0)


def is_iterable(value: Any) -> bool:
    """Return whether `value` can be iterated over."""
    return isinstance(value, Iterable)


def number(value: Any, what: str, *, low: float | None = None, positive: bool = False, infinite: bool = False) -> float:
    """Return `value` as a float; refuse what is no number, NaN, infinite (unless allowed), below `low` or not > 0."""
    try:
        out = float(value)
    except (TypeError, ValueError):
        raise ModelError(f"{what} must be a number, got {value!r}") from None
    if math.isnan(out) or (math.isinf(out) and not infinite):
        raise ModelError(f"{what} must be finite, got {value!r}")
    if positive and not out > 0:
        raise ModelError(f"{what} must be > 0, got {value!r}")
    if low is not None and out < low:
        raise ModelError(f"{what} must be >= {low:g}, got {value!r}")
    return out


def vector(value: Any, size: int, what: str, *, low: float | None = None) -> tuple[float, ...]:
    """Return `value` as a tuple of `size` finite floats."""
    try:
        out = tuple(map(float, value))
    except (TypeError, ValueError):
        raise ModelError(f"{what} must be {size} numbers, got {value!r}") from None
    if len(out) != size:
        raise ModelError(f"{what} must be {size} numbers, got {len(out)}: {value!r}")
    for x in out:
        if not math.isfinite(x):
            raise ModelError(f"{what} must be finite, got {value!r}")
        if low is not None and x < low:
            raise ModelError(f"{what} must be >= {low:g}, got {value!r}")
    return out


def numbers(value: Any, what: str) -> tuple[float, ...]:
    """Return `value` as a tuple of finite floats, any number of them."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        array = np.zeros((0, 0))
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ModelError(f"{what} must be a list of finite numbers, got {value!r}")
    return tuple(map(float, array))


def unit(value: Any, what: str) -> tuple[float, ...]:
    """Return the direction of `value` with length 1; refuse a zero vector."""
    x, y, z = vector(value, 3, what)
    largest = max(abs(x), abs(y), abs(z))
    if largest < 1e-12:
        raise ModelError(f"{what} must not be zero, got {value!r}")
    if not 1e-6 < largest < 1e6:  # the squares of such numbers may overflow or vanish
        x, y, z = x / largest, y / largest, z / largest
    length = math.sqrt(x * x + y * y + z * z)
    # A unit axis stays as it is to the last bit, so that a saved model reads back equal.
    return (x, y, z) if abs(length - 1.0) < 4e-16 else (x / length, y / length, z / length)


def frame_rotation(value: Any, what: str) -> tuple[float, ...]:
    """Return a unit quaternion (w, x, y, z) from a quaternion within 1e-3 of unit length, or from a 3x3 rotation."""
    if (
        isinstance(value, np.ndarray)
        and value.shape == (3, 3)
        or (isinstance(value, Sequence) and len(value) == 3 and isinstance(value[0], (Sequence, np.ndarray)))
    ):
        matrix = np.array([vector(row, 3, what) for row in value])
        if np.abs(matrix @ matrix.T - np.eye(3)).max() > _QUATERNION_SLACK or np.linalg.det(matrix) < 0:
            raise ModelError(f"{what} must be a rotation matrix, got {value!r}")
        return tuple(float(x) for x in frames.quaternion_from_matrix(matrix))
    q = vector(value, 4, what)
    if q == (1.0, 0.0, 0.0, 0.0):
        return q
    length = math.sqrt(sum(x * x for x in q))
    if abs(length - 1.0) > _QUATERNION_SLACK:
        raise ModelError(f"{what} must be a unit quaternion (w, x, y, z), got {value!r} of length {length:.6g}")
    return q if abs(length - 1.0) < 1e-15 else tuple(x / length for x in q)


def name(value: Any, what: str) -> str:
    """Return `value` as a usable name: a non-empty string without control characters."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ModelError(f"{what} must be a non-empty printable string, got {value!r}")
    return value


def limit(value: Any, what: str) -> tuple[float, float] | None:
    """Return a (low, high) pair with low <= high (either may be infinite), or None."""
    if value is None:
        return None
    try:
        low, high = (float(x) for x in value)
    except (TypeError, ValueError):
        raise ModelError(f"{what} must be (low, high) or None, got {value!r}") from None
    if math.isnan(low) or math.isnan(high) or low > high:
        raise ModelError(f"{what} must be (low, high) with low <= high, got {value!r}")
    return None if low == -math.inf and high == math.inf else (low, high)


def color(value: Any, what: str) -> tuple[float, ...] | None:
    """Return (r, g, b, a) in 0..1 from 3 or 4 numbers, or None."""
    if value is None:
        return None
    size = len(value) if isinstance(value, (Sequence, np.ndarray)) else 4
    out = vector(value, 4 if size == 4 else 3, what, low=0.0)
    if max(out) > 1.0:
        raise ModelError(f"{what} must lie in 0..1, got {value!r}")
    return out if len(out) == 4 else (*out, 1.0)


def inertia_six(value: Any, what: str) -> tuple[float, ...]:
    """Return (xx, yy, zz, xy, xz, yz) from 3 (diagonal), 6 or 3x3 numbers; symmetry is checked."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise ModelError(f"{what} must be 3, 6 or 3x3 numbers, got {value!r}") from None
    if array.shape == (3, 3) and np.isfinite(array).all():
        if np.abs(array - array.T).max() > 1e-9 * max(np.abs(array).max(), 1e-300):
            raise ModelError(f"{what} must be symmetric, got {value!r}")
        array = np.array([array[0, 0], array[1, 1], array[2, 2], array[0, 1], array[0, 2], array[1, 2]])
    if array.shape not in ((3,), (6,), (3, 3)):
        raise ModelError(f"{what} must be 3, 6 or 3x3 numbers, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ModelError(f"{what} must be finite, got {value!r}")
    return tuple(array.tolist()) if array.size == 6 else (*array.tolist(), 0.0, 0.0, 0.0)


def principal_moments(six: Sequence[float]) -> np.ndarray:
    """Return the principal moments, ascending, of the six numbers of an inertia."""
    xx, yy, zz, xy, xz, yz = six
    if xy == xz == yz == 0.0:
        return np.sort([xx, yy, zz])
    return np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def inertia_problem(mass: float, six: Sequence[float]) -> str:
    """Return what is wrong with a mass and an inertia, with the principal moments, or ""."""
    if mass < 0:
        return f"mass must be >= 0, got {mass:g}"
    xx, yy, zz, xy, xz, yz = six
    # The common case, decided without an eigenvalue solve.
    if xy == xz == yz == 0.0 and min(xx, yy, zz) >= 0 and 2 * max(xx, yy, zz) <= (xx + yy + zz) * (1 + _TRIANGLE_SLACK):
        return (
            "" if mass > 0 or xx + yy + zz == 0 else f"inertia without mass: principal moments {xx:g}, {yy:g}, {zz:g}"
        )
    try:
        a, b, c = (float(x) for x in principal_moments(six))
    except np.linalg.LinAlgError:
        return f"inertia overflows: {tuple(six)}"
    text = f"principal moments {a:.6g}, {b:.6g}, {c:.6g}"
    if a < -1e-9 * max(c, 0.0) or c < 0:
        return f"inertia is not positive semidefinite: {text}"
    if a + b < c * (1 - _TRIANGLE_SLACK):
        return f"inertia breaks the triangle inequality a + b >= c: {text}"
    if mass == 0 and c > 0:
        return f"inertia without mass: {text}"
    return ""


def repaired_inertia(mass: float, six: Sequence[float]) -> tuple[float, ...]:
    """Return the nearest inertia that a real body can have: negative moments cut, the largest cut to a + b.

    The largest moment is lowered rather than the small ones raised, so that no body becomes harder to turn than it
    was written; if all is zero or negative, the moments of a solid sphere of radius 1 cm are taken.
    """
    xx, yy, zz, xy, xz, yz = six
    moments, axes = np.linalg.eigh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    moments = np.maximum(moments, 0.0)
    if moments.max() <= 0.0:
        return (0.4e-4 * mass,) * 3 + (0.0,) * 3
    if moments[1] <= 1e-9 * moments[2]:
        moments[:] = moments[2]
    moments = np.maximum(moments, 1e-6 * moments[2])
    moments[2] = min(moments[2], moments[0] + moments[1])
    m = (axes * moments) @ axes.T
    return tuple(float(x) for x in (m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]))


def has_degenerate_inertia(links: Links) -> bool:
    """Return whether any link lacks mass or the inertia of an extended body."""
    mass, h = links.inertia[:, 9], links.inertia[:, 6:9]
    if (mass <= 0).any():
        return True
    c = h / mass[:, None]
    s = frames.skew(c)
    central = links.inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3) - mass[:, None, None] * (
        s @ np.swapaxes(s, 1, 2)
    )
    scale = np.maximum(np.trace(central, axis1=1, axis2=2), 1e-300)
    return bool((np.linalg.eigvalsh(central)[:, 0] <= 1e-9 * scale).any())


def _factors(links: Links, i: int) -> tuple[jt.Factor, ...]:
    q0, v0 = int(links.q_start[i]), int(links.v_start[i])
    plain = {jt.HINGE: "hinge", jt.SLIDE: "slide", jt.BALL: "ball", jt.FREE: "free"}.get(int(links.kind[i]))
    if plain:
        at, out = [0, 0], []
        for kind, axis in jt.KINDS[plain].motions:
            out.append(jt.Factor(kind, axis, (0.0, 0.0, 0.0), 0.0, at[0], at[1]))
            at = [at[0] + (4 if kind == jt.SPIN else 1), at[1] + (3 if kind == jt.SPIN else 1)]
        return tuple(out)
    return tuple(
        jt.Factor(
            int(links.factor_kind[k]), tuple(links.factor_data[k, :3]), tuple(links.factor_data[k, 3:6]),
            float(links.factor_data[k, 6]), int(links.factor_indices[k, 0]) - q0, int(links.factor_indices[k, 1]) - v0,
        )
        for k in range(links.factor_start[i], links.factor_start[i + 1])
    )  # fmt: skip


def singular_link(links: Links, nq: int) -> int:
    """Return the first link (from the leaves) whose joint has no inertia to act on, or -1.

    Links without mass are fine as long as the joint-space inertia is positive. It is tested at one generic pose, so
    that a joint that fails here fails everywhere, and a special start pose (a point mass right on its axis) does not.
    Plain NumPy, for models that have a link without full inertia only (`has_degenerate_inertia`).
    """
    n = len(links.parent)
    rng = np.random.default_rng(2005)
    q = rng.uniform(0.3, 0.9, nq)
    for i, _ in links.quaternions:
        q[i : i + 4] /= np.linalg.norm(q[i : i + 4])
    inertia = np.zeros((n, 6, 6))
    placed, subspace = [], []
    for i in range(n):
        row = links.inertia[i]
        hx = frames.skew(row[6:9])
        inertia[i, :3, :3] = row[[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
        inertia[i, :3, 3:], inertia[i, 3:, :3], inertia[i, 3:, 3:] = hx, hx.T, row[9] * np.eye(3)
        factors = _factors(links, i)
        own = q[links.q_start[i] : links.q_start[i] + 7]
        base = (links.placement[i, :9].reshape(3, 3), links.placement[i, 9:])
        r, p = jt.transform(factors, own)
        s = jt.motion_subspace(factors, own)
        turn = np.kron(np.eye(2), r.T)
        placed.append(frames.compose(*base, r, p))
        subspace.append(turn @ s)
    for i in range(n - 1, -1, -1):
        s, full = subspace[i], inertia[i]
        u = full @ s
        d = s.T @ u + np.diag(links.armature[links.v_start[i] : links.v_start[i] + s.shape[1]])
        if s.shape[1]:
            scale = max(np.abs(full).max(), 1e-300)
            if not np.isfinite(d).all() or np.linalg.eigvalsh(d)[0] <= _SINGULAR * scale or np.abs(d).max() == 0.0:
                return i
            full = full - u @ np.linalg.solve(d, u.T)
        if links.parent[i] >= 0:
            r, p = placed[i]
            x = np.zeros((6, 6))
            x[:3, :3] = x[3:, 3:] = r.T
            x[3:, :3] = -r.T @ frames.skew(p)
            inertia[links.parent[i]] += x.T @ full @ x
    return -1
