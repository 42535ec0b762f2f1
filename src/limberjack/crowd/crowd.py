"""`Crowd`: many figures stepped as one model, with arrays over figures."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limberjack.crowd.figures import Figures, grid, together
from limberjack.crowd.frame_budget import FrameBudget
from limberjack.errors import StateError
from limberjack.methods import Adaptive, Full, method_of
from limberjack.methods.adaptive.options import View, number
from limberjack.model.model import Model
from limberjack.reduced.dynamics import array_of
from limberjack.simulation.simulation import Simulation
from limberjack.simulation.snapshots import displace

__all__ = ["Crowd"]

# Steps per second of real-time programs, halved: what crowds are for.
_DT = 1.0 / 120.0


class Crowd:
    """Many figures, of one model or of several, under one budget of joints.

    They are one model: what figures share is their ground, contacts between them, and the budget, which goes to the
    joints whose motion matters most in all of the crowd. Without a budget every joint is simulated.

    Args:
        model: of the figures, or a sequence of models that figures take in turn.
        count: how many figures; the number of models when None.
        budget: how many joints are simulated at a time: of the whole crowd (a whole number, or a share of all joints
            as a float up to 1), or one number per figure.
        milliseconds: instead, the time that a call of `step` may take [ms]; the budget follows the clock, and
            `budgets` records what it was.
        budgets: a record of that kind, which is repeated: the same crowd then moves the same, bit for bit.
        camera: joints are chosen by what it sees.
        method: a method to take instead; "adaptive" where there is a budget, milliseconds or a camera, else "full".
        dt: time step [s].
        positions: (count, 3) where the origins of the figures' worlds are [m]; a grid when None.
        spacing: of that grid [m].
        threads: on which figures that nothing ties together are stepped, with the same result; all cores when None.
        ignore: features to leave out, as for `Simulation`.

    Attributes:
        sim: the simulation of all figures; bodies and joints of figure 0 have names that begin with "f000/".
        figures: the models, names and slices of all figures.
    """

    def __init__(
        self,
        model: Model | Sequence[Model],
        count: int | None = None,
        *,
        budget: int | float | Sequence[int] | None = None,
        milliseconds: float | None = None,
        budgets: ArrayLike | None = None,
        camera: View | None = None,
        method: Any = None,
        dt: float = _DT,
        positions: Any = None,
        spacing: float = 2.0,
        threads: int | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        models = _models(model, count)
        self.figures: Figures = together(models, _positions(positions, spacing, len(models)), "crowd")
        whole = self.figures.model
        choices = {"budget": budget, "milliseconds": milliseconds, "budgets": budgets}
        given = [word for word, value in choices.items() if value is not None]
        if len(given) > 1:
            raise StateError(f"a crowd takes one of budget, milliseconds and budgets, got {' and '.join(given)}")
        joints = whole.joint_count - len(whole.loop_names)
        self._pace = None
        if milliseconds is not None or budgets is not None:
            if milliseconds is not None:
                number(milliseconds, "milliseconds")
            self._pace = FrameBudget(milliseconds, joints, budgets)
            budget = self._pace.budget
        chosen = _method(method, _budget(budget, joints, len(models)), camera, threads)
        self.sim = Simulation(whole, chosen, dt, ignore=ignore)
        self._whole_joints = joints
        self._q0, self._qd0 = whole.q0, whole.qd0

    def __repr__(self) -> str:
        of = f'"{self.figures.models[0].name}"' if self.figures.alike else "several models"
        return f"Crowd({len(self)} figures of {of}, {self.sim.method.name}, time={self.sim.time:.6g})"

    def __len__(self) -> int:
        return len(self.figures.models)

    # State

    def _rows(self, values: np.ndarray, slices: tuple[slice, ...]) -> Any:
        """Return values as (figures, n), or one array per figure where they are of different models."""
        if self.figures.alike:
            return values.reshape(len(self), -1)
        return tuple(values[at] for at in slices)

    def _flat(self, value: Any, slices: tuple[slice, ...], what: str) -> np.ndarray:
        """Return what `_rows` would show as `value` in one piece."""
        if self.figures.alike:
            width = slices[0].stop - slices[0].start
            try:
                out = np.asarray(value, float)
            except (TypeError, ValueError):
                raise StateError(f"{what} must be numbers of shape ({len(self)}, {width}), got {value!r}") from None
            if out.shape != (len(self), width):
                raise StateError(f"{what} must have the shape ({len(self)}, {width}), got {out.shape}")
            return out.ravel()
        shapes = [(at.stop - at.start,) for at in slices]
        if len(value) != len(self) or [np.shape(x) for x in value] != shapes:
            raise StateError(f"{what} must be {len(self)} arrays, one per figure, of its own length")
        return np.concatenate([np.asarray(x, float) for x in value])

    @property
    def q(self) -> Any:
        """(figures, nq) coordinates, or one array per figure where models differ: a copy; assign to set."""
        return self._rows(self.sim.q, self.figures.q)

    @q.setter
    def q(self, value: Any) -> None:
        self.sim.q = self._flat(value, self.figures.q, "q")

    @property
    def qd(self) -> Any:
        """(figures, nv) velocities, or one array per figure: a copy; assign to set."""
        return self._rows(self.sim.qd, self.figures.v)

    @qd.setter
    def qd(self, value: Any) -> None:
        self.sim.qd = self._flat(value, self.figures.v, "qd")

    @property
    def tau(self) -> Any:
        """(figures, nv) joint forces applied until changed, or one array per figure: a copy; assign to set."""
        return self._rows(self.sim.tau, self.figures.v)

    @tau.setter
    def tau(self, value: Any) -> None:
        self.sim.tau = self._flat(value, self.figures.v, "tau")

    @property
    def control(self) -> Any:
        """(figures, actuators) controls, or one array per figure: a copy; assign to set."""
        return self._rows(self.sim.control, self.figures.control)

    @control.setter
    def control(self, value: Any) -> None:
        self.sim.control = self._flat(value, self.figures.control, "control")

    @property
    def positions(self) -> Any:
        """(figures, bodies, 3) origins of the body frames in the world [m], or one array per figure."""
        positions = self.sim.positions
        if self.figures.alike:
            return positions.reshape(len(self), -1, 3)
        return tuple(positions[at] for at in self.figures.bodies)

    # Budget

    @property
    def budget(self) -> int | tuple[int, ...] | None:
        """How many joints are simulated at a time, of all or of each figure; None = all. Assign as at the start."""
        return getattr(self.sim.method, "budget", None)

    @budget.setter
    def budget(self, value: Any) -> None:
        if self._pace is not None:
            raise StateError("the budget of this crowd follows its milliseconds or its record")
        self.sim.tune(budget=_budget(value, self._whole_joints, len(self)))

    @property
    def budgets(self) -> np.ndarray:
        """(changes, 2) the calls of `step` at which the budget changed, and what it was from there on."""
        if self._pace is None:
            raise StateError("this crowd has no record of budgets: give milliseconds")
        return self._pace.record

    @property
    def camera(self) -> View | None:
        """The camera that joints are chosen by; assign to move it."""
        return getattr(self.sim.method, "view", None)

    @camera.setter
    def camera(self, value: View | None) -> None:
        self.sim.tune(view=value)

    # Running

    def step(self, n: int = 1, *, control: Any = None) -> None:
        """Take n steps, after setting the controls of all figures if they are given."""
        if control is not None:
            self.control = control
        if self._pace is None:
            self.sim.step(n)
            return
        begin = time.perf_counter()
        self.sim.step(n)
        before = self._pace.budget
        budget = self._pace.next(time.perf_counter() - begin)
        if budget != before:
            self.sim.tune(budget=budget)

    def reset(self, mask: Any = None, *, seed: int | None = None) -> None:
        """Set figures back to their start; joint forces and controls of theirs become 0. The clock goes on.

        Args:
            mask: (figures,) which; all when None.
            seed: displaces each dof, and changes its velocity, by a number from -0.01 to 0.01 of a random sequence
                that depends on this seed and the figure alone, within the limits of joints; None does not.
        """
        chosen = np.ones(len(self), bool) if mask is None else np.asarray(mask)
        if chosen.shape != (len(self),) or chosen.dtype != bool:
            raise StateError(f"mask must be {len(self)} booleans, one per figure, got {mask!r}")
        q, qd, tau, control = self.sim.q.copy(), self.sim.qd.copy(), self.sim.tau.copy(), self.sim.control.copy()
        for i in np.flatnonzero(chosen):
            at, v = self.figures.q[i], self.figures.v[i]
            own_q, own_qd = self._q0[at].copy(), self._qd0[v].copy()
            if seed is not None:
                displace(self.figures.models[i], np.random.default_rng((seed, int(i))), own_q, own_qd)
            q[at], qd[v], tau[v], control[self.figures.control[i]] = own_q, own_qd, 0.0, 0.0
        self.sim.q, self.sim.qd, self.sim.tau = q, qd, tau
        if control.size:
            self.sim.control = control

    def rollout(self, controls: Any, *, q: Any = None, qd: Any = None, steps: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Let every figure follow controls of its own from one state; return what they did.

        Args:
            controls: (figures, times, actuators).
            q: (nq,) coordinates all begin at, relative to their own places; those of the model's start when None.
            qd: (nv,) velocities all begin with; those of the start when None.
            steps: steps per time.

        Returns:
            (figures, times + 1, nq) coordinates and (figures, times + 1, nv) velocities, the start included.
        """
        if not self.figures.alike:
            raise StateError("rollout compares figures of one model; this crowd has several")
        model = self.figures.models[0]
        given = np.asarray(controls, float)
        if given.ndim != 3 or given.shape[::2] != (len(self), len(model.actuators)):
            raise StateError(f"controls must be ({len(self)}, times, {len(model.actuators)}), got {given.shape}")
        self.reset()
        if q is not None:
            self.q = self.q - model.q0 + array_of(q, (model.nq,), "q", model)  # places differ by positions only
        if qd is not None:
            self.qd = np.tile(array_of(qd, (model.nv,), "qd", model), (len(self), 1))
        coordinates, velocities = [self.q], [self.qd]
        for k in range(given.shape[1]):
            self.step(steps, control=given[:, k])
            coordinates.append(self.q)
            velocities.append(self.qd)
        return np.stack(coordinates, axis=1), np.stack(velocities, axis=1)


def _models(model: Any, count: Any) -> list[Model]:
    """Return the model of each figure."""
    models = [model] if isinstance(model, Model) else list(model) if isinstance(model, Sequence) else []
    if not models or not all(isinstance(one, Model) for one in models):
        raise StateError(f"a crowd takes a lj.Model or a sequence of them, got {model!r}")
    count = len(models) if count is None else count
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
        raise StateError(f"count must be a whole number >= 1, got {count!r}")
    return [models[i % len(models)] for i in range(int(count))]


def _positions(positions: Any, spacing: Any, count: int) -> np.ndarray:
    number(spacing, "spacing")
    if positions is None:
        return grid(count, float(spacing))
    out = np.asarray(positions, float)
    if out.shape != (count, 3) or not np.isfinite(out).all():
        raise StateError(f"positions must be ({count}, 3) finite numbers, got an array of shape {out.shape}")
    return out


def _budget(budget: Any, joints: int, count: int) -> int | tuple[int, ...] | None:
    """Return the budget as method `adaptive` takes it."""
    if isinstance(budget, (float, np.floating)):
        if not 0.0 <= budget <= 1.0:
            raise StateError(f"budget as a share of all joints must be between 0 and 1, got {budget!r}")
        return round(float(budget) * joints)
    if budget is None or np.ndim(budget) == 0:
        return budget
    if len(budget) != count:
        raise StateError(f"budget must be one number, or one per figure ({count}), got {len(budget)}")
    return tuple(int(one) for one in budget)


def _method(method: Any, budget: Any, camera: View | None, threads: int | None) -> Any:
    """Return the method with the crowd's options."""
    if method is None:
        method = Adaptive() if budget is not None or camera is not None else Full()
    chosen = method_of(method)
    options = {"budget": budget, "view": camera, "threads": threads or os.cpu_count() or 1}
    known = {item.name for item in fields(chosen)}
    for word in ("budget", "view"):
        if options[word] is not None and word not in known:
            raise StateError(f'method "{chosen.name}" has no budget: take "adaptive", or leave {word} out')
    return replace(chosen, **{name: value for name, value in options.items() if value is not None and name in known})
