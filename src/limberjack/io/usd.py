"""Trajectories as USD (.usd, .usda, .usdc): a transform per body with time samples, meshes under it; z up, metres.

Opens in Omniverse, Blender, Maya and usdview. A time code is a frame: programs that show one frame per code play the
motion at its own speed. Needs the extra `usd`.
"""

# The bindings of USD fill their modules when they are loaded.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import require
from limberjack.io.files import atomic_write
from limberjack.io.glb import SQUARE, continuous, ground_squares
from limberjack.simulation.recorder import Bar
from limberjack.simulation.trajectory import Trajectory
from limberjack.viewer import geometry
from limberjack.viewer.drawing import Drawing, string_poses
from limberjack.viewer.film import require_frames

__all__ = ["write"]


def write(trajectory: Trajectory, path: str | Path, *, progress: bool = False) -> None:
    """Write model and motion as a USD stage.

    Args:
        trajectory: the motion; one frame gives a still.
        path: .usd and .usdc are binary, .usda is text.
        progress: show a progress bar.
    """
    require("pxr", extra="usd")
    require_frames(trajectory)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"stage{Path(path).suffix.lower()}"
        with Bar(progress, trajectory.model.body_count, f"writing {Path(path).name}") as tick:
            _Stage(trajectory, draft).fill(tick)
        atomic_write(path, draft.read_bytes())


class _Stage:
    """A USD stage under construction."""

    def __init__(self, trajectory: Trajectory, draft: Path) -> None:
        from pxr import Usd, UsdGeom

        self._trajectory, self._drawing = trajectory, Drawing(trajectory.model)
        self._stage: Any = Usd.Stage.CreateNew(str(draft))
        UsdGeom.SetStageUpAxis(self._stage, UsdGeom.Tokens.z)
        UsdGeom.SetStageMetersPerUnit(self._stage, 1.0)
        rate = self._rate()
        self._codes = (rate * (trajectory.times - trajectory.times[0])).tolist()
        self._stage.SetTimeCodesPerSecond(rate)
        self._stage.SetFramesPerSecond(rate)
        self._stage.SetStartTimeCode(0.0)
        self._stage.SetEndTimeCode(self._codes[-1])
        self._names: set[str] = set()
        self._root = f"/{_word(trajectory.model.name)}"
        self._stage.SetDefaultPrim(UsdGeom.Xform.Define(self._stage, self._root).GetPrim())

    def _rate(self) -> float:
        """Return the frames per second of the recording, a whole number."""
        gap = float(np.median(np.diff(self._trajectory.times))) if len(self._trajectory) > 1 else 0.0
        return max(1.0, float(round(1.0 / gap))) if gap > 0.0 else 60.0

    def fill(self, tick: Any) -> None:
        """Add bodies, strings and ground, and save."""
        model, parts = self._trajectory.model, self._drawing.parts
        positions, rotations = self._trajectory.positions, continuous(self._trajectory.rotations)
        for k in np.flatnonzero(parts.body < 0):
            self._add_part(int(k), self._root)
        for i, name in enumerate(model.body_names):
            place = self._free(f"{self._root}/{_word(name)}")
            prim = self._xform(place, positions[:, i], rotations[:, i])
            prim.GetPrim().SetDisplayName(name)
            for k in np.flatnonzero(parts.body == i):
                self._add_part(int(k), place)
            tick(1)
        self._add_strings()
        for frame, half, color in ground_squares(self._drawing, self._trajectory):
            place = self._free(f"{self._root}/ground")
            self._xform(place, frame[1][None], frame[0][None], np.array([[half, half, 1.0]]))
            self._add_mesh(f"{place}/mesh", SQUARE.vertices, SQUARE.faces, color)
        self._stage.Save()

    def _xform(self, place: str, positions: np.ndarray, rotations: np.ndarray, scales: np.ndarray | None = None) -> Any:
        """Add a transform that moves; what does not move is set once."""
        from pxr import Gf, UsdGeom

        prim = UsdGeom.Xform.Define(self._stage, place)
        move = prim.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble)
        turn = prim.AddOrientOp(UsdGeom.XformOp.PrecisionDouble)
        makers: list[tuple[Any, np.ndarray, Any]] = [
            (move, positions, Gf.Vec3d), (turn, rotations, lambda *q: Gf.Quatd(*q)),
        ]  # fmt: skip
        if scales is not None:
            makers.append((prim.AddScaleOp(UsdGeom.XformOp.PrecisionDouble), scales, Gf.Vec3d))
        for op, values, make in makers:
            rows = values.tolist()
            op.Set(make(*rows[0]))
            if (values[1:] != values[:1]).any():
                for code, row in zip(self._codes, rows, strict=True):
                    op.Set(make(*row), code)
        return prim

    def _add_part(self, k: int, parent: str) -> None:
        parts = self._drawing.parts
        place = self._free(f"{parent}/part")
        self._xform(place, parts.position[k][None], parts.rotation[k][None], parts.scale[k][None])
        shape = self._drawing.geometries[int(parts.geometry[k])]
        self._add_mesh(f"{place}/mesh", shape.vertices, shape.faces, parts.color[k])

    def _add_mesh(self, place: str, vertices: np.ndarray, faces: np.ndarray, color: Any) -> None:
        from pxr import Gf, UsdGeom, Vt

        mesh = UsdGeom.Mesh.Define(self._stage, place)
        mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(vertices, np.float32)))
        mesh.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(np.full(len(faces), 3, np.int32)))
        mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(np.ascontiguousarray(faces, np.int32).ravel()))
        mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
        ends = np.array([vertices.min(axis=0), vertices.max(axis=0)], np.float32)
        mesh.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(ends))
        mesh.CreateDisplayColorAttr([Gf.Vec3f(*(float(c) ** 2.2 for c in color[:3]))])

    def _add_strings(self) -> None:
        """Add springs, ropes and rods as thin cylinders that stretch."""
        drawing, t = self._drawing, self._trajectory
        if not len(drawing.strings.a):
            return
        ends = np.array([drawing.string_ends(p, r) for p, r in zip(t.positions, t.rotations, strict=True)])
        middles, turns, lengths = string_poses(ends)
        form = geometry.cylinder(8)
        for k, turn in enumerate(np.moveaxis(continuous(turns), 1, 0)):
            width = np.full(len(t), drawing.string_width)
            place = self._free(f"{self._root}/string")
            scale = np.stack([width, width, np.maximum(lengths[:, k], 1e-9)], axis=1)
            self._xform(place, middles[:, k], turn, scale)
            self._add_mesh(f"{place}/mesh", form.vertices, form.faces, drawing.string_color)

    def _free(self, place: str) -> str:
        """Return a path that no prim has: names become words, and words may coincide."""
        free = place if place not in self._names else next(
            path for k in range(1, 10**7) if (path := f"{place}_{k}") not in self._names
        )  # fmt: skip
        self._names.add(free)
        return free


def _word(name: str) -> str:
    """Return a name as an identifier of USD."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{word}" if word[0].isdigit() else word
