"""Compile ahead of time: small jobs that together call every kernel as simulations do.

A kernel is compiled for the types of its arguments, which are the same for every model; so one small model, run once
by every integrator of every method, is enough. The sparse solver of `multipliers` is compiled for the
integrator `rattle`; for others on first use.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_all_start_methods, get_context
from typing import Any

import numpy as np
from numba.core import event

from limberjack._cache import cache_folder
from limberjack.collision.detect import find_contacts, new_detector
from limberjack.collision.mesh_sdf import build_grid
from limberjack.collision.shapes import new_shapes
from limberjack.collision.surfaces import closed_surface
from limberjack.errors import LimberjackError
from limberjack.linear.elimination import new_work, order_of, split
from limberjack.linear.tree import factor
from limberjack.linear.unsymmetric import solve_unsymmetric
from limberjack.maximal.assemble import assemble
from limberjack.maximal.rows import new_maximal
from limberjack.methods import FEATURES, METHODS, Full, Impulses, Multipliers, method_of
from limberjack.methods.adaptive.contacts import Boxes
from limberjack.methods.adaptive.poses import new_link_map
from limberjack.model.builder import Builder
from limberjack.model.joints import KINDS
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Axis, Motor
from limberjack.reduced import control_dynamics
from limberjack.reduced.assembly_tree import new_assembly, new_coefficients
from limberjack.reduced.dynamics import forward_dynamics, forward_kinematics, inverse_dynamics, jacobian, mass_matrix
from limberjack.scenes.chains import pendulum
from limberjack.scenes.weinstein import net
from limberjack.simulation.compiling import remaining
from limberjack.simulation.simulation import Simulation
from limberjack.viewer.camera import Eye
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.part_poses import Composed
from limberjack.viewer.picture import Painter

__all__ = ["compiled", "compilers", "jobs", "pictures", "sample", "warm_up", "watched"]


def sample() -> Model:
    """Return a small model with every kind of tree joint, springs, motors, dampers, soft limits and armature."""
    builder = Builder("sample")
    own: dict[str, dict[str, Any]] = {
        "hinge": {
            "limits": (-1.0, 1.0),
            "limit_stiffness": 9.0,
            "limit_damping": 0.1,
            "damping": 0.1,
            "stiffness": 1.0,
        },
        "slide": {"motor": Motor(kp=10.0, kd=1.0), "armature": 0.1},
        "ball": {"motor": Motor(kp=1.0, kd=0.1, target=(1.0, 0.0, 0.0, 0.0)), "damping": 0.1},
        "screw": {"pitch": 0.1},
    }
    for name in ("base", "arm"):  # two trees: one floats, one is fixed to the world
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_free("base_joint", WORLD, "base")
    builder.add_joint_hinge("arm_joint", WORLD, "arm", axis=(0.0, 1.0, 0.0), position=(2.0, 0.0, 0.0))
    kinds = [name for name, kind in KINDS.items() if kind.tree and name not in ("free", "compound")]
    for root in ("base", "arm"):
        above = root
        for kind in kinds:
            child = f"{root}_{kind}"
            builder.add_body(child, mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.1, 0.1, 0.1))
            builder.add_joint(kind, f"{child}_joint", above, child, position=(0.0, 0.0, -0.4), **own.get(kind, {}))
            above = child
        child, axes = f"{root}_compound", [Axis(name=f"{root}_turn"), Axis(name=f"{root}_move", kind="slide")]
        builder.add_body(child, mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.1, 0.1, 0.1))
        builder.add_joint_compound(f"{child}_joint", above, child, axes, position=(0.0, 0.0, -0.4))
    builder.add_spring(WORLD, "base_hinge", at_a=(0.0, 0.0, 1.0), stiffness=10.0, damping=0.1)
    builder.add_spring("base_hinge", "base_ball", stiffness=10.0, rest=0.5)
    return builder.build()


def looped() -> Model:
    """Return a small closed chain with a hard limit."""
    builder = Builder("looped")
    rod = {"mass": 1.0, "com": (0.5, 0.0, 0.0), "inertia": (0.1, 0.1, 0.1)}
    for name in ("crank", "coupler", "rocker"):
        builder.add_body(name, **rod)
    builder.add_joint_hinge("a", WORLD, "crank", start=1.0, limits=(-2.0, 2.0))
    builder.add_joint_hinge("b", "crank", "coupler", position=(1.0, 0.0, 0.0), start=-1.0)
    builder.add_joint_hinge("c", WORLD, "rocker", position=(1.0, 0.0, 0.0), start=1.0)
    end = (1.0, 0.0, 0.0)
    builder.add_joint_hinge("d", "coupler", "rocker", position=end, position_in_child=end, damping=0.1)
    return builder.build()


def _functions() -> None:
    model = sample()
    q, qd = model.q0, model.qd0
    forward_dynamics(model, q, qd, np.zeros(model.nv), np.zeros((model.body_count, 6)))
    forward_dynamics(model, q, qd)
    inverse_dynamics(model, q, qd, np.zeros(model.nv))
    forward_kinematics(model, q)
    mass_matrix(model, q)
    jacobian(model, q, model.body_names[-1])
    control_dynamics.jacobian(model, q, model.body_names[-2:])
    control_dynamics.centroidal_momentum(model, q, qd)
    control_dynamics.inverse_dynamics_derivatives(model, q, qd, np.zeros(model.nv))


def _actuators() -> None:
    builder = Builder("actuated")
    builder.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("axle", WORLD, "arm")
    builder.add_actuator("servo", "axle", kind="position", kp=10.0, kd=1.0)
    builder.add_tendon("tendon", {"axle": 1.0}, stiffness=1.0)
    sim = Simulation(builder.build(), "full")
    sim.control = [0.1]
    sim.step()


def _measure(sim: Simulation) -> list[Any]:
    return [sim.energy(), sim.momentum(), sim.velocities, sim.positions]


def _method(name: str) -> None:
    # Options are numbers to the kernels: one set of them compiles all.
    method = method_of(name)
    sim = Simulation(sample(), method, ignore=[word for word in FEATURES if word not in method.supports])
    sim.apply_wrench("arm", force=(0.0, 0.0, 1.0))
    sim.step(2)
    sim.clusters()
    _measure(sim)
    if name == "multipliers":
        sim.apply_impulse("arm", impulse=(0.0, 0.0, 1.0))


def _with_loops(name: str) -> None:
    sim = Simulation(looped(), name)
    sim.step(2)
    _measure(sim)


def _explicit() -> None:
    for model in (sample(), looped(), _box()):
        Simulation(model, Full(integrator="semi_implicit")).step(2)


def _box() -> Model:
    builder = Builder("contacts")
    builder.add_shape_plane(WORLD)
    builder.add_body("box", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_shape_box("box", (1.0, 1.0, 1.0))
    return builder.build()


def _with_contacts(name: str) -> None:
    sim = Simulation(_box(), name)
    sim.step(2)
    _measure(sim)


def _boxes() -> None:
    model = sample()
    links = model.arrays.links
    tree, n = new_assembly(links), len(links.parent)
    co, boxes = new_coefficients(links, tree, 1), Boxes(new_shapes(model), tree, links, np.zeros(n))
    none, rest = np.zeros(0, np.int64), np.zeros(len(tree.parent), np.uint8)
    boxes.lay(co.table, co.numbers, none, rest, new_link_map(model, tree))


def _with_net(name: str) -> None:
    Simulation(net(cells=4), name, dt=1e-3).step(2)


def _events() -> None:
    builder = Builder("events")
    builder.add_shape_plane(WORLD, restitution=1.0)
    builder.add_body("box", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.0, 0.0, 2.0))
    builder.add_shape_box("box", (1.0, 1.0, 1.0), restitution=1.0)
    Simulation(builder.build(), Impulses(events=True)).step(2)


def _reduced() -> None:
    model, method = sample(), Multipliers(coordinates="reduced", integrator="rk4")
    ignored = [word for word in FEATURES if word not in ("springs", "motors")]
    for integrator in ("rk4", "euler"):
        Simulation(model, replace(method, integrator=integrator), ignore=ignored).step(2)


def _ball_joints() -> None:
    builder = Builder("ball_joints")
    builder.add_body("ball", mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_ball("joint", WORLD, "ball")
    Simulation(builder.build(), Multipliers(integrator="rattle", solver="sparse")).step(2)


def _scalable() -> None:
    builder = Builder("scalable")
    builder.add_body_scalable("puppet", mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_ball("joint", WORLD, "puppet")
    Simulation(builder.build(), "multipliers").step(2)


def _multipliers(**options: Any) -> None:
    Simulation(looped(), Multipliers(**options), ignore=("limits",) if options.get("solver") == "krylov" else ()).step(
        2
    )


def _unsymmetric() -> None:
    whole = new_maximal(looped(), frozenset())
    system, nu = whole.system, int(whole.system.body_start[-1])
    tree = order_of(system, split(system, np.arange(len(whole.names)) < whole.equality_count))
    work, nr = new_work(tree), int(system.row_start[-1])
    mass, j = np.zeros(int(system.mass_start[-1])), np.zeros(int(system.block_start[-1]))
    factor(system, tree, mass, j, np.ones(nr), work)
    solve_unsymmetric(system, tree, work, np.zeros(nu), np.zeros(nr), np.ones((1, nu)), np.zeros(1), np.ones((1, nu)))


def _assembly() -> None:
    model = looped()
    assemble(model, model.q0 + 0.1)  # open, so that something is solved
    builder = Builder("floor")
    builder.add_shape_plane("world")
    builder.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_shape_sphere("ball", 0.1)
    assemble(builder.build(), contacts=True)


def _measures() -> None:
    for model in (sample(), looped()):
        _measure(Simulation(model, ignore=FEATURES))


def _collision() -> None:
    builder = Builder("pair")
    for name in ("a", "b"):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_shape_box(name, (1.0, 1.0, 1.0))
    pose = np.zeros((2, 7))
    pose[:, 3] = 1.0
    find_contacts(new_detector(builder.build()), pose, np.zeros(2))
    corners = np.array([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
    build_grid(closed_surface(corners, np.array([(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]), "corner"), 4)


def pictures() -> None:
    """Compile what draws pictures."""
    model = sample()
    drawing, poses = Drawing(model), forward_kinematics(model, model.q0)
    Painter(drawing, 32, 32, 1).paint(*poses, Eye(np.array([3.0, -3.0, 2.0]), np.zeros(3)))
    Composed(drawing).by_bodies(*poses)


def jobs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a title and a function that compiles it, the longest first; what a method alone needs has its name."""
    long = ("adaptive", "multipliers", "impulses")
    for name in long:
        yield f"method {name}", lambda name=name: _method(name)
        yield f"loops in {name}", lambda name=name: _with_loops(name)
    yield "figures in impulses", lambda: Simulation(pendulum(links=2), "impulses").step(2)
    yield "nets in impulses", lambda: _with_net("impulses")
    yield "collision", _collision
    yield "contacts in full", lambda: _with_contacts("full")
    yield "integrator semi_implicit", _explicit
    yield "multipliers, sparse", lambda: _with_net("multipliers")
    yield "multipliers, sparse rattle", lambda: _multipliers(solver="sparse", integrator="rattle")
    yield "multipliers, rattle", lambda: _multipliers(integrator="rattle")
    yield "contacts in impulses", lambda: _with_contacts("impulses")
    yield "contacts in multipliers", lambda: _with_contacts("multipliers")
    yield "collisions in impulses", _events
    yield "threads of impulses", lambda: Simulation(_box(), Impulses(threads=2)).step(2)
    for name in METHODS:
        if name not in long:
            yield f"method {name}", lambda name=name: _method(name)
            if "loops" in method_of(name).supports:
                yield f"loops in {name}", lambda name=name: _with_loops(name)
    yield "multipliers, dense", lambda: _multipliers(solver="dense")
    yield "multipliers, forces along other directions", _unsymmetric
    yield "multipliers, krylov", lambda: _multipliers(solver="krylov")
    yield "multipliers, reduced coordinates", _reduced
    yield "multipliers, rattle on ball joints", _ball_joints
    yield "multipliers, scalable bodies", _scalable
    yield "bounding volumes of rigid parts", _boxes
    yield "assembly", _assembly
    yield "energy, momentum, velocities", _measures
    yield "functions of a model", _functions
    yield "actuators", _actuators
    yield "pictures", pictures


class _CompileTimes(event.Listener):
    """Processor time by function compiled: its own, without that of functions compiled on its behalf."""

    def __init__(self) -> None:
        self.spent: dict[str, tuple[float, int]] = {}  # seconds and signatures
        self._open: list[list[float]] = []  # of functions being compiled: when they began, and the time of callees

    def on_start(self, event: event.Event) -> None:
        self._open.append([time.process_time(), 0.0])

    def on_end(self, event: event.Event) -> None:
        begin, callees = self._open.pop()
        whole = time.process_time() - begin
        if self._open:
            self._open[-1][1] += whole
        data: Any = event.data
        function = data["dispatcher"].py_func
        name = f"{function.__module__}.{function.__qualname__}"
        before, count = self.spent.get(name, (0.0, 0))
        self.spent[name] = before + whole - callees, count + 1


def _job(k: int) -> dict[str, tuple[float, int]]:
    """Run job k, for other processes, to which functions cannot be passed; return seconds and counts by function."""
    times = _CompileTimes()
    with event.install_listener("numba:compile", times):
        list(jobs())[k][1]()
    return times.spent


def compiled(sim: Simulation) -> None:
    """Compile everything that a run of `sim` needs, and leave its state unchanged."""
    before = sim.snapshot()
    try:
        sim.step(1)
        _measure(sim)
    except LimberjackError:
        pass  # the run itself raises the same error
    sim.restore(before)


class _Watch(event.Listener):
    """Tells which function is being compiled."""

    def __init__(self, tell: Callable[[str, int], None]) -> None:
        self._tell, self._count = tell, 0

    def on_start(self, event: event.Event) -> None:
        data: Any = event.data
        self._count += 1
        self._tell(data["dispatcher"].py_func.__name__, self._count)

    def on_end(self, event: event.Event) -> None:
        pass


@contextmanager
def watched(console: Any, name: str) -> Iterator[None]:
    """Show what is compiled within the block, how many functions and for how long; nothing if nothing is."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"{name}: loading", total=None)

        begin = time.perf_counter()

        def tell(function: str, count: int) -> None:
            left = remaining(name, time.perf_counter() - begin, count)
            more = "" if left is None else f", at most {left:.0f} s more"
            text = f"{name}: compiling, at the first use only; function {count}, {function}{more}"
            progress.update(task, description=text)

        with event.install_listener("numba:compile", _Watch(tell)):
            yield


def _undisturbed() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def compilers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that compile, at most one per job; an error or Ctrl-C within the block ends them at once.

    What two jobs need is compiled by the first while the other waits: with one process more than processors, all of
    these are busy. A process that is ended leaves whole files, and its locks to others.
    """
    count = min(1 + (os.cpu_count() or 1), jobs)
    # From one process that has imported everything, where the system can do that: an import takes a second.
    context: Any = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    context.set_forkserver_preload([__name__])
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_undisturbed)
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def warm_up(console: Any, profile: int = 0, methods: Sequence[str] = ()) -> list[str]:
    """Run all jobs under a progress bar, in several processes; return a report in lines.

    Args:
        console: the rich console to draw on.
        profile: how many of the functions that took longest the report lists first.
        methods: names of the methods to compile; none of them = everything.
    """
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    begin, todo = time.perf_counter(), _chosen(methods)
    spent: dict[str, tuple[float, int]] = {}
    columns = (SpinnerColumn(), *Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress, compilers(len(todo)) as pool:
        task = progress.add_task("", total=len(todo))
        running = {pool.submit(_job, k): title for k, title in todo}
        for done in as_completed(running):
            progress.update(task, description=f"{running[done]:30}")
            for name, (seconds, count) in done.result().items():
                known = spent.get(name, (0.0, 0))
                spent[name] = known[0] + seconds, known[1] + count
            progress.update(task, advance=1)
    wall = time.perf_counter() - begin
    word = "compiled in" if spent else "already compiled, checked in"
    lines = [*_profile_lines(spent, profile), f"{word} {wall:.1f} s", f"kept in {cache_folder()}"]
    if methods:
        titles = "; ".join(title for _, title in todo)
        lines.insert(-2, f"{titles}; other options at their first use, or all by `limberjack warmup`")
    return lines


# Jobs that compile a part of what jobs of these methods need: done beside those, they shorten the whole.
_SHARED = {"collision": ("full", "impulses"), "method full": ("adaptive",)}


def _chosen(methods: Sequence[str]) -> list[tuple[int, str]]:
    """Return number and title of the jobs whose titles name one of the methods, shared ones first, or of all jobs."""
    wanted = {method_of(name).name for name in methods}
    found = []
    for k, (title, _) in enumerate(jobs()):
        shared = wanted & set(_SHARED.get(title, ()))
        if not wanted or shared or wanted & set(title.replace(",", "").split()):
            found.append((not shared, k, title))
    return [(k, title) for _, k, title in sorted(found)]


def _profile_lines(spent: dict[str, tuple[float, int]], most: int) -> list[str]:
    """Return lines of the functions that took longest to compile, and the sum of all; none if `most` is 0."""
    if most == 0:
        return []
    longest = sorted(spent.items(), key=lambda item: -item[1][0])[:most]
    lines = [f"{seconds:8.2f} s  {count:3d} x  {name}" for name, (seconds, count) in longest]
    total, count = sum(seconds for seconds, _ in spent.values()), sum(count for _, count in spent.values())
    return [*lines, f"{total:8.2f} s of processor time for {count} functions"]
