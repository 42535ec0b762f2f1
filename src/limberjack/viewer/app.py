"""`Viewer`: simulations in the browser. Three threads: one steps, one displays, and viser's own serves the pages."""

from __future__ import annotations

import contextlib
import io
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from limberjack import scenes
from limberjack.errors import LimberjackError, StateError, UnsupportedByMethod, require
from limberjack.methods import method_of
from limberjack.methods.adaptive.options import View
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.simulation.simulation import Simulation, resume
from limberjack.viewer.camera import checked_eye
from limberjack.viewer.carry_over import transplant, under_gravity, under_method
from limberjack.viewer.colors import body_values, legend, part_colors
from limberjack.viewer.dragging import Grips
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.framing import Framing
from limberjack.viewer.gallery import Gallery
from limberjack.viewer.guard import Guard, close_tunnel, free_port
from limberjack.viewer.history import Moment, trajectory_of
from limberjack.viewer.level_of_detail import Budget, Tradeoff, budget_of, label_of, variant
from limberjack.viewer.overlays import FORCES
from limberjack.viewer.panel import Panel
from limberjack.viewer.runner import Frame, Run, Runner
from limberjack.viewer.stage import Stage, light, sky

__all__ = ["Viewer"]

# Update rate of status and plots [Hz].
_WORDS = 5.0
# Capsules of nearly the same shape are one batch: each batch is a message per frame.
_MERGE = 0.12
_LARGEST_STATE = 64 * 1024 * 1024
# Pages narrower than this begin with the panel folded [pixels].
_NARROW = 900
# A page that was told where to look may still be docking its panel for so long [s].
_DOCKING = 5.0
# Models of more bodies are followed by the mean of their parts instead of the middle of their box.
_LARGE = 2000
# Most simulations side by side.
_MOST = 6


class Viewer:
    """Shows a simulation in the browser and controls it from there.

    Args:
        sim: the simulation; None = none yet: `open` follows, or a page chooses a scene of the gallery.
        drive: called with it sixty times per simulated second, or None.
        camera: (position, target) [m]; None = one that shows the whole motion.
        way: direction (3,) from which the motion is looked at where no camera is given.
        title: name of the scene.
        host: the interface to listen on; other than loopback it needs the token in the address.
        port: the first port to try; 0 lets the system choose.
        rate: frames per second; None = 60, for more than 2000 bodies 30.
        playing: whether the simulation starts running.
    """

    def __init__(
        self,
        sim: Simulation | None,
        *,
        drive: Callable[[Any], None] | None = None,
        camera: Any = None,
        way: Any = None,
        title: str = "",
        host: str = "127.0.0.1",
        port: int = 8080,
        rate: float | None = None,
        playing: bool = True,
    ) -> None:
        viser = require("viser", extra="view")
        if sim is not None and not isinstance(sim, Simulation):
            raise StateError(f"view takes a lj.Simulation, got {type(sim).__name__}")
        self.title, self._way = title, way
        self._camera = None if camera is None else checked_eye(camera)
        self._rate, self._start_playing = rate, playing
        self.guard = Guard(host, free_port(host, port))
        self.gallery = Gallery(self.open_scene)
        self.guard.pages = self.gallery.answer
        with self.guard.installed(), contextlib.redirect_stdout(io.StringIO()):
            self.server: Any = viser.ViserServer(host=host, port=self.guard.port, label="Limberjack", verbose=False)
        self.guard.port = self.server.get_port()
        close_tunnel(self.server)
        first = Simulation(Builder("nothing").build()) if sim is None else sim
        self.runner = Runner(first, drive, rate or _rate_of(first.model), waits=True, looks_ahead=True)
        self.runner.watchers["values"] = self._values
        self.grips, self._budget, self._tradeoff = Grips(self.runner), Budget(), Tradeoff()
        self.runner.before_batch.append(lambda sim, passed: self._budget.follow(sim, self.runner.step_seconds, passed))
        self._mode, self._mode_chosen, self._sight = "own", False, False
        self._guides: set[str] = set()
        self._groups = {"visual": True, "collision": False}
        self._stages: list[Stage] = []
        self._labels: list[Any] = []
        self._framing: Framing | None = None
        self._aimed: dict[int, tuple[float, np.ndarray, float]] = {}  # by page: aspect, position, when
        self._gizmo: Any = None
        self._snapshot: Any = None
        self._recording: list[tuple[Run, list[Moment]]] = []
        self._panel_stale, self._building = False, ""
        self._dirty, self._closed, self.pictures = False, False, 0  # frames sent to the pages so far
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="limberjack-errands")
        self.server.scene.set_background_image(sky())
        light(self.server)
        self.panel = Panel(self, self.server)
        self.server.on_client_connect(self._welcome)
        self._thread = threading.Thread(target=self._display, name="limberjack-display", daemon=True)
        self._begun = False
        if sim is not None:
            self._begin()

    def _begin(self) -> None:
        """Start the threads."""
        self._begun = True
        self.runner.playing = self._start_playing
        self.panel.show(self.sim, self.title)
        self._use_colors_of(self.sim)
        self.runner.start()
        self._thread.start()

    def open(
        self,
        sim: Simulation,
        drive: Callable[[Any], None] | None = None,
        title: str = "",
        camera: Any = None,
        way: Any = None,
    ) -> None:
        """Show another simulation instead.

        Args:
            sim: the simulation.
            drive: called with it sixty times per simulated second, or None.
            title: name of the scene.
            camera: (position, target) [m]; None = one that shows the whole motion.
            way: direction (3,) to look from where no camera is given.
        """
        eye = None if camera is None else checked_eye(camera)

        def put(old: Simulation) -> None:
            self._camera, self._way, self.title = eye, way, title
            self.runner.rate = self._rate or _rate_of(sim.model)
            self._use_colors_of(sim)
            self._tradeoff.clear()
            if self._begun:
                self.runner.replace(sim, drive)
            else:
                self.runner.runs, self.runner.drive = [Run(sim)], drive

        if self._begun:
            self.runner.order(put)
        else:
            put(sim)
            self._begin()

    @property
    def url(self) -> str:
        """The address to open."""
        return self.guard.url

    @property
    def gallery_url(self) -> str:
        """The address of the gallery."""
        return self.guard.address("gallery")

    @property
    def sim(self) -> Simulation:
        """The simulation that controls act on; use `runner.ask` to read it while it runs."""
        return self.runner.sim

    def _repr_html_(self) -> str:
        """Return a frame with the viewer, for notebooks."""
        return f'<iframe src="{self.url}" width="100%" height="560" style="border:0"></iframe>'

    def close(self) -> None:
        """Stop the simulation, close the connections, end the threads."""
        if self._closed:
            return
        self._closed = True
        self.runner.stop()
        self._worker.shutdown(wait=False, cancel_futures=True)
        if self._begun:
            if self._thread.ident is not None:  # Ctrl-C may come before it was started
                self._thread.join(5.0)
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until Ctrl-C, then close."""
        try:
            while not self._closed:
                time.sleep(0.2)
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    # Showing

    def _set_stage(self, frame: Frame) -> None:
        """Create the stages of the simulations of a frame, side by side, and aim the cameras."""
        sims, model = [run.sim for run in self.runner.runs], self.sim.model
        drawing = Drawing(model, merge=_MERGE, collision=True)
        ahead = [q for q in self.runner.preview if len(q) == model.nq]
        # the same model as before, side by side or alone again: what is known of its motion stays in the picture
        before = self._framing if self._framing is not None and self._framing.model is model else None
        least = None if before is None else before.box + before.moved
        self._framing = Framing(drawing, [frame.q, *ahead], len(sims), self._camera, self._way, least)
        self._framing.keep = bool(self.panel.look.keep.value)
        self.grips.leash = max(0.05, 0.5 * drawing.size)
        self._clear_stage()
        self._aim_all()
        eye = self._framing.home()
        for k in range(len(sims)):
            root = "/model" if len(sims) == 1 else f"/run{k}"
            stage = Stage(
                self.server, drawing, eye, self._dragged(k), self._clicked,
                root=root, offset=self._framing.offsets[k], ground=k == 0,
            )  # fmt: skip
            for group, on in self._groups.items():
                stage.show_group(group, on)
            self._stages.append(stage)
        self._label_runs()
        start, distance = self.server.initial_camera, float(np.linalg.norm(eye.position - eye.target))
        start.position, start.look_at, start.fov = eye.position, eye.target, eye.angle
        start.near, start.far = _depths(distance)

    def _clear_stage(self) -> None:
        for thing in (*self._stages, *self._labels):
            thing.remove()
        self._stages, self._labels = [], []

    def _label_runs(self) -> None:
        """Write the labels of simulations side by side below what is framed of them."""
        runs = self.runner.runs
        if self._framing is None or len(runs) < 2 or len(runs) != len(self._stages):
            return
        (low, high), moved = self._framing.box, self._framing.moved
        foot = np.array([*(0.5 * (low + high))[:2], low[2] - 0.06 * float((high - low).max())]) + moved
        if not self._labels:
            self._labels = [
                self.server.scene.add_label(f"/label{k}", run.label, anchor="top-center", font_screen_scale=1.3)
                for k, run in enumerate(runs)
            ]
        for handle, run, stage in zip(self._labels, runs, self._stages, strict=True):
            handle.position = foot + stage.offset
            if handle.text != run.label:
                handle.text = run.label

    async def _welcome(self, client: Any) -> None:
        self._dirty = True
        if client.camera.image_width < _NARROW:
            client.gui.main_panel.minimize()
        self._aim(client)

        @client.camera.on_update
        async def _(camera: Any) -> None:
            self._refit(client)

    def _refit(self, client: Any) -> None:
        """Aim at the whole motion again in a window that has changed its shape, unless a user looks elsewhere."""
        camera = client.camera
        aspect, position, when = self._aimed.get(client.client_id, (0.0, np.zeros(3), 0.0))
        if not aspect or not camera.image_height or self._framing is None:
            return
        distance = np.linalg.norm(position - np.array(camera.look_at))
        same = np.linalg.norm(np.array(camera.position) - position) < 0.01 * distance
        ours = self._framing.is_ours(camera)
        # a page that is docking its panel tells, and may even keep, the camera it had before it was told another
        docking = time.perf_counter() - when < _DOCKING
        if abs(camera.aspect / aspect - 1.0) > 0.05:
            if same or docking or ours:
                self._aim(client)
        elif ours and docking and not self._framing.is_home(camera):
            self._aim(client)

    def _aim(self, client: Any, preset: str = "home") -> None:
        """Aim the camera of a page at everything."""
        if self._framing is None:
            return
        try:
            aspect = float(client.camera.aspect)
        except (AssertionError, ZeroDivisionError):  # a page that has not told its size yet
            aspect = 0.0
        eye = self._framing.toward(preset, aspect or 1.3)
        if preset == "home":
            self._framing.tell(eye)
        self._aimed[client.client_id] = (aspect, eye.position, time.perf_counter())
        distance = float(np.linalg.norm(eye.position - eye.target))
        with client.atomic():
            client.camera.position = eye.position
            client.camera.look_at = eye.target
            client.camera.fov = eye.angle
            client.camera.near, client.camera.far = _depths(distance)

    def _aim_all(self) -> None:
        for client in self.server.get_clients().values():
            self._aim(client)

    def _display(self) -> None:
        """Show frame after frame, the newest each time; no other thread waits for this one."""
        last, shown, generation, stand = -1, 0.0, -1, None
        previews = 0
        while not self._closed:
            frame = self.runner.frame(last, timeout=0.2)
            try:
                now = time.perf_counter()
                compiling = self.runner.compiling
                self.panel.run.show_compiling(compiling, self.sim.method.name)
                if frame is not None:
                    last = frame.number
                    if frame.generation != generation:
                        generation = frame.generation
                        if stand != (self.sim.model, len(frame.runs)):
                            stand = (self.sim.model, len(frame.runs))
                            self._set_stage(frame)
                        self._label_runs()
                        self._panel_stale = True
                    if self._panel_stale:
                        self._panel_stale = False
                        self.panel.show(self.sim, self.title)
                    if self.runner.previews != previews and self.runner.preview:
                        previews = self.runner.previews
                        self._see(self.runner.preview)
                    if self._dirty or self.server.get_clients() or not self.runner.shown.is_set():
                        self._show(frame)
                        self.runner.shown.set()
                if now - shown > 1.0 / _WORDS and compiling is None:
                    shown = now
                    self._speak(frame)
            except Exception as error:  # a frame that fails must not end the thread
                self.runner.shown.set()
                if not self._closed:
                    self.runner.problems.append(f"{type(error).__name__}: {error}")
                    time.sleep(0.2)

    def _see(self, motion: list[np.ndarray]) -> None:
        """Aim the cameras at the motion to come."""
        if self._framing is not None and all(len(q) == self.sim.model.nq for q in motion):
            self._framing.see(motion)
            self._aim_all()

    def _show(self, frame: Frame) -> None:
        if len(frame.runs) != len(self._stages):
            return
        middle = None
        for k, (stage, shot) in enumerate(zip(self._stages, frame.runs, strict=True)):
            found = stage.show(shot.q, shot.cluster_roots)
            if found is None:
                return
            middle = found if k == frame.lead else middle
            stage.overlays.forces(shot.facts)
            stage.overlays.guides(self._guides, shot.q)
            mode, values = shot.facts.get("values") or ("own", None)
            most = float(values.max(initial=0.0)) if isinstance(values, np.ndarray) else 1.0
            stage.paint(part_colors(stage.drawing, mode, values, most))
        self._dirty = False
        self.pictures += 1
        if self._framing is not None and middle is not None:
            corners = self._stages[frame.lead].corners() if self.sim.model.body_count <= _LARGE else None
            self._framing.follow(middle if corners is None else np.mean(corners, axis=0), self._cameras())

    def _cameras(self) -> list[Any]:
        return [client.camera for client in self.server.get_clients().values() if client.camera.image_height]

    def _speak(self, frame: Frame | None) -> None:
        """Write status, legend, plots and problems, and see that nothing leaves the picture."""
        runner, sim = self.runner, self.runner.sim
        moment = runner.looking_back
        if self._building:
            self.panel.run.status.content = f"building **{self._building}** ..."
        elif runner.state == "ready":
            time = f"t = {sim.time if moment is None else moment.time:.3f} s"
            playing = " · looking back" if moment is not None else "" if runner.playing else " · paused"
            speed = f"{runner.real_time_factor:.2f} of real time · {runner.steps_per_second:.0f} steps/s"
            self.panel.run.status.content = f"**{time}**{playing}" + (f"<br>{speed}" if runner.playing else "")
        self.panel.show_state(runner.playing, runner.recorded_frames, moment is not None)
        while runner.problems:
            text = runner.problems.popleft()
            for client in self.server.get_clients().values():
                client.add_notification("Limberjack", text, auto_close_seconds=15.0, color="red")
        if frame is not None and runner.state == "ready":
            self._measure(frame)
            if self._framing is not None and self._stages:
                corners = self._stages[min(frame.lead, len(self._stages) - 1)].corners()
                if corners is not None:
                    self._framing.step_back(*corners, self._cameras())
                self._label_runs()
        for client in self.server.get_clients().values():
            self._refit(client)
        if self.panel.plots.live.value and runner.state == "ready":
            self.panel.plots.show(runner.runs)
        if self._sight:
            self._look()

    def _measure(self, frame: Frame) -> None:
        """Show the legend, and what budgets cost."""
        mode, values = frame.facts.get("values") or ("own", None)
        most = float(values.max(initial=0.0)) if isinstance(values, np.ndarray) else 1.0
        self.panel.look.show_legend(legend(mode, values, most))
        runs, budgets = self.runner.runs, []
        for run in runs:
            if run.sim.method.name == "adaptive" and len(run.history):
                budgets.append(budget_of(run.sim))
                if self.runner.playing:
                    self._tradeoff.add(budgets[-1], run.history[-1].numbers)
        lead = runs[self.runner.lead]
        if lead.sim.method.name == "adaptive" and len(lead.history):
            numbers = lead.history[-1].numbers
            active = int(numbers.get("active joints", 0.0))
            self.panel.detail.measure(active, budget_of(lead.sim), numbers, self._tradeoff.svg(budgets))
        labels = [run.label for run in runs] if len(runs) > 1 else ["-"]
        self.panel.detail.show_runs(labels, self.runner.lead if len(runs) > 1 else 0, self._distances(frame))
        values_of = frame.facts.get("control")
        if isinstance(values_of, dict):
            self.panel.control.show_values(values_of)

    def _distances(self, frame: Frame) -> str:
        """Return how far the runs side by side have come from the first, as a list."""
        runs = self.runner.runs
        if len(runs) < 2 or len(frame.runs) != len(runs):
            return ""
        places = [stage.places() for stage in self._stages]
        lines = []
        for run, place in zip(runs, places, strict=True):
            apart = float(np.linalg.norm(place - places[0], axis=1).mean()) if len(place) else 0.0
            away = "" if run is runs[0] else f", {apart:.3g} m from the first"
            lines.append(f"- **{run.label}**: {1e3 * run.step_seconds:.3f} ms per step{away}")
        return "\n".join(lines)

    def _values(self, sim: Simulation) -> tuple[str, np.ndarray | None]:
        mode = self._mode
        return mode, (None if mode == "own" else body_values(sim, mode))

    def _use_colors_of(self, sim: Simulation) -> None:
        """Colour by rigid cluster where there are any, unless a user has chosen; watch the controls of actuators."""
        if not self._mode_chosen:
            self._mode = "rigid cluster" if sim.method.name == "adaptive" else "own"
            self.panel.look.color.value = self._mode
        self.runner.watchers.pop("control", None)
        if sim.model.actuators:
            names = sim.model.actuator_names
            self.runner.watchers["control"] = lambda s: dict(zip(names, map(float, s.control), strict=True))

    # Commands of the panel

    def toggle(self) -> None:
        """Play or pause."""
        self.runner.play(not self.runner.playing)

    def single_step(self) -> None:
        """Pause and take one step."""
        self.runner.single_step()

    def reset(self) -> None:
        """Go back to the first state."""
        self.runner.reset()
        self.look_from("home", None)

    def use_colors(self, mode: str) -> None:
        """Colour bodies by `mode`."""
        self._mode, self._mode_chosen = mode, True
        self.runner.order(lambda sim: None)

    def use_group(self, group: str, on: bool) -> None:
        """Show or hide the "visual" or the "collision" shapes."""
        self._groups[group] = bool(on)
        for stage in self._stages:
            stage.show_group(group, bool(on))

    def use_overlay(self, name: str, on: bool) -> None:
        """Show or hide forces or guides (of `FORCES` and `GUIDES`)."""
        if name not in FORCES:
            (self._guides.add if on else self._guides.discard)(name)
        elif on:
            self.runner.watchers[name] = FORCES[name]
        else:
            self.runner.watchers.pop(name, None)
        self.runner.order(lambda sim: None)

    def use_keep(self, on: bool) -> None:
        """Let the cameras follow the model, or stand still."""
        if self._framing is not None:
            self._framing.keep = bool(on)

    def look_from(self, way: str, client: Any) -> None:
        """Aim the camera of one client, or of all (None), from home, front, side or top at the motion."""
        for one in [client] if client is not None else self.server.get_clients().values():
            self._aim(one, way)

    def use_method(self, name: str) -> None:
        """Continue with another method, in the same state."""

        def switch(sim: Simulation) -> None:
            try:
                other = under_method(sim, name, lenient=True)
            except LimberjackError:
                self._panel_stale = True  # the panel shows the old method again
                raise
            if left_out := set(other.ignored) - set(sim.ignored):
                self.runner.problems.append(f'method "{name}" leaves out {", ".join(sorted(left_out))}')
            self._use_colors_of(other)
            self._replaced(other)

        self.runner.order(switch)

    def _replaced(self, sim: Simulation) -> None:
        """Go on with another simulation of the same run; for commands."""
        self.runner.replace(sim, self.runner.drive, start=False)
        run = self.runner.runs[self.runner.lead]
        run.label = label_of(sim) if run.label else ""

    def tune(self, **options: Any) -> None:
        """Change options of the method: at once where it can, else by continuing with a new stepper."""

        def change(sim: Simulation) -> None:
            try:
                sim.tune(**options)
            except (StateError, UnsupportedByMethod):
                self._replaced(under_method(sim, replace(sim.method, **options)))

        self.runner.order(change)

    def use_budget(self, unit: str, value: float) -> None:
        """Set the budget of method adaptive: so many joints, percent of them, or milliseconds per step."""

        def change(sim: Simulation) -> None:
            if sim.method.name == "adaptive":
                self._budget.set(sim, unit, value)
                run = self.runner.runs[self.runner.lead]
                run.label = label_of(sim) if run.label else ""

        self.runner.order(change)

    def compare(self, text: str) -> None:
        """Run the state of now several times side by side, with other budgets or methods.

        Args:
            text: budgets (whole numbers) and names of methods, with commas between them.
        """
        words = [word.strip() for word in text.split(",") if word.strip()]

        def split(sim: Simulation) -> None:
            if not 2 <= len(words) <= _MOST:
                raise StateError(f"side by side: 2 to {_MOST} budgets or methods with commas, got {text!r}")
            runs = [Run(variant(sim, word)) for word in words]
            for run in runs:
                run.label = label_of(run.sim)
            self._tradeoff.clear()
            self._use_colors_of(runs[-1].sim)
            self.runner.place_side_by_side(runs)

        self.runner.order(split)

    def show_one(self) -> None:
        """Go on with the simulation that controls act on alone."""

        def join(sim: Simulation) -> None:
            run = self.runner.runs[self.runner.lead]
            run.label = ""
            self.runner.runs, self.runner.lead = [run], 0
            self.runner.generation += 1

        self.runner.order(join)

    def use_lead(self, label: str) -> None:
        """Let controls act on another of the simulations side by side."""

        def choose(sim: Simulation) -> None:
            labels = [run.label for run in self.runner.runs]
            if label in labels:
                self.runner.lead = labels.index(label)
                self._panel_stale = True

        self.runner.order(choose)

    def use_control(self, name: str, value: float) -> None:
        """Set the control of an actuator."""

        def change(sim: Simulation) -> None:
            for run in self.runner.runs:
                run.sim.control = {name: value}

        self.runner.order(change)

    def use_keyframe(self, name: str) -> None:
        """Go to a keyframe of the model."""

        def go(sim: Simulation) -> None:
            for run in self.runner.runs:
                run.sim.reset(name)
                run.history.drop_from(run.sim.time)

        self.runner.order(go)

    def use_gravity(self, z: float) -> None:
        """Set gravity along z [m/s^2]."""

        def change(sim: Simulation) -> None:
            x, y, _ = sim.model.gravity
            for run in self.runner.runs:
                run.sim = under_gravity(run.sim, (x, y, z))
            self.runner.generation += 1

        self.runner.order(change)

    def use_dt(self, milliseconds: float) -> None:
        """Set the time step."""

        def change(sim: Simulation) -> None:
            for run in self.runner.runs:
                run.sim.dt = 1e-3 * milliseconds

        self.runner.order(change)

    def use_sight(self, on: bool) -> None:
        """Let the camera of the page choose what method `adaptive` simulates."""
        self._sight = bool(on)
        if not on:
            self.runner.order(lambda sim: sim.tune(view=None) if sim.method.name == "adaptive" else None)

    def _look(self) -> None:
        cameras = self._cameras()
        if not cameras or self.sim.method.name != "adaptive":
            return
        camera, offset = cameras[0], self._stages[self.runner.lead].offset if self._stages else np.zeros(3)
        position, target = (tuple(float(x) for x in np.array(v) - offset) for v in (camera.position, camera.look_at))
        if position == target:
            return
        view = View(position=position, target=target, pixels=int(camera.image_height), angle=float(camera.fov))  # pyright: ignore[reportArgumentType]
        if view != self.sim.method.view:
            self.tune(view=view)

    def open_scene(self, name: str) -> None:
        """Show another ready-made scene; it is built beside the one that runs."""
        if name not in scenes.names():
            return

        def build() -> None:
            self._building = name
            try:
                self.panel.run.status.content = f"building **{name}** ..."
                scene = scenes.get_shown(name)
                method = method_of(scene.method)
                ignored = [word for word in scene.model.features() if word not in method.supports]
                sim = Simulation(scene.model, method, scene.dt, ignore=ignored)
            finally:
                self._building = ""
            if ignored:
                self.runner.problems.append(f'method "{method.name}" leaves out {", ".join(ignored)} of scene "{name}"')
            self.open(sim, scene.drive, name, way=np.subtract(*scene.camera))

        self._errand(build)

    # Files and snapshots

    def take_snapshot(self) -> None:
        """Store the current state."""

        def keep(sim: Simulation) -> None:
            self._snapshot = sim.snapshot()

        self.runner.order(keep)

    def back_to_snapshot(self) -> None:
        """Restore the stored state."""

        def back(sim: Simulation) -> None:
            if self._snapshot is None:
                raise StateError("there is no snapshot yet: take one first")
            transplant(self._snapshot, sim)

        self.runner.order(back)

    def send_state(self, client: Any) -> None:
        """Offer the state for download as a file that `lj.resume` continues from."""

        def send() -> None:
            with tempfile.TemporaryDirectory(prefix="limberjack-") as folder:
                path = Path(folder) / f"{_plain(self.sim.model.name)}-state.npz"
                self.runner.ask(lambda sim: sim.save(path))
                client.send_file_download(path.name, path.read_bytes(), save_immediately=True)

        self._errand(send)

    def load_state(self, content: bytes) -> None:
        """Continue from an uploaded state."""

        def load() -> None:
            if len(content) > _LARGEST_STATE:
                raise StateError(f"a state of {len(content)} bytes is too large")
            with tempfile.TemporaryDirectory(prefix="limberjack-") as folder:
                path = Path(folder) / "state.npz"
                path.write_bytes(content)
                sim = resume(path)
            self.open(sim)

        self._errand(load)

    def toggle_recording(self) -> None:
        """Begin a recording, or end it and keep it for downloads."""
        if not self.runner.recorded_frames:
            self.runner.record()
            return

        def keep() -> None:
            self._recording = self.runner.recorded() or self._recording

        self._errand(keep)

    def send_recording(self, client: Any, suffix: str) -> None:
        """Offer the motion for download: the current or last recording, or else everything in memory."""

        def send() -> None:
            if self.runner.recorded_frames:
                self._recording = self.runner.recorded()
            found = self._recording or self.runner.everything()
            if not found:
                raise StateError("nothing was recorded yet: press Play first")
            with tempfile.TemporaryDirectory(prefix="limberjack-") as folder:
                path = Path(folder) / f"{_plain(found[0][0].sim.model.name)}.{suffix}"
                save_moments(found, path)
                client.send_file_download(path.name, path.read_bytes(), save_immediately=True)

        self._errand(send)

    def continue_from_here(self) -> None:
        """Go on from the moment of the past that is shown."""
        self.runner.continue_from_there()

    def _errand(self, act: Callable[[], None]) -> None:
        """Run long tasks on a thread of their own, one after the other."""

        def run() -> None:
            try:
                act()
            except (LimberjackError, OSError) as error:
                self.runner.problems.append(str(error))
            except Exception as error:  # the thread's own answer is read by nobody
                self.runner.problems.append(f"internal error, {type(error).__name__}: {error}")

        self._worker.submit(run)

    # Grips

    def _dragged(self, k: int) -> Callable[[str, str, Any, str], None]:
        """Return what happens when a pointer drags a body of the k-th simulation."""

        def dragged(phase: str, body: str, point: Any, hold: str) -> None:
            if phase == "start":
                self.grips.grab(hold, body, point, run=k)
            elif phase == "update":
                self.grips.move(hold, point)
            else:
                self.grips.release(hold)

        return dragged

    def _clicked(self, body: str) -> None:
        self.panel.world.chosen.value = body

    def hold_chosen(self) -> None:
        """Grip the selected body with a gizmo that moves and rotates it."""
        body = self.panel.world.chosen.value
        if not body:
            self.runner.problems.append("click a body first: the gizmo grips the selected one")
            return

        def begin(sim: Simulation) -> None:
            i = sim.model.body_index(body)
            pose = sim.positions[i].copy(), sim.rotations[i].copy()
            self.grips.grab("gizmo", body, pose[0], pose[1], run=self.runner.lead)
            self._add_gizmo(*pose)

        self.runner.order(begin)

    def _add_gizmo(self, position: np.ndarray, rotation: np.ndarray) -> None:
        if self._gizmo is not None:
            self._gizmo.remove()
        assert self._framing is not None
        offset, eye = self._stages[self.runner.lead].offset, self._framing.home()
        gizmo = self._gizmo = self.server.scene.add_transform_controls(
            "/gizmo", scale=0.12 * float(np.linalg.norm(eye.position - eye.target)), position=position + offset,
            wxyz=rotation, depth_test=False,
        )  # fmt: skip

        @gizmo.on_update
        async def _(event: Any) -> None:
            self.grips.move("gizmo", np.array(gizmo.position) - offset, gizmo.wxyz)

    def release_all(self) -> None:
        """Release all grips."""
        self.grips.release_all()
        if self._gizmo is not None:
            self._gizmo.remove()
            self._gizmo = None


def _depths(distance: float) -> tuple[float, float]:
    """Return the nearest and farthest depth that a camera at some distance sees; the background needs a near one."""
    return min(distance / 200.0, 0.1), distance * 50.0


def _rate_of(model: Model) -> float:
    return 60.0 if model.body_count <= 2000 else 30.0


def _plain(name: str) -> str:
    """Return a name that is safe as that of a file."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:60] or "model"


def save_moments(found: list[tuple[Run, list[Moment]]], path: Path) -> None:
    """Write recorded motions; a page shows all of them side by side, other files hold the first."""
    motions = [(run.label, *trajectory_of(run.sim, moments)) for run, moments in found]
    label, trajectory, extras = motions[0]
    if path.suffix == ".html":
        beside = [(name, other, more) for name, other, more in motions[1:]]
        trajectory.save(path, label=label, beside=beside, **extras)
    else:
        trajectory.save(path)
