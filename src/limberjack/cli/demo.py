"""The demonstration: two simulations, measured, and pictures of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from limberjack import scenes
from limberjack.cli.runs import Report, measured_run, turned
from limberjack.cli.warmup import compiled
from limberjack.errors import FileError, LimberjackError, require
from limberjack.io.files import atomic_write
from limberjack.methods import Full
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.simulation.simulation import Simulation
from limberjack.simulation.trajectory import Trajectory

__all__ = ["animate_pendulum", "canvas", "demo", "draw_flight", "save_plot", "thrown_humanoid"]

_INK, _PALE, _PAPER = "#22303c", "#9aa5ad", "#fbfaf7"
# Recorded frames per frame of the pendulum's animation.
_EVERY = 6
_DASHES = (0, (4, 3))
_KINETIC, _POTENTIAL = "#e8743b", "#3f7cac"


# -- the demonstration -----------------------------------------------------------------------------


def demo(folder: Path, console: Any) -> None:
    """Simulate the 300-link pendulum and a thrown humanoid, measure both, and write the results into `folder`.

    Args:
        folder: created if absent.
        console: the rich console to print to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(folder, f"cannot be made: {error.strerror or error}") from error
    runs = []
    for title, make, seconds in _RUNS:
        with console.status(f"{title}: preparing (the first run of a method compiles it)"):
            sim = make()
            compiled(sim)
        report = measured_run(sim, seconds, progress=True)
        assert sim.recorded is not None
        runs.append((title, sim, report, sim.recorded))
    console.print(_table(runs))
    written = []
    for title, _, _, trajectory in runs:
        written.append((trajectory.save(folder / f"{title}.npz"), "the whole trajectory; lj.Trajectory.load reads it"))
    written.append((runs[1][3].save(folder / "humanoid.csv"), "the same as a table"))
    try:
        written += _pictures(folder, runs, console)
    except LimberjackError as error:
        console.print(f"no pictures: {error}", markup=False, highlight=False)
    console.print(f"\nresults in {folder.resolve()}", markup=False, highlight=False, soft_wrap=True)
    for path, what in written:
        console.print(f"  {path.name:16} {what}", markup=False, highlight=False, soft_wrap=True)


def _pendulum() -> Simulation:
    # Runge-Kutta: when the end whips, first-order integrators gain some per cent of energy at this step.
    return Simulation(scenes.pendulum(links=300), Full(integrator="rk4", substeps=1), dt=1e-3)


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


_RUNS: tuple[tuple[str, Callable[[], Simulation], float], ...] = (
    ("pendulum", _pendulum, 16.0),
    ("humanoid", thrown_humanoid, 2.2),
)


def _table(runs: list[Any]) -> Any:
    from rich.table import Table

    integrators = ", ".join(f"{title} {sim.method.integrator}" for title, sim, _, _ in runs)
    table = Table(title="method full, steps of 1 ms", caption=f"integrators: {integrators}")
    table.add_column("model", no_wrap=True)
    for column in ("bodies", "dof", "steps", "wall s", "real-time\nfactor", "ns / joint\n/ step", "energy\ndrift"):
        table.add_column(column, justify="right", no_wrap=True)
    for title, sim, report, _ in runs:
        table.add_row(
            title, str(sim.model.body_count), str(sim.model.nv), str(report.steps), f"{report.wall:.2f}",
            f"{report.real_time_factor:.1f}", f"{report.nanoseconds_per_joint:.0f}", f"{report.energy_drift:.1e}",
        )  # fmt: skip
    return table


# -- pictures --------------------------------------------------------------------------------------


def _pictures(folder: Path, runs: list[Any], console: Any) -> list[tuple[Path, str]]:
    """Write the plot and the two animations; return their paths and what they show."""
    require("matplotlib", extra="plot")
    from rich.progress import Progress

    (_, _, swing, pendulum), (_, _, flight, humanoid) = runs
    paths = [folder / name for name in ("demo.png", "pendulum.gif", "humanoid.gif")]
    with Progress(console=console) as progress:
        task = progress.add_task("pictures", total=1 + len(range(0, len(pendulum), _EVERY)) + len(humanoid))

        def tick() -> None:
            progress.update(task, advance=1)

        save_plot(paths[0], swing, pendulum, flight, humanoid)
        tick()
        animate_pendulum(paths[1], pendulum, tick)
        _animate_humanoid(paths[2], humanoid, tick)
    captions = ("both motions and their energies", "the pendulum, twice as fast", "the humanoid, four times slower")
    return list(zip(paths, captions, strict=True))


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


def save_plot(path: Path, swing: Report, pendulum: Trajectory, flight: Report, humanoid: Trajectory) -> None:
    """Write the picture of both motions over their energies."""
    with canvas(14.0, 9.0, 120) as figure:
        edges = {"left": 0.05, "right": 0.98, "top": 0.95, "bottom": 0.065, "hspace": 0.2, "wspace": 0.11}
        grid = figure.add_gridspec(2, 2, height_ratios=(2.5, 1.0), **edges)
        _draw_swing(figure.add_subplot(grid[0, 0]), pendulum)
        draw_flight(figure.add_subplot(grid[0, 1]), humanoid)
        _draw_energy(figure.add_subplot(grid[1, 0]), swing)
        _draw_energy(figure.add_subplot(grid[1, 1]), flight)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    atomic_write(path, buffer.getvalue())


def _chain(trajectory: Trajectory, frame: int) -> np.ndarray:
    """Return the (links + 1, 2) joint positions of the chain in the x-z plane, its free end included."""
    positions, rotations = trajectory.positions[frame], trajectory.rotations[frame]
    last = trajectory.model.spec.shapes[-1]
    end = positions[-1] + turned(rotations[-1:], 2.0 * np.array([last.position]))[0]
    return np.vstack([positions, end])[:, [0, 2]]


def _draw_swing(axes: Any, trajectory: Trajectory) -> None:
    from matplotlib import colormaps

    colors = colormaps["plasma"]
    frames = np.linspace(0, len(trajectory) - 1, 25).round().astype(int)
    tips = np.array([_chain(trajectory, k)[-1] for k in range(len(trajectory))])
    axes.plot(*tips.T, color=_PALE, linewidth=0.8, linestyle=_DASHES, zorder=1)
    for k in frames:
        share = k / max(len(trajectory) - 1, 1)
        axes.plot(*_chain(trajectory, k).T, color=colors(0.88 * share), linewidth=1.4, solid_joinstyle="round")
        if k in frames[::3]:
            away = 16.0 * tips[k] / np.linalg.norm(tips[k])
            style = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": 9}
            axes.annotate(f"{trajectory.times[k]:.0f} s", tips[k], xytext=away, color=colors(0.88 * share), **style)
    axes.plot(0.0, 0.0, "o", color=_INK, markersize=5, zorder=5)
    axes.set(title=f"{trajectory.model.body_count} links released from the horizontal", xlabel="x [m]", ylabel="z [m]")
    reach = float(trajectory.model.body_count)
    axes.set_xlim(-1.12 * reach, 1.12 * reach)
    axes.set_aspect("equal", adjustable="datalim")


def draw_flight(axes: Any, trajectory: Trajectory) -> None:
    """Draw ten frames of a figure's flight and the path of its centre of mass, seen along +y."""
    model = trajectory.model
    frames = np.linspace(0, len(trajectory) - 1, 10).round().astype(int)
    poses = zip(trajectory.positions, trajectory.rotations, strict=True)
    path = np.array([_centre(model, positions, rotations) for positions, rotations in poses])[:, [0, 2]]
    axes.axhline(0.0, color=_PALE, linewidth=1.0, zorder=0)
    for k in frames:
        axes.add_collection(_figure_drawing(trajectory, int(k)))
    axes.plot(*path.T, color=_KINETIC, linewidth=1.0, linestyle=_DASHES, zorder=6, label="centre of mass")
    axes.plot(*path[frames].T, "o", color=_KINETIC, markersize=3, zorder=7)
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


def _draw_energy(axes: Any, report: Report) -> None:
    times, kinetic, potential = (np.array(x) for x in (report.times, report.kinetic, report.potential))
    scale, unit = (1e-3, "kJ") if np.abs(kinetic).max() < 1e6 else (1e-6, "MJ")
    axes.plot(times, scale * kinetic, color=_KINETIC, linewidth=1.8, label="kinetic")
    axes.plot(times, scale * potential, color=_POTENTIAL, linewidth=1.8, label="potential")
    axes.plot(times, scale * (kinetic + potential), color=_INK, linewidth=1.8, label="total")
    axes.legend(ncols=3, loc="lower right", bbox_to_anchor=(1.0, 0.99), fontsize=8.5, borderaxespad=0.0)
    axes.set(title=f"energy: total constant to {report.energy_drift:.0e}", xlabel="time [s]", ylabel=f"[{unit}]")
    axes.set_xlim(times[0], times[-1])


# -- animations ------------------------------------------------------------------------------------


def _image(figure: Any) -> Any:
    from PIL import Image

    figure.canvas.draw()
    return Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3].copy())


def _save_gif(path: Path, images: list[Any], milliseconds: int) -> None:
    """Write a looping animation whose frames share one palette, which keeps it small and free of flicker."""
    from PIL import Image

    sample = [images[i] for i in np.linspace(0, len(images) - 1, 6).round().astype(int)]
    strip = Image.new("RGB", (sample[0].width, sum(image.height for image in sample)))
    for i, image in enumerate(sample):
        strip.paste(image, (0, i * image.height))
    palette = strip.quantize(96, dither=Image.Dither.NONE)
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
            images.append(_image(figure))
            tick()
    _save_gif(path, images, 50)


def _animate_humanoid(path: Path, trajectory: Trajectory, tick: Callable[[], None]) -> None:
    images: list[Any] = []
    centres = trajectory.positions.mean(axis=1)
    with canvas(4.8, 4.8, 100) as figure:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), frameon=False)
        axes.set(xticks=(), yticks=())
        axes.axhline(0.0, color=_PALE, linewidth=1.5)
        axes.plot(centres[:, 0], centres[:, 2], color=_PALE, linewidth=1.0, linestyle=_DASHES)
        clock_text = axes.text(0.03, 0.05, "", transform=axes.transAxes, fontsize=12, family="monospace")
        for k in range(len(trajectory)):
            x, _, z = centres[k]
            axes.set(xlim=(x - 1.6, x + 1.6), ylim=(z - 1.6, z + 1.6))
            drawing = axes.add_collection(_figure_drawing(trajectory, k))
            clock_text.set_text(f"{trajectory.times[k]:4.2f} s")
            images.append(_image(figure))
            drawing.remove()
            tick()
    _save_gif(path, images, 60)
