"""Dense rows of loop joints, for checks of scenes: slow and plain."""

from __future__ import annotations

import numpy as np

import limberjack as lj
from limberjack.methods import FEATURES
from limberjack.model.compile import joint_frames
from limberjack.model.joints import locked
from limberjack.spatial.frames import matrix_from_quaternion


def ignoring(model, **options):
    """Return a simulation of the model in `full` that leaves out all the method cannot honour."""
    return lj.Simulation(model, ignore=tuple(FEATURES), **options)


def loop_rows(model, q):
    """Return the errors of all loop joints with frames, and their Jacobian by qd."""
    positions, rotations = lj.forward_kinematics(model, q)

    def place(body, r, p):
        if body == "world":
            return r, p
        i = model.body_index(body)
        turn = matrix_from_quaternion(rotations[i])
        return turn @ r, positions[i] + turn @ p

    errors, rows = [np.zeros(0)], [np.zeros((0, model.nv))]
    for name in model.loop_names:
        joint = model.joint_spec(name)
        if joint.kind in ("gear", "no_slip"):
            continue
        r_p, p_p, r_c, p_c = joint_frames(joint)
        (above, start), (below, end) = place(joint.parent, r_p, p_p), place(joint.child, r_c, p_c)
        relative = lj.jacobian(model, q, joint.child, end)
        if joint.parent != "world":
            relative = relative - lj.jacobian(model, q, joint.parent, end)
        own, error = locked(joint, above.T @ below, above.T @ (end - start))
        errors.append(error)
        rows.append(own @ np.kron(np.eye(2), above.T) @ relative)
    return np.concatenate(errors), np.vstack(rows)


def loop_accelerations(model, q, qd, tau):
    """Return qdd under `tau` with all loops kept: the dense saddle system, its bias by differences of the rows."""
    mass, free = lj.mass_matrix(model, q), lj.forward_dynamics(model, q, qd, tau)
    rows, h = loop_rows(model, q)[1], 1e-5 / max(1.0, np.abs(qd).max())
    bias = (loop_rows(model, q + h * qd)[1] - loop_rows(model, q - h * qd)[1]) @ qd / (2 * h)
    response = np.linalg.solve(mass, rows.T)
    return free - response @ np.linalg.lstsq(rows @ response, rows @ free + bias, rcond=1e-9)[0]
