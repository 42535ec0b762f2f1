"""Images of a model in given poses, and the PNG format."""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np

from limberjack.errors import StateError
from limberjack.viewer import geometry, raster
from limberjack.viewer.camera import Eye
from limberjack.viewer.drawing import Drawing, string_poses

__all__ = ["Painter", "png"]

_LIGHT = np.array([-0.42, -0.58, 1.0]) / np.linalg.norm([-0.42, -0.58, 1.0])
_SKY = (0.97, 0.98, 0.99, 0.80, 0.85, 0.90)
_SHADOW_PIXELS = 1536
_LARGEST = 8192
# No part is drawn narrower than this many pixels.
_PEN = 2.4


class Painter:
    """Renders a drawing, one image after the other, into buffers of its own.

    Args:
        drawing: what is drawn.
        width: of the image [pixels].
        height: of the image [pixels].
        smooth: supersampling factor along each edge; 1 = no antialiasing.
    """

    def __init__(self, drawing: Drawing, width: int = 960, height: int = 600, smooth: int = 2) -> None:
        for what, value in (("width", width), ("height", height), ("smooth", smooth)):
            low, high = (1, 8) if what == "smooth" else (16, _LARGEST)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
                raise StateError(f"{what} of a picture must be a whole number from {low} to {high}, got {value!r}")
        self.drawing, self.width, self.height, self._smooth = drawing, int(width), int(height), int(smooth)
        self._fine = _Buffers(self.height * self._smooth, self.width * self._smooth)
        self._shadow = _Buffers(_SHADOW_PIXELS, _SHADOW_PIXELS)
        self._picture = np.empty((self.height * self._smooth, self.width * self._smooth, 3), np.float32)
        meshes = [*drawing.geometries, geometry.cylinder(8)]
        self._meshes = [
            (np.ascontiguousarray(g.vertices), np.ascontiguousarray(g.normals), g.faces.astype(np.int32))
            for g in meshes
        ]
        self._starts = np.searchsorted(drawing.parts.geometry, np.arange(len(drawing.geometries) + 1))
        self._screen = np.empty((max(len(g.vertices) for g in meshes), 4))
        count = len(drawing.parts.body) + len(drawing.strings.a)
        self._poses = np.empty((count, 15))
        self.colors = np.empty((count, 3))
        self.colors[: len(drawing.parts.body)] = drawing.parts.color
        self.colors[len(drawing.parts.body) :] = drawing.string_color

    def paint(self, positions: np.ndarray, rotations: np.ndarray, eye: Eye) -> np.ndarray:
        """Return an image (height, width, 3) of the bodies in these poses."""
        self._compose(positions, rotations, eye)
        scene = self._seen(eye)
        light_view, slack = _light_view(scene, _SHADOW_PIXELS)
        self._draw(light_view, self._shadow)
        view, numbers = _eye_view(eye, self._fine.depth.shape)
        self._draw(view, self._fine)
        fine, small = self._fine, np.empty((self.height, self.width, 3), np.uint8)
        raster.shade(
            numbers, _LIGHT, slack, light_view, self._shadow.depth, self._ground(scene), np.square(_SKY), self.colors,
            fine.depth, fine.normal, fine.part, self._picture,
        )  # fmt: skip
        raster.shrink(self._picture, self._smooth, small)
        return small

    def _compose(self, positions: np.ndarray, rotations: np.ndarray, eye: Eye) -> None:
        drawing, poses = self.drawing, self._poses
        at, turn = drawing.part_poses(positions, rotations)
        n = len(at)
        pixel = _PEN * math.tan(0.5 * eye.angle) / self.height * np.maximum((at - eye.position) @ eye.axes()[2], 0.0)
        poses[:n, :9], poses[:n, 9:12], poses[:n, 12:] = _matrices(turn), at, drawing.thickened(pixel)
        if len(drawing.strings.a):
            middle, turn, length = string_poses(drawing.string_ends(positions, rotations))
            pixel = _PEN * math.tan(0.5 * eye.angle) / self.height * ((middle - eye.position) @ eye.axes()[2])
            poses[n:, :9], poses[n:, 9:12] = _matrices(turn), middle
            poses[n:, 12:14] = np.maximum(pixel, drawing.string_width)[:, None]
            poses[n:, 14] = np.maximum(length, 1e-9)

    def _seen(self, eye: Eye) -> np.ndarray:
        """Return centre and radius of a ball around the visible parts."""
        at, reach = (
            self._poses[:, 9:12],
            np.append(self.drawing.extents, self._poses[len(self.drawing.extents) :, 14]),
        )
        if not len(at):
            return np.array([*eye.target, 1.0])
        far = 1.5 * float(np.linalg.norm(eye.target - eye.position))
        near = np.linalg.norm(at - eye.target, axis=1) <= far
        at, reach = (at[near], reach[near]) if near.any() else (at, reach)
        low, high = (at - reach[:, None]).min(axis=0), (at + reach[:, None]).max(axis=0)
        return np.append(0.5 * (low + high), 0.5 * np.linalg.norm(high - low) + 1e-9)

    def _draw(self, view: np.ndarray, into: _Buffers) -> None:
        raster.wipe(into.depth, into.part)
        ends = [*self._starts, len(self._poses)]
        for k, (vertices, normals, faces) in enumerate(self._meshes):
            if ends[k] < ends[k + 1]:
                raster.draw(
                    vertices, normals, faces, self._poses, ends[k], ends[k + 1], view, self._screen,
                    into.depth, into.normal, into.part,
                )  # fmt: skip

    def _ground(self, scene: np.ndarray) -> np.ndarray:
        if not self.drawing.grounds:
            return np.zeros(12)
        ground = self.drawing.grounds[0]
        foot = scene[:3] - ((scene[:3] - ground.point) @ ground.normal) * ground.normal
        tile = 2.0 ** math.floor(math.log2(max(0.5 * scene[3], 1e-6)))
        return np.array([1.0, *foot, *ground.normal, *ground.color, tile, 9.0 * scene[3]])


class _Buffers:
    """Depth, normal and part at every pixel."""

    def __init__(self, rows: int, columns: int) -> None:
        self.depth = np.empty((rows, columns))
        self.normal = np.empty((rows, columns, 3), np.float32)
        self.part = np.empty((rows, columns), np.int32)


def _matrices(q: np.ndarray) -> np.ndarray:
    """Return the rotations (n, 9), row by row, of quaternions (n, 4)."""
    w, x, y, z = q.T
    return np.stack(
        [
            1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
        ],
        axis=1,
    )  # fmt: skip


def _eye_view(eye: Eye, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the view of an image of that shape, and the parameters of `shade`."""
    rows, columns = shape
    right, up, ahead = eye.axes()
    tangent = math.tan(0.5 * eye.angle)
    focal = 0.5 * rows / tangent
    view = np.zeros((4, 4))
    view[0, :3] = focal * right + 0.5 * columns * ahead
    view[1, :3] = -focal * up + 0.5 * rows * ahead
    view[3, :3] = ahead
    view[:, 3] = -view[:, :3] @ eye.position
    view[2, 3] = -1.0
    return view.ravel(), np.array([*eye.position, *right, *up, *ahead, tangent, 1.0])


def _light_view(scene: np.ndarray, pixels: int) -> tuple[np.ndarray, float]:
    """Return the view from the light onto a ball (centre, radius), and the depth tolerance."""
    centre, radius = scene[:3], float(scene[3])
    right, up, ahead = Eye(centre + _LIGHT, centre).axes()
    scale = 0.49 * pixels / radius
    view = np.zeros((4, 4))
    view[0, :3], view[1, :3], view[2, :3] = scale * right, -scale * up, ahead
    view[:3, 3] = -view[:3, :3] @ centre
    view[:2, 3] += 0.5 * pixels
    view[3, 3] = 1.0
    return view.ravel(), 3.0 / scale


def png(picture: np.ndarray) -> bytes:
    """Return an image (height, width, 3) of bytes as a PNG file."""
    height, width = picture.shape[:2]

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    # each row as its difference from the one above, which compresses best for images of this kind
    rows = np.concatenate([np.zeros((1, width * 3), np.uint8), picture.reshape(height, width * 3)])
    lines = np.concatenate([np.full((height, 1), 2, np.uint8), rows[1:] - rows[:-1]], axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            chunk(b"IEND", b""),
        ]
    )
