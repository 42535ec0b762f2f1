"""Where parts are: their places on the bodies, carried into the world."""

from __future__ import annotations

from limberjack._jit import kernel

__all__ = ["place_parts"]


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
        i = body[k]
        x, y, z = position[k, 0], position[k, 1], position[k, 2]
        a, b, c, d = rotation[k, 0], rotation[k, 1], rotation[k, 2], rotation[k, 3]
        if i < 0:
            at[k, 0], at[k, 1], at[k, 2] = x, y, z
            turn[k, 0], turn[k, 1], turn[k, 2], turn[k, 3] = a, b, c, d
            continue
        s, p, q, r = rotations[i, 0], rotations[i, 1], rotations[i, 2], rotations[i, 3]
        u, v, w = 2.0 * (q * z - r * y), 2.0 * (r * x - p * z), 2.0 * (p * y - q * x)
        at[k, 0] = positions[i, 0] + x + s * u + q * w - r * v
        at[k, 1] = positions[i, 1] + y + s * v + r * u - p * w
        at[k, 2] = positions[i, 2] + z + s * w + p * v - q * u
        turn[k, 0] = s * a - p * b - q * c - r * d
        turn[k, 1] = s * b + p * a + q * d - r * c
        turn[k, 2] = s * c - p * d + q * a + r * b
        turn[k, 3] = s * d + p * c - q * b + r * a
