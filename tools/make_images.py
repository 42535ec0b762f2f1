"""Draw the pictures of the documentation anew: docs/images/pendulum.gif, humanoid.png.

Usage: python tools/make_images.py [NAME ...]     (default: all; needs the extra "plot")

Each is simulated first, which takes about a minute in all. The same sources give the same pictures.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import limberjack as lj
from limberjack.cli import plots
from limberjack.io.files import atomic_write

FOLDER = Path(__file__).parent.parent / "docs" / "images"
LARGEST = {"pendulum.gif": 500_000, "humanoid.png": 250_000}


def pendulum(path: Path) -> None:
    """The 300-link pendulum for 30 seconds, three times as fast: down, up, and back with a crack of the whip."""
    # Short steps: past 20 s the end of the chain turns over within milliseconds.
    sim = lj.Simulation(lj.scenes.pendulum(links=300), lj.Full(integrator="rk4", substeps=1), dt=1 / 2400)
    plots.animate_pendulum(path, sim.run(30.0), lambda: None, every=9)


def humanoid(path: Path) -> None:
    """The thrown humanoid in ten moments of its backflip."""
    trajectory = plots.thrown_humanoid().run(2.2)
    with plots.canvas(10.0, 7.6, 120) as figure:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), frameon=False)
        plots.draw_flight(axes, trajectory)
        axes.get_legend().remove()
        axes.set(title="", xticks=(), yticks=(), xlabel="", ylabel="", ylim=(-0.45, 8.518), aspect="auto")
        axes.set_xlim(-0.85, 10.95)
        figure.savefig(path, format="png")
    _shrink(path, 64)


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
