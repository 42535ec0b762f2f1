"""`Stage`: a drawing in the browser. Parts of one geometry are one batch of instances, updated by one message."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from limberjack.reduced.dynamics import forward_kinematics
from limberjack.spatial.frames import quaternion_from_matrix, turn_z_to
from limberjack.viewer.camera import Eye
from limberjack.viewer.dragging import Pull
from limberjack.viewer.drawing import Drawing, arrows
from limberjack.viewer.part_poses import Composed

__all__ = ["Stage", "sky"]

_PULL = (214, 40, 57)
_REACTION = (245, 130, 32)
# An arrow of the whole weight is this many times as long as the model is wide, but at least so many typical parts long.
_ARROW, _PARTS = 1.5, 4.0
# Size of a pixel relative to the height of a typical window.
_PIXEL = 1.0 / 900.0
Dragged = Callable[[str, str, Any, Any], None]


def sky() -> np.ndarray:
    """Return an image of the background, a vertical gradient."""
    top, bottom = np.array((250, 252, 253.0)), np.array((205, 217, 228.0))
    share = np.linspace(0.0, 1.0, 256)[:, None, None]
    return np.broadcast_to(top + share * (bottom - top), (256, 16, 3)).astype(np.uint8)


def _shades(colors: np.ndarray) -> np.ndarray:
    """Return colours 0 .. 1 as bytes in linear light, as instances are drawn."""
    return np.round(255.0 * colors**2.2).astype(np.uint8)


def _single(numbers: np.ndarray) -> np.ndarray:
    """Return numbers in single precision, cut so that diverged ones stay finite."""
    return np.clip(numbers, -1e30, 1e30).astype(np.float32)


class Stage:
    """Shows one drawing on a viser server.

    Args:
        server: the viser server.
        drawing: what is displayed.
        eye: initial camera.
        dragged: called with phase ("start", "update", "end"), name of the body, point and grip, as a pointer drags.
        clicked: called with the name of a body that is clicked.
    """

    def __init__(
        self, server: Any, drawing: Drawing, eye: Eye, dragged: Dragged, clicked: Callable[[str], None]
    ) -> None:
        self._server, self.drawing, self._dragged, self._clicked = server, drawing, dragged, clicked
        self._distance = float(np.linalg.norm(eye.position - eye.target))
        self._handles: list[Any] = []
        self._others: list[Any] = []
        self._labels: dict[str, Any] = {}
        self._starts = np.searchsorted(drawing.parts.geometry, np.arange(len(drawing.geometries) + 1))
        self._painted: np.ndarray | None = drawing.parts.color  # None: not the parts' own colours
        self._shown_colors: np.ndarray | None = None
        self._string: Any = None
        self.composed = Composed(drawing)
        with server.atomic():
            self._add_parts(eye)
            self._add_ground()
            self._pull = server.scene.add_line_segments(
                "/pulls", np.zeros((1, 2, 3), np.float32), _PULL, thickness=4.0, thickness_units="screen", visible=False
            )
            self._reactions = server.scene.add_line_segments(
                "/reactions", np.zeros((1, 2, 3), np.float32), _REACTION, thickness=3.0, thickness_units="screen",
                visible=False,
            )  # fmt: skip
            self._others += [self._pull, self._reactions]

    def _add_parts(self, eye: Eye) -> None:
        drawing, parts = self.drawing, self.drawing.parts
        pixel = 2.0 * math.tan(0.5 * eye.angle) * self._distance * _PIXEL
        scales = drawing.thickened(pixel, limit=0.6).astype(np.float32)
        colors = _shades(parts.color)
        many = drawing.model.body_count > 2000
        for k, mesh in enumerate(drawing.geometries):
            rows = slice(self._starts[k], self._starts[k + 1])
            count = self._starts[k + 1] - self._starts[k]
            handle = self._server.scene.add_batched_meshes_simple(
                f"/model/{k}",
                mesh.vertices.astype(np.float32),
                mesh.faces.astype(np.uint32),
                np.tile(np.array((1.0, 0.0, 0.0, 0.0), np.float32), (count, 1)),
                np.zeros((count, 3), np.float32),
                batched_scales=scales[rows],
                batched_colors=colors[rows],
                lod="off",
                cast_shadow=not many,
                receive_shadow=not many,
            )
            self._listen(handle, k)
            self._handles.append(handle)
        if len(drawing.strings.a):
            self._string = self._server.scene.add_line_segments(
                "/strings",
                np.zeros((len(drawing.strings.a), 2, 3), np.float32),
                tuple(round(255 * c) for c in drawing.string_color),
                thickness=2.0,
                thickness_units="screen",
            )
            self._others.append(self._string)

    def _listen(self, handle: Any, k: int) -> None:
        body_of, names, start = self.drawing.parts.body, self.drawing.model.body_names, int(self._starts[k])

        def body(index: int | None) -> str | None:
            i = int(body_of[start + (index or 0)])
            return None if i < 0 else names[i]

        def on_drag(keep: bool) -> Callable[[Any], Any]:
            # async, since viser would run plain functions out of order
            async def drag(event: Any) -> None:
                name = body(event.instance_index)
                if name is None:
                    return
                hold = f"{'pin' if keep else 'drag'} {event.client_id}" + (f" {name}" if keep else "")
                if event.phase == "start":
                    self._dragged("start", name, event.start_position, hold)
                if event.phase != "end":
                    self._dragged("update", name, event.end_position, hold)
                elif not keep:
                    self._dragged("end", name, event.end_position, hold)

            return drag

        handle.on_drag("left")(on_drag(False))
        handle.on_drag("left", modifier="shift")(on_drag(True))

        @handle.on_click
        async def _(event: Any) -> None:
            name = body(event.instance_index)
            if name is not None:
                self._clicked(name)

    def _add_ground(self) -> None:
        for k, ground in enumerate(self.drawing.grounds[:1]):
            cell = 2.0 ** math.floor(math.log2(max(0.12 * self._distance, 1e-9)))
            color = tuple(round(255 * c) for c in ground.color)
            line = tuple(round(235 * c) for c in ground.color)
            self._others.append(
                self._server.scene.add_grid(
                    f"/ground/{k}",
                    infinite_grid=True,
                    cell_size=cell,
                    section_size=4.0 * cell,
                    cell_color=line,
                    section_color=tuple(round(215 * c) for c in ground.color),
                    fade_distance=12.0 * self._distance,
                    plane_color=color,
                    plane_opacity=1.0,
                    shadow_opacity=0.3,
                    wxyz=quaternion_from_matrix(turn_z_to(ground.normal)),
                    position=ground.point,
                )
            )

    # Updates

    def show(self, q: np.ndarray, cluster_roots: np.ndarray | None = None) -> np.ndarray | None:
        """Set the poses of all parts and strings from coordinates.

        Args:
            q: (nq,) coordinates.
            cluster_roots: root links of the rigid clusters, where there are any: only clusters are updated then.

        Returns:
            the centre (3,) of the moving parts, or None: the coordinates are those of another model.
        """
        model = self.drawing.model
        if len(q) != model.nq:
            return None
        if cluster_roots is None:
            shown = self.composed.by_bodies(*forward_kinematics(model, q))
        else:
            shown = self.composed.by_clusters(cluster_roots, q)
        with self._server.atomic():
            for k, handle in enumerate(self._handles):
                rows = slice(self._starts[k], self._starts[k + 1])
                handle.batched_positions = shown.positions[rows]
                handle.batched_wxyzs = shown.rotations[rows]
            if self._string is not None:
                self._string.points = shown.ends
        return shown.middle

    def paint(self, colors: np.ndarray) -> None:
        """Set the colours of the parts (parts, 3), 0 .. 1."""
        if colors is self._painted:
            return
        self._painted = colors if colors is self.drawing.parts.color else None
        table = _shades(colors)
        if self._shown_colors is not None and np.array_equal(table, self._shown_colors):
            return
        self._shown_colors = table
        with self._server.atomic():
            for k, handle in enumerate(self._handles):
                handle.batched_colors = table[self._starts[k] : self._starts[k + 1]]

    def pulls(self, pulls: list[Pull]) -> None:
        """Show grips as lines from the point to its target, labelled with the force."""
        if pulls:
            self._pull.points = _single(np.array([[p.point, p.target] for p in pulls]))
        if self._pull.visible != bool(pulls):
            self._pull.visible = bool(pulls)
        for name in set(self._labels) - {p.name for p in pulls}:
            self._labels.pop(name).remove()
        for p in pulls:
            text = f"{np.linalg.norm(p.force):.3g} N"
            if p.name not in self._labels:
                self._labels[p.name] = self._server.scene.add_label(f"/force/{p.name}", text, position=p.target)
            else:
                self._labels[p.name].text = text
                self._labels[p.name].position = p.target

    def reactions(self, shown: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Show forces (k, 3) at points (k, 3) as arrows; None = none."""
        if shown is not None:
            points, forces = shown
            model = self.drawing.model
            weight = float(model.arrays.body_mass.sum() * np.linalg.norm(model.gravity))
            largest = weight or float(np.linalg.norm(forces, axis=1).max(initial=0.0)) or 1.0
            whole = max(_ARROW * float(np.ptp(points, axis=0).max(initial=0.0)), _PARTS * self.drawing.size)
            self._reactions.points = _single(arrows(points, whole / largest * forces))
        if self._reactions.visible != (shown is not None):
            self._reactions.visible = shown is not None

    def remove(self) -> None:
        """Remove everything from the stage."""
        with self._server.atomic():
            for handle in (*self._handles, *self._others, *self._labels.values()):
                handle.remove()
        self._handles, self._others, self._labels = [], [], {}
