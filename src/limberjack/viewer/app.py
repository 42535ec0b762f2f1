"""`Viewer`: a simulation in the browser. Three threads: one steps, one displays, and viser's own serves the pages."""

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
from limberjack.model.model import Model
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.simulation.reactions import joint_forces
from limberjack.simulation.simulation import Simulation, resume
from limberjack.simulation.trajectory import Trajectory
from limberjack.viewer.camera import Eye, bounds, checked_eye, framed
from limberjack.viewer.carry_over import transplant, under_gravity, under_method
from limberjack.viewer.colors import body_values, part_colors
from limberjack.viewer.dragging import Grips
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.guard import Guard, close_tunnel, free_port
from limberjack.viewer.panel import Panel, plotted
from limberjack.viewer.runner import Frame, Runner
from limberjack.viewer.stage import Stage, sky

__all__ = ["Viewer"]

_WAYS = {"front": (0.0, -1.0, 0.15), "side": (1.0, 0.0, 0.15), "top": (0.0, -0.02, 1.0)}
# Update rate of status and plots [Hz].
_WORDS = 5.0
# Capsules of nearly the same shape are one batch: each batch is a message per frame.
_MERGE = 0.12
_LARGEST_STATE = 64 * 1024 * 1024


class Viewer:
    """Shows a simulation in the browser and controls it from there.

    Args:
        sim: the simulation.
        drive: called with it sixty times per simulated second, or None.
        camera: (position, target) [m]; None = one that shows the model.
        title: name of the scene.
        host: the interface to listen on; other than loopback it needs the token in the address.
        port: the first port to try; 0 lets the system choose.
        rate: frames per second; None = 60, for more than 2000 bodies 30.
        playing: whether the simulation starts running.
    """

    def __init__(
        self,
        sim: Simulation,
        *,
        drive: Callable[[Any], None] | None = None,
        camera: Any = None,
        title: str = "",
        host: str = "127.0.0.1",
        port: int = 8080,
        rate: float | None = None,
        playing: bool = True,
    ) -> None:
        viser = require("viser", extra="view")
        if not isinstance(sim, Simulation):
            raise StateError(f"view takes a lj.Simulation, got {type(sim).__name__}")
        self.title = title
        self._camera = None if camera is None else checked_eye(camera)
        self._rate = rate
        self.guard = Guard(host, free_port(host, port))
        with self.guard.installed(), contextlib.redirect_stdout(io.StringIO()):
            self.server: Any = viser.ViserServer(host=host, port=self.guard.port, label="Limberjack", verbose=False)
        self.guard.port = self.server.get_port()
        close_tunnel(self.server)
        self.runner = Runner(sim, drive, rate or _rate_of(sim.model))
        self.runner.playing = playing
        self.grips = Grips(self.runner)
        self.runner.watchers["values"] = self._values
        self._mode, self._follow, self._sight, self._mean = "own", False, False, None
        self._stage: Stage | None = None
        self._home = Eye(np.array([3.0, -3.0, 2.0]), np.zeros(3))
        self._gizmo: Any = None
        self._snapshot: Any = None
        self._trajectory: Trajectory | None = None
        self._dirty, self._closed, self.pictures = False, False, 0  # frames sent to the pages so far
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="limberjack-errands")
        self.server.scene.set_background_image(sky())
        self.panel = Panel(self, self.server)
        self.panel.show_method(sim)
        self.server.on_client_connect(self._welcome)
        self._show_model(sim.model, None)
        self._thread = threading.Thread(target=self._display, name="limberjack-display", daemon=True)
        self.runner.start()
        self._thread.start()

    @property
    def url(self) -> str:
        """The address to open."""
        return self.guard.url

    @property
    def sim(self) -> Simulation:
        """The simulation that runs now; use `runner.ask` to read it while it does."""
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

    def _show_model(self, model: Model, frame: Frame | None) -> None:
        """Create the stage of a model."""
        drawing = Drawing(model, merge=_MERGE)
        q = model.q0 if frame is None or len(frame.q) != model.nq else frame.q
        eye = self._camera or framed(bounds(drawing, *(each[None] for each in forward_kinematics(model, q))), 1.6)
        if self._stage is not None:
            self._stage.remove()
        self._home = eye
        self.grips.leash = max(0.05, 0.5 * drawing.size)
        self._stage = Stage(self.server, drawing, eye, self._dragged, self._clicked)
        self._stage.show(q)
        far = float(np.linalg.norm(eye.position - eye.target))
        start = self.server.initial_camera
        start.position, start.look_at, start.fov = eye.position, eye.target, eye.angle
        start.near, start.far = far / 200.0, far * 50.0
        self._mean = None

    async def _welcome(self, client: Any) -> None:
        self._dirty = True
        self._aim(client, self._home)

    def _aim(self, client: Any, eye: Eye) -> None:
        with client.atomic():
            client.camera.position = eye.position
            client.camera.look_at = eye.target

    def _display(self) -> None:
        """Show frame after frame, the newest each time; no other thread waits for this one."""
        last, shown, generation, model = -1, 0.0, self.runner.generation, self.sim.model
        begun = time.perf_counter()
        while not self._closed:
            frame = self.runner.frame(last, timeout=0.2)
            try:
                now = time.perf_counter()
                if self.runner.state == "compiling":
                    self.panel.show_compiling(now - begun, self.runner.compiled_functions)
                else:
                    begun = now
                    self.panel.show_compiling(None)
                if frame is not None:
                    last = frame.number
                    if frame.generation != generation:
                        generation = frame.generation
                        if self.sim.model is not model:
                            model = self.sim.model
                            self._show_model(model, frame)
                        self.panel.show_method(self.sim)
                    if self._dirty or self.server.get_clients():
                        self._show(frame)
                if now - shown > 1.0 / _WORDS:
                    shown = now
                    self._speak(frame)
            except Exception as error:  # a frame that fails must not end the thread
                if not self._closed:
                    self.runner.problems.append(f"{type(error).__name__}: {error}")
                    time.sleep(0.2)

    def _show(self, frame: Frame) -> None:
        assert self._stage is not None
        mean = self._stage.show(frame.q, frame.cluster_roots)
        if mean is None:
            return
        self._dirty = False
        self.pictures += 1
        self._stage.pulls(frame.facts.get("pulls") or [])
        self._stage.reactions(frame.facts.get("reactions"))
        mode, values = frame.facts.get("values") or ("own", None)
        most = float(values.max(initial=0.0)) if isinstance(values, np.ndarray) else 1.0
        self._stage.paint(part_colors(self._stage.drawing, mode, values, most))
        if self._follow and self._mean is not None:
            step = mean - self._mean
            for client in self.server.get_clients().values():
                client.camera.position = client.camera.position + step  # the target moves along
        self._mean = mean

    def _speak(self, frame: Frame | None) -> None:
        """Write status, plots and problems."""
        runner, sim = self.runner, self.runner.sim
        if runner.state == "ready":
            playing = "" if runner.playing else " · paused"
            self.panel.status.content = (
                f"**t = {sim.time:.3f} s**{playing} · {runner.steps_per_second:.0f} steps/s · "
                f"real time x {runner.real_time_factor:.2f}"
            )
        self.panel.show_state(runner.playing, runner.recorded_frames)
        while runner.problems:
            text = runner.problems.popleft()
            for client in self.server.get_clients().values():
                client.add_notification("Limberjack", text, auto_close_seconds=15.0, color="red")
        if self.panel.plotting.value and runner.state == "ready" and frame is not None:
            runner.watchers["numbers"] = plotted
            numbers = frame.facts.get("numbers")
            if isinstance(numbers, dict):
                self.panel.plot(frame.time, numbers | {"ms per step": 1e3 * runner.step_seconds})
        else:
            runner.watchers.pop("numbers", None)
        if self._sight:
            self._look()

    def _values(self, sim: Simulation) -> tuple[str, np.ndarray | None]:
        mode = self._mode
        return mode, (None if mode == "own" else body_values(sim, mode))

    # Commands of the panel

    def toggle(self) -> None:
        """Play or pause."""
        self.runner.play(not self.runner.playing)

    def single_step(self) -> None:
        """Pause and take one step."""
        self.runner.single_step()

    def use_colors(self, mode: str) -> None:
        """Colour bodies by `mode`."""
        self._mode = mode
        self.runner.order(lambda sim: None)

    def use_reactions(self, on: bool) -> None:
        """Show the forces of joints on their children as arrows, or hide them."""
        if on:
            self.runner.watchers["reactions"] = _reactions
        else:
            self.runner.watchers.pop("reactions", None)
        self.runner.order(lambda sim: None)

    def use_follow(self, on: bool) -> None:
        """Let the cameras follow the model, or stand still."""
        self._follow = bool(on)

    def look_from(self, way: str, client: Any) -> None:
        """Aim the camera of one client, or of all (None), from home, front, side or top at the model."""
        eye = self._home
        if way in _WAYS and self._mean is not None:
            direction = np.array(_WAYS[way])
            distance = float(np.linalg.norm(eye.position - eye.target))
            eye = Eye(self._mean + distance * direction / np.linalg.norm(direction), self._mean)
        for one in [client] if client is not None else self.server.get_clients().values():
            self._aim(one, eye)

    def use_method(self, name: str) -> None:
        """Continue with another method, in the same state."""

        def switch(sim: Simulation) -> None:
            try:
                other = under_method(sim, name, lenient=True)
            except LimberjackError:
                self.runner.generation += 1  # the panel shows the old method again
                raise
            if left_out := set(other.ignored) - set(sim.ignored):
                self.runner.problems.append(f'method "{name}" leaves out {", ".join(sorted(left_out))}')
            self.runner.replace(other, self.runner.drive, start=False)

        self.runner.order(switch)

    def tune(self, **options: Any) -> None:
        """Change options of the method: at once where it can, else by continuing with a new stepper."""

        def change(sim: Simulation) -> None:
            try:
                sim.tune(**options)
            except (StateError, UnsupportedByMethod):
                method = replace(sim.method, **options)
                self.runner.replace(under_method(sim, method), self.runner.drive, start=False)

        self.runner.order(change)

    def use_gravity(self, z: float) -> None:
        """Set gravity along z [m/s^2]."""

        def change(sim: Simulation) -> None:
            x, y, _ = sim.model.gravity
            self.runner.replace(under_gravity(sim, (x, y, z)), self.runner.drive, start=False)

        self.runner.order(change)

    def use_dt(self, milliseconds: float) -> None:
        """Set the time step."""

        def change(sim: Simulation) -> None:
            sim.dt = 1e-3 * milliseconds

        self.runner.order(change)

    def use_sight(self, on: bool) -> None:
        """Let the camera of the page choose what method `adaptive` simulates."""
        self._sight = bool(on)
        if not on:
            self.runner.order(lambda sim: sim.tune(view=None) if sim.method.name == "adaptive" else None)

    def _look(self) -> None:
        clients = list(self.server.get_clients().values())
        if not clients or self.sim.method.name != "adaptive":
            return
        camera = clients[0].camera
        position, target = (tuple(float(x) for x in v) for v in (camera.position, camera.look_at))
        if position == target or not camera.image_height:
            return
        view = View(position=position, target=target, pixels=int(camera.image_height), angle=float(camera.fov))  # pyright: ignore[reportArgumentType]
        if view != self.sim.method.view:
            self.tune(view=view)

    def open_scene(self, name: str) -> None:
        """Show another ready-made scene; it is built beside the one that runs."""
        if name not in scenes.names():
            return

        def build() -> None:
            self.panel.status.content = f"building **{name}** ..."
            scene = scenes.get_shown(name)
            method = method_of(scene.method)
            ignored = [word for word in scene.model.features() if word not in method.supports]
            sim = Simulation(scene.model, method, scene.dt, ignore=ignored)
            if ignored:
                self.runner.problems.append(f'method "{method.name}" leaves out {", ".join(ignored)} of scene "{name}"')

            def put(old: Simulation) -> None:
                self._camera, self.title = checked_eye(scene.camera), name
                self.runner.rate = self._rate or _rate_of(scene.model)
                self.runner.replace(sim, scene.drive)

            self.runner.order(put)

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
            self._camera = None
            self.runner.order(lambda old: self.runner.replace(sim, None))

        self._errand(load)

    def toggle_recording(self) -> None:
        """Begin a recording, or end it and keep it for downloads."""
        if not self.runner.recorded_frames:
            self.runner.record()
            return

        def keep() -> None:
            self._trajectory = self.runner.recorded() or self._trajectory

        self._errand(keep)

    def send_recording(self, client: Any, suffix: str) -> None:
        """Offer the current or last recording for download."""

        def send() -> None:
            if self.runner.recorded_frames:
                self._trajectory = self.runner.recorded() or self._trajectory
            if self._trajectory is None:
                raise StateError("there is no recording yet: press Record first")
            with tempfile.TemporaryDirectory(prefix="limberjack-") as folder:
                path = Path(folder) / f"{_plain(self._trajectory.model.name)}.{suffix}"
                self._trajectory.save(path)
                client.send_file_download(path.name, path.read_bytes(), save_immediately=True)

        self._errand(send)

    def _errand(self, act: Callable[[], None]) -> None:
        """Run long tasks on a thread of their own, one after the other."""

        def run() -> None:
            try:
                act()
            except (LimberjackError, OSError) as error:
                self.runner.problems.append(str(error))

        self._worker.submit(run)

    # Grips

    def _dragged(self, phase: str, body: str, point: Any, hold: str) -> None:
        if phase == "start":
            self.grips.grab(hold, body, point)
        elif phase == "update":
            self.grips.move(hold, point)
        else:
            self.grips.release(hold)

    def _clicked(self, body: str) -> None:
        self.panel.chosen.value = body

    def hold_chosen(self) -> None:
        """Grip the selected body with a gizmo that moves and rotates it."""
        body = self.panel.chosen.value
        if not body:
            self.runner.problems.append("click a body first: the gizmo grips the selected one")
            return

        def begin(sim: Simulation) -> None:
            i = sim.model.body_index(body)
            pose = sim.positions[i].copy(), sim.rotations[i].copy()
            self.grips.grab("gizmo", body, pose[0], pose[1])
            self._add_gizmo(*pose)

        self.runner.order(begin)

    def _add_gizmo(self, position: np.ndarray, rotation: np.ndarray) -> None:
        if self._gizmo is not None:
            self._gizmo.remove()
        size = 0.12 * float(np.linalg.norm(self._home.position - self._home.target))
        gizmo = self._gizmo = self.server.scene.add_transform_controls(
            "/gizmo", scale=size, position=position, wxyz=rotation, depth_test=False
        )

        @gizmo.on_update
        async def _(event: Any) -> None:
            self.grips.move("gizmo", gizmo.position, gizmo.wxyz)

    def release_all(self) -> None:
        """Release all grips."""
        self.grips.release_all()
        if self._gizmo is not None:
            self._gizmo.remove()
            self._gizmo = None


def _rate_of(model: Model) -> float:
    return 60.0 if model.body_count <= 2000 else 30.0


def _plain(name: str) -> str:
    """Return a name that is safe as that of a file."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:60] or "model"


def _reactions(sim: Simulation) -> tuple[np.ndarray, np.ndarray] | None:
    """Return points and forces of all joints, gears left out; None where there are none."""
    found = joint_forces(sim)
    own = [k for k, name in enumerate(sim.model.joint_names) if sim.model.joint_spec(name).kind != "gear"]
    return (found.points[own], found.reactions[own, 3:]) if own else None
