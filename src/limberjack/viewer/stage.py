"""`Stage`: a drawing in the browser. Parts of one geometry are one batch of instances, updated by one message."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from limberjack.reduced.dynamics import forward_kinematics
from limberjack.spatial.frames import quaternion_from_matrix, turn_z_to
from limberjack.viewer.camera import Eye
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.overlays import Overlays
from limberjack.viewer.part_poses import Composed

__all__ = ["Stage", "light", "sky"]

_COLLISION_OPACITY = 0.45
# Half the least width of a part, relative to the height of a window; up to this many lengths of the part itself, in
# models of few bodies and of many, whose small parts would merge.
_THIN, _WIDEST, _WIDEST_OF_MANY = 1.4 / 900.0, 2.5, 0.6
_MANY = 2000
Dragged = Callable[[str, str, Any, Any], None]


def sky() -> np.ndarray:
    """Return an image of the background, a vertical gradient."""
    top, bottom = np.array((250, 252, 253.0)), np.array((205, 217, 228.0))
    share = np.linspace(0.0, 1.0, 256)[:, None, None]
    return np.broadcast_to(top + share * (bottom - top), (256, 16, 3)).astype(np.uint8)


def light(server: Any) -> None:
    """Replace viser's lights: a sun with shadows from the upper left, a sky, and a little light from everywhere."""
    server.scene.configure_default_lights(False)
    server.scene.configure_environment_map(None)
    server.scene.add_light_hemisphere(
        "/light/sky", sky_color=(245, 249, 255), ground_color=(196, 190, 180), intensity=1.5
    )
    server.scene.add_light_directional(
        "/light/sun", color=(255, 250, 240), intensity=2.1, cast_shadow=True, position=(-0.55, -0.75, 1.2)
    )
    server.scene.add_light_directional("/light/fill", color=(220, 232, 255), intensity=0.5, position=(0.9, -0.3, 0.4))


def _shades(colors: np.ndarray) -> np.ndarray:
    """Return colours 0 .. 1 as bytes in linear light, as instances are drawn."""
    return np.round(255.0 * colors**2.2).astype(np.uint8)


class Stage:
    """Shows one drawing on a viser server.

    Args:
        server: the viser server.
        drawing: what is displayed.
        eye: initial camera.
        dragged: called with phase ("start", "update", "end"), name of the body, point and grip, as a pointer drags.
        clicked: called with the name of a body that is clicked.
        root: name of the node that everything hangs from; each of several stages has one of its own.
        offset: (3,) where that node is: stages side by side are displaced, their coordinates are not [m].
        ground: whether the ground is drawn: once where there are several stages.
    """

    def __init__(
        self, server: Any, drawing: Drawing, eye: Eye, dragged: Dragged, clicked: Callable[[str], None], *,
        root: str = "/model", offset: Any = (0.0, 0.0, 0.0), ground: bool = True,
    ) -> None:  # fmt: skip
        self._server, self.drawing, self._dragged, self._clicked = server, drawing, dragged, clicked
        self.root, self.offset = root, np.array(offset, float)
        self._distance = float(np.linalg.norm(eye.position - eye.target))
        self._handles: list[Any] = []
        self._others: list[Any] = []
        self._starts = np.searchsorted(drawing.parts.geometry, np.arange(len(drawing.geometries) + 1))
        self._painted: np.ndarray | None = drawing.parts.color  # None: not the parts' own colours
        self._shown_colors: np.ndarray | None = None
        self._string: Any = None
        self._shown = np.zeros((0, 3), np.float32)
        self.composed = Composed(drawing)
        with server.atomic():
            self._others.append(server.scene.add_frame(root, show_axes=False, position=self.offset))
            self._add_parts(eye)
            if ground:
                self._add_ground()
        self.overlays = Overlays(server, drawing, root)

    def _add_parts(self, eye: Eye) -> None:
        drawing, parts = self.drawing, self.drawing.parts
        many = drawing.model.body_count > _MANY
        thin = 2.0 * math.tan(0.5 * eye.angle) * self._distance * _THIN
        scales = drawing.thickened(thin, limit=_WIDEST_OF_MANY if many else _WIDEST).astype(np.float32)
        colors = _shades(parts.color)
        for k, mesh in enumerate(drawing.geometries):
            rows, solid = slice(self._starts[k], self._starts[k + 1]), drawing.groups[k] == "collision"
            count, glass = self._starts[k + 1] - self._starts[k], drawing.opacities[k] < 1.0
            handle = self._server.scene.add_batched_meshes_simple(
                f"{self.root}/parts/{k}",
                mesh.vertices.astype(np.float32),
                mesh.faces.astype(np.uint32),
                np.tile(np.array((1.0, 0.0, 0.0, 0.0), np.float32), (count, 1)),
                np.zeros((count, 3), np.float32),
                batched_scales=scales[rows],
                batched_colors=colors[rows],
                lod="off",
                opacity=_COLLISION_OPACITY if solid else drawing.opacities[k] if glass else None,
                cast_shadow=not (many or solid or glass),
                receive_shadow=not (many or solid or glass),
                visible=not solid,
            )
            self._listen(handle, k)
            self._handles.append(handle)
        if len(drawing.strings.a):
            self._string = self._server.scene.add_line_segments(
                f"{self.root}/strings",
                np.zeros((len(drawing.strings.a), 2, 3), np.float32),
                tuple(round(255 * c) for c in drawing.string_color),
                thickness=2.0,
                thickness_units="screen",
            )
            self._others.append(self._string)

    def _listen(self, handle: Any, k: int) -> None:
        body_of, names, start = self.drawing.parts.body, self.drawing.model.body_names, int(self._starts[k])
        rows = np.arange(start, int(self._starts[k + 1]))

        def body(row: int) -> str | None:
            i = int(body_of[row])
            return None if i < 0 else names[i]

        def on_drag(keep: bool) -> Callable[[Any], Any]:
            pressed: dict[int, int] = {}  # row by page

            # async, since viser would run plain functions out of order
            async def drag(event: Any) -> None:
                if event.phase == "start":
                    pressed[event.client_id] = self._pressed(event, rows)
                row = pressed.get(event.client_id, -1)
                name = None if row < 0 else body(row)
                if name is None:
                    return
                hold = f"{'pin' if keep else 'drag'} {event.client_id}" + (f" {name}" if keep else "")
                if event.phase == "start":
                    at = self._point(event, event.start_position, event.start_screen_pos, row)
                    self._dragged("start", name, at, hold)
                if event.phase != "end":
                    at = self._point(event, event.end_position, event.end_screen_pos, row)
                    self._dragged("update", name, at, hold)
                elif not keep:
                    self._dragged("end", name, None, hold)

            return drag

        handle.on_drag("left")(on_drag(False))
        handle.on_drag("left", modifier="shift")(on_drag(True))

        @handle.on_click
        async def _(event: Any) -> None:
            name = body(start + (event.instance_index or 0))
            if name is not None:
                self._clicked(name)

    # viser's page at times sends a press without the point, or the instance, that it hit; the camera and the place on
    # the screen are always known.

    def _ray(self, event: Any, screen: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return origin and direction of what is seen at a place of the screen of an event's page."""
        camera = event.client.camera
        eye = Eye(np.array(camera.position) - self.offset, np.array(camera.look_at) - self.offset, float(camera.fov))
        return eye.position, eye.ray(float(screen[0]), float(screen[1]), camera.image_width / camera.image_height)

    def _pressed(self, event: Any, rows: np.ndarray) -> int:
        """Return which part of a batch was pressed: where the page does not say, the one nearest to the ray."""
        if event.instance_index is not None or len(rows) == 1:
            return int(rows[event.instance_index or 0])
        origin, way = self._ray(event, event.start_screen_pos)
        off = self._shown[rows] - origin
        aside = np.linalg.norm(off - np.outer(off @ way, way), axis=1)
        return int(rows[np.argmin(aside - self.drawing.extents[rows])])

    def _point(self, event: Any, position: Any, screen: Any, row: int) -> np.ndarray:
        """Return the point of an event: where the page does not say, that of the ray as far away as the part."""
        point = np.asarray(position, float) - self.offset
        if np.isfinite(point).all():
            return point
        origin, way = self._ray(event, screen)
        return origin + way * ((self._shown[row] - origin) @ way)

    def _add_ground(self) -> None:
        for k, ground in enumerate(self.drawing.grounds[:1]):
            cell = 2.0 ** math.floor(math.log2(max(0.12 * self._distance, 1e-9)))
            # the plane takes no light: pale enough for the shadows to be what is dark on it
            pale = 0.45 + 0.55 * np.array(ground.color)
            color, line, section = (tuple(round(k * c) for c in pale) for k in (255, 238, 216))
            self._others.append(
                self._server.scene.add_grid(
                    f"/ground/{k}",
                    infinite_grid=True,
                    cell_size=cell,
                    section_size=4.0 * cell,
                    cell_color=line,
                    section_color=section,
                    fade_distance=10.0 * self._distance,
                    plane_color=color,
                    plane_opacity=1.0,
                    shadow_opacity=0.35,
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
        self._shown = shown.positions
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

    def places(self) -> np.ndarray:
        """Return the positions (k, 3) of the parts that move, as shown last."""
        moving = self.drawing.parts.body >= 0
        return self._shown[moving] if len(self._shown) == len(moving) else np.zeros((0, 3))

    def corners(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the smallest and largest corner (3,) around the parts that move, or None: there are none."""
        places = self.places()
        if not len(places):
            return None
        reach = self.drawing.extents[self.drawing.parts.body >= 0][:, None]
        return (places - reach).min(axis=0).astype(float), (places + reach).max(axis=0).astype(float)

    def show_group(self, group: str, on: bool) -> None:
        """Show or hide the "visual" or the "collision" shapes."""
        for handle, own in zip(self._handles, self.drawing.groups, strict=True):
            if own == group and handle.visible != on:
                handle.visible = on

    def remove(self) -> None:
        """Remove everything from the stage."""
        with self._server.atomic():
            self.overlays.remove()
            for handle in (*self._handles, *self._others[::-1]):
                handle.remove()
        self._handles, self._others = [], []
