"""`Panel`: the controls of the page, in sections. They leave commands; none accesses the simulation.

Every word that is shown is explained in `docs/viewer.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack import scenes
from limberjack.methods import METHODS
from limberjack.model.model import Model
from limberjack.simulation.compiling import remaining
from limberjack.simulation.simulation import Simulation
from limberjack.viewer.colors import MODES
from limberjack.viewer.history import error_in
from limberjack.viewer.level_of_detail import UNITS, budget_of, joints_of
from limberjack.viewer.overlays import FORCES, GUIDES
from limberjack.viewer.words import METHOD_WORDS, Option, method_options

if TYPE_CHECKING:
    from limberjack.viewer.app import Viewer
    from limberjack.viewer.runner import Run

__all__ = ["FORMATS", "PRESETS", "Panel"]

FORMATS = ("html", "glb", "mp4", "gif", "npz", "csv")
PRESETS = ("home", "front", "side", "top")
_SPEEDS = ("0.1x", "0.25x", "0.5x", "1x", "2x", "4x", "as fast as possible")
_AUTO = "automatic"
# Points of a plot, and colours of runs in it.
_POINTS, _COLORS = 300, ("#d1495b", "#26547c", "#3c8d5a", "#b5803a", "#8e5ea2", "#4a9c9c")
# More actuators than this are not listed one by one.
_ACTUATORS = 64
_YOURS = "(yours)"


class Section:
    """A part of the panel.

    Args:
        app: the viewer that takes the commands.
        gui: viser's.
    """

    def __init__(self, app: Viewer, gui: Any) -> None:
        self._app, self._gui = app, gui

    def _click(self, handle: Any, act: Callable[[Any], Any]) -> Any:
        """Call `act` with the event, in order, whenever a button is pressed."""

        @handle.on_click
        async def _(event: Any) -> None:
            act(event)

        return handle

    def _change(self, handle: Any, act: Callable[[Any], Any]) -> Any:
        """Call `act` with the value whenever a user changes it; not when the program does."""

        @handle.on_update
        async def _(event: Any) -> None:
            if event.client is not None:
                act(event.target.value)

        return handle


class RunSection(Section):
    """Clock, scene and method."""

    def __init__(self, app: Viewer, gui: Any) -> None:
        super().__init__(app, gui)
        self.status = gui.add_markdown("starting ...")
        self.progress = gui.add_progress_bar(0.0, animated=True, visible=False)
        self.play = self._click(
            gui.add_button("Play", icon="player-play", hint="Runs or pauses the simulation."),
            lambda event: app.toggle(),
        )
        clock = gui.add_button_group("Clock", ("Single step", "Reset"), hint="One time step; back to the first state.")
        self._click(clock, lambda event: app.single_step() if event.target.value == "Single step" else app.reset())
        self.speed = self._change(
            gui.add_dropdown("Speed", _SPEEDS, initial_value="1x", hint="Simulated seconds per real second."),
            self._set_speed,
        )
        names = scenes.names()
        first = app.title if app.title in names else _YOURS
        choices = names if first in names else [_YOURS, *names]
        self.scene = self._change(
            gui.add_dropdown("Scene", choices, initial_value=first, hint="A ready-made scene, with its own method."),
            app.open_scene,
        )
        gui.add_html(
            '<div style="padding:0 .7em .3em;font-size:13px"><a href="/gallery">all scenes with pictures</a></div>'
        )
        self.method = self._change(
            gui.add_dropdown(
                "Method", list(METHODS), initial_value="full", hint="How it is simulated; the state stays the same."
            ),
            app.use_method,
        )
        self.about = gui.add_markdown("")

    def _set_speed(self, word: str) -> None:
        self._app.runner.speed = 1e6 if word.startswith("as") else float(word[:-1])

    def show(self, sim: Simulation, title: str) -> None:
        """Show scene and method of a simulation."""
        if sim.method.name in METHODS:
            self.method.value = sim.method.name
        self.about.content = f"*{METHOD_WORDS.get(sim.method.name, '')}*"
        if title in scenes.names():
            self.scene.value = title

    def show_compiling(self, compiling: tuple[float, int] | None, method: str) -> None:
        """Show time [s] and functions of a compilation for a method, or remove them (None)."""
        if compiling is None:
            if self.progress.visible:
                self.progress.visible = False
            return
        seconds, functions = compiling
        left = remaining(method, seconds, functions)
        more = "" if left is None else f", at most {left:.0f} s more"
        self.status.content = (
            f"**compiling ...** {functions} functions, {seconds:.0f} s{more} (once; the result is kept on disk)"
        )
        # where the total is not known: methods have some hundred functions each
        share = 1.0 - math.exp(-functions / 150.0) if left is None else seconds / (seconds + left)
        self.progress.value = 100.0 * share
        self.progress.visible = True


class DetailSection(Section):
    """The level of detail: budget, error against cost, several budgets side by side."""

    def __init__(self, app: Viewer, gui: Any) -> None:
        super().__init__(app, gui)
        self._folder = gui.add_folder("Level of detail")
        with self._folder:
            self.unit = self._change(
                gui.add_dropdown("Budget in", UNITS, initial_value="joints", hint="What the budget counts."),
                self._set_unit,
            )
            self._order = self.unit.order + 1e-3
            self.budget: Any = None
            self.measured = gui.add_markdown("")
            self.plot = gui.add_html("")
            self.sight = self._change(
                gui.add_checkbox(
                    "Camera decides detail",
                    False,
                    hint="Joints are chosen by how many pixels they move in your picture.",
                ),
                app.use_sight,
            )
        self._joints, self._value = 1, 1
        self._side = gui.add_folder("Side by side", expand_by_default=False)
        with self._side:
            self.variants = gui.add_text(
                "Budgets or methods", "300, 20, 1", hint="Budgets of method adaptive, or names of methods, with commas."
            )
            self.compare = self._click(
                gui.add_button("Compare", hint="Runs the state of now once for each, next to each other."),
                lambda event: app.compare(self.variants.value),
            )
            self._click(
                gui.add_button("Show one", hint="Goes on with the one that controls act on."),
                lambda event: app.show_one(),
            )
            self.lead = self._change(
                gui.add_dropdown("Controls act on", ("-",), hint="Which of the runs the panel changes."), app.use_lead
            )
            self.distances = gui.add_markdown("")

    def show(self, sim: Simulation) -> None:
        """Show the budget of a simulation; nothing for other methods."""
        adaptive = sim.method.name == "adaptive"
        self._folder.visible = adaptive
        if adaptive:
            self._joints, self._value = max(1, joints_of(sim.model)), budget_of(sim)
            self.unit.value = "joints"
            self._add_slider("joints")

    def _set_unit(self, unit: str) -> None:
        self._add_slider(unit)

    def _add_slider(self, unit: str) -> None:
        if self.budget is not None:
            self.budget.remove()
        now = min(self._value, self._joints)
        with self._folder:
            if unit == "joints":
                hint = f"Joints simulated at a time, of {self._joints}; the others are rigid."
                handle = self._gui.add_slider("Budget [joints]", 0, self._joints, 1, now, hint=hint, order=self._order)
            elif unit == "percent":
                share = round(100.0 * now / self._joints, 1)
                hint = "Share of the joints that is simulated at a time."
                handle = self._gui.add_slider("Budget [%]", 0.0, 100.0, 0.1, share, hint=hint, order=self._order)
            else:
                cost = min(max(round(1e3 * self._app.runner.step_seconds, 3), 0.001), 20.0)
                hint = "Time a step may take; the number of joints follows the clock."
                handle = self._gui.add_slider("Budget [ms]", 0.0, 20.0, 0.001, cost, hint=hint, order=self._order)
        self.budget = self._change(handle, lambda x: self._set(unit, float(x)))

    def _set(self, unit: str, value: float) -> None:
        if unit != "milliseconds":
            self._value = round(value if unit == "joints" else 0.01 * value * self._joints)
        self._app.use_budget(unit, value)

    def measure(self, active: int, budget: int, numbers: dict[str, float], svg: str) -> None:
        """Show what the budget gives now."""
        cost, (unit, error) = numbers.get("time per step [ms]", 0.0), error_in(numbers) or ("m", 0.0)
        joints = f"**{active}** of {self._joints} joints active, budget {budget}"
        self.measured.content = f"{joints} · {cost:.3f} ms per step · error {error:.2g} {unit}"
        self.plot.content = f'<div style="padding:0 .5em">{svg}</div>'

    def show_runs(self, labels: list[str], lead: int, words: str) -> None:
        """Show which simulations run side by side."""
        if tuple(labels) != tuple(self.lead.options):
            self.lead.options = tuple(labels)
        self.lead.value = labels[lead]
        self.distances.content = words


class OptionsSection(Section):
    """The options of the method: a few basic ones, the others folded."""

    def __init__(self, app: Viewer, gui: Any) -> None:
        super().__init__(app, gui)
        self._folder = gui.add_folder("Options of the method", expand_by_default=False)
        self._inside: list[Any] = []

    def show(self, sim: Simulation) -> None:
        """Show the options of a simulation's method."""
        for handle in self._inside:
            handle.remove()
        self._inside, words = [], method_options(sim.method)
        types = {item.name: str(item.type) for item in fields(sim.method)}
        with self._folder:
            self._inside += self._added(sim, {k: w for k, w in words.items() if w.basic}, types)
            advanced = {k: w for k, w in words.items() if not w.basic}
            if advanced:
                folder = self._gui.add_folder("Advanced", expand_by_default=False)
                with folder:
                    self._added(sim, advanced, types)
                self._inside.append(folder)

    def _added(self, sim: Simulation, words: dict[str, Option], types: dict[str, str]) -> list[Any]:
        made = [self._control(name, word, getattr(sim.method, name), types[name]) for name, word in words.items()]
        return [handle for handle in made if handle is not None]

    def _control(self, name: str, word: Option, value: Any, kind: str) -> Any:
        """Add a control that suits an option; None for those that are neither numbers, words nor switches."""
        gui, tune = self._gui, self._app.tune
        label = f"{word.label} [{word.unit}]" if word.unit else word.label
        if word.choices and (value is None or isinstance(value, str)):
            choices = (*((_AUTO,) if "None" in kind else ()), *word.choices)
            shown = value if value in choices else _AUTO
            if shown not in choices:
                return None
            handle = gui.add_dropdown(label, choices, initial_value=shown, hint=word.sentence)
            return self._change(handle, lambda x: tune(**{name: None if x == _AUTO else x}))
        if isinstance(value, bool):
            return self._change(gui.add_checkbox(label, value, hint=word.sentence), lambda x: tune(**{name: bool(x)}))
        whole = "float" not in kind
        if isinstance(value, (int, float)) and value is not None:
            handle = gui.add_number(label, value, min=word.least, step=1 if whole else None, hint=word.sentence)
            optional = "None" in kind
            return self._change(
                handle, lambda x: tune(**{name: None if optional and x <= 0 else (int(x) if whole else float(x))})
            )
        if value is None and ("int" in kind or "float" in kind):
            hint = f"{word.sentence} 0 = {_AUTO}."
            handle = gui.add_number(label, 0 if whole else 0.0, min=0, step=1 if whole else None, hint=hint)
            return self._change(handle, lambda x: tune(**{name: None if x <= 0 else (int(x) if whole else float(x))}))
        return None


class LookSection(Section):
    """Colours with their legend, what is shown, and the camera."""

    def __init__(self, app: Viewer, gui: Any) -> None:
        super().__init__(app, gui)
        with gui.add_folder("Look"):
            self.color = self._change(
                gui.add_dropdown("Colours", MODES, initial_value="own", hint="What the colour of a body says."),
                app.use_colors,
            )
            self.legend = gui.add_html("", visible=False)
            camera = gui.add_button_group("Camera", PRESETS, hint="home shows the whole motion.")
            self._click(camera, lambda event: app.look_from(event.target.value, event.client))
            self.keep = self._change(
                gui.add_checkbox(
                    "Keep in view", True, hint="The camera follows what moves away, and steps back if it must."
                ),
                app.use_keep,
            )
            with gui.add_folder("Show", expand_by_default=False):
                self.groups = {
                    group: self._change(
                        gui.add_checkbox(f"{group.capitalize()} shapes", on, hint=hint), self._grouped(group)
                    )
                    for group, on, hint in (
                        ("visual", True, "What bodies look like."),
                        ("collision", False, "What bodies collide with, where a file has both."),
                    )
                }
                hints = {
                    "joint reactions": "The force of each joint on its child, as an arrow.",
                    "contact forces": "The force of each contact, as an arrow.",
                    "centre of mass": "Of everything that moves.",
                    "frames": "The axes of each body's frame: x red, y green, z blue.",
                    "names": "Of the bodies, 80 at most.",
                }
                self.shown = {
                    name: self._change(
                        gui.add_checkbox(name.capitalize(), False, hint=hints[name]), self._switched(name)
                    )
                    for name in (*FORCES, *GUIDES)
                }

    def _grouped(self, group: str) -> Callable[[bool], None]:
        return lambda on: self._app.use_group(group, on)

    def _switched(self, name: str) -> Callable[[bool], None]:
        return lambda on: self._app.use_overlay(name, on)

    def show_legend(self, text: str) -> None:
        """Show what the colours mean; empty hides it."""
        content = f'<div style="padding:.2em .7em .4em;font-size:12px;line-height:1.5">{text}</div>'
        if self.legend.content != content:
            self.legend.content = content
        if self.legend.visible != bool(text):
            self.legend.visible = bool(text)


class ControlSection(Section):
    """A slider per actuator and a button per keyframe, for models that have them."""

    def __init__(self, app: Viewer, gui: Any) -> None:
        super().__init__(app, gui)
        self._folder = gui.add_folder("Controls", visible=False)
        self._inside: list[Any] = []
        self._model: Model | None = None
        self.actuators: dict[str, Any] = {}

    def show(self, sim: Simulation) -> None:
        """Show the actuators and keyframes of a model."""
        model = sim.model
        if model is self._model:
            return
        self._model = model
        for handle in self._inside:
            handle.remove()
        self._inside, self.actuators = [], {}
        self._folder.visible = bool(model.actuators or model.keyframes)
        if not self._folder.visible:
            return
        gui, app = self._gui, self._app
        with self._folder:
            if model.keyframes:
                frames = gui.add_button_group("Keyframes", tuple(model.keyframes), hint="Named states of the model.")
                self._inside.append(self._click(frames, lambda event: app.use_keyframe(event.target.value)))
            values = dict(zip(model.actuator_names, np.array(sim.control), strict=True))
            for actuator in model.actuators[:_ACTUATORS]:
                self.actuators[actuator.name] = self._actuator(actuator, float(values[actuator.name]))
            self._inside += self.actuators.values()
            if len(model.actuators) > _ACTUATORS:
                text = f"{len(model.actuators) - _ACTUATORS} more actuators: set `sim.control` in Python"
                self._inside.append(gui.add_markdown(text))

    def _actuator(self, actuator: Any, value: float) -> Any:
        hint = "Control of this actuator; it acts until changed."
        low, high = actuator.control_range or (-math.inf, math.inf)
        if math.isfinite(low) and math.isfinite(high) and high > low:
            start = min(max(value, low), high)
            handle = self._gui.add_slider(actuator.name, low, high, (high - low) / 200.0, start, hint=hint)
        else:
            handle = self._gui.add_number(actuator.name, value, hint=hint)
        return self._change(handle, lambda x: self._app.use_control(actuator.name, float(x)))

    def show_values(self, control: dict[str, float]) -> None:
        """Show controls that were set from elsewhere: a keyframe, a reset."""
        for name, handle in self.actuators.items():
            low, high = getattr(handle, "min", None), getattr(handle, "max", None)
            value = control[name] if low is None or high is None else min(max(control[name], low), high)
            if abs(handle.value - value) > 1e-9:
                handle.value = value


class TimelineSection(Section):
    """Scrubbing through what was recorded, recordings, downloads."""

    def __init__(self, app: Viewer, gui: Any) -> None:
        super().__init__(app, gui)
        with gui.add_folder("Timeline"):
            self.back = self._change(
                gui.add_slider(
                    "Time in memory [%]", 0.0, 100.0, 0.1, 100.0, hint="0 = the oldest moment in memory, 100 = now."
                ),
                lambda x: app.runner.look_back(float(x) / 100.0),
            )
            self._click(
                gui.add_button("Continue from here", hint="Drops what came after the moment shown."),
                lambda event: app.continue_from_here(),
            )
            self.record = self._click(
                gui.add_button("Record", hint="Marks the beginning of what is downloaded; else all in memory is."),
                lambda event: app.toggle_recording(),
            )
            self.format = gui.add_dropdown("Format", FORMATS, initial_value="html", hint="html plays in any browser.")
            self._click(
                gui.add_button("Download", hint="The motion as a file."),
                lambda event: app.send_recording(event.client, self.format.value),
            )

    def show(self, recording: int, looking_back: bool) -> None:
        """Update button and slider."""
        self.record.label = f"Stop recording ({recording} frames)" if recording else "Record"
        if not looking_back and self.back.value != 100.0:
            self.back.value = 100.0


class WorldSection(Section):
    """Gravity, time step, snapshots, state files, grips."""

    def __init__(self, app: Viewer, gui: Any) -> None:
        super().__init__(app, gui)
        with gui.add_folder("World", expand_by_default=False):
            self.gravity = self._change(
                gui.add_number("Gravity z [m/s²]", -9.81, step=0.01, hint="Along the vertical; negative is down."),
                app.use_gravity,
            )
            self.dt = self._change(
                gui.add_number("Time step [ms]", 1.0, min=1e-4, step=1e-4, hint="Length of one step of the clock."),
                app.use_dt,
            )
            snapshot = gui.add_button_group("Snapshot", ("Take", "Go back"), hint="Keeps the state of now, exactly.")
            self._click(
                snapshot, lambda event: app.take_snapshot() if event.target.value == "Take" else app.back_to_snapshot()
            )
            self._click(
                gui.add_button("Save state (.npz)", hint="A file that lj.resume continues from."),
                lambda event: app.send_state(event.client),
            )
            upload = gui.add_upload_button("Load state (.npz)", mime_type=".npz")

            @upload.on_upload
            async def _(event: Any) -> None:
                app.load_state(event.target.value.content)

        with gui.add_folder("Grips", expand_by_default=False):
            gui.add_markdown("Drag a body to pull it; with *shift* the grip stays. Click a body to select it.")
            self.chosen = gui.add_text("Body", "", disabled=True)
            self._click(
                gui.add_button("Grip with gizmo", hint="Moves and rotates the selected body."),
                lambda event: app.hold_chosen(),
            )
            self._click(gui.add_button("Release all", hint="Lets go of all bodies."), lambda event: app.release_all())

    def show(self, sim: Simulation) -> None:
        """Show time step and gravity of a simulation."""
        self.dt.value = float(sim.dt * 1e3)
        self.gravity.value = float(sim.model.gravity[2])


class PlotSection(Section):
    """What was measured over time, one line per run."""

    def __init__(self, app: Viewer, gui: Any) -> None:
        super().__init__(app, gui)
        self._folder = gui.add_folder("Plots", expand_by_default=False)
        with self._folder:
            self.live = gui.add_checkbox("Live", False, hint="Measures over the time in memory.")
        self.plots: dict[str, Any] = {}
        self._labels: tuple[str, ...] = ()

    def show(self, runs: list[Run]) -> None:
        """Draw the newest points of the histories."""
        labels = tuple(run.label or "run" for run in runs)
        rows = [run.history.moments() for run in runs]
        count = min(map(len, rows))
        if count < 2:
            return
        pick = np.unique(np.linspace(0, count - 1, min(count, _POINTS)).astype(int))
        names = list(dict.fromkeys(name for row in rows for name in row[-1].numbers))
        if labels != self._labels or set(names) != set(self.plots):
            self._rebuild(labels, names)
        times = np.array([rows[0][-count:][k].time for k in pick])
        for name, handle in self.plots.items():
            lines = [np.array([row[-count:][k].numbers.get(name, math.nan) for k in pick]) for row in rows]
            handle.data = (times, *lines)

    def _rebuild(self, labels: tuple[str, ...], names: list[str]) -> None:
        for handle in self.plots.values():
            handle.remove()
        self._labels, none = labels, np.zeros(1)
        series = [{"label": "t [s]"}] + [
            {"label": label, "stroke": _COLORS[k % len(_COLORS)], "width": 2} for k, label in enumerate(labels)
        ]
        with self._folder:
            self.plots = {
                name: self._gui.add_uplot(
                    (none,) * (len(labels) + 1), tuple(series), title=name, scales={"x": {"time": False}}, height=150
                )
                for name in names
            }  # fmt: skip


class Panel:
    """The controls of a viewer.

    Args:
        app: the viewer.
        server: its viser server.
    """

    def __init__(self, app: Viewer, server: Any) -> None:
        gui = server.gui
        gui.configure_theme(
            control_width="medium", show_logo=False, show_share_button=False, brand_color=(38, 84, 124)
        )  # fmt: skip
        gui.set_panel_label("Limberjack")
        gui.main_panel.dock_right()
        self.run = RunSection(app, gui)
        self.detail = DetailSection(app, gui)
        self.look = LookSection(app, gui)
        self.control = ControlSection(app, gui)
        self.timeline = TimelineSection(app, gui)
        self.options = OptionsSection(app, gui)
        self.world = WorldSection(app, gui)
        self.plots = PlotSection(app, gui)

    def show(self, sim: Simulation, title: str) -> None:
        """Show method, options, time step, gravity and actuators of a simulation."""
        self.run.show(sim, title)
        self.detail.show(sim)
        self.options.show(sim)
        self.control.show(sim)
        self.world.show(sim)

    def show_state(self, playing: bool, recording: int, looking_back: bool) -> None:
        """Update the labels of the buttons."""
        play = self.run.play
        play.label, play.icon = ("Pause", "player-pause") if playing else ("Play", "player-play")
        self.timeline.show(recording, looking_back)
