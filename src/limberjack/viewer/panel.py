"""`Panel`: the buttons, sliders and plots of the page. They leave commands; none accesses the simulation."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack import scenes
from limberjack.methods import METHODS
from limberjack.model.spec import WORLD
from limberjack.simulation.simulation import Simulation
from limberjack.viewer.colors import MODES

if TYPE_CHECKING:
    from limberjack.viewer.app import Viewer

__all__ = ["FORMATS", "PRESETS", "Panel", "plotted"]

FORMATS = ("html", "glb", "mp4", "gif", "npz")
PRESETS = ("home", "front", "side", "top")
_SPEEDS = ("0.1x", "0.25x", "0.5x", "1x", "2x", "4x", "as fast as possible")
_KEPT = 240
_PLOTS = {
    "active joints": "#e8743b", "ms per step": "#3f7cac", "energy [J]": "#5b8c5a", "joint error [m]": "#8e5ea2",
    "contacts": "#b5803a",
}  # fmt: skip


class Panel:
    """The controls of a viewer.

    Args:
        app: the viewer.
        server: its viser server.
    """

    def __init__(self, app: Viewer, server: Any) -> None:
        self._app, self._gui = app, server.gui
        self._gui.configure_theme(control_width="medium", show_logo=False, show_share_button=False)
        self._gui.set_panel_label("Limberjack")
        self._rows: dict[str, deque[float]] = {name: deque(maxlen=_KEPT) for name in ("time", *_PLOTS)}
        self._plots: dict[str, Any] = {}
        self._options: Any = None
        self.status = self._gui.add_markdown("starting ...")
        self.progress = self._gui.add_progress_bar(0.0, animated=True, visible=False)
        self._add_run()
        self._add_scene()
        self._add_look()
        self._add_world()
        self._add_hands()
        self._add_record()
        self._add_plots()

    # Parts

    def _click(self, handle: Any, act: Any) -> Any:
        """Call `act`, in order, whenever a button is pressed."""

        @handle.on_click
        async def _(event: Any) -> None:
            act(event)

        return handle

    def _change(self, handle: Any, act: Any) -> Any:
        """Call `act` with the value whenever a user changes it; not when the program does."""

        @handle.on_update
        async def _(event: Any) -> None:
            if event.client is not None:
                act(event.target.value)

        return handle

    def _add_run(self) -> None:
        app, gui = self._app, self._gui
        self.play = self._click(gui.add_button("Pause", icon="player-pause"), lambda event: app.toggle())
        self.step = self._click(gui.add_button("Single step"), lambda event: app.single_step())
        self.reset = self._click(gui.add_button("Reset"), lambda event: app.runner.reset())
        self.speed = self._change(gui.add_dropdown("Speed", _SPEEDS, initial_value="1x"), self._set_speed)

    def _set_speed(self, word: str) -> None:
        self._app.runner.speed = 1e6 if word.startswith("as") else float(word[:-1])

    def _add_scene(self) -> None:
        app, gui = self._app, self._gui
        names = scenes.names()
        first = app.title if app.title in names else "(yours)"
        choices = names if first in names else ["(yours)", *names]
        self.scene = self._change(gui.add_dropdown("Scene", choices, initial_value=first), app.open_scene)
        self.method = self._change(gui.add_dropdown("Method", list(METHODS), initial_value="full"), app.use_method)

    def _add_look(self) -> None:
        app, gui = self._app, self._gui
        with gui.add_folder("Look"):
            self.color = self._change(gui.add_dropdown("Colours", MODES, initial_value="own"), app.use_colors)
            self.preset = gui.add_button_group("Camera", PRESETS)

            @self.preset.on_click
            async def _(event: Any) -> None:
                app.look_from(event.target.value, event.client)

            self.reactions = self._change(gui.add_checkbox("Reactions", False), app.use_reactions)
            self.follow = self._change(gui.add_checkbox("Follow", False), app.use_follow)
            self.sight = self._change(
                gui.add_checkbox("Camera decides detail", False, hint="adaptive: detail by what the camera shows"),
                app.use_sight,
            )

    def _add_world(self) -> None:
        app, gui = self._app, self._gui
        with gui.add_folder("World", expand_by_default=False):
            self.gravity = self._change(gui.add_number("Gravity z", -9.81, step=0.01), app.use_gravity)
            self.dt = self._change(gui.add_number("Time step [ms]", 1.0, min=1e-4, step=1e-4), app.use_dt)
            self._click(gui.add_button("Take snapshot"), lambda event: app.take_snapshot())
            self._click(gui.add_button("Back to snapshot"), lambda event: app.back_to_snapshot())
            self._click(gui.add_button("Save state (.npz)"), lambda event: app.send_state(event.client))
            upload = gui.add_upload_button("Load state (.npz)", mime_type=".npz")

            @upload.on_upload
            async def _(event: Any) -> None:
                app.load_state(event.target.value.content)

    def _add_hands(self) -> None:
        app, gui = self._app, self._gui
        with gui.add_folder("Grips", expand_by_default=False):
            gui.add_markdown("Drag a body to pull it; with *shift* the grip stays. Click a body to select it.")
            self.chosen = gui.add_text("Body", "", disabled=True)
            self._click(gui.add_button("Grip with gizmo"), lambda event: app.hold_chosen())
            self._click(gui.add_button("Release all"), lambda event: app.release_all())

    def _add_record(self) -> None:
        app, gui = self._app, self._gui
        with gui.add_folder("Record", expand_by_default=False):
            self.record = self._click(gui.add_button("Record"), lambda event: app.toggle_recording())
            self.format = gui.add_dropdown("Format", FORMATS, initial_value="html")
            self._click(gui.add_button("Download"), lambda event: app.send_recording(event.client, self.format.value))

    def _add_plots(self) -> None:
        gui = self._gui
        with gui.add_folder("Plots", expand_by_default=False):
            self.plotting = gui.add_checkbox("Live", False)
            none = np.zeros(1)
            for name, color in _PLOTS.items():
                self._plots[name] = gui.add_uplot(
                    (none, none), ({"label": "t"}, {"label": name, "stroke": color, "width": 2}),
                    title=name, scales={"x": {"time": False}}, height=150,
                )  # fmt: skip

    # State of the simulation

    def show_method(self, sim: Simulation) -> None:
        """Show the method of a simulation and its options, time step and gravity."""
        if sim.method.name in METHODS:
            self.method.value = sim.method.name
        self.dt.value = float(sim.dt * 1e3)
        self.gravity.value = float(sim.model.gravity[2])
        if self._options is not None:
            self._options.remove()
        self._options = self._gui.add_folder("Options of the method", order=self.method.order + 0.001)
        with self._options:
            for item in fields(sim.method):
                self._add_option(sim, item.name, getattr(sim.method, item.name))

    def _add_option(self, sim: Simulation, name: str, value: Any) -> None:
        """Add a control that suits an option: sliders for budget and tolerance, boxes for the plain ones."""
        gui, tune = self._gui, self._app.tune
        label = name.replace("_", " ")
        if isinstance(value, tuple):
            return
        if name == "budget":
            joints = sum(
                sim.model.joint(j).nv > 0 and sim.model.joint(j).parent != WORLD for j in sim.model.joint_names
            )
            most = max(1, joints, value or 0)
            start = most if value is None else int(value)
            self.budget = self._change(gui.add_slider(label, 0, most, 1, start), lambda x: tune(budget=int(x)))
        elif name == "tolerance":
            start = -9.0 if not value else min(9.0, max(-9.0, math.log10(float(value))))
            self.tolerance = self._change(
                gui.add_slider("log10 tolerance", -9.0, 9.0, 0.1, start, hint="-9 = none"),
                lambda x: tune(tolerance=None if x <= -9.0 else 10.0**x),
            )
        elif isinstance(value, bool):
            self._change(gui.add_checkbox(label, value), lambda x: tune(**{name: bool(x)}))
        elif isinstance(value, int):
            self._change(gui.add_number(label, value, step=1), lambda x: tune(**{name: int(x)}))
        elif isinstance(value, float):
            self._change(gui.add_number(label, value), lambda x: tune(**{name: float(x)}))

    def show_state(self, playing: bool, recording: int) -> None:
        """Update the labels of the buttons."""
        self.play.label, self.play.icon = ("Pause", "player-pause") if playing else ("Play", "player-play")
        self.record.label = f"Stop recording ({recording} frames)" if recording else "Record"

    def show_compiling(self, seconds: float | None, functions: int = 0) -> None:
        """Show time and progress of compilation, or remove them (None)."""
        if seconds is None:
            if self.progress.visible:
                self.progress.visible = False
            return
        self.status.content = (
            f"**compiling ...** {functions} functions, {seconds:.0f} s (once; the result is kept on disk)"
        )
        # methods have some hundred functions each; the total is not known in advance
        self.progress.value = 100.0 * (1.0 - math.exp(-functions / 150.0))
        self.progress.visible = True

    def plot(self, time: float, numbers: dict[str, float]) -> None:
        """Add a row to the plots; a time before the last one restarts them."""
        rows = self._rows
        if rows["time"] and time < rows["time"][-1]:
            for row in rows.values():
                row.clear()
        rows["time"].append(time)
        for name in _PLOTS:
            rows[name].append(numbers.get(name, math.nan))
        times = np.array(rows["time"])
        for name, handle in self._plots.items():
            handle.data = (times, np.array(rows[name]))


def plotted(sim: Simulation) -> dict[str, float]:
    """Return what the plots show."""
    return {
        "active joints": float(len(sim.active_joints)),
        "energy [J]": float(sim.energy().total),
        "joint error [m]": float(sim.joint_error().metres),
        "contacts": float(len(sim.contacts())),
    }
