"""The demonstration: what the package is for, simulated, measured and shown on one page.

Chapters are lists of runs. Where a chapter compares budgets, its last run simulates all joints, and the others are
measured against it.
"""

from __future__ import annotations

import html
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from limberjack import scenes
from limberjack.cli.runs import Report, measured_run
from limberjack.cli.warmup import compiled, compilers, pictures
from limberjack.errors import FileError, MissingExtra, require
from limberjack.io.files import atomic_write
from limberjack.methods import Adaptive, Full
from limberjack.simulation.simulation import Simulation
from limberjack.simulation.trajectory import Trajectory
from limberjack.viewer.camera import Eye
from limberjack.viewer.colors import body_values, part_colors
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.film import chosen_shot
from limberjack.viewer.picture import Painter, png

__all__ = ["CHAPTERS", "Chapter", "Run", "Scenario", "canvas", "demo"]

_RATE = 30.0  # recorded frames [1/s]
_PICTURE = (960, 540)  # [pixels]
_INK, _PALE, _PAPER = "#22303c", "#9aa5ad", "#fbfaf7"
_COLORS = ("#e8743b", "#3f7cac", "#5c946e", "#c9a227")


class Scenario(NamedTuple):
    """A simulation to be run, and what drives it."""

    sim: Simulation
    drive: Callable[[Simulation], None] | None = None
    camera: Any = None


class Run(NamedTuple):
    """One run: its name in files and tables, and what makes it."""

    label: str
    make: Callable[[], Scenario]


@dataclass(frozen=True)
class Chapter:
    """Runs that belong together.

    Attributes:
        name: of its files.
        title: one line.
        text: a paragraph for the page.
        seconds: simulated by each run [s].
        runs: the runs.
        compared: whether the last run simulates all joints, and the others are measured against it.
        command: what to type to see more.
    """

    name: str
    title: str
    text: str
    seconds: float
    runs: tuple[Run, ...]
    compared: bool
    command: str


@dataclass
class _Done:
    """A run that has been simulated and measured."""

    chapter: Chapter
    run: Run
    scenario: Scenario
    report: Report
    trajectory: Trajectory
    clusters: np.ndarray | None
    error: np.ndarray | None = None  # mean distance of bodies from the run with all joints, by frame [m]
    way: float = 0.0  # mean distance they travel with all joints [m]
    speedup: float | None = None
    files: list[Path] = field(default_factory=list)

    @property
    def stem(self) -> str:
        """Return the name of its files."""
        return f"{self.chapter.name}-{self.run.label.split()[0]}" if len(self.chapter.runs) > 1 else self.chapter.name


# -- chapters --------------------------------------------------------------------------------------


def _crowd(budget: int | None) -> Scenario:
    """Return people held in their poses by motors and pushed, `budget` joints in the nearest, or all joints."""
    scene = scenes.get("adaptive_crowd", figures=12, **({} if budget is None else {"budget": budget}))
    method = Full(integrator="implicit") if budget is None else scene.method
    return Scenario(Simulation(scene.model, method, dt=scene.dt), scene.drive, scene.camera)


def _pendulum(budget: int | None) -> Scenario:
    model = scenes.paper_pendulum(links=300, start="random")
    return Scenario(Simulation(model, "full" if budget is None else Adaptive(budget=budget), dt=2.5e-4))


def _stairs() -> Scenario:
    scene = scenes.get("stairs")
    return Scenario(Simulation(scene.model, scene.method, dt=scene.dt), None, scene.camera)


def _bridge() -> Scenario:
    scene = scenes.get("bridge", planks=8)
    return Scenario(Simulation(scene.model, "full", dt=1 / 240), _push("plank4", 400.0))


def _ring() -> Scenario:
    """Return the ring of figures swaying in its joints."""
    scene = scenes.get("ring_of_figures", figures=8, gravity=(0.0, 0.0, 0.0))
    return Scenario(Simulation(scene.model, "full", dt=1 / 500), _push("figure0_chest", 150.0))


def _push(body: str, force: float) -> Callable[[Simulation], None]:
    """Return a drive that pushes a body up and down once a second, with a force [N]."""

    def push(sim: Simulation) -> None:
        sim.clear_wrenches()
        sim.apply_wrench(body, force=(0.0, 0.0, force * np.sin(2.0 * np.pi * sim.time)))

    return push


class _Drag:
    """Drags the right hand of a figure around."""

    def __init__(self) -> None:
        self._grip: Any = None

    def __call__(self, sim: Simulation) -> None:
        if self._grip is None:
            self._grip = sim.grab("right_hand")
            self._start = np.array(self._grip.point)
        angle = 2.0 * np.pi * sim.time / 2.0
        self._grip.move(self._start + (0.8 * np.sin(angle), 0.0, 0.9 - 0.9 * np.cos(angle)))


def _dragged() -> Scenario:
    return Scenario(Simulation(scenes.humanoid(limits="soft", contacts=False), "full", dt=1e-3), _Drag())


def _budgets(make: Callable[[int | None], Scenario], budgets: tuple[int, ...]) -> tuple[Run, ...]:
    few = [Run(f"{budget} joint{'s' if budget > 1 else ''}", lambda budget=budget: make(budget)) for budget in budgets]
    return (*few, Run("all joints", lambda: make(None)))


CHAPTERS = (
    Chapter(
        "crowd", "A crowd under a budget",
        "Twelve people of 89 bodies, held in their poses by motors, are pushed away from the camera. The nearest has "
        "as many joints simulated as the budget says, those farther away fewer; the rest of each moves as rigid "
        "clusters, one colour each.",
        1.5, _budgets(_crowd, (5, 20)), True, "limberjack view adaptive_crowd",
    ),
    Chapter(
        "pendulum", "300 links, some of them simulated",
        "A damped pendulum of 300 links, of which 1, 20 or all joints are simulated at a time; which ones is chosen "
        "anew as it moves.",
        4.0, _budgets(_pendulum, (1, 20)), True,
        "limberjack run paper_pendulum --option budget=20 --out swing.html",
    ),
    Chapter(
        "stairs", "Figures and a rope on stairs",
        "Three figures with limited joints and a rope of 16 links fall down stairs: contacts with friction, between "
        "all of them.",
        4.0, (Run("all joints", _stairs),), False, "limberjack view stairs",
    ),
    Chapter(
        "bridge", "A bridge of loops",
        "A bridge of 60 bodies on ball joints, many of which close loops; somebody jumps on a plank in the middle.",
        2.0, (Run("all joints", _bridge),), False, "limberjack view bridge",
    ),
    Chapter(
        "ring", "A ring of figures, assembled",
        "Eight figures start with their hands and feet apart. The assembly moves them until every joint is closed; "
        "then one of them sways, and the ring follows.",
        3.0, (Run("all joints", _ring),), False, "limberjack view ring_of_figures",
    ),
    Chapter(
        "dragged", "A figure dragged by the hand",
        "A person of 89 bodies is dragged in a circle by the right hand; in the viewer, drag any body.",
        4.0, (Run("all joints", _dragged),), False, "limberjack view humanoid",
    ),
)  # fmt: skip


# -- running ---------------------------------------------------------------------------------------


def demo(folder: Path, console: Any) -> None:
    """Run all chapters, print one table, and write recordings, pictures and a page into `folder`.

    Args:
        folder: created if absent.
        console: the rich console to print to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(folder, f"cannot be made: {error.strerror or error}") from error
    drawn = True
    try:
        require("matplotlib", extra="plot")
    except MissingExtra as error:
        console.print(f"no plots: {error}", markup=False, highlight=False)
        drawn = False
    begin = time.perf_counter()
    prepare(console)
    done: list[_Done] = []
    for chapter in CHAPTERS:
        console.print(f"{chapter.title}", markup=False, highlight=False)
        these = [_simulated(chapter, run) for run in chapter.runs]
        if chapter.compared:
            _compare(these)
        with console.status(f"{chapter.title}: writing"):
            for one in these:
                _write(folder, one)
        done += these
    console.print(_table(done))
    plots = _plot(folder / "errors.png", done) if drawn else None
    atomic_write(folder / "index.html", _page(done, plots).encode())
    wall = time.perf_counter() - begin
    console.print(f"\n{wall:.0f} s; everything is on the page", markup=False, highlight=False)
    console.print(f"  {(folder / 'index.html').resolve()}", markup=False, highlight=False, soft_wrap=True)


def _needed() -> list[tuple[int, int]]:
    """Return runs that together need all kernels, as chapter and run.

    Chapters that compare budgets need the same kernels: the first of them starts, and the others wait until it is done.
    """
    compared = [k for k, chapter in enumerate(CHAPTERS) if chapter.compared]
    others = [(k, 0) for k, chapter in enumerate(CHAPTERS) if not chapter.compared]
    whole = [(k, len(CHAPTERS[k].runs) - 1) for k in compared]
    return [*((k, 0) for k in compared[:1]), *others, *whole, *((k, 0) for k in compared[1:])]


def _compile(chapter: int, run: int) -> None:
    """Compile what a run needs, in a process of its own."""
    scenario = CHAPTERS[chapter].runs[run].make()
    if scenario.drive is not None:
        scenario.drive(scenario.sim)
    compiled(scenario.sim)


def prepare(console: Any) -> None:
    """Compile what the runs need, in several processes, and say what and for how long."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    if (os.cpu_count() or 1) < 2:
        return  # the runs compile what they need themselves
    needed = _needed()
    with Progress(*columns, console=console, transient=True) as progress, compilers(len(needed) + 1) as pool:
        jobs = {pool.submit(_compile, *one): CHAPTERS[one[0]].title for one in needed}
        jobs[pool.submit(pictures)] = "pictures"
        tasks = {job: progress.add_task(f"compiling, once: {title}", total=1) for job, title in jobs.items()}
        for job in as_completed(jobs):
            job.result()
            progress.update(tasks[job], completed=1, visible=False)


def _simulated(chapter: Chapter, run: Run) -> _Done:
    scenario = run.make()
    sim, drive = scenario.sim, scenario.drive
    compiled(sim)
    clusters: list[np.ndarray] = []
    budgeted = sim.method.name == "adaptive"

    def look(sim: Simulation) -> None:
        if drive is not None:
            drive(sim)
        if budgeted:
            values = body_values(sim, "rigid cluster")
            assert values is not None
            clusters.append(values)

    report = measured_run(sim, chapter.seconds, rate=_RATE, progress=True, drive=look)
    trajectory = sim.recorded
    assert trajectory is not None
    table = np.array(clusters) if budgeted else None
    return _Done(chapter, run, scenario, report, trajectory, table)


def _compare(runs: list[_Done]) -> None:
    """Measure runs against the last, which simulates all joints."""
    whole = runs[-1]
    full = whole.trajectory.positions
    for one in runs:
        one.error = np.linalg.norm(one.trajectory.positions - full, axis=2).mean(axis=1)
        one.way = float(np.linalg.norm(full - full[0], axis=2).mean())
        one.speedup = whole.report.microseconds_per_step / one.report.microseconds_per_step


def _write(folder: Path, done: _Done) -> None:
    """Write the recording and a picture of its first quarter."""
    trajectory, camera = done.trajectory, done.scenario.camera
    title = f"{done.chapter.title}: {done.run.label}"
    done.files.append(trajectory.save(folder / f"{done.stem}.html", camera=camera, title=title, clusters=done.clusters))
    path, frame = folder / f"{done.stem}.png", len(trajectory) // 4
    drawing = Drawing(trajectory.model)
    painter = Painter(drawing, *_PICTURE, 2)
    if done.clusters is not None:
        painter.colors[: len(drawing.parts.color)] = part_colors(drawing, "rigid cluster", done.clusters[frame], 1.0)
    eye: Eye = chosen_shot(drawing, trajectory, camera, None, _PICTURE[0] / _PICTURE[1]).at(frame)
    atomic_write(path, png(painter.paint(trajectory.positions[frame], trajectory.rotations[frame], eye)))
    done.files.append(path)


# -- results ---------------------------------------------------------------------------------------

_HEADS = ("run", "a step", "x real", "speed-up", "error", "of way", "joint gap")


def _row(done: _Done) -> tuple[str, ...]:
    """Return the cells of a run: what a step costs, and what is lost by simulating few joints."""
    report, sim = done.report, done.scenario.sim
    error = None if done.error is None else float(done.error.mean())
    reference = done.error is not None and done.run is done.chapter.runs[-1]
    gap = float(sim.joint_error()[0])
    return (
        f"{done.chapter.name}, {done.run.label}",
        _time(report.microseconds_per_step),
        f"{report.real_time_factor:.2g}",
        "-" if done.speedup is None else f"{_factor(done.speedup)} x",
        "-" if error is None or reference else _length(error),
        "-" if error is None or reference else f"{100 * error / max(done.way, 1e-300):.2g} %",
        "0" if gap == 0.0 else _length(gap),
    )


def _length(metres: float) -> str:
    """Return a length in a unit that suits it."""
    for size, unit in ((1.0, "m"), (1e-3, "mm"), (1e-6, "um")):
        if metres >= 0.1 * size:
            return f"{metres / size:.2g} {unit}"
    return f"{metres:.0e} m"


_CAPTION = (
    "a step: recording included; x real: seconds simulated per second; error: mean distance of bodies from where "
    "they are with all joints, and its share of the way travelled; joint gap: the largest at the end"
)


def _table(runs: list[_Done]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), caption=_CAPTION)
    for head in _HEADS:
        table.add_column(head, justify="left" if head == "run" else "right", no_wrap=True)
    for done in runs:
        table.add_row(*_row(done))
    return table


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


def _plot(path: Path, runs: list[_Done]) -> Path:
    """Write the plot of errors over time, one panel for each chapter that compares budgets; return its path."""
    import io

    chapters = [chapter for chapter in CHAPTERS if chapter.compared]
    with canvas(4.0 * len(chapters), 3.0, 120) as figure:
        for k, chapter in enumerate(chapters):
            axes = figure.add_subplot(1, len(chapters), k + 1)
            for color, done in zip(_COLORS, [one for one in runs if one.chapter is chapter][:-1], strict=False):
                assert done.error is not None
                axes.plot(done.trajectory.times, done.error, color=color, label=done.run.label)
            axes.set(title=chapter.name, xlabel="time [s]", ylabel="distance from all joints [m]")
            axes.legend()
        figure.tight_layout()
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    atomic_write(path, buffer.getvalue())
    return path


_STYLE = """
:root { --ink: #22303c; --soft: #5d6a74; --line: #d5dce1; --paper: #fbfaf7; --card: #eef1f3; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ec; --soft: #9aa7b1; --line: #37424c; --paper: #161b20; --card: #20272e; } }
body { margin: 0 auto; max-width: 1180px; padding: 24px; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { margin: 0 0 4px; } h2 { margin: 36px 0 4px; line-height: 1.25; } p { max-width: 760px; margin: 4px 0 12px; }
.chapters { display: grid; grid-template-columns: 1fr 1fr; column-gap: 28px; align-items: start; }
.chapter { min-width: 0; } .chapter.wide, .chapter:has(.open) { grid-column: 1 / -1; }
.runs { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 14px; }
figure { margin: 0; } figure.open { grid-column: 1 / -1; }
figcaption, .soft { font-size: 14px; color: var(--soft); }
.play { position: relative; display: block; width: 100%; aspect-ratio: 16 / 9; padding: 0; border: 0; cursor: pointer;
  border-radius: 8px; overflow: hidden; background: var(--card); }
.play img, .play iframe { width: 100%; height: 100%; object-fit: cover; border: 0; display: block; }
.play span { position: absolute; left: 12px; bottom: 12px; padding: 4px 14px; border-radius: 20px;
  background: #22303ccc; color: #fff; font-size: 15px; }
.play:hover span, .play:focus-visible span { background: #c0571f; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 15px; }
td, th { padding: 4px 12px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; }
pre { background: var(--card); padding: 12px 16px; border-radius: 8px; overflow: auto; } pre i { color: var(--soft); }
img.plot { max-width: 100%; margin-top: 12px; background: #fff; border-radius: 8px; }
@media (max-width: 760px) { .chapters { grid-template-columns: 1fr; } }
"""
_SCRIPT = """
document.querySelectorAll(".play").forEach(place => place.onclick = () => {
  const frame = document.createElement("iframe");
  frame.src = place.dataset.page; frame.title = place.dataset.title;
  const own = document.createElement("div");
  own.className = "play"; own.append(frame); place.parentElement.classList.add("open"); place.replaceWith(own);
  frame.onload = () => frame.contentWindow.focus();
});
"""


def _page(runs: list[_Done], plots: Path | None) -> str:
    """Return the page: recordings to play, the table, the plots, and commands."""
    parts = []
    for chapter in CHAPTERS:
        shown = "".join(_figure(done) for done in runs if done.chapter is chapter)
        wide = " wide" if len(chapter.runs) > 1 else ""
        title, text = html.escape(chapter.title), html.escape(chapter.text)
        parts.append(
            f'<section class="chapter{wide}"><h2>{title}</h2><p>{text}</p><div class=runs>{shown}</div></section>'
        )
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _row(done)) + "</tr>" for done in runs)
    table = (
        f"<h2>Measured</h2><div class=scroll><table><tr>{heads}</tr>{rows}</table></div><p class=soft>{_CAPTION}. "
        "By the clock, on the machine that made this page: other programs running there slow all of them down.</p>"
    )
    picture = f'<img class=plot src="{plots.name}" alt="errors over time">' if plots else ""
    width = max(len(chapter.command) for chapter in CHAPTERS)
    commands = "\n".join(
        f"{html.escape(chapter.command.ljust(width))}  <i># {html.escape(chapter.title)}</i>" for chapter in CHAPTERS
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Limberjack</title><style>{_STYLE}</style><h1>Limberjack</h1>"
        "<p>Articulated figures, simulated on this machine. Click a picture to play its motion in 3-D: drag to look "
        "around, space to pause. Where some joints are simulated, what moves as one rigid body has one colour.</p>"
        f"<div class=chapters>{''.join(parts)}</div>{table}{picture}"
        f"<h2>To try next</h2><pre>{commands}</pre><script>{_SCRIPT}</script></html>\n"
    )


def _figure(done: _Done) -> str:
    page, picture = (html.escape(path.name) for path in done.files)
    label = html.escape(done.run.label)
    caption = f"{label}: {_time(done.report.microseconds_per_step)} a step"
    if done.speedup is not None and done.run is not done.chapter.runs[-1]:
        caption += f", {_factor(done.speedup)} times faster"
    return (
        f'<figure><button class=play data-page="{page}" data-title="{label}"><img src="{picture}" alt="{label}">'
        f"<span>&#9654; play</span></button><figcaption>{caption}</figcaption></figure>"
    )


def _factor(speedup: float) -> str:
    """Return how many times faster, in two digits or whole."""
    return f"{speedup:.1f}" if speedup < 10.0 else f"{speedup:.0f}"


def _time(microseconds: float) -> str:
    """Return a time in a unit that suits it."""
    return f"{microseconds:.3g} us" if microseconds < 1e3 else f"{1e-3 * microseconds:.3g} ms"
