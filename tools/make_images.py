"""Draw the pictures of the documentation anew: docs/images/pendulum.gif, humanoid.png.

Usage: python tools/make_images.py [NAME ...]     (default: all; needs the extra "plot")

Each is simulated first, which takes about a minute in all. The same sources give the same pictures.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import limberjack as lj
from limberjack.cli.demo import canvas
from limberjack.io.files import atomic_write
from limberjack.viewer.drawing import turned

FOLDER = Path(__file__).parent.parent / "docs" / "images"
_INK, _PALE = "#22303c", "#9aa5ad"
LARGEST = {"pendulum.gif": 500_000, "humanoid.png": 250_000}


def pendulum(path: Path) -> None:
    """The 300-link pendulum for 30 seconds, three times as fast: down, up, and back with a crack of the whip."""
    # Short steps: past 20 s the end of the chain turns over within milliseconds.
    sim = lj.Simulation(lj.scenes.pendulum(links=300), lj.Full(integrator="rk4", substeps=1), dt=1 / 2400)
    _animate(path, sim.run(30.0), 9)


def humanoid(path: Path) -> None:
    """The thrown humanoid in ten moments of its backflip."""
    trajectory = thrown_humanoid().run(2.2)
    with canvas(10.0, 7.6, 120) as figure:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), frameon=False)
        _draw_flight(axes, trajectory)
        axes.set(xticks=(), yticks=(), xlim=(-0.85, 10.95), ylim=(-0.45, 8.518))
        figure.savefig(path, format="png")
    _shrink(path, 64)


def thrown_humanoid() -> lj.Simulation:
    """Return the figure without limits and dampers, so that its energy is conserved, thrown into a backflip."""
    model = lj.scenes.humanoid(limits=None, damping=0.0)
    sim = lj.Simulation(model, lj.Full(integrator="momentum"), dt=1e-3)
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


def _centre(model: lj.Model, positions: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """Return the centre of mass."""
    mass = model.arrays.body_mass
    return mass @ (positions + turned(rotations, model.arrays.body_com)) / mass.sum()


def _draw_flight(axes: Any, trajectory: lj.Trajectory) -> None:
    """Draw ten frames of a figure's flight and the path of its centre of mass, seen along +y."""
    model = trajectory.model
    frames = np.linspace(0, len(trajectory) - 1, 10).round().astype(int)
    poses = zip(trajectory.positions, trajectory.rotations, strict=True)
    path = np.array([_centre(model, positions, rotations) for positions, rotations in poses])[:, [0, 2]]
    axes.axhline(0.0, color=_PALE, linewidth=1.0, zorder=0)
    for k in frames:
        axes.add_collection(_figure_drawing(trajectory, int(k)))
    axes.plot(*path.T, color="#e8743b", linewidth=1.0, linestyle=(0, (4, 3)), zorder=6)
    axes.plot(*path[frames].T, "o", color="#e8743b", markersize=3, zorder=7)


def _outlines(trajectory: lj.Trajectory, frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the (n, 32, 2) outlines and (n, 3) colours of all round shapes, seen along +y, the nearest last."""
    model = trajectory.model
    shapes = [shape for shape in model.shapes if shape.kind in ("capsule", "sphere") and shape.body != "world"]
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


def _figure_drawing(trajectory: lj.Trajectory, frame: int) -> Any:
    from matplotlib.collections import PolyCollection

    outlines, colors = _outlines(trajectory, frame)
    return PolyCollection(list(outlines), facecolors=colors, edgecolors=0.6 * colors, linewidths=0.35, zorder=3)


def _chain(trajectory: lj.Trajectory, frame: int) -> np.ndarray:
    """Return the (links + 1, 2) joint positions of the chain in the x-z plane, its free end included."""
    positions, rotations = trajectory.positions[frame], trajectory.rotations[frame]
    last = trajectory.model.spec.shapes[-1]
    end = positions[-1] + turned(rotations[-1:], 2.0 * np.array([last.position]))[0]
    return np.vstack([positions, end])[:, [0, 2]]


def _animate(path: Path, trajectory: lj.Trajectory, every: int) -> None:
    """Write the animation of a chain of links of 1 m that hangs from the origin.

    Args:
        path: the .gif.
        trajectory: 60 frames per second.
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
    save_gif(path, images, 50)


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


def _shrink(path: Path, colors: int) -> None:
    """Write a PNG anew with few colours, a third of the size."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(path) as image:
        image.convert("RGB").quantize(colors, dither=Image.Dither.NONE).save(buffer, format="PNG", optimize=True)
    atomic_write(path, buffer.getvalue())


IMAGES: dict[str, Callable[[Path], None]] = {"pendulum.gif": pendulum, "humanoid.png": humanoid}


def main(names: list[str]) -> int:
    """Draw the pictures named; return 1 when one has become too large."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    status = 0
    for name in names or list(IMAGES):
        if name not in IMAGES:
            print(f"no picture {name}; there are {', '.join(IMAGES)}", file=sys.stderr)
            return 2
        path = FOLDER / name
        IMAGES[name](path)
        size = path.stat().st_size
        print(f"{path}: {size / 1000:.0f} kB")
        if size > LARGEST[name]:
            print(f"{name} is larger than {LARGEST[name] / 1000:.0f} kB", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
