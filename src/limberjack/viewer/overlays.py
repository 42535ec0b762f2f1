"""`Overlays`: what is drawn over a model on demand - forces, the centre of mass, frames, names - and grips."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.reduced.dynamics import forward_kinematics
from limberjack.simulation.reactions import joint_forces
from limberjack.simulation.simulation import Simulation
from limberjack.viewer.dragging import Pull
from limberjack.viewer.drawing import Drawing, arrows, turned

__all__ = ["FORCES", "GUIDES", "Overlays", "contact_forces", "joint_reactions"]

_PULL, _REACTION, _CONTACT, _CENTRE = (214, 40, 57), (245, 130, 32), (126, 60, 170), (20, 24, 30)
# An arrow of the whole weight is this many times as long as the model is wide, but at least so many typical parts long.
_ARROW, _PARTS = 1.0, 4.0
# More names than this would cover the model.
_NAMES = 80
GUIDES = ("centre of mass", "frames", "names")


def joint_reactions(sim: Simulation) -> tuple[np.ndarray, np.ndarray] | None:
    """Return points and forces (k, 3) of all joints on their children, gears left out; None where there are none."""
    found = joint_forces(sim)
    own = [k for k, name in enumerate(sim.model.joint_names) if sim.model.joint_spec(name).kind != "gear"]
    return (found.points[own], found.reactions[own, 3:]) if own else None


def contact_forces(sim: Simulation) -> tuple[np.ndarray, np.ndarray] | None:
    """Return points and forces (k, 3) of all contacts on their first bodies; None where there are none."""
    found = sim.contacts()
    return (np.array([c.position for c in found]), np.array([c.force for c in found])) if found else None


# What the runner computes for each frame that shows it.
FORCES = {"joint reactions": joint_reactions, "contact forces": contact_forces}


def _single(numbers: np.ndarray) -> np.ndarray:
    """Return numbers in single precision, cut so that diverged ones stay finite."""
    return np.clip(numbers, -1e30, 1e30).astype(np.float32)


class Overlays:
    """Draws over one model.

    Args:
        server: the viser server.
        drawing: the model's parts.
        root: name of the node the model hangs from.
    """

    def __init__(self, server: Any, drawing: Drawing, root: str) -> None:
        self._scene, self._drawing, self._root = server.scene, drawing, root
        self._lines: dict[str, Any] = {}
        self._labels: dict[str, Any] = {}
        self._guides: dict[str, Any] = {}
        self._names: list[Any] = []

    def forces(self, facts: dict[str, Any]) -> None:
        """Show grips and, where the frame has them, reactions and contact forces as arrows."""
        self._pulls(facts.get("pulls") or [])
        for name, color in (("joint reactions", _REACTION), ("contact forces", _CONTACT)):
            found = facts.get(name)
            self._draw(name, None if found is None else self._arrows(*found), color, 3.0)

    def _draw(self, name: str, points: np.ndarray | None, color: Any, width: float) -> None:
        """Show line segments (k, 2, 3); None hides them."""
        line = self._lines.get(name)
        if points is None:
            if line is not None and line.visible:
                line.visible = False
            return
        if line is None:
            self._lines[name] = self._scene.add_line_segments(
                f"{self._root}/{name}", _single(points), color, thickness=width, thickness_units="screen"
            )
            return
        line.points = _single(points)
        if not line.visible:
            line.visible = True

    def _arrows(self, points: np.ndarray, forces: np.ndarray) -> np.ndarray:
        model = self._drawing.model
        weight = float(model.arrays.body_mass.sum() * np.linalg.norm(model.gravity))
        largest = weight or float(np.linalg.norm(forces, axis=1).max(initial=0.0)) or 1.0
        whole = max(_ARROW * float(np.ptp(points, axis=0).max(initial=0.0)), _PARTS * self._drawing.size)
        return arrows(points, whole / largest * forces)

    def _pulls(self, pulls: list[Pull]) -> None:
        """Show grips as lines from the point to its target, labelled with the force."""
        self._draw("pulls", np.array([[p.point, p.target] for p in pulls]) if pulls else None, _PULL, 4.0)
        for name in set(self._labels) - {p.name for p in pulls}:
            self._labels.pop(name).remove()
        for p in pulls:
            text = f"{np.linalg.norm(p.force):.3g} N"
            if p.name not in self._labels:
                self._labels[p.name] = self._scene.add_label(f"{self._root}/force/{p.name}", text, position=p.target)
            else:
                self._labels[p.name].text = text
                self._labels[p.name].position = p.target

    def guides(self, wanted: set[str], q: np.ndarray) -> None:
        """Show the guides asked for (of `GUIDES`) at coordinates q (nq,), and no others."""
        for name in set(self._guides) - wanted:
            self._guides.pop(name).remove()
        if "names" not in wanted:
            for handle in self._names:
                handle.remove()
            self._names = []
        if not wanted:
            return
        positions, rotations = forward_kinematics(self._drawing.model, q)
        if "centre of mass" in wanted:
            self._centre(positions, rotations)
        if "frames" in wanted:
            self._frames(positions, rotations)
        if "names" in wanted:
            self._write_names(positions)

    def _centre(self, positions: np.ndarray, rotations: np.ndarray) -> None:
        a = self._drawing.model.arrays
        mass = np.where(a.body_link >= 0, a.body_mass, 0.0)
        if not mass.sum() > 0.0:
            return
        place = mass @ (positions + turned(rotations, a.body_com)) / mass.sum()
        if "centre of mass" not in self._guides:
            self._guides["centre of mass"] = self._scene.add_label(
                f"{self._root}/centre", "⊕ centre of mass", position=place, anchor="center-left"
            )
        self._guides["centre of mass"].position = place

    def _frames(self, positions: np.ndarray, rotations: np.ndarray) -> None:
        poses = _single(rotations), _single(positions)
        if "frames" not in self._guides:
            size = 0.8 * self._drawing.size
            self._guides["frames"] = self._scene.add_batched_axes(
                f"{self._root}/frames", *poses, axes_length=size, axes_radius=0.05 * size
            )
            return
        self._guides["frames"].batched_wxyzs, self._guides["frames"].batched_positions = poses

    def _write_names(self, positions: np.ndarray) -> None:
        names = self._drawing.model.body_names[:_NAMES]
        if not self._names:
            self._names = [
                self._scene.add_label(f"{self._root}/names/{k}", name, position=positions[k], font_screen_scale=0.8)
                for k, name in enumerate(names)
            ]
        for handle, place in zip(self._names, positions, strict=False):
            handle.position = place

    def remove(self) -> None:
        """Remove everything."""
        for handle in (*self._lines.values(), *self._labels.values(), *self._guides.values(), *self._names):
            handle.remove()
        self._lines, self._labels, self._guides, self._names = {}, {}, {}, []
