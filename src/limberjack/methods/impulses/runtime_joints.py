"""Joints made and removed while running where bodies collide and sleep, by calls and by rules."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from limberjack.collision.detect import Detector
from limberjack.collision.filters import with_apart
from limberjack.collision.shapes import Filters
from limberjack.constraints.runtime import RuntimeJoint, apart_bodies, new_runtime_joint, read_runtime_joints
from limberjack.errors import StateError
from limberjack.maximal.inserted_rows import set_targets
from limberjack.maximal.rows import Maximal
from limberjack.maximal.runtime_rows import RuntimeRows
from limberjack.methods.impulses.motion import Bulk
from limberjack.methods.impulses.step import set_inverses
from limberjack.methods.stepper import Stepper
from limberjack.model.model import Model
from limberjack.model.proximity import Proximity, chosen_pairs
from limberjack.model.spec import WORLD
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["AttachedState"]

# Rows of loops up to which a model that began on a forest stays on it: another solver would be loaded in mid-run.
_FEW = 96


class AttachedState(RuntimeRows, Stepper):
    """Bodies with joints that come and go; `ImpulsesStepper` takes their steps."""

    _bulk: Bulk
    _detector: Detector

    def __init__(self, model: Model, whole: Maximal) -> None:
        self._filters = self._detector.filters
        self._rules: list[Proximity] = []
        self._spent: list[set[tuple[int, int]]] = []  # per rule, pairs detached by a call that were not apart since
        self._since_look = 0
        self._watched: list[Any] = []  # per rule, the spots of its points and others
        # rounds of contacts and joints solve with one factor many times over: loops are best part of it
        super().__init__(model, whole, few=0)
        self._sparse = self._loops

    # Points

    def _points_of(self, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the links of named points, -1 = none, and their positions there from the com, or in the world."""
        points = {point.name: point for point in self._model.points}
        links, positions = np.full(len(names), -1, np.int64), np.zeros((len(names), 3))
        for k, name in enumerate(names):
            body, positions[k] = points[name].body, points[name].position
            if body != WORLD:
                offset = self._model.arrays.body_offset[self._model.body_index(body)]
                links[k] = self._link_of(body)
                positions[k] = offset[:9].reshape(3, 3) @ positions[k] + offset[9:]
                if links[k] >= 0:
                    positions[k] -= self.whole.center[links[k]]
        return links, positions

    def _positions(self, points_on_links: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return where the points of `_spots` are in the world, (n, 3)."""
        links, local = points_on_links
        out, moving = local.copy(), links >= 0
        pose = self._s.pose[links[moving]]
        turn = matrix_from_quaternion(pose[:, 3:7])
        out[moving] = pose[:, :3] + np.einsum("nij,nj->ni", turn, local[moving])
        return out

    # Joints

    def _solver(self) -> dict[str, Any]:
        """Return the options with which rows are set up again: the sparse solver once the model has had many loops."""
        return {"solver": "sparse"} if self._sparse else {"few": _FEW}

    def detach(self, name: str) -> Stepper:
        """Remove a joint made while running; the rule that made it waits until its points have been apart."""
        rule, point, other = self._attached_named(name).made_by
        if rule >= 0:
            self._spent[rule].add((point, other))
        return super().detach(name)

    def _change(self, attached: list[RuntimeJoint]) -> None:
        """Continue with other joints; bodies of those that came or went wake."""
        before, after = {one.joint.name for one in self._attached}, {one.joint.name for one in attached}
        moved = [one.joint for one in self._attached if one.joint.name not in after]
        moved += [one.joint for one in attached if one.joint.name not in before]
        asleep, calm = self._bulk.asleep.copy(), self._bulk.calm.copy()
        super()._change(attached)
        self._detector = self._detector._replace(filters=self._all_filters())
        for joint in moved:
            for link in (self._link_of(joint.parent), self._link_of(joint.child)):
                if link >= 0:
                    asleep[link], calm[link] = 0, 0.0
        set_inverses(self._s.pose, self._s.u.copy(), self._bulk)
        self._bulk.asleep[:], self._bulk.calm[:] = asleep, calm

    def _all_filters(self) -> Filters:
        """Return the pairs that do not collide, those of attached bodies among them."""
        return with_apart(self._model, self._filters, self._detector.shapes, apart_bodies(self._attached))

    # Rules

    @property
    def rules(self) -> tuple[Proximity, ...]:
        """The rules that attach and detach joints."""
        return tuple(self._rules)

    def add_rule(self, rule: Proximity) -> None:
        """Attach and detach joints by a rule from now on."""
        self._rules.append(rule.checked(self._model))
        self._spent.append(set())
        self._watched.append((self._points_of(rule.points), self._points_of(rule.others)))

    def remove_rule(self, rule: Proximity) -> None:
        """Drop a rule and detach the joints it made."""
        if rule not in self._rules:
            raise StateError(f"{rule} is no rule of this simulation, which has {len(self._rules)}")
        self._take_edits()
        at = self._rules.index(rule)
        left = [one for one in self._attached if one.made_by[0] != at]
        if len(left) < len(self._attached):
            self._change(left)
        self._attached = [
            replace(one, made_by=(one.made_by[0] - 1, *one.made_by[1:])) if one.made_by[0] > at else one
            for one in self._attached
        ]
        del self._rules[at], self._spent[at], self._watched[at]

    def _apply_rules(self, time: float) -> None:
        """Check the points of the rules that are due; attach and detach."""
        self._time, wanted, changed = time, list(self._attached), False
        for k, rule in enumerate(self._rules):
            if self._since_look % rule.every:
                continue
            points, others = (self._positions(points_on_links) for points_on_links in self._watched[k])
            apart = np.sqrt(((points[:, None] - others[None]) ** 2).sum(axis=2))
            self._spent[k] = {pair for pair in self._spent[k] if apart[pair] <= rule.distance}
            current = {one.made_by[1]: one.made_by[2] for one in self._attached if one.made_by[0] == k}
            chosen = chosen_pairs(rule, apart, current, self._spent[k])
            stay = [one for one in wanted if one.made_by[0] != k or chosen[one.made_by[1]] == one.made_by[2]]
            new = [(i, int(j)) for i, j in enumerate(chosen) if j >= 0 and current.get(i) != j]
            changed = changed or len(stay) < len(wanted) or bool(new)
            wanted = [*stay, *(self._made(k, rule, i, j, time) for i, j in new)]
        if changed:
            self._change(wanted)

    def _made(self, k: int, rule: Proximity, i: int, j: int, time: float) -> RuntimeJoint:
        """Return the joint that rule k makes between two of its points."""
        points = {point.name: point for point in self._model.points}
        child, parent = points[rule.points[i]], points[rule.others[j]]
        turn, at = self.body_pose(parent.body)
        point_a: Any = parent.position
        if not rule.snap:
            point_a = turn.T @ (self._positions(self._points_of((child.name,)))[0] - at)
        frame = {"world": np.eye(3), "point": self.body_pose(child.body)[0], "other": turn}[rule.axis_in]
        axis = frame @ np.array(rule.axis)
        name = f"rule {k}: {child.name}, {parent.name}"
        turns = turn, self.body_pose(child.body)[0]
        bodies = parent.body, child.body
        joint = new_runtime_joint(name, rule.kind, bodies, (point_a, child.position), axis, turns)
        return RuntimeJoint(joint, since=time, over=rule.over if rule.snap else 0.0, made_by=(k, i, j))

    # Steps

    def steps_ahead(self, n: int, dt: float, time: float) -> int:
        """Do what is due before a step; return how many of n steps can be taken at once."""
        if self._rules and n:
            self._apply_rules(time)
            n = min(n, *(rule.every - self._since_look % rule.every for rule in self._rules))
        end = set_targets(self._base, self.whole, self._attached, time, dt) if self._attached else math.inf
        return n if end == math.inf else min(n, max(1, math.ceil((end - time) / dt - 1e-6)))

    def count_steps(self, taken: int) -> None:
        """Count steps, for the rules."""
        if self._rules:
            self._since_look = (self._since_look + taken) % math.lcm(*(rule.every for rule in self._rules))

    # Snapshots

    def _more_of_rows(self) -> dict[str, Any]:
        """Return the rules, and which pairs wait until they have been apart."""
        if not self._rules:
            return {}
        return {
            "rules": [rule.to_json() for rule in self._rules],
            "spent": [sorted(pairs) for pairs in self._spent],
            "count": self._since_look,
        }

    def take_rows(self, arrays: dict[str, np.ndarray], time: float) -> Stepper:
        """Have the joints, driven coordinates and rules of `state_arrays`; see `Stepper`."""
        attached, more = read_runtime_joints(self._model, arrays["list_attached"])
        try:
            rules = [Proximity.from_json(rule).checked(self._model) for rule in more.get("rules", [])]
            spent = [{(int(i), int(j)) for i, j in pairs} for pairs in more.get("spent", [])]
            _require_places(attached, rules, spent)
            count = int(more.get("count", 0))
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the rules for joints made while running cannot be read: {error}") from None
        super().take_rows(arrays, time)
        self._rules, self._spent, self._since_look = rules, spent, count
        self._watched = [(self._points_of(rule.points), self._points_of(rule.others)) for rule in rules]
        return self


def _require_places(attached: list[RuntimeJoint], rules: list[Proximity], spent: list[set[tuple[int, int]]]) -> None:
    """Raise ValueError where a joint or a pair names a rule or a point that is not there."""
    named = [one.made_by for one in attached if one.made_by[0] >= 0]
    named += [(k, *pair) for k, pairs in enumerate(spent) for pair in pairs]
    for k, i, j in named:
        if not (k < len(rules) == len(spent) and 0 <= i < len(rules[k].points) and 0 <= j < len(rules[k].others)):
            raise ValueError(f"no point {i} or {j} in rule {k}")
