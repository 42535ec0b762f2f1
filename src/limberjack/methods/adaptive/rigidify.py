"""Rigidification: joints stopped by impulses that conserve the momentum of the joints that stay active.

The joints R of the transient body are to stop. The impulses on them change the velocities of the other joints A to qd+:

    H_AA qd+ = (H qd)_A        loss of kinetic energy  1/2 qd_R^T K_R^-1 qd_R >= 0

(K_R, the paper's matrix of responses to unit impulses, is never built.) That is one pass of the articulated-body
algorithm with the momenta of the clusters in place of forces and the joints R locked by an infinite own inertia.

Redon, Galoppo, Lin 2005, section 5.4.2.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.model.arrays import LINK, SPAN
from limberjack.reduced.aba import accelerations
from limberjack.reduced.jacobians import link_velocities
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.work import J, P
from limberjack.spatial.vectors import cross

__all__ = ["rigidify"]

# Own inertia of a locked joint: what is divided by it vanishes in any sum.
_LOCKED = 1e300


@inner
def _stop_joints(links, node_of, body, span, stopped, work, velocities, momenta, b, qd):
    """Rigidify the trees of `span`, see `rigidify`; return twice the kinetic energy lost there."""
    out, rows, v = body.links, work.rows, velocities
    kinematics(out, span, body.q, body.qd, work)
    link_velocities(out, span, body.qd, work, velocities)
    before = after = 0.0
    for k in range(span[LINK], span[LINK + 1]):
        wx, wy, wz, x, y, z = v[k, 0], v[k, 1], v[k, 2], v[k, 3], v[k, 4], v[k, 5]
        m, hx, hy, hz = rows[k, P + 3], rows[k, J + 3], rows[k, J + 7], rows[k, J + 11]
        cx, cy, cz = cross(wx, wy, wz, hx, hy, hz)
        fx, fy, fz = m * x + cx, m * y + cy, m * z + cz
        cx, cy, cz = cross(hx, hy, hz, x, y, z)
        nx = rows[k, J] * wx + rows[k, J + 4] * wy + rows[k, J + 8] * wz + cx
        ny = rows[k, J + 1] * wx + rows[k, J + 5] * wy + rows[k, J + 9] * wz + cy
        nz = rows[k, J + 2] * wx + rows[k, J + 6] * wy + rows[k, J + 10] * wz + cz
        before += wx * nx + wy * ny + wz * nz + x * fx + y * fy + z * fz
        momenta[k, 0], momenta[k, 1], momenta[k, 2] = nx, ny, nz
        momenta[k, 3], momenta[k, 4], momenta[k, 5] = fx, fy, fz
        rows[k, P], rows[k, P + 1], rows[k, P + 2] = -nx, -ny, -nz
        rows[k, P + 4], rows[k, P + 5], rows[k, P + 6] = -fx, -fy, -fz
        locked = stopped[node_of[body.link[k]]]
        for a in range(out.v_start[k], out.v_start[k] + out.dof[k]):
            b.tau[a] = out.armature[a] * body.qd[a]
            b.added[a] = _LOCKED if locked else out.armature[a]
            before += b.tau[a] * body.qd[a]
    # Section 5.4.2 without K_R: H_AA qd+ = (H qd)_A
    accelerations(out, span, b.added, b.tau, work, b.qdd)
    for k in range(span[LINK], span[LINK + 1]):
        if stopped[node_of[body.link[k]]]:
            for a in range(out.v_start[k], out.v_start[k] + out.dof[k]):
                b.qdd[a] = 0.0
    link_velocities(out, span, b.qdd, work, velocities)
    for k in range(span[LINK], span[LINK + 1]):
        i = body.link[k]
        for a in range(6):
            after += v[k, a] * momenta[k, a]
        for a in range(out.dof[k]):
            after += b.tau[out.v_start[k] + a] * b.qdd[out.v_start[k] + a]
            qd[links.v_start[i] + a] = b.qdd[out.v_start[k] + a]
    return before - after


@outlined
def rigidify(
    # in
    links, node_of, body, stopped, span, work, velocities, momenta, b,
    # out
    qd,
):  # fmt: skip
    """Set qd of the whole model to the velocities after the joints of the nodes marked in `stopped` have stopped.

    Trees of blocks in which no joint stops keep their velocities, to the last bit.

    Args:
        body: the transient body.
        span: (SPAN,) scratch.
        velocities, momenta: (n, 6) scratch.

    Returns:
        the kinetic energy lost [J].
    """
    lost = 0.0
    for block in range(body.count[0]):
        for c in range(SPAN):
            span[c] = body.blocks[block, c]
        some = False
        for k in range(span[LINK], span[LINK + 1]):
            some = some or stopped[node_of[body.link[k]]] > 0
        if some:
            lost += _stop_joints(links, node_of, body, span, stopped, work, velocities, momenta, b, qd)
    return max(0.5 * lost, 0.0)
