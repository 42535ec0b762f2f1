"""Where parts are: their places on the bodies, carried into the world."""

from __future__ import annotations

from limberjack._jit import inner, kernel

__all__ = ["place_parts", "show_parts"]

# What has blown up is shown no further off than this: it stays a number in single precision.
_FAR = 1e30


@inner
def _carried(k, body, position, rotation, positions, rotations):
    """Return position (3) and rotation (4) of part k in the world."""
    i = body[k]
    x, y, z = position[k, 0], position[k, 1], position[k, 2]
    a, b, c, d = rotation[k, 0], rotation[k, 1], rotation[k, 2], rotation[k, 3]
    if i < 0:
        return x, y, z, a, b, c, d
    s, p, q, r = rotations[i, 0], rotations[i, 1], rotations[i, 2], rotations[i, 3]
    u, v, w = 2.0 * (q * z - r * y), 2.0 * (r * x - p * z), 2.0 * (p * y - q * x)
    return (
        positions[i, 0] + x + s * u + q * w - r * v,
        positions[i, 1] + y + s * v + r * u - p * w,
        positions[i, 2] + z + s * w + p * v - q * u,
        s * a - p * b - q * c - r * d,
        s * b + p * a + q * d - r * c,
        s * c - p * d + q * a + r * b,
        s * d + p * c - q * b + r * a,
    )


@kernel
def place_parts(
    # in
    body, position, rotation, positions, rotations,
    # out
    at, turn,
):  # fmt: skip
    """Find the poses of all parts in the world.

    Args:
        body: (parts,) which body a part is on; below 0 the world.
        position: (parts, 3) on the body.
        rotation: (parts, 4) on the body.
        positions: (bodies, 3).
        rotations: (bodies, 4).
        at: (parts, 3).
        turn: (parts, 4).
    """
    for k in range(body.shape[0]):
        x, y, z, a, b, c, d = _carried(k, body, position, rotation, positions, rotations)
        at[k, 0], at[k, 1], at[k, 2] = x, y, z
        turn[k, 0], turn[k, 1], turn[k, 2], turn[k, 3] = a, b, c, d


@kernel
def show_parts(
    # in
    body, position, rotation, positions, rotations, moving,
    # out
    at, turn, middle,
):  # fmt: skip
    """Find the poses of all parts as pictures need them, and the middle of those that move.

    Args:
        body, position, rotation, positions, rotations: as in `place_parts`.
        moving: (parts,) whether a part counts for the middle.
        at: (parts, 3), single precision, no number beyond 1e30.
        turn: (parts, 4), alike.
        middle: (3,).
    """
    sx, sy, sz, count = 0.0, 0.0, 0.0, 0
    for k in range(body.shape[0]):
        x, y, z, a, b, c, d = _carried(k, body, position, rotation, positions, rotations)
        if moving[k]:
            sx, sy, sz, count = sx + x, sy + y, sz + z, count + 1
        at[k, 0], at[k, 1], at[k, 2] = min(max(x, -_FAR), _FAR), min(max(y, -_FAR), _FAR), min(max(z, -_FAR), _FAR)
        turn[k, 0], turn[k, 1] = min(max(a, -_FAR), _FAR), min(max(b, -_FAR), _FAR)
        turn[k, 2], turn[k, 3] = min(max(c, -_FAR), _FAR), min(max(d, -_FAR), _FAR)
    share = 1.0 / max(1, count)
    middle[0], middle[1], middle[2] = share * sx, share * sy, share * sz
