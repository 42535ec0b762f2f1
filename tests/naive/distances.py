"""The metric of the masses: how far the bodies of a part are from moving as one, in the norm of their inertias.

With u_b the velocity (or acceleration) of body b that the joints inside part C give it, and K_b d that of a rigid
motion d of all of C,

    E(C) = min over d of sum over the bodies of C of (u_b + K_b d)^T M_b (u_b + K_b d)  +  x^T rotors x

by the normal equations of that sum. A part that includes its joint with the world has no d.
"""

from __future__ import annotations

import numpy as np
from tests.naive.divide import bodies_of
from tests.naive.rotations import cross_matrix
from tests.naive.twin import Twin


def distances(model, nodes, q, x, jacobians, rotors, free_bases=False):
    """Return (E per node, what each node's own joint adds to those below it), 0 at leaves.

    Args:
        model: the model.
        nodes: the joints behind the nodes of its assembly tree.
        q: coordinates.
        x: (nv,) velocities or accelerations of the joints.
        jacobians: those of the bodies at q.
        rotors: (nv,) inertia each freedom has besides that of the bodies.
        free_bases: whether a free joint to the world is no hold: then its part moves with d too.
    """
    tree, twin = nodes.tree, Twin(model)
    motions = twin.motions(q, 0 * x, 0 * x)
    values, own = np.zeros(len(tree.parent)), np.zeros(len(tree.parent))
    parts = bodies_of(tree)
    for node in range(len(tree.body_link), len(tree.parent)):
        inside = nodes.freedoms(np.isin(np.arange(len(tree.parent)), nodes.inside[node]))
        total, push, inertia = 0.0, np.zeros(6), np.zeros((6, 6))
        for piece in parts[node]:
            for b in np.flatnonzero(model.arrays.body_link == tree.body_link[piece]):
                name, (r, com, *_) = model.body_names[b], motions[b]
                mass = np.zeros((6, 6))
                mass[:3, :3], mass[3:, 3:] = r @ twin._inertia(name) @ r.T, (twin.bodies[name].mass or 0.0) * np.eye(3)
                mass = mass * tree.share[piece]
                rigid = np.block([[np.eye(3), np.zeros((3, 3))], [-cross_matrix(com), np.eye(3)]])
                u = jacobians[b][:, inside] @ x[inside]
                total += u @ mass @ u
                push += rigid.T @ mass @ u
                inertia += rigid.T @ mass @ rigid
        if node not in tree.roots or (free_bases and nodes.base[node]):
            total -= push @ np.linalg.solve(inertia, push)
        values[node] = total + rotors[inside] @ x[inside] ** 2
        own[node] = values[node] - sum(values[c] for c in nodes.below(node))
    return values, own
