"""The forces half of `Simulation`: wrenches, impulses, forces on loop joints, grips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.errors import StateError, UnsupportedByMethod
from limberjack.model.check import frame_rotation
from limberjack.model.joints import coordinate_counts
from limberjack.model.model import Model
from limberjack.reduced.dynamics import array_of
from limberjack.reduced.forces import Wrenches, no_wrenches
from limberjack.simulation.grips import GripHandle
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

__all__ = ["Pushed"]


class Pushed:
    """What acts on the bodies and joints of a simulation from outside."""

    model: Model
    method: Any
    forces: Any
    ignored: tuple[str, ...]
    _stepper: Any
    _poses: tuple[np.ndarray, np.ndarray] | None

    if TYPE_CHECKING:

        @property
        def positions(self) -> np.ndarray:
            """Origins of the body frames; `Simulation` has them."""
            ...

        @property
        def rotations(self) -> np.ndarray:
            """Quaternions of the body frames; `Simulation` has them."""
            ...

        @property
        def time(self) -> float:
            """Time; `Simulation` has it."""
            ...

        def touch(self) -> None:
            """Take note of a change; `Simulation` does."""
            ...

    def apply_wrench(
        self, body: str, *, force: Any = (0.0, 0.0, 0.0), torque: Any = (0.0, 0.0, 0.0), point: Any = None
    ) -> None:
        """Add a lasting force and torque, world axes, to a body; wrenches add up until `clear_wrenches`.

        Args:
            body: name of the body.
            force: (3,) [N].
            torque: (3,) [N m].
            point: (3,) where the force acts, in the world now and fixed to the body from then on; None = the com.
        """
        a = self.model.arrays
        b = self.model.body_index(body)
        force, torque = (
            array_of(force, (3,), "force", self.model),
            array_of(torque, (3,), "torque", self.model),
        )
        place, link = self._link_point(b, point), int(a.body_link[b])
        if link >= 0:
            w = self.forces.wrenches
            same = np.flatnonzero((w.link == link) & (w.data[:, :3] == place).all(axis=1))
            if same.size:
                w.data[same[0], 3:] += np.concatenate([force, torque])
            else:
                row = np.concatenate([place, force, torque])
                self.forces.wrenches = Wrenches(np.append(w.link, link), np.vstack([w.data, row]))
        self.touch()

    def apply_impulse(
        self, body: str, *, impulse: Any = (0.0, 0.0, 0.0), angular: Any = (0.0, 0.0, 0.0), point: Any = None
    ) -> None:
        """Change velocities at once as a blow does, all constraints kept.

        Args:
            body: name of the body.
            impulse: (3,) world axes [N s].
            angular: (3,) angular impulse, world axes [N m s].
            point: (3,) where the impulse acts, in the world; None = the com.
        """
        kick = getattr(self._stepper, "kick", None)
        if kick is None:
            able = "full, multipliers, impulses"
            raise UnsupportedByMethod(f'method "{self.method.name}" takes no impulses. Methods that do: {able}')
        b, a = self.model.body_index(body), self.model.arrays
        impulse = array_of(impulse, (3,), "impulse", self.model)
        angular = array_of(angular, (3,), "angular", self.model)
        link, place = int(a.body_link[b]), self._link_point(b, point)
        if link >= 0:
            kick(link, place, impulse, angular)
            self._poses = None

    def _link_point(self, b: int, point: Any) -> np.ndarray:
        """Return a point of the world, or a body's com for None, in the frame of the body's link."""
        a = self.model.arrays
        if point is None:
            local = a.body_com[b]
        else:
            r = matrix_from_quaternion(self.rotations[b])
            local = r.T @ (array_of(point, (3,), "point", self.model) - self.positions[b])
        return a.body_offset[b, :9].reshape(3, 3) @ local + a.body_offset[b, 9:]

    def loop_forces(self, name: str) -> np.ndarray:
        """Return the forces applied to a loop joint, to be written; for `JointHandle`."""
        give = getattr(self._stepper, "loop_forces", None)
        if give is None:
            raise UnsupportedByMethod(f'method "{self.method.name}" takes no force on loop joint "{name}"')
        return give(name)

    def body_coordinates(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return coordinates of a body beyond those of a solid, and their rates; for `BodyHandle`."""
        return self._shapes("shape_of", name)

    def set_body_coordinates(self, name: str, *, coordinates: Any = None, rates: Any = None) -> None:
        """Set coordinates of a body beyond those of a solid, or their rates; for `BodyHandle`."""
        size = (len(self.body_coordinates(name)[0]),)
        given = (
            None if x is None else array_of(x, size, f'{word} of body "{name}"', self.model)
            for x, word in ((coordinates, "coordinates"), (rates, "coordinate_rates"))
        )
        self._shapes("set_shape", name, *given)
        self.touch()

    def point_place(self, body: int, place: np.ndarray) -> np.ndarray | None:
        """Return where a point of a body that changes its size is in the world, else None; for `PointHandle`."""
        a, ask = self.model.arrays, getattr(self._stepper, "point_place", None)
        link = int(a.body_link[body])
        if ask is None or link < 0:
            return None
        return ask(link, a.body_offset[body, :9].reshape(3, 3) @ place + a.body_offset[body, 9:])

    def _shapes(self, word: str, name: str, *given: Any) -> Any:
        """Ask the stepper about the coordinates that a body has of its own."""
        link = int(self.model.arrays.body_link[self.model.body_index(name)])
        ask = getattr(self._stepper, word, None)
        if ask is None or link < 0:
            raise StateError(f'body "{name}" keeps its size and has no coordinates of its own')
        return ask(link, *given)

    def clear_wrenches(self) -> None:
        """Remove all wrenches."""
        self.forces.wrenches = no_wrenches()
        self.touch()

    def grab(self, body: str, point: Any = None, *, strength: float | None = None) -> GripHandle:
        """Hold a point of a body and draw it where `grip.move` says; return the grip.

        Args:
            body: name of the body.
            point: (3,) the point, in the world now and fixed to the body from then on; None = the com.
            strength: largest force along each axis [N]; None = 50 times the weight of the body's figure.
        """
        sim: Any = self
        return GripHandle(sim, body, point, strength=strength)

    def move(self, body: str, position: Any, rotation: Any = None) -> None:
        """Put a body somewhere and hold it there, whatever pulls at it, until moved again; None lets it go.

        Its inverse mass counts as null: joints move the others. No derivative of where it is told to be is taken.

        Args:
            body: name of the body.
            position: (3,) of the body's frame in the world, or None.
            rotation: (w, x, y, z) or a matrix; None keeps the one it has.
        """
        move = getattr(self._stepper, "move", None)
        if move is None:
            raise UnsupportedByMethod(f'method "{self.method.name}" moves no bodies. Methods that do: displacements')
        b, a = self.model.body_index(body), self.model.arrays
        link = int(a.body_link[b])
        if link < 0:
            raise StateError(f'body "{body}" is fixed to the world and cannot be moved')
        if position is None:
            move(link, None, None)
        else:
            place, offset = array_of(position, (3,), "position", self.model), a.body_offset[b]
            turned = self.rotations[b] if rotation is None else frame_rotation(rotation, "rotation")
            if offset[0] != 1.0 or offset[4] != 1.0 or offset[8] != 1.0 or offset[9:].any():
                turned = quaternion_from_matrix(matrix_from_quaternion(np.array(turned)) @ offset[:9].reshape(3, 3).T)
                place -= matrix_from_quaternion(turned) @ offset[9:]
            move(link, place, turned)
        self._poses = None

    def drive(self, joint: str, rate: float | None) -> None:
        """Let a joint's coordinate, or that of a compound axis, run at a rate from where it is; None lets it go.

        Args:
            joint: name of a joint or axis with one coordinate.
            rate: [rad/s or m/s].
        """
        drive = getattr(self._stepper, "drive", None)
        if drive is None:
            raise UnsupportedByMethod(f'method "{self.method.name}" drives no joints. Methods that do: displacements')
        self.model.joint(joint)
        spec, axis = self.model.joint_spec(joint), self.model.axis_number(joint)
        if rate is not None:
            rate = float(array_of(rate, (), "rate", self.model))
        if axis < 0 and coordinate_counts(spec)[1] != 1:
            raise StateError(f'joint "{joint}" is a {spec.kind}: only one coordinate can be driven at a rate')
        drive(spec.name, max(axis, 0), rate, self.time)
        self.touch()

    def take_grip(self, grip: Any) -> Any:
        """Let a grip act; for `GripHandle`."""
        grab = getattr(self._stepper, "grab", None)
        if grab is None and hasattr(self.method, "held_stepper"):
            self._stepper = self.method.held_stepper(self.model, frozenset(self.ignored), self._stepper)
            grab = self._stepper.grab
        if grab is None:
            raise UnsupportedByMethod(f'method "{self.method.name}" knows no grips')
        self.touch()
        return grab(grip)

    def drop_grip(self, grip: Any) -> None:
        """Let a grip go; for `GripHandle`."""
        self._stepper.release(grip)  # pyright: ignore[reportAttributeAccessIssue]
        self.touch()

    def regrip(self) -> None:
        """Take note that a grip turns its body from now on; for `GripHandle`."""
        self._stepper.regrip()  # pyright: ignore[reportAttributeAccessIssue]
