"""The browser viewer: a running simulation in 3-D that can be dragged and controlled; and offline rendering."""

from __future__ import annotations

import sys
import webbrowser
from typing import Any

from limberjack.errors import StateError

__all__ = ["view"]


def view(
    sim: Any = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    camera: Any = None,
    rate: float | None = None,
    playing: bool = True,
    open_browser: bool = True,
    block: bool | None = None,
) -> Any:
    """Show a simulation in the browser and return the `Viewer`.

    Args:
        sim: a `lj.Simulation`, or a scene or model to create one from; None opens the gallery of scenes.
        host: the interface to listen on; other machines need the token in the printed address.
        port: the first port to try.
        camera: (position, target) [m]; None = one that shows the whole motion.
        rate: frames per second; None = 60, for more than 2000 bodies 30.
        playing: whether the simulation starts running.
        open_browser: open a page; never done in notebooks, which show the viewer themselves.
        block: wait until Ctrl-C; None = in scripts, but not in notebooks and interactive sessions.
    """
    # Imported here, since scenes use this room's cameras.
    import numpy as np

    from limberjack.model.model import Model
    from limberjack.scenes import Scene
    from limberjack.simulation.simulation import Simulation
    from limberjack.viewer.app import Viewer

    drive, title, way = None, "", None
    if isinstance(sim, Scene):
        scene = sim
        drive, title, way = scene.drive, scene.name, np.subtract(*scene.camera)
        sim = Simulation(scene.model, scene.method, scene.dt)
    elif isinstance(sim, Model):
        sim = Simulation(sim)
    if sim is not None and not isinstance(sim, Simulation):
        raise StateError(f"view takes a lj.Simulation, a scene or a model, got {type(sim).__name__}")
    notebook = "ipykernel" in sys.modules
    viewer = Viewer(
        sim, drive=drive, camera=camera, way=way, title=title, host=host, port=port, rate=rate, playing=playing
    )  # fmt: skip
    address = viewer.url if sim is not None else viewer.gallery_url
    if open_browser and not notebook:
        webbrowser.open(address)
    if block is None:
        block = not notebook and not hasattr(sys, "ps1") and not sys.flags.interactive
    if block:
        print(f"viewer: {address} (Ctrl-C ends it)", flush=True)
        viewer.wait()
    return viewer
