"""Rotations the slow, obvious way: 3x3 matrices from their definitions, nothing taken from the package."""

from __future__ import annotations

import numpy as np


def cross_matrix(v):
    """Return [v] with [v] x = v x x."""
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def from_cross_matrix(m):
    """Return v of the skew part of m."""
    return 0.5 * np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])


def about(axis, angle):
    """Return the rotation by `angle` about the unit `axis`: what is along stays, what is across turns."""
    axis = np.asarray(axis, float)
    along = np.outer(axis, axis)
    return along + np.cos(angle) * (np.eye(3) - along) + np.sin(angle) * cross_matrix(axis)


def from_vector(v):
    """Return the rotation of the rotation vector v."""
    angle = np.linalg.norm(v)
    return np.eye(3) if angle == 0 else about(np.asarray(v) / angle, angle)


def multiply(a, b):
    """Return the quaternion product a b."""
    a, b, out = np.asarray(a, float), np.asarray(b, float), np.empty(4)
    out[0] = a[0] * b[0] - a[1:] @ b[1:]
    out[1:] = a[0] * b[1:] + b[0] * a[1:] + cross_matrix(a[1:]) @ b[1:]
    return out


def conjugate(q):
    """Return the quaternion of the opposite turn."""
    return np.array([q[0], -q[1], -q[2], -q[3]])


def matrix(q):
    """Return the rotation of the quaternion q = (cos, sin axis) of half the angle, by Rodrigues' formula."""
    q = np.asarray(q, float) / np.linalg.norm(q)
    k = cross_matrix(q[1:])
    return np.eye(3) + 2 * q[0] * k + 2 * k @ k


def logarithm(q):
    """Return the rotation vector, at most pi long, of the unit quaternion q."""
    q = np.asarray(q, float) / np.linalg.norm(q)
    if q[0] < 0:
        q = -q
    size = np.linalg.norm(q[1:])
    return 2 * q[1:] if size < 1e-14 else 2 * np.arctan2(size, q[0]) / size * q[1:]


def exponential(v):
    """Return the quaternion of the rotation vector v."""
    angle = np.linalg.norm(v)
    return np.r_[np.cos(angle / 2), np.sinc(angle / (2 * np.pi)) * np.asarray(v, float) / 2]


def z_to(axis):
    """Return the shortest rotation that takes z to the unit `axis`; about x by half a turn for -z."""
    axis = np.asarray(axis, float)
    normal = np.array([-axis[1], axis[0], 0.0])
    size = np.linalg.norm(normal)
    if size == 0.0:
        return np.eye(3) if axis[2] > 0 else np.diag([1.0, -1.0, -1.0])
    return about(normal / size, np.arctan2(size, axis[2]))
