"""The public functions for control: bias forces, momentum, derivatives of the dynamics, operational-space inertia.

Derivatives with respect to q are taken in the directions of the velocities: column v is the change per unit of a motion
with qd_v = 1, so that quaternions have three columns and no constraint between four. `integrate` moves along them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import StateError
from limberjack.model.model import Model
from limberjack.reduced.derivatives import Derivatives as Scratch
from limberjack.reduced.derivatives import (
    body_jacobians,
    force_derivatives,
    momentum_matrix,
    new_derivatives,
    order_of,
)
from limberjack.reduced.dynamics import array_of, explain, forward_dynamics, inverse_dynamics, mass_matrix, scratch
from limberjack.reduced.dynamics import jacobian as one_jacobian
from limberjack.spatial.frames import matrix_from_quaternion, skew, vector_from_matrix

__all__ = [
    "CenterOfMass",
    "ForwardDerivatives",
    "InverseDerivatives",
    "Momentum",
    "bias_forces",
    "center_of_mass",
    "centroidal_momentum",
    "difference",
    "forward_dynamics_derivatives",
    "integrate",
    "inverse_dynamics_derivatives",
    "jacobian",
    "operational_inertia",
]


class InverseDerivatives(NamedTuple):
    """d tau/dq (nv, nv), d tau/dqd (nv, nv) and d tau/dqdd (nv, nv), which is the mass matrix."""

    dq: np.ndarray
    dqd: np.ndarray
    dqdd: np.ndarray


class ForwardDerivatives(NamedTuple):
    """d qdd/dq (nv, nv), d qdd/dqd (nv, nv) and d qdd/dtau (nv, nv), the inverse of the mass matrix."""

    dq: np.ndarray
    dqd: np.ndarray
    dtau: np.ndarray


class CenterOfMass(NamedTuple):
    """Centre of mass (3,) [m], its Jacobian (3, nv), and the mass [kg] of what can move."""

    position: np.ndarray
    jacobian: np.ndarray
    mass: float


class Momentum(NamedTuple):
    """Momentum (6,), angular about the centre of mass and linear, world axes, and its matrix (6, nv)."""

    momentum: np.ndarray
    matrix: np.ndarray


def _own(model: Model) -> tuple[Scratch, np.ndarray]:
    """Return the scratch of the derivatives on this thread, and the order of the dofs."""
    s = scratch(model)
    if s.derivatives is None:
        s.derivatives = (new_derivatives(model.arrays.links), order_of(model.arrays.links))
    return s.derivatives


def bias_forces(model: Model, q: Any, qd: Any, wrenches: Any = None) -> np.ndarray:
    """Return the joint forces (nv,) that give no acceleration: Coriolis, centrifugal, gravity, dampers and springs.

    Args:
        model: the model.
        q: (nq,) coordinates.
        qd: (nv,) velocities.
        wrenches: (body_count, 6) as for `forward_dynamics`; they are subtracted.
    """
    return inverse_dynamics(model, q, qd, np.zeros(model.nv), wrenches)


def _is_batch(q: Any) -> bool:
    """Return whether q has one state per row; what is no array has none, and is refused by the check of its shape."""
    try:
        return np.ndim(q) == 2
    except ValueError:
        return False


def jacobian(model: Model, q: Any, body: str | Sequence[str], point: Any = None, *, local: bool = False) -> np.ndarray:
    """Return Jacobians (6, nv), angular then linear, world axes, of points moving with bodies.

    Args:
        model: the model.
        q: (nq,) coordinates, or (n, nq) for n states: the result has one more axis in front.
        body: name of the body, or k names: the result has an axis of k before the last two.
        point: (3,) in the world, or in the body frame with `local`; (k, 3) for k names; (n, k, 3) or (n, 3) for one per
            state. None takes the com of the body.
        local: whether points are given in the frames of their bodies.
    """
    batched = _is_batch(q)
    if isinstance(body, str) and not batched and not local:
        return one_jacobian(model, q, body, point)
    s, a = scratch(model), model.arrays
    names = [body] if isinstance(body, str) else list(body)
    bodies = np.array([model.body_index(name) for name in names], np.int64)
    states = array_of(q, (len(q), model.nq) if batched else (model.nq,), "q", model).reshape(-1, model.nq)
    shape = (len(states), len(names), 3)
    if point is None:
        points = np.ascontiguousarray(np.broadcast_to(a.body_com[bodies], shape))
    else:
        points = _points(point, shape, isinstance(body, str), batched, model)
    out = np.empty((len(states), len(names), 6, model.nv))
    body_jacobians(
        a.links, a.body_link, a.body_offset, s.span, states, s.rest, bodies, points, point is not None and not local,
        np.empty(model.nq), np.empty((6, model.nv)), s.work, out,
    )  # fmt: skip
    if not np.isfinite(out).all():
        for row in states:
            explain(model, 0, (("q", row),))
    if isinstance(body, str):
        out = out[:, 0]
    return out if batched else out[0]


def _points(point: Any, shape: tuple[int, int, int], single: bool, batched: bool, model: Model) -> np.ndarray:
    """Return points (n, k, 3) from the shapes that `jacobian` takes."""
    n, k, _ = shape
    given = np.asarray(point, float)
    if given.shape == (3,):
        given = np.broadcast_to(given, shape)
    elif single and batched and given.shape == (n, 3):
        given = given[:, None]
    elif not single and given.shape == (k, 3):
        given = np.broadcast_to(given, shape)
    elif given.shape != shape:
        choices = "(3,)" + (f", {(n, 3)}" if single and batched else "") + ("" if single else f", {(k, 3)} or {shape}")
        raise StateError(f"point must have shape {choices}, got {given.shape}")
    return array_of(given, shape, "point", model)


def _momentum_matrix(model: Model, q: Any) -> tuple[np.ndarray, np.ndarray]:
    s, a = scratch(model), model.arrays
    q = array_of(q, (model.nq,), "q", model)
    matrix, center = np.zeros((6, model.nv)), np.zeros(4)
    momentum_matrix(a.links, s.span, q, s.rest, s.work, _own(model)[0], matrix, center)
    if not (np.isfinite(matrix).all() and np.isfinite(center).all()):
        explain(model, 0, (("q", q),))
    return matrix, center


def center_of_mass(model: Model, q: Any) -> CenterOfMass:
    """Return the centre of mass of what can move, its Jacobian and the mass; bodies fixed to the world do not count.

    Args:
        model: the model.
        q: (nq,) coordinates.
    """
    matrix, center = _momentum_matrix(model, q)
    return CenterOfMass(center[:3], matrix[3:] / max(center[3], 1e-300), float(center[3]))


def centroidal_momentum(model: Model, q: Any, qd: Any) -> Momentum:
    """Return the momentum about the centre of mass and the matrix it is qd times (Orin, Goswami, Lee 2013).

    Args:
        model: the model.
        q: (nq,) coordinates.
        qd: (nv,) velocities.
    """
    matrix, _ = _momentum_matrix(model, q)
    return Momentum(matrix @ array_of(qd, (model.nv,), "qd", model), matrix)


def inverse_dynamics_derivatives(model: Model, q: Any, qd: Any, qdd: Any) -> InverseDerivatives:
    """Return the derivatives of `inverse_dynamics` with respect to q, qd and qdd, analytically.

    Dampers and springs of joints count as they do there.

    Args:
        model: the model.
        q: (nq,) coordinates.
        qd: (nv,) velocities.
        qdd: (nv,) accelerations.
    """
    s, a, nv = scratch(model), model.arrays, model.nv
    q, qd = array_of(q, (model.nq,), "q", model), array_of(qd, (nv,), "qd", model)
    qdd = array_of(qdd, (nv,), "qdd", model)
    found = InverseDerivatives(np.zeros((nv, nv)), np.zeros((nv, nv)), np.zeros((nv, nv)))
    own, order = _own(model)
    force_derivatives(a.links, order, s.span, q, qd, qdd, s.work, own, *found)
    if not all(np.isfinite(matrix).all() for matrix in found):
        explain(model, 0, (("q", q), ("qd", qd), ("qdd", qdd)))
    _add_passive(model, q, found)
    return found


def _add_passive(model: Model, q: np.ndarray, found: InverseDerivatives) -> None:
    """Add the derivatives of dampers and springs in joints."""
    drives = scratch(model).passive
    v = drives.indices[:, 1]
    found.dq[v, v] += drives.scalar[:, 1]
    found.dqd[v, v] += drives.scalar[:, 0]
    for (iq, v), row in zip(drives.ball_indices, drives.ball, strict=True):
        at = slice(v, v + 3)
        found.dqd[at, at] += np.diag(row[:3])
        if row[3] > 0.0:
            found.dq[at, at] += row[3] * _log_derivative(row[4:8], q[iq : iq + 4])


def _log_derivative(rest: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the derivative of the rotation vector from `rest` to q with respect to a rotation of q in its own axes."""
    w = float(rest @ q)
    v = rest[0] * q[1:] - q[0] * rest[1:] - np.cross(rest[1:], q[1:])
    if w < 0.0:
        w, v = -w, -v
    size = float(np.linalg.norm(v))
    turn = 2.0 * v if size < 1e-12 else 2.0 * np.arctan2(size, w) / size * v
    angle = float(np.linalg.norm(turn))
    k = skew(turn)
    f = 1.0 / 12.0 if angle < 1e-4 else 1.0 / angle**2 - 0.5 / (angle * np.tan(0.5 * angle))
    return np.eye(3) + 0.5 * k + f * k @ k


def forward_dynamics_derivatives(model: Model, q: Any, qd: Any, tau: Any = None) -> ForwardDerivatives:
    """Return the derivatives of the accelerations of the tree with respect to q, qd and tau, analytically.

    Those of `inverse_dynamics` at the acceleration, times the inverse of the mass matrix. Loops, limits, gears,
    motors and contacts do not act.

    Args:
        model: the model.
        q: (nq,) coordinates.
        qd: (nv,) velocities.
        tau: (nv,) joint forces; None = 0.
    """
    qdd = forward_dynamics(model, q, qd, tau)
    dq, dqd, mass = inverse_dynamics_derivatives(model, q, qd, qdd)
    inverse = np.linalg.inv(mass) if model.nv else mass
    inverse = 0.5 * (inverse + inverse.T)
    return ForwardDerivatives(-inverse @ dq, -inverse @ dqd, inverse)


def operational_inertia(
    model: Model, q: Any, body: str | Sequence[str], point: Any = None, *, local: bool = False, linear: bool = False
) -> np.ndarray:
    """Return the inertia (6k, 6k) that points of k bodies have against wrenches, (J M^-1 J^T)^-1 (Khatib 1987).

    In directions in which they cannot move it is infinite there and zero here: the pseudoinverse is taken.

    Args:
        model: the model.
        q: (nq,) coordinates.
        body: name of the body, or k names.
        point: as of `jacobian`.
        local: as of `jacobian`.
        linear: whether only the translation counts: (3k, 3k).
    """
    j = jacobian(model, q, [body] if isinstance(body, str) else body, point, local=local)
    j = j[:, 3:] if linear else j
    j = j.reshape(-1, model.nv)
    small = j @ np.linalg.solve(mass_matrix(model, q), j.T) if model.nv else np.zeros((len(j), len(j)))
    return np.linalg.pinv(0.5 * (small + small.T), rcond=1e-10, hermitian=True)


def integrate(model: Model, q: Any, motion: Any) -> np.ndarray:
    """Return the coordinates after a motion with the velocities `motion` for one second; quaternions rotate.

    Args:
        model: the model.
        q: (nq,) coordinates.
        motion: (nv,).
    """
    q, motion = array_of(q, (model.nq,), "q", model), array_of(motion, (model.nv,), "motion", model)
    out = q.copy()
    for v, iq, length in model.arrays.links.runs:
        out[iq : iq + length] += motion[v : v + length]
    for iq, v in model.arrays.links.quaternions:
        turn = motion[v : v + 3]
        half = 0.5 * float(np.linalg.norm(turn))
        s = 0.5 if half < 1e-12 else 0.5 * np.sin(half) / half
        b = np.array([np.cos(half), *(s * turn)])
        a = q[iq : iq + 4] / np.linalg.norm(q[iq : iq + 4])
        out[iq] = a[0] * b[0] - a[1:] @ b[1:]
        out[iq + 1 : iq + 4] = a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return out


def difference(model: Model, first: Any, last: Any) -> np.ndarray:
    """Return the motion (nv,) that takes coordinates `first` to `last`: `integrate` undone.

    Args:
        model: the model.
        first: (nq,).
        last: (nq,).
    """
    a, b = array_of(first, (model.nq,), "first", model), array_of(last, (model.nq,), "last", model)
    out = np.zeros(model.nv)
    for v, iq, length in model.arrays.links.runs:
        out[v : v + length] = b[iq : iq + length] - a[iq : iq + length]
    for iq, v in model.arrays.links.quaternions:
        r = matrix_from_quaternion(a[iq : iq + 4]).T @ matrix_from_quaternion(b[iq : iq + 4])
        out[v : v + 3] = vector_from_matrix(r)
    return out
