"""Paint the pictures of the gallery anew: docs/images/gallery/*.png and one .gif.

Usage: python tools/make_gallery.py [NAME ...]     (default: all; needs the extra "video")

Each is simulated first. The same sources give the same pictures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import limberjack as lj

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "gallery"
LARGEST = 900_000


def moved(scene: Any, seconds: float, method: Any = None) -> lj.Trajectory:
    """Return the motion of a scene with its own method, step and drive."""
    sim = lj.Simulation(scene.model, scene.method if method is None else method, scene.dt)
    return sim.run(seconds, callback=scene.drive)


def marionette(path: Path) -> None:
    """A person of 89 bodies on five strings."""
    scene = lj.scenes.get("marionette")
    moved(scene, 2.2).save(path, camera=((2.6, -2.6, 1.6), (0.0, 0.0, 1.05)))


def crowd(path: Path) -> None:
    """Two hundred people, 17,800 bodies, each with a will of its own."""
    scene = lj.scenes.get("crowd")
    moved(scene, 0.12).save(path, camera=((-15.0, -9.0, 5.5), (2.0, 1.0, 0.4)))


def pendulum(path: Path) -> None:
    """A chain of fourteen links has fallen and swings up."""
    scene = lj.scenes.get("pendulum", links=14)
    motion = moved(scene, 3.6, lj.Full(integrator="rk4"))
    places = motion.positions[-1]
    middle = 0.5 * (places.min(axis=0) + places.max(axis=0))
    motion.save(path, camera=(middle + (6.0, -26.0, 3.0), middle))


def chains(path: Path) -> None:
    """A tree of 127 rods on ball joints collapses."""
    scene = lj.scenes.get("ball_tree")
    moved(scene, 0.45).save(path, camera=((4.2, -5.4, 0.6), (0.0, 0.0, -1.35)))


def dance(path: Path) -> None:
    """The marionette, as its strings move."""
    scene = lj.scenes.get("marionette")
    options: dict[str, Any] = {"width": 480, "height": 400, "fps": 15, "camera": ((2.5, -2.5, 1.5), (0.0, 0.0, 1.0))}
    moved(scene, 4.0).save(path, **options)


IMAGES: dict[str, Callable[[Path], None]] = {
    "marionette.png": marionette,
    "crowd.png": crowd,
    "pendulum.png": pendulum,
    "chains.png": chains,
    "dance.gif": dance,
}


def main(names: list[str]) -> int:
    """Paint the pictures named; return 1 when one has become too large."""
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
        if size > LARGEST:
            print(f"{name} is larger than {LARGEST / 1000:.0f} kB", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
