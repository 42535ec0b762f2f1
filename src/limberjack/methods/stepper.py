"""The interface of a method: `Method`, its options, and `Stepper`, its running side.

`Simulation`, its handles and the viewer use the members declared here and no others. A method of a user derives from
both; `q`, `qd` and `advance` are enough, everything else has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from limberjack.errors import LimberjackError, StateError, UnsupportedByMethod
from limberjack.methods.capabilities import capabilities, refusal

if TYPE_CHECKING:
    from limberjack.collision.detect import Contact
    from limberjack.constraints.row_forces import RowForces
    from limberjack.constraints.runtime import RuntimeJoint
    from limberjack.model.arrays import Drives
    from limberjack.model.model import Model
    from limberjack.model.proximity import Proximity
    from limberjack.reduced.constraint_set import Grip
    from limberjack.reduced.forces import Wrenches

__all__ = ["Forces", "Method", "Stepper"]


@dataclass
class Forces:
    """What acts on a model.

    Attributes:
        tau: (nv,) applied joint forces [N or N m].
        drives: springs, dampers, soft limits and motors of the joints.
        wrenches: lasting wrenches on links.
    """

    tau: np.ndarray
    drives: Drives
    wrenches: Wrenches


class Method(ABC):
    """A method and its options, usually a frozen dataclass.

    Attributes:
        name: of the method.
        supports: the features of models it supports, words of `FEATURES`.
        verbs: what `Simulation` can do with it beside stepping, words of `VERBS`.
        black_boxes: whether it supports joints registered by a projection.
        unsymmetric: whether it supports constraints with forces along other directions than their rows.
        registered_kinds: whether the loops it supports may be constraints of registered kinds.
    """

    name: ClassVar[str]
    supports: ClassVar[frozenset[str]] = frozenset()
    verbs: ClassVar[frozenset[str]] = frozenset()
    black_boxes: ClassVar[bool] = False
    unsymmetric: ClassVar[bool] = False
    registered_kinds: ClassVar[bool] = True

    @abstractmethod
    def stepper(self, model: Model, ignored: frozenset[str] = frozenset()) -> Stepper:
        """Return a stepper for `model`, without its features in `ignored`.

        Args:
            model: what it is to move.
            ignored: features of the model that are left out.
        """


class Stepper(ABC):
    """The running side of a method: owns the state and advances it.

    Links are the moving parts of a model: bodies, or several on fixed joints. `Simulation` calls a verb only if the
    method declares it in `verbs`; the defaults raise `UnsupportedByMethod`.

    Attributes:
        q: (nq,) coordinates; the simulation writes into it between calls and then calls `invalidate`.
        qd: (nv,) velocities, likewise.
        in_one_call: whether it has `advance_in_one_call`.
        prescribes_poses: whether it has `move`; where it has not, bodies are led by rows (`attach`).
        inertial: whether forces accelerate; where they make velocities, work bounds no kinetic energy.
    """

    q: np.ndarray
    qd: np.ndarray
    in_one_call: ClassVar[bool] = False
    prescribes_poses: ClassVar[bool] = False
    inertial: bool = True

    # Stepping

    @abstractmethod
    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps from `time` on; return the steps taken and 0, or a failure (see `errors.Status`).

        After a failure the state is the one after the steps taken. With n = 0 nothing moves, but all is compiled.

        Args:
            n: most steps.
            dt: time step [s].
            forces: what acts on the model.
            time: at the start [s].
        """

    def advance_in_one_call(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int] | None:
        """Do what `advance` does by one compiled call that counts its steps, if there is one and nothing else to do.

        An interrupt between the call and the return of what it took does no harm: `steps_counted` says what was taken.

        Args:
            n: most steps.
            dt: time step [s].
            forces: what acts on the model.
            time: at the start [s].
        """
        return None

    def steps_counted(self) -> int:
        """Return the number of steps that compiled calls have taken: of methods with `advance_in_one_call`."""
        return 0

    def invalidate(self) -> None:  # noqa: B027 - most methods cache nothing
        """Discard what depends on q, qd and forces: one of them was set from outside."""

    def joint_forces_changed(self, first: int, last: int) -> None:
        """Take note that `tau` or `drives` of the dofs from `first` to `last` - 1 may have been set, nothing else.

        Args:
            first: index among the nv velocities.
            last: the index after the last.
        """
        self.invalidate()

    def wrenches_changed(self) -> None:
        """Take note that the wrenches may have been set, nothing else."""
        self.invalidate()

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure, None for the message every method has.

        Args:
            status: what `advance` returned.
            where: the step and time, for the message.
        """
        return None

    def carried_velocities(self) -> np.ndarray:
        """Return the velocities as steps carry them, nothing derived: their size says whether energy is looked at."""
        return self.qd

    # Snapshots

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return every array beside q and qd that feeds the next step; names that begin with "list_" vary in length."""
        return {}

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:  # noqa: B027 - q and qd are often all
        """Set what `state_arrays` returned; q and qd were set before. "clock" is the time [s].

        Args:
            arrays: by name.
        """

    # Queries

    def stats(self) -> dict[str, Any]:
        """Return what the last step did, by name."""
        return {}

    def active_links(self) -> np.ndarray | None:
        """Return, per link, whether its joint is simulated now; None = all are."""
        return None

    def contacts(self) -> list[Contact]:
        """Return the contacts of the last step."""
        return []

    def clusters(self, since: int = -1) -> Any:
        """Return poses of rigid clusters and which links are in them, `Clusters`; None in methods without.

        Args:
            since: version of an earlier report; links are listed only if they changed since then.
        """
        return None

    def cluster_roots(self) -> np.ndarray | None:
        """Return the first link of each rigid cluster; None in methods without."""
        return None

    def body_poses(self, rigid: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
        """Return positions and quaternions of the body frames; None = those of the tree at q.

        Args:
            rigid: those of the tree at q.
        """
        return None

    def body_velocities(self) -> np.ndarray | None:
        """Return (body_count, 6) angular velocity and velocity of the com; None = those of the tree at q and qd."""
        return None

    def joint_error(self) -> tuple[float, float] | None:
        """Return the largest gap [m] and angle [rad] of locked directions; None = the tree's joints are exact."""
        return None

    def energy_and_momentum(self, forces: Forces) -> tuple[float, ...] | None:
        """Return kinetic and potential energy, linear and angular momentum (8,); None = those at q and qd.

        Args:
            forces: what acts on the model.
        """
        return None

    def point_position(self, link: int, point: np.ndarray) -> np.ndarray | None:
        """Return a point of a link's frame in the world; None = it moves with the frame, the link is rigid.

        Args:
            link: index of the link.
            point: (3,) in the link's frame [m].
        """
        return None

    # Loop joints and bodies that are not rigid

    def loop_forces(self, name: str) -> np.ndarray:
        """Return the applied forces of a loop joint, writable.

        Args:
            name: of the loop joint.
        """
        able = ", ".join(method for method, row in capabilities().items() if row["loops"])
        raise UnsupportedByMethod(
            f'no force can be applied to loop joint "{name}": {type(self).__name__} has no loops, or they are ignored. '
            f"Methods that can: {able}"
        )

    def body_coordinates(self, link: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the coordinates a body has beyond its pose, and their rates; None = the body is rigid.

        Args:
            link: index of the link.
        """
        return None

    def set_body_coordinates(self, link: int, coordinates: np.ndarray | None, rates: np.ndarray | None) -> None:
        """Set the coordinates a body has beyond its pose, or their rates.

        Args:
            link: index of the link.
            coordinates: None = as they are.
            rates: None = as they are.
        """
        raise StateError("the body keeps its size and has no coordinates of its own")

    # Verb "grab"

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; return the stepper to continue with, this one or one with rows for grips in the same state.

        Args:
            grip: body, point and target.
        """
        raise self._refusal("grab")

    def release(self, grip: Grip) -> Stepper:
        """Remove a grip; return the stepper to go on with.

        Args:
            grip: one that was added.
        """
        raise self._refusal("grab")

    def move_grip(self, grip: Grip) -> None:
        """Take the target of a grip, which has changed.

        Args:
            grip: one that was added.
        """
        raise self._refusal("grab")

    def reset_grips(self) -> None:
        """Set up the rows of all grips again: one constrains a rotation from now on."""
        raise self._refusal("grab")

    def grip_force(self, grip: Grip) -> np.ndarray:
        """Return the force (3,) of a grip in the last step, world axes [N].

        Args:
            grip: one that was added.
        """
        raise self._refusal("grab")

    # Constraints

    def constraint_tables(self) -> tuple[Any, ...]:
        """Return the tables of constraint rows (`constraints.table.Table`) that the next step reads.

        The numbers of registered kinds in them may be changed between steps.
        """
        return ()

    # Verbs "move", "drive", "impulse", "tune"

    def move(self, link: int, position: np.ndarray | None, rotation: Sequence[float] | np.ndarray | None) -> None:
        """Prescribe the pose of a link's frame; None frees it.

        Args:
            link: the link.
            position: (3,) in the world.
            rotation: quaternion (w, x, y, z).
        """
        raise self._refusal("move")

    def drive(self, name: str, axis: int, rate: float | None, time: float) -> Stepper:
        """Prescribe the rate of a joint coordinate from its value now, None frees it; return the stepper to go on with.

        Args:
            name: of the joint.
            axis: of a compound joint, else 0.
            rate: [rad/s or m/s].
            time: now [s].
        """
        raise self._refusal("drive")

    def apply_impulse(self, link: int, point: np.ndarray, impulse: np.ndarray, angular_impulse: np.ndarray) -> None:
        """Change velocities at once by an impulse and an angular impulse, world axes, constraints maintained.

        Args:
            link: the link.
            point: (3,) where the impulse acts, in the link's frame.
            impulse: (3,) [N s].
            angular_impulse: (3,) [N m s].
        """
        raise self._refusal("impulse")

    def tune(self, options: Any) -> None:
        """Continue with other options of the method; raise `StateError` for those that cannot change.

        Args:
            options: all options of the method.
        """
        raise self._refusal("tune")

    # Verb "reactions"

    def row_forces(self, exerted: np.ndarray, forces: Forces) -> RowForces:
        """Return the forces of loop joints, limits, gears and other constraints in the last step, means over it.

        Args:
            exerted: (links, 6) what all joints and constraints together exerted on each link: torque about its com,
                force, world axes. Methods that know their multipliers need not use it.
            forces: those of the step.
        """
        raise self._refusal("reactions")

    def velocity_lag(self) -> np.ndarray | None:
        """Return, per link, how long ago its velocities held [s]; None = they are those at the poses."""
        return None

    def held_grips(self) -> Sequence[Grip]:
        """Return the grips, oldest first."""
        return ()

    def grip_wrench(self, grip: Grip) -> np.ndarray | None:
        """Return torque and force (6,) of a grip in the last step, world axes; None = they are among `row_forces`.

        Args:
            grip: one that was added.
        """
        return np.concatenate([np.zeros(3), self.grip_force(grip)])

    # Verb "attach"

    @property
    def attached_joints(self) -> tuple[str, ...]:
        """Names of the joints made while running, oldest first."""
        return ()

    @property
    def rules(self) -> tuple[Proximity, ...]:
        """The rules that attach and detach joints."""
        return ()

    def body_pose(self, body: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Return rotation matrix and origin of a body's frame in the world; None = those of the tree at q.

        Args:
            body: name of a body.
        """
        return None

    def attach(self, joint: RuntimeJoint) -> Stepper:
        """Add a joint; return the stepper to go on with, this one or one with rows in the same state.

        Args:
            joint: a joint between points of two bodies.
        """
        raise self._refusal("attach")

    def detach(self, name: str) -> Stepper:
        """Remove a joint made while running; return the stepper to go on with.

        Args:
            name: of the joint.
        """
        raise self._refusal("attach")

    def index_attached(self, name: str) -> int:
        """Return the number of a joint made while running, or of the constraint that leads a body.

        Args:
            name: of the joint or constraint.
        """
        raise self._refusal("attach")

    @property
    def driven_rates(self) -> dict[str, float]:
        """Rates of the joints with driven coordinates, by name."""
        return {}

    @property
    def timed(self) -> bool:
        """Whether rows have targets that move in time: then each call takes one step."""
        return False

    def aim_rows(self, time: float, dt: float) -> None:  # noqa: B027 - most methods have no such rows
        """Set the targets of rows that move in time for a step.

        Args:
            time: at which the step begins [s].
            dt: length of the step [s].
        """

    def take_rows(self, arrays: dict[str, np.ndarray], time: float) -> Stepper:
        """Have the joints made while running and the driven coordinates of a snapshot; return the stepper with them.

        Args:
            arrays: of `state_arrays`.
            time: of the snapshot [s].
        """
        return self

    def add_rule(self, rule: Proximity) -> None:
        """Attach and detach joints by a rule from now on.

        Args:
            rule: when to attach and to detach which points.
        """
        raise self._refusal("rules")

    def remove_rule(self, rule: Proximity) -> None:
        """Drop a rule and detach the joints it made.

        Args:
            rule: one that was added.
        """
        raise self._refusal("rules")

    def _refusal(self, verb: str) -> UnsupportedByMethod:
        return refusal(type(self).__name__, verb)
