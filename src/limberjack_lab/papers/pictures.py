"""What the pictures of the papers share: colours and style, chains as lines, files written whole."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import errors
from limberjack_lab.bench.frames import rotate
from limberjack_lab.bench.table import write_whole

__all__ = ["ACCENT", "COOL", "INK", "PALE", "chain_corners", "curves", "drawing", "link_length", "plot"]

INK, PALE = "#22303c", "#9aa5ad"
ACCENT, COOL, _PAPER = "#e8743b", "#3f7cac", "#fbfaf7"
_STYLE = {
    "axes.edgecolor": PALE, "axes.labelcolor": INK, "text.color": INK, "xtick.color": PALE, "ytick.color": PALE,
    "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.facecolor": _PAPER, "figure.facecolor": _PAPER, "savefig.facecolor": _PAPER, "legend.frameon": False,
    "font.size": 9.0, "axes.titlesize": 11.0, "axes.titleweight": "bold", "axes.titlelocation": "left",
}  # fmt: skip


@contextmanager
def drawing(path: Path, width: float, height: float) -> Iterator[Any]:
    """Give a figure of so many inches that draws into memory, whatever the backend; then write it to `path`."""
    errors.require("matplotlib", extra="plot")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: dict[Any, Any] = _STYLE
    with rc_context(style):
        figure, buffer = Figure(figsize=(width, height), dpi=120), io.BytesIO()
        FigureCanvasAgg(figure)
        yield figure
        figure.savefig(buffer, format="png")
    write_whole(path, buffer.getvalue())


@contextmanager
def plot(path: Path, width: float, height: float, box: tuple[float, ...], **labels: Any) -> Iterator[Any]:
    """Give axes in a `box` of a figure, with a grid and `labels` as `Axes.set` takes them; then write the figure."""
    with drawing(path, width, height) as figure:
        axes = figure.add_axes(box)
        axes.grid(True, alpha=0.25)
        yield axes
        axes.set(**labels)


def curves(path: Path, lines: dict[str, list[float]], styles: Sequence[str], mark: float, **labels: str) -> None:
    """Write a picture of positive values over their number, on a logarithmic scale, with a line at `mark`."""
    with plot(path, 7.0, 4.5, (0.12, 0.12, 0.85, 0.78), **labels) as axes:
        for (label, values), (style, color) in zip(lines.items(), (s.split(" ") for s in styles), strict=True):
            axes.semilogy([max(value, 1e-17) for value in values], style, color=color, label=label)
        axes.axvline(mark, color=PALE, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.legend(fontsize=8)


def link_length(model: lj.Model) -> float:
    """Return the length of the links of a chain of equal ones [m]."""
    return abs(model.joint_spec(model.joint_names[-1]).position[2])


def chain_corners(model: lj.Model, q: np.ndarray) -> np.ndarray:
    """Return the (links + 1, 2) corners in the x-z plane of a chain of equal links that hang along their -z."""
    positions, rotations = lj.forward_kinematics(model, q)
    end = positions[-1] + rotate(rotations[-1:], np.array([[0.0, 0.0, -link_length(model)]]))[0]
    return np.vstack([positions, end])[:, [0, 2]]
