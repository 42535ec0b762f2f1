"""`Crowd`: many figures stepped as one model, with arrays over figures."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limberjack.crowd.composition import Figures, carry_over, grid, numbered, recognised, together
from limberjack.crowd.frame_budget import FrameBudget, counted_joints, divide
from limberjack.errors import StateError
from limberjack.methods import Adaptive, Full, method_of
from limberjack.methods.adaptive.options import View, number
from limberjack.model.model import Model
from limberjack.reduced.dynamics import array_of
from limberjack.simulation.simulation import Simulation, resume
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
        weights: (figures,) numbers >= 0: the budget is divided among the figures by them, none getting more joints
            than it has; a figure of weight infinity gets all of its joints. None: it goes to the joints whose motion
            matters most in all of the crowd.
        threads: on which figures that nothing ties together are stepped, with the same result; all cores when None.
        ignore: features to leave out, as for `Simulation`.

    Attributes:
        sim: the simulation of all figures; bodies and joints of figure 0 have names that begin with "f000/". Another
            one after figures have entered or left.
        figures: the models, positions, names and slices of all figures.
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
        weights: ArrayLike | None = None,
        threads: int | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        models = _models(model, count)
        self.figures: Figures = together(models, _positions(positions, spacing, len(models)), "crowd")
        self._entered = len(models)  # figures that there have been: the next one's number
        choices = {"budget": budget, "milliseconds": milliseconds, "budgets": budgets}
        given = [word for word, value in choices.items() if value is not None]
        if len(given) > 1:
            raise StateError(f"a crowd takes one of budget, milliseconds and budgets, got {' and '.join(given)}")
        self._weights = None if weights is None else _weights(weights, len(models))
        self._pace = None
        if milliseconds is not None or budgets is not None:
            if milliseconds is not None:
                number(milliseconds, "milliseconds")
            self._pace = FrameBudget(milliseconds, self._joints, budgets)
            budget = self._pace.budget
        if self._weights is not None and (budget is None or np.ndim(budget) > 0):
            raise StateError("weights divide a budget of the whole crowd: give budget, milliseconds or budgets")
        self._total: Any = None
        chosen = _method(method, self._divided(budget), camera, threads)
        self.sim = Simulation(self.figures.model, chosen, dt, ignore=ignore)

    @property
    def _joints(self) -> int:
        whole = self.figures.model
        return whole.joint_count - len(whole.loop_names)

    def _divided(self, budget: Any) -> int | tuple[int, ...] | None:
        """Return the budget as method `adaptive` takes it: divided by the weights, where there are any."""
        self._total = _budget(budget, self._joints, len(self))
        if self._weights is None or self._total is None:
            return self._total
        return divide(self._total, self._weights, np.array([counted_joints(one) for one in self.figures.models]))

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

    # Figures that enter and leave

    def add(self, model: Model | Sequence[Model] | None = None, positions: Any = None, *, weight: float = 1.0) -> range:
        """Let figures enter at their start; return their indices, which follow those of the figures there are.

        The others go on from where they are with the velocities they have. Names are never used twice.

        Args:
            model: of the figure, or of each figure; that of the first one when None.
            positions: (figures, 3) or (3,) where the origins of their worlds come to be [m]; the origin when None.
            weight: of each, in a crowd with weights.
        """
        models = _models(self.figures.models[0] if model is None else model, None)
        where = np.zeros((1, 3)) if positions is None else np.atleast_2d(np.asarray(positions, float))
        if len(models) == 1:
            models *= len(where)
        where = _positions(where, 1.0, len(models))
        weights = None if self._weights is None else _weights([weight] * len(models), len(models))
        before = len(self)
        self._change(np.arange(before), models, where, weights)
        return range(before, before + len(models))

    def remove(self, which: Any) -> None:
        """Let figures leave: indices, or (figures,) booleans; those after them move up. One at least must stay.

        Args:
            which: indices of figures, or (figures,) booleans.
        """
        chosen = np.asarray(which)
        if chosen.dtype == bool and chosen.shape == (len(self),):
            chosen = np.flatnonzero(chosen)
        chosen = np.atleast_1d(chosen)
        whole = chosen.ndim == 1 and (chosen.dtype.kind in "iu" or chosen.size == 0)
        if not whole or ((chosen < 0) | (chosen >= len(self))).any():
            raise StateError(
                f"remove takes indices from 0 to {len(self) - 1}, or one boolean per figure, got {which!r}"
            )
        kept = np.setdiff1d(np.arange(len(self)), chosen)
        if not len(kept):
            raise StateError("remove would leave no figure: one at least must stay")
        if len(kept) < len(self):
            self._change(kept, [], np.zeros((0, 3)), None)

    def _change(self, kept: np.ndarray, models: list[Model], positions: np.ndarray, weights: np.ndarray | None) -> None:
        """Go on with the figures `kept` and new ones: positions, velocities, forces, controls and drives stay."""
        old, sim = self.figures, self.sim
        if sim.grips:
            raise StateError("figures enter and leave while nothing is held: release the grips first")
        prefixes = [*(old.prefixes[i] for i in kept), *numbered(self._entered, len(models))]
        new = together(
            [*(old.models[i] for i in kept), *models],
            np.concatenate([old.positions[kept], positions]),
            "crowd",
            prefixes,
        )
        self.figures, self._entered = new, self._entered + len(models)
        if self._weights is not None:
            self._weights = np.concatenate([self._weights[kept], [] if weights is None else weights])
        budget: Any = self._total
        if isinstance(budget, tuple):
            budget = tuple(budget[i] for i in kept) + tuple(counted_joints(one) for one in models)
        if self._pace is not None:
            self._pace.joints = self._joints
        method = sim.method
        if "budget" in {item.name for item in fields(method)}:
            method = replace(method, budget=self._divided(budget))
        self.sim = Simulation(new.model, method, sim.dt, ignore=sim.ignored)
        carry_over(old, new, kept, sim, self.sim)

    def save(self, path: str | Path) -> Path:
        """Write the crowd to a file that `Crowd.resume` continues from, bit for bit; return its path.

        Args:
            path: an .npz file.
        """
        return self.sim.save(path)

    @classmethod
    def resume(cls, path: str | Path, model: Model | Sequence[Model], *, milliseconds: float | None = None) -> Crowd:
        """Return the crowd saved in a file, ready to go on bit for bit.

        Args:
            path: of the file.
            model: the model, or models, that its figures are of.
            milliseconds: as of the crowd; the budget goes on from the one that was saved.
        """
        out, out.sim = cls.__new__(cls), resume(path)
        out.figures = recognised(out.sim.model, _models(model, None))
        out._entered = 1 + max(int(prefix[1:-1]) for prefix in out.figures.prefixes)
        out._weights, out._total, out._pace = None, getattr(out.sim.method, "budget", None), None
        if milliseconds is not None:
            number(milliseconds, "milliseconds")
            out._pace = FrameBudget(milliseconds, out._joints, first=out._total)
        return out

    # Budget

    @property
    def weights(self) -> np.ndarray | None:
        """(figures,) by which the budget is divided: a copy; assign to set, None for one budget of all."""
        return None if self._weights is None else self._weights.copy()

    @weights.setter
    def weights(self, value: ArrayLike | None) -> None:
        if self._total is None or isinstance(self._total, tuple):
            raise StateError("weights divide a budget of the whole crowd, and this one has none")
        self._weights = None if value is None else _weights(value, len(self))
        self.sim.tune(budget=self._divided(self._total))

    @property
    def budget(self) -> int | tuple[int, ...] | None:
        """How many joints are simulated at a time, of all or of each figure; None = all. Assign as at the start."""
        return self._total if self._weights is not None else getattr(self.sim.method, "budget", None)

    @budget.setter
    def budget(self, value: Any) -> None:
        if self._pace is not None:
            raise StateError("the budget of this crowd follows its milliseconds or its record")
        if self._weights is not None and np.ndim(value) > 0:
            raise StateError("weights divide a budget of the whole crowd: give one number, or set weights to None")
        self.sim.tune(budget=self._divided(value))

    @property
    def budgets(self) -> np.ndarray:
        """(changes, 2) the calls of `step` at which the budget changed, and what it was from there on."""
        if self._pace is None:
            raise StateError("this crowd has no record of budgets: give milliseconds")
        return self._pace.record

    @property
    def paced(self) -> bool:
        """Whether the budget follows the clock, so that results depend on the machine."""
        return self._pace is not None and self._pace.milliseconds is not None

    @property
    def camera(self) -> View | None:
        """The camera that joints are chosen by; assign to move it."""
        return getattr(self.sim.method, "view", None)

    @camera.setter
    def camera(self, value: View | None) -> None:
        self.sim.tune(view=value)

    # Running

    def step(self, n: int = 1, *, control: Any = None) -> None:
        """Take n steps, after setting the controls of all figures if they are given.

        Args:
            n: number of steps.
            control: (figures, actuators) controls; None = as they are.
        """
        if control is not None:
            self.control = control
        if self._pace is None:
            self.sim.step(n)
            return
        self._take_budget(self._pace.expect(n))
        begin = time.perf_counter()
        self.sim.step(n)
        self._take_budget(self._pace.next(time.perf_counter() - begin))

    def _take_budget(self, budget: int) -> None:
        if budget != self._total:
            self.sim.tune(budget=self._divided(budget))

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
            own_q, own_qd = self.sim.model.q0[at].copy(), self.sim.model.qd0[v].copy()
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


def _weights(weights: Any, count: int) -> np.ndarray:
    out = np.asarray(weights, float)
    if out.shape != (count,) or not (out >= 0.0).all():  # NaN is not, either
        raise StateError(f"weights must be {count} numbers >= 0, one per figure, got {weights!r}")
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
