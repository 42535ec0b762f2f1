"""Drawings by matplotlib: a canvas in the style of the project, a thrown figure, a swinging chain."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from limberjack import scenes
from limberjack.cli.runs import turned
from limberjack.io.files import atomic_write
from limberjack.methods import Full
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.simulation.simulation import Simulation
from limberjack.simulation.trajectory import Trajectory

__all__ = ["animate_pendulum", "canvas", "draw_flight", "image", "save_gif", "thrown_humanoid"]

_INK, _PALE, _PAPER = "#22303c", "#9aa5ad", "#fbfaf7"
# Recorded frames per frame of the pendulum's animation.
_EVERY = 6
_DASHES = (0, (4, 3))


def thrown_humanoid() -> Simulation:
    """Return the figure without limits and dampers, so that its energy is conserved, thrown into a backflip."""
    model = scenes.humanoid(limits=None, damping=0.0)
    sim = Simulation(model, Full(integrator="momentum"), dt=1e-3)
    for side, hip in (("left", 0.6), ("right", -0.2)):
        for name, angle in (
            ("shoulder_flexion", 2.0),
            ("shoulder_abduction", 0.8),
            ("hip_flexion", hip),
            ("knee", 0.5),
        ):
            sim.joint(f"{side}_{name}").q = angle
    spin, centre = np.array((0.0, -4.0, 0.0)), _centre(model, sim.positions, sim.rotations)
    velocity = np.array((4.2, 0.0, 10.8)) - np.cross(spin, centre - sim.positions[0])
    sim.qd = np.concatenate([velocity, spin, np.zeros(model.nv - 6)])
    return sim


def _centre(model: Model, positions: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """Return the centre of mass."""
    mass = model.arrays.body_mass
    return mass @ (positions + turned(rotations, model.arrays.body_com)) / mass.sum()


@contextmanager
def canvas(width: float, height: float, dpi: int) -> Iterator[Any]:
    """Yield a figure that draws into memory, whatever backend the user has."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "axes.edgecolor": _PALE, "axes.labelcolor": _INK, "text.color": _INK, "xtick.color": _PALE,
        "ytick.color": _PALE,
        "xtick.labelcolor": _INK, "ytick.labelcolor": _INK, "axes.spines.top": False, "axes.spines.right": False,
        "axes.facecolor": _PAPER, "figure.facecolor": _PAPER, "savefig.facecolor": _PAPER, "legend.frameon": False,
        "font.size": 9.0, "axes.titlesize": 11.0, "axes.titleweight": "bold", "axes.titlelocation": "left",
    }  # fmt: skip
    with rc_context(style):
        figure = Figure(figsize=(width, height), dpi=dpi)
        FigureCanvasAgg(figure)
        yield figure


def _chain(trajectory: Trajectory, frame: int) -> np.ndarray:
    """Return the (links + 1, 2) joint positions of the chain in the x-z plane, its free end included."""
    positions, rotations = trajectory.positions[frame], trajectory.rotations[frame]
    last = trajectory.model.spec.shapes[-1]
    end = positions[-1] + turned(rotations[-1:], 2.0 * np.array([last.position]))[0]
    return np.vstack([positions, end])[:, [0, 2]]


def draw_flight(axes: Any, trajectory: Trajectory) -> None:
    """Draw ten frames of a figure's flight and the path of its centre of mass, seen along +y."""
    model = trajectory.model
    frames = np.linspace(0, len(trajectory) - 1, 10).round().astype(int)
    poses = zip(trajectory.positions, trajectory.rotations, strict=True)
    path = np.array([_centre(model, positions, rotations) for positions, rotations in poses])[:, [0, 2]]
    axes.axhline(0.0, color=_PALE, linewidth=1.0, zorder=0)
    for k in frames:
        axes.add_collection(_figure_drawing(trajectory, int(k)))
    axes.plot(*path.T, color="#e8743b", linewidth=1.0, linestyle=_DASHES, zorder=6, label="centre of mass")
    axes.plot(*path[frames].T, "o", color="#e8743b", markersize=3, zorder=7)
    axes.legend(loc="upper left")
    title = f"{model.body_count} bodies, {model.nv} degrees of freedom, thrown into a backflip"
    axes.set(title=title, xlabel="x [m]", ylabel="z [m]")
    x = trajectory.positions[..., 0]
    axes.set_xlim(x.min() - 0.4, x.max() + 0.4)
    axes.set_aspect("equal", adjustable="datalim")


def _outlines(trajectory: Trajectory, frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the (n, 32, 2) outlines and (n, 3) colours of all round shapes, seen along +y, the nearest last."""
    model = trajectory.model
    shapes = [shape for shape in model.shapes if shape.kind in ("capsule", "sphere") and shape.body != WORLD]
    body = np.array([model.body_index(shape.body) for shape in shapes])
    positions, rotations = trajectory.positions[frame][body], trajectory.rotations[frame][body]
    centre = positions + turned(rotations, np.array([shape.position for shape in shapes]))
    half = np.array([[0.0, 0.0, shape.size[1] / 2 if shape.kind == "capsule" else 0.0] for shape in shapes])
    along = turned(rotations, turned(np.array([shape.rotation for shape in shapes]), half))[:, [0, 2]]
    radius = np.array([shape.size[0] for shape in shapes])
    heading = np.arctan2(along[:, 1], along[:, 0])
    angles = heading[:, None] + np.concatenate([np.linspace(-0.5, 0.5, 16), np.linspace(0.5, 1.5, 16)]) * np.pi
    side = np.repeat((1.0, -1.0), 16)[None, :, None]
    circle = radius[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=2)
    outlines = centre[:, None, [0, 2]] + side * along[:, None, :] + circle
    colors = np.array([(shape.color or (0.6, 0.6, 0.6, 1.0))[:3] for shape in shapes])
    order = np.argsort(-(centre[:, 1] - radius), kind="stable")
    return outlines[order], colors[order]


def _figure_drawing(trajectory: Trajectory, frame: int) -> Any:
    from matplotlib.collections import PolyCollection

    outlines, colors = _outlines(trajectory, frame)
    return PolyCollection(list(outlines), facecolors=colors, edgecolors=0.6 * colors, linewidths=0.35, zorder=3)


# -- animations ------------------------------------------------------------------------------------


def image(figure: Any) -> Any:
    """Return what a figure shows, as an image."""
    from PIL import Image

    figure.canvas.draw()
    return Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3].copy())


def save_gif(path: Path, images: list[Any], milliseconds: int) -> None:
    """Write a looping animation whose frames share one palette, which keeps it small and free of flicker."""
    from PIL import Image

    sample = [images[i] for i in np.linspace(0, len(images) - 1, 6).round().astype(int)]
    strip = Image.new("RGB", (sample[0].width, sum(image.height for image in sample)))
    for i, image in enumerate(sample):
        strip.paste(image, (0, i * image.height))
    # half by area, for smooth grounds, half by coverage: small parts keep colours of their own
    halves = [strip.quantize(56, method) for method in (Image.Quantize.MEDIANCUT, Image.Quantize.MAXCOVERAGE)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([x for half in halves for x in (half.getpalette() or [])[: 3 * 56]])
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    buffer = io.BytesIO()
    durations = [milliseconds] * (len(frames) - 1) + [1200]
    frames[0].save(buffer, format="GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    atomic_write(path, buffer.getvalue())


def animate_pendulum(path: Path, trajectory: Trajectory, tick: Callable[[], None], *, every: int = _EVERY) -> None:
    """Write the animation of a chain of links of 1 m that hangs from the origin.

    Args:
        path: the .gif.
        trajectory: 60 frames per second.
        tick: called after each picture.
        every: frames of the trajectory per picture; 20 pictures are shown per second.
    """
    from matplotlib.collections import LineCollection

    reach = 1.05 * trajectory.model.body_count
    images: list[Any] = []
    with canvas(6.4, 4.0, 100) as figure:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), frameon=False)
        axes.set(xlim=(-1.04 * reach, 1.04 * reach), ylim=(-1.03 * reach, 0.27 * reach), xticks=(), yticks=())
        (tip,) = axes.plot([], [], color=_PALE, linewidth=1.0)
        chain = LineCollection([], linewidths=2.2, cmap="plasma", capstyle="round")
        chain.set_clim(0.0, 1.15)
        axes.add_collection(chain)
        axes.plot(0.0, 0.0, "o", color=_INK, markersize=6)
        clock_text = axes.text(0.03, 0.05, "", transform=axes.transAxes, fontsize=12, family="monospace")
        ends: list[np.ndarray] = []
        for k in range(0, len(trajectory), every):
            corners = _chain(trajectory, k)
            ends.append(corners[-1])
            chain.set_segments(list(np.stack([corners[:-1], corners[1:]], axis=1)))
            chain.set_array(np.linspace(0.0, 1.0, len(corners) - 1))
            tip.set_data(*np.array(ends[-30:]).T)
            clock_text.set_text(f"{trajectory.times[k]:4.1f} s")
            images.append(image(figure))
            tick()
    save_gif(path, images, 50)
