"""Paint the pictures of the gallery anew: docs/images/gallery/*.png, one .gif, and a small picture of every scene.

Usage: python tools/make_gallery.py [NAME ...]     (default: all but viewer.png; needs the extras "video", "browser")
       python tools/make_gallery.py scenes [SCENE ...]     the small pictures alone

The small ones, src/limberjack/viewer/pictures/SCENE.webp, are those of the viewer's own gallery and of docs/gallery.md.
viewer.png is a picture of the page itself and needs a browser: make browser.

Each is simulated first. The same sources give the same pictures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import limberjack as lj

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "gallery"
SMALL = Path(__file__).parent.parent / "src" / "limberjack" / "viewer" / "pictures"
LARGEST = 900_000


def moved(scene: Any, seconds: float, method: Any = None) -> lj.Trajectory:
    """Return the motion of a scene with its own method, step and drive."""
    return driven(lj.Simulation(scene.model, scene.method if method is None else method, scene.dt), scene, seconds)


def driven(sim: lj.Simulation, scene: Any, seconds: float) -> lj.Trajectory:
    """Return the motion of a simulation with the drive of its scene, which acts from the first step on."""
    if scene.drive is not None:
        scene.drive(sim)
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


def tank(path: Path) -> None:
    """A tank on two treads of 34 links each, on its way."""
    scene = lj.scenes.get("tank", course="forward")
    moved(scene, 1.5).save(path, camera=scene.camera)


def rings(path: Path) -> None:
    """Rings of six links fall over a square of poles."""
    scene = lj.scenes.get("rings", count=150)
    moved(scene, 1.6).save(path, camera=((7.5, -5.0, 4.2), (2.0, 2.0, 0.8)))


def dance(path: Path) -> None:
    """The marionette, as its strings move."""
    scene = lj.scenes.get("marionette")
    options: dict[str, Any] = {"width": 480, "height": 400, "fps": 15, "camera": ((2.5, -2.5, 1.5), (0.0, 0.0, 1.0))}
    moved(scene, 4.0).save(path, **options)


def viewer(path: Path) -> None:
    """The viewer with a person under a budget of joints, pulled by a hand, after several budgets were tried."""
    import shutil

    from playwright.sync_api import sync_playwright

    from limberjack.viewer.app import Viewer

    scene = lj.scenes.get_shown("character")
    sim = lj.Simulation(scene.model, scene.method, scene.dt)
    flags = "--use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader --no-sandbox".split()
    with (
        Viewer(sim, drive=scene.drive, title="character", port=0, rate=5.0) as shown,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page(viewport={"width": 1100, "height": 690})
        page.goto(shown.url)
        while not shown.server.get_clients() or shown.runner.state != "ready":
            page.wait_for_timeout(100)
        for budget in (89, 60, 40, 10, 5, 20):
            shown.use_budget("joints", budget)
            page.wait_for_timeout(1500)
        place = shown.runner.ask(lambda sim: sim.body("right_hand").position.copy())
        shown.grips.grab("hand", "right_hand", None)
        shown.grips.move("hand", place + (0.2, -0.2, 0.3))
        page.wait_for_timeout(1500)
        shown.runner.play(False)  # until the page has drawn all of it: there is no graphics card
        page.wait_for_timeout(6000)
        page.evaluate("document.querySelectorAll('.mantine-Notification-root').forEach(n => n.remove())")
        page.screenshot(path=path, timeout=180_000)
        browser.close()


def scene_picture(name: str) -> Path:
    """Paint the small picture of a scene as the viewer shows it, some time after its start; return its path."""
    import numpy as np
    from PIL import Image

    from limberjack.viewer.camera import above_ground, bounds, framed
    from limberjack.viewer.colors import body_values, part_colors
    from limberjack.viewer.drawing import Drawing
    from limberjack.viewer.picture import Painter

    scene = lj.scenes.get_shown(name)
    large = scene.model.body_count > 2000
    ignored = [word for word in scene.model.features() if word not in lj.methods.method_of(scene.method).supports]
    sim = lj.Simulation(scene.model, scene.method, scene.dt, ignore=ignored)
    seconds = min(_LATER.get(name, 1.2), scene.seconds) if not large else 20 * scene.dt
    motion = driven(sim, scene, seconds)
    drawing = Drawing(scene.model, merge=0.12, glass=False)
    painter = Painter(drawing, 320, 200, 3)
    if sim.method.name == "adaptive":
        values = body_values(sim, "rigid cluster")
        painter.colors[: len(drawing.parts.color)] = part_colors(drawing, "rigid cluster", values, 1.0)
    last = motion.positions[-1:], motion.rotations[-1:]
    box = bounds(drawing, *last)
    eye = framed(box, 1.6, np.subtract(*scene.camera))
    eye = above_ground(drawing, eye, 0.25 * float((box[1] - box[0]).max()))
    path = SMALL / f"{name}.webp"
    Image.fromarray(painter.paint(last[0][0], last[1][0], eye)).save(path, quality=82, method=6)
    return path


# Scenes that look best later or sooner than after 1.2 s.
_LATER = {"dominoes": 1.6, "newtons_cradle": 0.4, "pendulum": 2.0, "paper_pendulum": 4.0, "bead_on_circle": 0.5}


def paint_scenes(names: list[str]) -> int:
    """Paint the small pictures of the scenes named, or of all."""
    SMALL.mkdir(exist_ok=True)
    for name in names or lj.scenes.names():
        path = scene_picture(name)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)
    return 0


IMAGES: dict[str, Callable[[Path], None]] = {
    "marionette.png": marionette,
    "crowd.png": crowd,
    "pendulum.png": pendulum,
    "chains.png": chains,
    "tank.png": tank,
    "rings.png": rings,
    "dance.gif": dance,
    "viewer.png": viewer,
}


def main(names: list[str]) -> int:
    """Paint the pictures named; return 1 when one has become too large."""
    if names[:1] == ["scenes"]:
        return paint_scenes(names[1:])
    FOLDER.mkdir(parents=True, exist_ok=True)
    status = 0 if names else paint_scenes([])
    for name in names or [name for name in IMAGES if name != "viewer.png"]:
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
