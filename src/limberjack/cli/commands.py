"""The command line: `limberjack run | replay | view | scenes | info | assemble | convert | sweep | check | bench ...`.

Each command is a dataclass, whose fields are its arguments, and is called to do its work. Modules that load kernels are
imported on first use, so that `limberjack --help` is fast. Bad input ends with status 2 and one message on stderr.
"""

from __future__ import annotations

import difflib
import io
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from limberjack import _registry
from limberjack.cli import terminal
from limberjack.cli.chores import Bench, Check, Demo, Doctor, File, Flag, Papers, Warmup
from limberjack.errors import (
    Diverged,
    FileError,
    LimberjackError,
    ModelError,
    StateError,
    UnknownName,
    UnsupportedByMethod,
    require,
)

if TYPE_CHECKING:
    from limberjack.cli.runs import Report
    from limberjack.model.model import Model
    from limberjack.scenes import Scene
    from limberjack.simulation.simulation import Simulation
    from limberjack.simulation.trajectory import Trajectory

__all__ = ["main"]


_Folders = Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FOLDER")]
_Settings = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE")]
_Outputs = Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FILE")]
# How long `view` waits for a model before it opens the page without it [s].
_PATIENCE = 0.7
_Target = Annotated[str, tyro.conf.Positional, terminal.arg("SCENE|FILE")]
# Motions whose files hold no model, and formats of motions that show a model as it stands.
_TABLES = (".csv", ".parquet")
_STILLS = (".html", ".png", ".usd", ".usda", ".usdc")


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Where a model comes from.

    Attributes:
        target: a scene (`limberjack scenes` lists them) or a model file: .urdf, .xml, .mjcf, .json, .glb, .gltf, .bvh.
        set: an option of the scene, e.g. links=50.
        base: joint of the root link of a URDF to the world: fixed or free.
        repair: refuse files with invalid inertias and other defects instead of repairing them.
        roots: a further folder that meshes and includes may come from.
        package_path: a folder in which package:// files are looked for.
    """

    target: _Target
    set: _Settings = ()
    base: Annotated[str | None, terminal.maybe(str), terminal.arg("fixed|free", "fixed")] = None
    repair: Flag = True
    roots: _Folders = ()
    package_path: _Folders = ()

    def scene(self) -> Scene:
        """Return the named scene, or the file as a scene; names of scenes take precedence."""
        from limberjack import scenes

        known = scenes.names()
        if self.target in known:
            if self.base or self.roots or self.package_path or not self.repair:
                raise StateError(
                    f'--base, --roots, --package-path, --no-repair are for files; "{self.target}" is a scene'
                )
            with terminal.waiting(f"building {self.target}"):
                return self._ready_made(**dict(terminal.setting(text, "--set") for text in self.set))
        path = Path(self.target)
        if not path.suffix and not path.exists():
            close = difflib.get_close_matches(self.target, known, n=2, cutoff=0.5)
            hint = f" (did you mean {' or '.join(close)}?)" if close else ""
            choices = f"scenes are {', '.join(known)}; files end in {', '.join(_registry.suffixes('model reader'))}"
            raise ModelError(f'no scene and no file "{self.target}"{hint}; {choices}')
        settings = dict(terminal.setting(text, "--set") for text in self.set)
        if path.suffix.lower() == ".bvh":
            return scenes.get("mocap", clip=path, **settings)
        if settings:
            raise StateError(f'--set is for scenes; "{self.target}" is a file')
        from limberjack.io import load

        options: dict[str, Any] = {"roots": self.roots, "package_paths": self.package_path}
        with terminal.waiting(f"loading {self.target}"):
            model = load(path, repair=self.repair, base=self.base or "fixed", **options)
        return scenes.Scene(model.name, model, dt=model.timestep or scenes.Scene.dt)

    def _ready_made(self, **options: Any) -> Scene:
        """Return the named scene, built with these options."""
        from limberjack import scenes

        return scenes.get(self.target, **options)


# -- run, view -------------------------------------------------------------------------------------


def _methods_with(option: str) -> list[str]:
    """Return the methods that have an option."""
    from limberjack.methods import METHODS, method_of

    return [name for name in METHODS if option in {item.name for item in fields(method_of(name))}]


@dataclass(frozen=True, kw_only=True)
class _Moving(_Source):
    """How a model is simulated.

    Attributes:
        method: the simulation method, e.g. full.
        integrator: of method full: variational, projected, semi_implicit, euler, rk4, implicit or momentum.
        option: a further option of the method, e.g. substeps=4.
        dt: time step [s].
        ignore: features to leave out because the method does not support them, e.g. limits,contacts.
    """

    method: Annotated[str | None, terminal.maybe(str), terminal.arg("NAME", "the scene's, or full")] = None
    integrator: Annotated[str | None, terminal.maybe(str), terminal.arg("NAME", "the scene's, or variational")] = None
    option: _Settings = ()
    dt: Annotated[float | None, terminal.maybe(float), terminal.arg("SECONDS", "the scene's, or 0.001")] = None
    ignore: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FEATURE,...")] = ()

    def made(self) -> tuple[Simulation, Scene]:
        """Return a simulation of the scene or file, and the scene."""
        from limberjack.simulation.simulation import Simulation

        scene = self.scene()
        dt = scene.dt if self.dt is None else self.dt
        method = self._method(scene.method)
        ignore = [word.strip() for text in self.ignore for word in text.split(",") if word.strip()]
        try:
            with terminal.waiting(f"preparing {self.target}"):
                return Simulation(scene.model, method, dt, ignore=ignore), scene
        except UnsupportedByMethod as error:
            missing = [word for word in scene.model.features() if word not in method.supports]
            text = str(error).partition(" To run without")[0]
            raise UnsupportedByMethod(f"{text} To run without: --ignore {','.join(missing)}") from error

    def _method(self, default: Any) -> Any:
        from limberjack.methods import method_of

        method = method_of(default if self.method is None else self.method)
        if self.integrator is not None:
            method = method_of(method.name)  # the scene's substeps belong to its own integrator
        options = dict(terminal.setting(text, "--option") for text in self.option)
        if self.integrator is not None:
            options["integrator"] = self.integrator
        known = [item.name for item in fields(method)]
        for name in options:
            others = () if name in known else _methods_with(name)
            if others:
                where = f"{' and '.join(others)} has: --method {others[0]}"
                raise StateError(f'method "{method.name}" has no option "{name}"; {where}')
            if name not in known:
                raise UnknownName("option", name, f'method "{method.name}"', known)
        return replace(method, **options)


@dataclass(frozen=True, kw_only=True)
class View(_Moving):
    """Show a scene or a model file in the browser; drag bodies and change the method while it runs.

    Without a scene or file it opens the gallery: all scenes with pictures.

    Attributes:
        host: the interface to listen on; other machines need the token in the printed address.
        port: the first port to try; 0 lets the system choose.
        rate: frames per second.
        paused: start paused.
        no_browser: print the address only.
    """

    target: _Target = ""
    host: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = "127.0.0.1"
    port: Annotated[int, tyro.conf.arg(metavar="NUMBER")] = 8080
    rate: Annotated[float | None, terminal.maybe(float), terminal.arg("HZ", "60, for large models 30")] = None
    paused: Flag = False
    no_browser: Flag = False

    def _ready_made(self, **options: Any) -> Scene:
        from limberjack import scenes
        from limberjack.methods import method_of

        method = None if self.method is None else method_of(self.method)
        return scenes.get_shown(self.target, method, **options)

    def __call__(self) -> int:
        """Open the viewer, or the gallery, and wait for Ctrl-C."""
        if self.rate is not None and not (math.isfinite(self.rate) and 0.1 <= self.rate <= 240.0):
            raise StateError(f"--rate must be between 0.1 and 240 frames per second, got {self.rate:g}")
        require("viser", extra="view")
        from limberjack.viewer.app import Viewer

        options: dict[str, Any] = {"host": self.host, "port": self.port, "rate": self.rate, "playing": not self.paused}
        with ThreadPoolExecutor(1) as worker:
            # large models take seconds to build: the page is open by then; small ones fail before it is
            built = worker.submit(self._built) if self.target else None
            if built is not None:
                wait([built], _PATIENCE)
                if built.done():
                    built.result()
            viewer = Viewer(None, **options)
            try:  # Ctrl-C ends it like any other command of the viewer, whatever comes first
                self._show(viewer.url if self.target else viewer.gallery_url)
                if built is not None:
                    sim, scene, notes = built.result()
                    terminal.tell(notes, self.target)
                    viewer.open(sim, scene.drive, scene.name, way=self._way(scene))
                viewer.wait()
            except KeyboardInterrupt:
                pass
            finally:
                viewer.close()
        return 0

    def _built(self) -> tuple[Simulation, Scene, Any]:
        with terminal.collected() as notes:
            sim, scene = self.made()
        return sim, scene, notes

    def _way(self, scene: Scene) -> Any:
        """Return the direction that a scene is looked at from; a model file has none."""
        import numpy as np

        return np.subtract(*scene.camera) if scene.description else None

    def _show(self, address: str) -> None:
        print(f"viewer: {address} (Ctrl-C ends it)", flush=True)
        if not self.no_browser:
            import webbrowser

            webbrowser.open(address)


@dataclass(frozen=True, kw_only=True)
class Run(_Moving):
    """Simulate a scene or a model file, and save the motion.

    Attributes:
        seconds: how long to simulate [s].
        rate: frames per second of the recording.
        beside: further budgets of method adaptive, or methods, e.g. 20,1: each is run as well, and a page (.html) shows
            all of them side by side.
        out: where the motion goes, by suffix: .npz, .csv, .parquet, .html, .bvh, .glb, .usd, .mp4, .gif or .png.
        save_state: where the final state goes, for --resume: .npz.
        resume: continue from a saved state, bit for bit, instead of a scene or file.
        record: a recording (.ljr) that is written while the simulation goes on, for `limberjack replay`.
        quiet: print nothing but warnings and errors.
    """

    target: _Target = ""
    seconds: Annotated[float | None, terminal.maybe(float), terminal.arg("SECONDS", "the scene's, or 5")] = None
    rate: Annotated[float, tyro.conf.arg(metavar="HZ")] = 60.0
    beside: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="BUDGET|METHOD,...")] = ()
    out: _Outputs = ()
    save_state: File = None
    resume: File = None
    record: File = None
    quiet: Flag = False

    def __call__(self) -> int:
        """Simulate, show, save."""
        self._check()
        with terminal.collected() as notes:
            sim, scene = self._simulation()
        terminal.tell(notes, self.target)
        seconds = scene.seconds if self.seconds is None else self.seconds
        from limberjack.cli.runs import Report, measured_run, summary
        from limberjack.cli.warmup import compiled, watched

        with nullcontext() if self.quiet else watched(terminal.console(), sim.method.name):
            compiled(sim)
        report, failure, others = Report(sim.model, sim.steps, sim.dt), None, self._others(sim)
        beside = []
        try:
            shown = not self.quiet
            measured_run(
                sim, seconds, rate=self.rate, progress=shown, drive=scene.drive, report=report, record=self.record
            )
            for label, other in others:
                compiled(other)
                its = measured_run(other, seconds, rate=self.rate, progress=not self.quiet, drive=scene.drive)
                assert other.recorded is not None
                beside.append((label, other.recorded, its.extras(len(other.recorded))))
        except (KeyboardInterrupt, Diverged) as error:
            failure = error
        written = self._write(sim, scene, report, beside)
        where = "; ".join(written) or "nothing was saved: no --out"
        if isinstance(failure, Diverged):
            raise LimberjackError(f"{failure}; until then: {where}") from failure
        if not self.quiet:
            terminal.console().print(terminal.grid(summary(sim, report, driven=scene.drive is not None)))
            terminal.say(*written)
        if failure is not None:
            terminal.warn(f"interrupted at t = {sim.time:.6g} s after {report.steps} steps; {where}")
            return 130
        return 0

    def _check(self) -> None:
        """Refuse what can be refused without loading or simulating anything."""
        if not self.target and self.resume is None:
            raise StateError("run takes a scene or a file: limberjack run pendulum; limberjack scenes lists the scenes")
        for flag, value, allowed in (("--seconds", self.seconds, 0.0), ("--rate", self.rate, 1e-9)):
            if value is not None and not (math.isfinite(value) and value >= allowed):
                raise StateError(f"{flag} must be a finite number >= {allowed:g}, got {value:g}")
        for path in self.out:
            terminal.check_output(path, "trajectory writer")
        if self.save_state is not None:
            terminal.check_output(self.save_state, "simulation writer")
        if self.record is not None:
            terminal.check_output(self.record, "recording writer")
        files = [path.resolve() for path in (*self.out, self.save_state, self.record) if path is not None]
        twice = [path for path, count in Counter(files).items() if count > 1]
        if twice:
            raise FileError(twice[0], "is to be written twice; give --out, --save-state and --record different names")

    def _simulation(self) -> tuple[Simulation, Scene]:
        return self.made() if self.resume is None else self._resumed(self.resume)

    def _resumed(self, path: Path) -> tuple[Simulation, Scene]:
        from limberjack.scenes import Scene
        from limberjack.simulation.simulation import resume

        kept = {"target", "set", "base", "repair", "roots", "package_path", "method", "integrator", "option", "ignore"}
        for item in fields(self):
            if item.name in kept and getattr(self, item.name) != item.default and getattr(self, item.name):
                flag = "SCENE|FILE" if item.name == "target" else "--" + item.name.replace("_", "-")
                raise StateError(f"--resume brings its own model and method: leave out {flag}")
        sim = resume(path)
        if self.dt is not None:
            sim.dt = self.dt
        return sim, Scene(sim.model.name, sim.model)

    def _others(self, sim: Simulation) -> list[tuple[str, Simulation]]:
        """Return the simulations to be run beside, with their labels."""
        from limberjack.viewer.level_of_detail import label_of, variant

        words = [word.strip() for text in self.beside for word in text.split(",") if word.strip()]
        found = [variant(sim, word) for word in words]
        return [(label_of(other), other) for other in found]

    def _write(self, sim: Simulation, scene: Scene, report: Report, beside: list[Any]) -> list[str]:
        """Save the recording and the state; return a line for each file."""
        written = [] if self.record is None else [f"recording, for limberjack replay: {self.record}"]
        if sim.recorded is not None:
            from limberjack.cli.runs import save_motion
            from limberjack.viewer.level_of_detail import label_of

            # a model file has no camera; the narrow pictures of motions side by side need one that fits them
            camera = scene.camera if scene.description and not beside else None
            extras = report.extras(len(sim.recorded)) | {"beside": beside, "label": label_of(sim) if beside else ""}
            for path in self.out:
                saved = save_motion(sim.recorded, path, camera, progress=not self.quiet, **extras)
                written.append(f"motion ({len(sim.recorded)} frames): {saved}")
        if self.save_state is not None:
            drive = f" (without the drive of scene {scene.name})" if scene.drive is not None else ""
            written.append(f"state at t = {sim.time:.6g} s{drive}: {sim.save(self.save_state)}")
        return written


@dataclass(frozen=True)
class Replay:
    """Simulate a recording again and compare every step with it, bit for bit.

    Attributes:
        file: written by `limberjack run --record`: .ljr.
        quiet: print nothing but warnings and errors.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    quiet: Flag = False

    def __call__(self) -> int:
        """Repeat the run; status 1 where a step differs."""
        from limberjack.io.recordings import replay
        from limberjack.simulation.recorder import Bar

        _registry.lookup("recording writer", self.file)
        with Bar(not self.quiet, None, f"replaying {self.file.name}") as tick:
            found = replay(self.file, tick)
        if found.cut:
            terminal.warn(f"{self.file}: {found.cut} bytes of a torn last record were left out")
        if found.divergence is not None:
            step, time, what = found.divergence
            terminal.warn(f"{self.file}: the first step that differs is {step} (t = {time:.6g} s): {what}")
            return 1
        if not self.quiet:
            end = "" if found.ended else "; the run did not come to its end"
            terminal.say(f"{found.steps} steps and {found.hashes} hashes are equal to the last bit{end}")
        return 0


# -- sweep -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Simulate a scene or a model file many times, over parameters and seeds, on all cores or a cluster.

    Attributes:
        target: a scene (`limberjack scenes` lists them) or a model file.
        folder: where the results go, one .npz per run.
        vary: a parameter and its values, NAME=1,2,5 or NAME=LOW:HIGH:COUNT: an option of the scene, or method, dt,
            seconds, scatter, option.NAME (of the method); several give every combination.
        repeats: runs of each combination, with seeds of their own.
        scatter: standard deviation of random start velocities [m/s, rad/s].
        method: the simulation method.
        dt: time step [s].
        seconds: how long each run is [s].
        seed: of the whole sweep.
        workers: processes on this machine; 0 runs everything in this one.
        address: of a scheduler of dask.distributed, e.g. tcp://host:8786, instead of processes on this machine.
        resume: continue the sweep that is in the folder.
        quiet: print nothing but warnings and errors.
    """

    target: _Target
    folder: Path
    vary: _Settings = ()
    repeats: int = 1
    scatter: float = 0.0
    method: Annotated[str | None, terminal.maybe(str), terminal.arg("NAME", "the scene's, or full")] = None
    dt: Annotated[float | None, terminal.maybe(float), terminal.arg("SECONDS", "the scene's, or 0.001")] = None
    seconds: Annotated[float | None, terminal.maybe(float), terminal.arg("SECONDS", "the scene's, or 5")] = None
    seed: int = 0
    workers: Annotated[int | None, terminal.maybe(int), terminal.arg("NUMBER", "one per core")] = None
    address: Annotated[str | None, terminal.maybe(str), terminal.arg("ADDRESS", "this machine")] = None
    resume: Flag = False
    quiet: Flag = False

    def __call__(self) -> int:
        """Run what is left; status 1 where a run failed."""
        from limberjack.cluster import sweep
        from limberjack.cluster.scene_runs import scene_run

        grid = self._grid()
        self._check(grid)
        options: dict[str, Any] = {"repeats": self.repeats, "seed": self.seed, "resume": self.resume}
        try:
            done = sweep(
                scene_run, grid, self.folder, self.address, workers=self.workers, progress=not self.quiet, **options
            )
        except KeyboardInterrupt:
            terminal.warn(f"interrupted; what is done is in {self.folder}: repeat the command with --resume")
            return 130
        if not self.quiet:
            terminal.say(f"results: {len(done.done)} of {len(done)} runs in {self.folder}")
        for run, message in list(done.failures.items())[:5]:
            terminal.warn(f"run {run} {done.plan.parameters[run]}: {message}")
        if len(done.failures) > 5:
            terminal.warn(f"{len(done.failures) - 5} more runs failed; {self.folder / 'runs.jsonl'} lists all")
        return 1 if done.failures else 0

    def _check(self, grid: dict[str, Any]) -> None:
        """Refuse a scene or a parameter that no run would find."""
        from limberjack import scenes
        from limberjack.cluster.scene_runs import OPTION, OWN

        _Source(target=self.target).scene()
        known = {name for info in scenes.describe() if info.name == self.target for name in info.options}
        for name in grid:
            if name not in known | {"target", *OWN} and not name.startswith(OPTION):
                raise UnknownName("parameter", name, f'"{self.target}"', (*known, *OWN, OPTION + "NAME"))

    def _grid(self) -> dict[str, Any]:
        """Return the values of each parameter; those that are not varied have one."""
        fixed = {"target": self.target, "scatter": self.scatter, "method": self.method, "dt": self.dt}
        grid = {name: [value] for name, value in (fixed | {"seconds": self.seconds}).items() if value is not None}
        for text in self.vary:
            name, _, values = text.partition("=")
            if values.count(":") == 2:
                grid[name.strip()] = _spaced(text, values)
            else:
                name, value = terminal.setting(text, "--vary")
                grid[name] = list(value) if isinstance(value, tuple) else [value]
        return grid


def _spaced(text: str, values: str) -> list[float]:
    """Return the numbers of LOW:HIGH:COUNT, whole ones as such."""
    low, high, count = values.split(":")
    try:
        start, end, number = float(low), float(high), int(count)
        if number < 1 or not math.isfinite(start + end):
            raise ValueError
    except ValueError:
        raise StateError(f'--vary takes NAME=LOW:HIGH:COUNT with finite numbers and COUNT >= 1, got "{text}"') from None
    import numpy as np

    spaced = np.linspace(start, end, number).tolist()
    whole = "." not in low + high and all(value == round(value) for value in spaced)
    return [round(value) for value in spaced] if whole else spaced


# -- scenes, info, convert -------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenes:
    """List the ready-made scenes and their options (for --set)."""

    def __call__(self) -> int:
        """Print the table."""
        from rich.table import Table

        from limberjack import scenes

        table = Table(show_lines=True)
        table.add_column("scene", no_wrap=True)
        table.add_column("what it is", ratio=1)
        table.add_column("options and their defaults", ratio=1)
        for info in scenes.describe():
            options = "  ".join(f"{name}={terminal.shown(value)}" for name, value in info.options.items())
            table.add_row(info.name, info.description, options)
        terminal.console().print(table)
        return 0


@dataclass(frozen=True, kw_only=True)
class Info(_Source):
    """Show what a model file or scene contains, and which methods support it.

    Attributes:
        json: print JSON for programs instead.
    """

    json: Flag = False

    def __call__(self) -> int:
        """Print the contents."""
        with terminal.collected() as notes:
            scene = self.scene()
        facts = _facts(scene.model, self.target, notes)
        if self.json:
            print(json.dumps(facts, indent=2))
            return 0
        from rich.table import Table

        units = {"mass": " kg", "gravity": " m/s^2"}
        plain = {name: fact for name, fact in facts.items() if name not in ("features", "warnings")}
        rows = {name: terminal.listed(fact) + units.get(name, "") for name, fact in plain.items()}
        terminal.console().print(terminal.grid(rows))
        table = Table("feature", "for example", "methods that support it", title="features", title_justify="left")
        for name, fact in facts["features"].items():
            able = ", ".join(fact["methods"]) or f"none: --ignore {name}"
            table.add_row(name, terminal.clean(fact["example"]), able)
        if facts["features"]:
            terminal.console().print(table)
        else:
            terminal.say("no features that need support: any method can run it")
        terminal.say(*(f"warning: {note}" for note in notes))
        return 0


def _facts(model: Model, source: str, notes: Sequence[str]) -> dict[str, Any]:
    from limberjack.methods import capabilities

    able = capabilities()
    features = {
        name: {"example": example, "methods": [method for method, row in able.items() if row[name]]}
        for name, example in model.features().items()
    }
    return {
        "name": model.name,
        "source": source,
        "bodies": model.body_count,
        "joints": dict(Counter(model.joint(name).kind for name in model.joint_names)),
        "nq": model.nq,
        "nv": model.nv,
        "loops": list(model.loop_names),
        "mass": float(model.arrays.body_mass.sum()),
        "gravity": model.gravity.tolist(),
        "shapes": dict(Counter(shape.kind for shape in model.shapes)),
        "springs": len(model.springs),
        "points": len(model.points),
        "features": features,
        "warnings": list(notes),
    }


@dataclass(frozen=True, kw_only=True)
class Convert(_Source):
    """Write a model or a recorded motion in another format.

    Attributes:
        out: the file to write; its suffix says the format.
        model: the model that moved, for a motion in a table: .csv, .parquet.
    """

    out: Annotated[Path, tyro.conf.Positional, terminal.arg("OUT")]
    model: File = None

    def __call__(self) -> int:
        """Read and write the file."""
        given, wanted = Path(self.target).suffix.lower(), self.out.suffix.lower()
        motion = given in _registry.suffixes("trajectory reader")
        models, motions = _registry.suffixes("model writer"), _registry.suffixes("trajectory writer")
        if self.model is not None and given not in _TABLES:
            raise StateError(f'--model is for tables ({", ".join(_TABLES)}); "{self.target}" is none')
        if self.model is None and given == ".csv":
            raise StateError(f'"{self.target}" is a table without its model: --model FILE says which moved')
        if wanted not in (*models, *motions):
            known = (*motions, *models) if motion else (*models, *_STILLS)
            what, choices = "motion" if motion else "model", ", ".join(dict.fromkeys(known))
            suffix = f'"{wanted}"' if wanted else "a file without suffix"
            raise FileError(self.out, f"a {what} is not written as {suffix}; the suffix is one of {choices}")
        if motion and wanted in motions:
            return self._motion()
        if not motion and wanted not in (*models, *_STILLS):
            raise FileError(
                self.out, f'"{self.target}" is a model, and a {wanted} file holds a motion: '
                f"limberjack run {self.target} --out {self.out}",
            )  # fmt: skip
        return self._model(motion)

    def _motion(self) -> int:
        terminal.check_output(self.out, "trajectory writer")
        from limberjack.cli.runs import save_motion

        trajectory = self._recorded()
        saved = save_motion(trajectory, self.out, progress=True)
        terminal.say(f"motion ({len(trajectory)} frames): {saved}")
        return 0

    def _recorded(self) -> Trajectory:
        from limberjack.simulation.trajectory import Trajectory

        if self.model is None:
            return Trajectory.load(self.target)
        return Trajectory.load(self.target, _Source(target=str(self.model)).scene().model)

    def _model(self, motion: bool) -> int:
        """Write the model of a motion, scene or file; formats of motions show it as it stands."""
        still = self.out.suffix.lower() not in _registry.suffixes("model writer")
        terminal.check_output(self.out, "trajectory writer" if still else "model writer")
        from limberjack.io import save

        with terminal.collected() as notes:
            model = self._recorded().model if motion else self.scene().model
            if still:
                from limberjack.cli.runs import save_motion
                from limberjack.simulation.trajectory import Trajectory

                saved = save_motion(Trajectory(model, [0.0], model.q0[None], model.qd0[None]), self.out)
            else:
                saved = save(model, self.out)
        terminal.tell(notes, self.target)
        terminal.say(f"model ({model.body_count} bodies): {saved}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Assemble(_Source):
    """Close the joints and loops of a scene or a model file, and list those that cannot be closed.

    Attributes:
        pin: a body whose pose is fixed.
        tolerance: largest error of a joint that is closed [m, rad].
        iterations: most assembly iterations.
        out: where the model is written with the assembled coordinates as its start: .json.
    """

    pin: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="BODY")] = ()
    tolerance: float = 1e-9
    iterations: int = 30
    out: File = None

    def __call__(self) -> int:
        """Assemble; status 1 where a joint stays open."""
        from limberjack.maximal.assemble import assemble, with_start

        if self.out is not None:
            terminal.check_output(self.out, "model writer")
        model = self.scene().model
        with terminal.waiting(f"assembling {self.target}"):
            done = assemble(model, pins=self.pin, tolerance=self.tolerance, iterations=self.iterations)
        word = "closed" if done.closed else f"{len(done.open)} of {model.joint_count} joints stay open"
        terminal.say(f"{model.name}: {word}, error {done.error:.3g} after {done.iterations} iterations")
        for name in sorted(done.open, key=lambda name: -done.residuals[name])[:20]:
            terminal.say(f"  {name:24} {done.residuals[name]:.3g}")
        if self.out is not None:
            from limberjack.io import save

            save(with_start(model, done.q), self.out)
        return 0 if done.closed else 1


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Print the completion of commands and options for a shell, to be read by it.

    Attributes:
        shell: bash or zsh.
    """

    shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional]

    def __call__(self) -> int:
        """Print the script."""
        try:
            _parsed(["--tyro-print-completion", self.shell])
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        return 1


_COMMANDS: dict[str, Any] = {
    "run": Run, "replay": Replay, "view": View, "scenes": Scenes, "info": Info, "assemble": Assemble,
    "convert": Convert, "sweep": Sweep, "warmup": Warmup, "check": Check, "bench": Bench, "papers": Papers,
    "demo": Demo, "doctor": Doctor, "completion": Completion,
}  # fmt: skip


def main(argv: Iterable[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 2 for bad input, 130 after Ctrl-C, 143 after SIGTERM.

    Args:
        argv: the arguments; those of the process when None.
    """
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot encode is no error
    with terminal.ended_like_interrupted() as ended:
        status = _guarded(words)
    return 143 if ended and status == 130 else status


def _guarded(words: list[str]) -> int:
    """Run a command; errors become a message and a status."""
    try:
        status = _run(words)
        sys.stdout.flush()  # here, where a closed pipe is handled
        return status
    except KeyboardInterrupt:
        terminal.warn("interrupted")
        return 130
    except BrokenPipeError:
        # The interpreter would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return terminal.failed(error)


def _run(words: list[str]) -> int:
    if words == ["--version"]:
        from limberjack import __version__

        terminal.say(f"limberjack {__version__}")
        return 0
    try:
        command = _parsed(words)
    except SystemExit as end:  # help, or a usage error that has been printed already
        status = end.code if isinstance(end.code, int) else 2
        for hint in _hints(words) if status == 2 and words[:1] in (["run"], ["view"]) else ():
            terminal.warn(hint)
        return status
    return command()


def _parsed(words: list[str]) -> Any:
    """Return the command that the words say; ends with `SystemExit` for help and usage errors."""
    about = "Simulate articulated bodies: pendulums, robots, characters."
    return tyro.extras.subcommand_cli_from_dict(_COMMANDS, prog="limberjack", args=words, description=about)


def _hints(words: list[str]) -> list[str]:
    """Return how to give options of a scene or of a method that were given as options of the command."""
    from limberjack import scenes

    of_scene = {name for info in scenes.describe() if info.name in words for name in info.options}
    own = {item.name for command in (Run, View) for item in fields(command)}
    hints = []
    for word, value in zip(words, [*words[1:], "VALUE"], strict=True):
        flag, equals, given = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or name in own:
            continue
        setting = f"{name}={given if equals else value}"
        methods = _methods_with(name)
        if name in of_scene:
            hints.append(f"{flag} is an option of the scene: --set {setting}")
        elif methods:
            which = " or ".join(methods)
            hints.append(f"{flag} is an option of method {which}: --method {methods[0]} --option {setting}")
    return hints
