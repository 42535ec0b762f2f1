"""Joints attached and detached while running, by calls and by rules, in maximal coordinates.

The rows of such joints follow the equalities of the model. When the set changes, tables and solver are set up again
in Python; the compiled steps know no difference. Everything follows from the list of joints, never from how it came
about, so that snapshots are exact.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from limberjack.collision.detect import Detector
from limberjack.collision.shapes import Filters
from limberjack.errors import StateError, UnknownName
from limberjack.maximal.inserted_rows import (
    Driven,
    RuntimeJoint,
    inserted_terms,
    read_runtime_joints,
    set_targets,
    with_driven_rows,
    with_grips,
    with_runtime_joints,
    write_runtime_joints,
)
from limberjack.maximal.rows import Maximal
from limberjack.maximal.solve import evaluate_state
from limberjack.maximal.state import MaximalState
from limberjack.methods.impulses.motion import Bulk
from limberjack.methods.impulses.step import set_inverses
from limberjack.methods.stepper import Stepper
from limberjack.model.model import Model
from limberjack.model.proximity import Proximity, chosen_pairs
from limberjack.model.spec import WORLD, Joint
from limberjack.reduced.constraint_set import Grip
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix, turn_z_to

__all__ = ["AttachedState"]

# Rows of a new joint open by less than this are closed at once [m, rad].
_CLOSED = 1e-9
# Rows of loops up to which a model that began on a forest stays on it: another solver would be loaded in mid-run.
_FEW = 96


class AttachedState(MaximalState, Stepper):
    """Bodies with joints that come and go; `ImpulsesStepper` takes their steps."""

    _bulk: Bulk
    _detector: Detector

    def __init__(self, model: Model, whole: Maximal) -> None:
        self._base: Maximal = whole
        self._filters = self._detector.filters
        self._attached: list[RuntimeJoint] = []
        self._driven: list[Driven] = []
        self._row_grips: list[Grip] = []  # grips of bodies with joints
        self._rules: list[Proximity] = []
        self._spent: list[set[tuple[int, int]]] = []  # per rule, pairs detached by a call that were not apart since
        self._since_look = 0
        self._watched: list[Any] = []  # per rule, the spots of its points and others
        # rounds of contacts and joints solve with one factor many times over: loops are best part of it
        super().__init__(model, whole, few=0)
        self._sparse = self._loops

    # Frames

    def body_pose(self, body: str) -> tuple[np.ndarray, np.ndarray]:
        """Return rotation matrix and origin of a body's frame in the world, with what was written to q."""
        self._take_edits()
        if body == WORLD:
            return np.eye(3), np.zeros(3)
        a, i = self._model.arrays, self._model.body_index(body)
        link, turn, at = int(a.body_link[i]), a.body_offset[i, :9].reshape(3, 3), a.body_offset[i, 9:]
        if link < 0:
            return turn, at
        own = matrix_from_quaternion(self._s.pose[link, 3:7])
        return own @ turn, self._s.pose[link, :3] + own @ (at - self.whole.center[link])

    def _link_of(self, body: str) -> int:
        return -1 if body == WORLD else int(self._model.arrays.body_link[self._model.body_index(body)])

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

    @property
    def attached_joints(self) -> tuple[str, ...]:
        """Names of the joints made while running, oldest first."""
        return tuple(one.joint.name for one in self._attached)

    def new_joint(
        self, name: str, kind: str, bodies: tuple[str, str], points: tuple[Any, Any], axis: Any, **own: float
    ) -> Joint:
        """Return a joint between points of two bodies, its axes those of the world as the bodies stand now.

        Args:
            name, kind: of the joint.
            bodies: parent and child.
            points: of the joint in the frames of the two bodies [m].
            axis: main axis in the world.
            own: pitch or length.
        """
        if self._link_of(bodies[0]) == self._link_of(bodies[1]):
            raise StateError(f'bodies "{bodies[0]}" and "{bodies[1]}" move as one already and cannot be attached')
        turn, frames = turn_z_to(np.array(axis, float).reshape(1, 3))[0], []
        for body, point in zip(bodies, points, strict=True):
            own_turn = quaternion_from_matrix(self.body_pose(body)[0].T @ turn)
            frames += [tuple(map(float, point)), tuple(map(float, own_turn))]
        joint = Joint(name, kind, *bodies, *frames, **own)
        # x and y of its frame are the axes of a universal joint
        return replace(joint, axis=(1.0, 0.0, 0.0), axis2=(0.0, 1.0, 0.0)) if kind == "universal" else joint

    def attach(self, joint: Joint, time: float, over: float, *, collide: bool) -> None:
        """Add a joint; its gap is closed within `over` seconds."""
        self._time = time
        self._change([*self._attached, RuntimeJoint(joint, since=time, over=over, collide=collide)])

    def detach(self, name: str) -> None:
        """Remove a joint made while running; the rule that made it waits until its points have been apart."""
        self._take_edits()
        names = [one.joint.name for one in self._attached]
        if name not in names:
            raise UnknownName("attached joint", name, f'model "{self._model.name}"', names)
        gone = self._attached[names.index(name)]
        rule, point, other = gone.made_by
        if rule >= 0:
            self._spent[rule].add((point, other))
        self._change([one for one in self._attached if one is not gone])

    def _change(self, attached: list[RuntimeJoint]) -> None:
        """Continue with other joints, and the driven coordinates and grips of now; bodies of other joints wake."""
        known = self._with_angles()
        names = {one.joint.name for one in attached}
        moved = [one.joint for one in self._attached if one.joint.name not in names]
        moved += [one.joint for one in attached if one.joint.name not in known]
        attached = [known.get(one.joint.name, one) for one in attached]
        asleep, calm = self._bulk.asleep.copy(), self._bulk.calm.copy()
        whole = with_runtime_joints(self._model, self._base, attached)
        whole = with_driven_rows(self._model, whole, self._driven) if self._driven else whole
        whole = with_grips(self._model, whole, self._row_grips) if self._row_grips else whole
        if self._sparse:
            self._rebuild(self._base, whole, solver="sparse")
        else:
            self._rebuild(self._base, whole, few=_FEW)
        self._put_angles(attached)
        evaluate_state(self._setup, self._time, self._e, self._s)
        start = self.whole.system.row_start
        for k, one in enumerate(attached):
            if one.joint.name not in known:
                first, last = (int(start[self._base.equality_count + k + end]) for end in (0, 1))
                gap = tuple(map(float, self._e.values[first:last, 0]))
                wide = one.over > 0.0 and max(map(abs, gap)) > _CLOSED
                attached[k] = replace(one, gap=gap if wide else ())
        self._attached = attached
        set_targets(self._base, self.whole, attached, self._time, 0.0)
        self._detector = self._detector._replace(filters=self._all_filters())
        self.rows_changed()
        for joint in moved:
            for link in (self._link_of(joint.parent), self._link_of(joint.child)):
                if link >= 0:
                    asleep[link], calm[link] = 0, 0.0
        set_inverses(self._s.pose, self._s.u.copy(), self._bulk)
        self._bulk.asleep[:], self._bulk.calm[:] = asleep, calm
        self._read = False

    def rows_changed(self) -> None:
        """Set up what depends on the rows."""

    def _all_filters(self) -> Filters:
        """Return the pairs that do not collide, those of attached bodies among them."""
        base, shapes, pairs = self._filters, self._detector.shapes, set()
        part = {int(body): int(own) for body, own in zip(shapes.body, shapes.part, strict=True)}
        for one in self._attached:
            ends = [-1 if b == WORLD else self._model.body_index(b) for b in (one.joint.parent, one.joint.child)]
            if not one.collide and one.joint.kind != "distance" and -1 not in ends and set(ends) <= set(part):
                a, b = part[ends[0]], part[ends[1]]
                pairs |= {(a, b), (b, a)}
        count = len(base.joined_start) - 1
        owner = np.repeat(np.arange(count), np.diff(base.joined_start))
        table = np.array(sorted(pairs | set(zip(owner.tolist(), base.joined.tolist(), strict=True))), np.int64)
        table = table.reshape(-1, 2)
        begin = np.searchsorted(table[:, 0], np.arange(count + 1)).astype(np.int64)
        return base._replace(joined_start=begin, joined=np.ascontiguousarray(table[:, 1]))

    def _terms(self, count: int) -> list[slice]:
        """Return the terms of each of `count` joints made while running."""
        starts = self.whole.table.term_start[
            self.whole.system.row_start[self._base.equality_count : self._base.equality_count + count + 1]
        ]
        return [slice(first, last) for first, last in pairwise(starts.tolist())]

    def _with_angles(self) -> dict[str, RuntimeJoint]:
        """Return the joints made while running by name, with the angles they have now."""
        parts = self._terms(len(self._attached))
        return {
            one.joint.name: replace(one, near=tuple(map(float, self._e.near[part])))
            for one, part in zip(self._attached, parts, strict=True)
        }

    def _put_angles(self, attached: list[RuntimeJoint]) -> None:
        parts = self._terms(len(attached) + len(self._driven))
        for one, part in zip(attached, parts, strict=False):
            self._e.near[part] = one.near if len(one.near) == part.stop - part.start else 0.0
        for one, part in zip(self._driven, parts[len(attached) :], strict=True):
            self._e.near[part] = one.start + one.rate * self._time

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
        joint = self.new_joint(name, rule.kind, (parent.body, child.body), (point_a, child.position), axis)
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

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return the state, and the joints and rules made while running."""
        out = super().state_arrays()
        out["near"] = np.delete(out["near"], np.r_[inserted_terms(self._base, self.whole)])
        more: dict[str, Any] = {}
        if self._rules:
            more["rules"] = [rule.to_json() for rule in self._rules]
            more["spent"] = [sorted(pairs) for pairs in self._spent]
            more["count"] = self._since_look
        driven = np.array([(one.joint, one.axis, one.start, one.rate) for one in self._driven]).reshape(-1, 4)
        attached = write_runtime_joints(list(self._with_angles().values()), more)
        return out | {"list_attached": attached, "list_driven": driven}

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        attached, more = read_runtime_joints(self._model, arrays["list_attached"])
        try:
            rules = [Proximity.from_json(rule).checked(self._model) for rule in more.get("rules", [])]
            spent = [{(int(i), int(j)) for i, j in pairs} for pairs in more.get("spent", [])]
            _require_places(attached, rules, spent)
            count = int(more.get("count", 0))
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the rules for joints made while running cannot be read: {error}") from None
        self._seen, self._read = (self._q.copy(), self._qd.copy()), True
        driven = [Driven(int(j), int(axis), float(x), float(v)) for j, axis, x, v in arrays["list_driven"]]
        if [one.joint for one in attached] != [one.joint for one in self._attached] or driven != self._driven:
            self._attached, self._driven = [], driven
            q, qd = self._seen
            self._change(attached)
            self._q[:], self._qd[:] = q, qd
        self._attached, self._rules, self._spent, self._since_look = attached, rules, spent, count
        self._watched = [(self._points_of(rule.points), self._points_of(rule.others)) for rule in rules]
        own = inserted_terms(self._base, self.whole)
        near = np.insert(arrays["near"], own.start, np.zeros(own.stop - own.start))
        super().set_state_arrays({**arrays, "near": near})
        self._put_angles(attached)
        # not the gaps of the poses before, which the joints were made at
        self._time = float(arrays["clock"])
        set_targets(self._base, self.whole, attached, self._time, 0.0)


def _require_places(attached: list[RuntimeJoint], rules: list[Proximity], spent: list[set[tuple[int, int]]]) -> None:
    """Raise ValueError where a joint or a pair names a rule or a point that is not there."""
    named = [one.made_by for one in attached if one.made_by[0] >= 0]
    named += [(k, *pair) for k, pairs in enumerate(spent) for pair in pairs]
    for k, i, j in named:
        if not (k < len(rules) == len(spent) and 0 <= i < len(rules[k].points) and 0 <= j < len(rules[k].others)):
            raise ValueError(f"no point {i} or {j} in rule {k}")
