"""What is derived from the state of a simulation when asked for: poses and velocities of bodies, energy, momentum."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limberjack.model.arrays import Drives, whole_span
from limberjack.model.compile import drives_of
from limberjack.model.joints import coordinate_counts
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.reduced.measure import body_velocities, energies, joint_energy
from limberjack.reduced.work import new_work

if TYPE_CHECKING:
    from limberjack.collision.detect import Contact
    from limberjack.reduced.forces import Wrenches
    from limberjack.simulation.reactions import JointForces
    from limberjack.simulation.simulation import Simulation

__all__ = ["Energy", "Measures", "Momentum"]


class Energy(NamedTuple):
    """Energies [J]."""

    kinetic: float
    potential: float
    total: float


class Momentum(NamedTuple):
    """Linear momentum [kg m/s] and angular momentum about the world origin [kg m^2/s]."""

    linear: np.ndarray
    angular: np.ndarray


class Measures:
    """Poses cached until the state changes, and the work arrays of the other measures.

    The simulation is an argument, not an attribute: a cycle of references would keep its arrays until the garbage
    collector runs.

    Attributes:
        poses: positions and quaternions of the body frames; None = not known at this state.
        coms: of the bodies for which they were asked, room for a wrench that acts alone, None where the body is fixed
            to the world, and the centre of mass in the frame of the link.
        motors: the motors of joints for which they were asked, and the drives that they are of, see `JointHandle`.
        contacts: those of the last step, where the stepper no longer has them.
        joint_forces: what `reactions.joint_forces` found last, and for which state.
    """

    __slots__ = ("_loop_drives", "_work", "coms", "contacts", "joint_forces", "motors", "poses")

    def __init__(self) -> None:
        self.coms: dict[int, tuple[Wrenches | None, tuple[float, float, float]]] = {}
        self.motors: dict[str, tuple[Drives, list[tuple[np.ndarray, int, int, int]]]] = {}
        self.poses: tuple[np.ndarray, np.ndarray] | None = None
        self.contacts: list[Contact] | None = None
        self.joint_forces: tuple[bytes, JointForces] | None = None
        self._work: Any = None
        self._loop_drives: Any = None

    def body_poses(self, sim: Simulation) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (body_count, 3) and quaternions (body_count, 4) of the body frames, read-only."""
        if self.poses is None:
            rigid = forward_kinematics(sim.model, sim._stepper.q)
            poses = sim._stepper.body_poses(rigid) or rigid
            for array in poses:
                array.setflags(write=False)
            self.poses = poses[0], poses[1]
        return self.poses

    def body_velocities(self, sim: Simulation) -> np.ndarray:
        """Return (body_count, 6) angular velocity, then velocity of the com, world axes."""
        found = sim._stepper.body_velocities()
        if found is not None:
            return found
        a, (work, links, span) = sim.model.arrays, self.scratch(sim)
        out = np.empty((sim.model.body_count, 6))
        q, qd = sim._stepper.q, sim._stepper.qd
        body_velocities(a.links, a.body_link, a.body_offset, a.body_com, span, q, qd, work, links, out)
        return out

    def energy_and_momentum(self, sim: Simulation) -> tuple[float, ...]:
        """Return kinetic and potential energy, linear and angular momentum (8,)."""
        found = sim._stepper.energy_and_momentum(sim.forces)
        if found is not None:
            return found
        return self._tree_energy_and_momentum(sim, sim.forces.drives)

    def _tree_energy_and_momentum(self, sim: Simulation, drives: Drives) -> tuple[float, ...]:
        a, (work, links, span) = sim.model.arrays, self.scratch(sim)
        out = energies(a.links, drives, a.springs, span, sim._stepper.q, sim._stepper.qd, work, links)
        return (out[0], out[1] + a.fixed_potential + self._loop_energy(sim), *out[2:])

    def energy_with(self, sim: Simulation, drives: Drives) -> tuple[float, float]:
        """Return kinetic and potential energy with other springs, soft limits and motors of the joints.

        Those of rigid bodies are taken at q and qd in every method: joints that are open a little make no difference
        to the energy watch, and nothing is solved.
        """
        if sim._stepper.body_velocities() is None:
            out = self._tree_energy_and_momentum(sim, drives)
        else:
            out = sim._stepper.energy_and_momentum(replace(sim.forces, drives=drives)) or (0.0, 0.0)
        return float(out[0]), float(out[1])

    def elastic_energy(self, sim: Simulation, drives: Drives) -> float:
        """Return the energy in springs between links and in `drives` of the joints, of those that close loops too."""
        a, (work, links, span) = sim.model.arrays, self.scratch(sim)
        weightless = a.links._replace(gravity=np.zeros(3))
        out = energies(weightless, drives, a.springs, span, sim._stepper.q, sim._stepper.qd, work, links)
        return float(out[1]) + self._loop_energy(sim)

    def scratch(self, sim: Simulation) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return work arrays of kernels: those of the tree, velocities of its links, and its span."""
        if self._work is None:
            a = sim.model.arrays
            self._work = new_work(a.links), np.zeros((len(a.links.parent), 6)), whole_span(a.links, a.drives)
        return self._work

    def _loop_energy(self, sim: Simulation) -> float:
        """Return the energy in springs, soft limits and motors of loop joints."""
        if self._loop_drives is None:
            joints = [sim.model.joint_spec(name) for name in sim.model.loop_names]
            joints = [joint for joint in joints if coordinate_counts(joint)[1]]
            sizes = np.array([coordinate_counts(joint) for joint in joints], np.int64).reshape(-1, 2)
            starts = np.cumsum(sizes, axis=0) - sizes
            drives = drives_of(joints, starts[:, 0], starts[:, 1], int(sizes[:, 1].sum()))[0]
            self._loop_drives = ([joint.name for joint in joints], drives)
        names, drives = self._loop_drives
        if not (len(drives.indices) or len(drives.ball_indices)):
            return 0.0
        return float(joint_energy(drives, np.concatenate([np.atleast_1d(sim.joint(name).q) for name in names])))
