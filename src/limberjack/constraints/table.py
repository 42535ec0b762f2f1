"""The table of a model's constraint rows: which pairs of frames, which elements, which dofs.

Every joint kind is a list of rows, every row a short sum of elements (`rows.py`) or of coordinates. Equality rows come
first in each block, then inequality rows (value >= 0): limits and ropes.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from limberjack.constraints.rows import ANGLE, COMPOUND, DOT, LENGTH, REGISTERED, SIDEWAYS, SLIDE, TURN
from limberjack.errors import UnsupportedByMethod
from limberjack.model.compile import joint_frames
from limberjack.model.joints import KINDS, SPIN, Factor, factors_of
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Joint
from limberjack.spatial.frames import compose

__all__ = [
    "DRIVE", "EQUALITY", "GRIP", "INEQUALITY", "Pairs", "ROTOR", "Row", "SPRING", "Table", "at_velocity_level",
    "collect", "coordinate_terms", "gear_rows", "joint_rows", "limit_rows", "new_table", "on_pairs", "registered_kind",
    "spring_rows",
]  # fmt: skip

EQUALITY, INEQUALITY, GRIP, SPRING, DRIVE, ROTOR = range(6)

# A term of a row: element, its two axes, weight.
Term = tuple[int, int, int, float]


class Table(NamedTuple):
    """Rows of constraints; p pairs, t terms, r rows."""

    pair_link: np.ndarray  # (p, 2) bodies (links) a and b, -1 = the world
    pair_frame: np.ndarray  # (p, 24) frame A in a, frame B in b: rotation by rows, position
    term_start: np.ndarray  # (r + 1,)
    terms: np.ndarray  # (t, 4) element, pair, axes
    weights: np.ndarray  # (t,)
    row_pair: np.ndarray  # (r, 2) the pairs a row's terms belong to, -1 = none
    target: np.ndarray  # (r, 2) value aimed at, and its rate in time
    indices: np.ndarray  # (r, 4) indices v, v' of dofs and q, q' of coordinates of rows on coordinates, -1 = none
    share: np.ndarray  # (r, 2) weights of the two coordinates
    role: (
        np.ndarray
    )  # (r,) EQUALITY, INEQUALITY (value >= 0), GRIP, SPRING and ROTOR (compliant), DRIVE (a joint force)
    speed: np.ndarray  # (r,) 1 where only the velocity is constrained
    soft: np.ndarray  # (r, 3) stiffness, damping and largest force of grips and springs; 1 / inertia of rotors
    drive: np.ndarray  # (r, 2) rows among the scalar and ball drives of loop joints; or indices in q and qd
    compound: np.ndarray  # (c, 3) pairs of compound joints: the pair, its first factor, its axes; -1 = registered kind
    factor_kind: np.ndarray  # (f,) of all compound joints
    factor_data: np.ndarray  # (f, 7) axis, point, pitch
    joint: np.ndarray  # (r,) index of the joint in the model's joint_names, or beyond: springs and grips


@dataclass
class Row:
    """One row before it enters a table: terms per pair, or coordinates (index in qd, in q, weight)."""

    joint: int
    terms: list[tuple[int, Term]] = field(default_factory=list)
    coordinates: list[tuple[int, int, float]] = field(default_factory=list)
    target: tuple[float, float] = (0.0, 0.0)
    role: int = EQUALITY
    speed: bool = False
    soft: tuple[float, float, float] = (0.0, 0.0, 0.0)
    drive: tuple[int, int] = (-1, -1)


def registered_kind(joint: Joint) -> Any:
    """Return the registered kind of a joint, with the address of its function, or None."""
    if KINDS[joint.kind].coupled != "registered":
        return None
    # imported by name: no kernel uses it, and an import line would make it part of every cache key
    return importlib.import_module("limberjack.constraints.registered_rows").registered_kind(joint)


def at_velocity_level(joint: Joint) -> bool:
    """Return whether the rows of a joint constrain velocities only."""
    registered = registered_kind(joint)
    return joint.kind == "no_slip" or (registered is not None and registered.velocity)


def on_pairs(joint: Joint, pair: int, terms: list[Term]) -> list[tuple[int, Term]]:
    """Return the terms of a row on the pair of a joint; of constraints over more bodies also on the pair after it."""
    out = [(pair, term) for term in terms]
    registered = registered_kind(joint)
    if registered is not None and registered.second is not None:
        out += [(pair + 1, term) for term in terms]
    return out


def joint_rows(joint: Joint) -> list[tuple[list[Term], float]]:
    """Return the locked rows of a joint: terms and their target value, in the order of `joints.locked`."""
    kind = KINDS[joint.kind]
    if joint.kind == "compound":
        return [([(COMPOUND, i, 0, 1.0)], 0.0) for i in range(len(joint.axes), 6)]
    out: list[tuple[list[Term], float]] = []
    if kind.mask[:3] == (True, True, False):
        out += [([(DOT, 1, 2, -1.0)], 0.0), ([(DOT, 0, 2, 1.0)], 0.0)]
    elif kind.mask[:3] == (True, True, True):
        out += [([(DOT, (k + 2) % 3, (k + 1) % 3, 0.5), (DOT, (k + 1) % 3, (k + 2) % 3, -0.5)], 0.0) for k in range(3)]
    out += [([(SLIDE, k, 0, 1.0)], 0.0) for k in range(3) if kind.mask[3 + k]]
    if joint.kind == "universal":
        out.append(([(DOT, 0, 1, 1.0)], 0.0))
    elif joint.kind == "screw":
        out.append(([(SLIDE, 2, 0, 1.0), (ANGLE, 0, 0, -joint.pitch)], 0.0))
    elif joint.kind == "distance" and not joint.rope:
        out.append(([(LENGTH, 0, 0, 1.0)], joint.length))
    elif joint.kind == "no_slip":
        out.append(([(SIDEWAYS, 0, 2, 1.0)], 0.0))
    registered = registered_kind(joint)
    if registered is not None and not registered.one_sided:
        out += [([(REGISTERED, i, 0, 1.0)], 0.0) for i in range(registered.rows)]
    return out


def coordinate_terms(joint: Joint) -> list[Term]:
    """Return the element each scalar coordinate of a joint is read off by, in the order of its factors."""
    if joint.kind == "universal":
        return [(ANGLE, 1, 0, 1.0), (ANGLE, 2, 0, 1.0)]
    if joint.kind == "compound":
        return [(COMPOUND, i, 0, 1.0) for i in range(len(joint.axes))]
    out: list[Term] = []
    for kind, axis in KINDS[joint.kind].motions:
        if kind != SPIN:
            slide = joint.kind not in ("hinge", "screw") and not (
                joint.kind in ("cylindrical", "planar") and len(out) == len(KINDS[joint.kind].motions) - 1
            )
            out.append((SLIDE, int(np.argmax(axis)), 0, 1.0) if slide else (ANGLE, 0, 0, 1.0))
    return out


def limit_rows(joint: Joint, *, scalars: bool, smooth: bool = False) -> list[tuple[list[Term], float]]:
    """Return the one-sided rows (terms, target) of a joint's hard limits read off its frames; value >= 0.

    Args:
        joint: the joint.
        scalars: whether limits of scalar coordinates are wanted too, or those of balls only.
        smooth: whether rows of twist limits are smooth where the twist is not defined, at a swing of half a turn, or
            are angles.
    """
    out: list[tuple[list[Term], float]] = []
    limits = joint.limits or ()
    soft = joint.limit_stiffness or (None,) * len(limits)
    if joint.kind == "compound":
        for axis, term in zip(joint.axes, coordinate_terms(joint), strict=True):
            if scalars and axis.limits is not None and not axis.limit_stiffness:
                out += _between(term, axis.limits)
        return out
    scalar = iter(coordinate_terms(joint))
    for f in factors_of(joint):
        term = None if f.kind == SPIN else next(scalar)
        pair = limits[f.v] if limits else None
        if pair is None or soft[f.v]:
            continue
        if term is not None and scalars:
            out += _between(term, pair)
        elif term is None and pair[1] < math.pi:
            # cos of the angle turned is (trace - 1) / 2
            thirds: list[Term] = [(DOT, k, k, 0.5) for k in range(3)]
            out.append((thirds, 0.5 + math.cos(pair[1])))
    cone, twist = getattr(joint, "cone", None), getattr(joint, "twist", None)
    if cone is not None:
        out.append(([(DOT, 2, 2, 1.0)], math.cos(cone)))
    if twist is not None:
        narrow = twist[1] - twist[0] < math.pi
        out += _twist_sines(twist) if smooth and narrow else _between((ANGLE, 0, 0, 1.0), twist)
    if joint.kind == "distance" and joint.rope:
        out.append(([(LENGTH, 0, 0, -1.0)], -joint.length))
    registered = registered_kind(joint)
    if registered is not None and registered.one_sided:
        out += [([(REGISTERED, i, 0, 1.0)], 0.0) for i in range(registered.rows)]
    return out


def _twist_sines(pair: tuple[float, float]) -> list[tuple[list[Term], float]]:
    """Return the rows of a twist between two angles, less than half a turn apart.

    With swing s and twist t, x = s_x.u_x + s_y.u_y and y = s_y.u_x - s_x.u_y are (1 + cos s) (cos t, sin t): the rows
    (y cos low - x sin low) / 2 = cos(s/2)^2 sin(t - low) and likewise for the other end are sums of DOTs.
    """
    out: list[tuple[list[Term], float]] = []
    for angle, side in zip(pair, (0.5, -0.5), strict=True):
        c, s = side * math.cos(angle), side * math.sin(angle)
        out.append(([(DOT, 1, 0, c), (DOT, 0, 1, -c), (DOT, 0, 0, -s), (DOT, 1, 1, -s)], 0.0))
    return out


def _between(term: Term, pair: tuple[float, float]) -> list[tuple[list[Term], float]]:
    code, i, j, _ = term
    out: list[tuple[list[Term], float]] = []
    if np.isfinite(pair[0]):
        out.append(([(code, i, j, 1.0)], pair[0]))
    if np.isfinite(pair[1]):
        out.append(([(code, i, j, -1.0)], -pair[1]))
    return out


class Pairs:
    """Collects pairs of frames in link frames."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.link: list[list[int]] = []
        self.frame: list[np.ndarray] = []
        self.compound: dict[int, tuple[Factor, ...]] = {}  # factors of the pairs of compound joints
        self.registered: dict[int, tuple[int, tuple[float, ...]]] = {}  # address and numbers of registered kinds

    def end(self, body: str, r: np.ndarray, p: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the link of `body` and the frame (r, p) of the body in the link's frame."""
        if body == WORLD:
            return -1, np.concatenate([r.ravel(), p])
        a, i = self.model.arrays, self.model.body_index(body)
        offset = a.body_offset[i]
        r, p = compose(offset[:9].reshape(3, 3), offset[9:], r, p)
        return int(a.body_link[i]), np.concatenate([r.ravel(), p])

    def add(self, a: tuple[int, np.ndarray], b: tuple[int, np.ndarray]) -> int:
        """Add a pair of two ends, as `end` gives them, and return its number."""
        self.link.append([a[0], b[0]])
        self.frame.append(np.concatenate([a[1], b[1]]))
        return len(self.link) - 1

    def joint(self, joint: Joint) -> int:
        """Add the pair of a joint's own frames."""
        r_p, p_p, r_c, p_c = joint_frames(joint)
        pair = self.add(self.end(joint.parent, r_p, p_p), self.end(joint.child, r_c, p_c))
        if joint.kind == "compound":
            self.compound[pair] = factors_of(joint)
        registered = registered_kind(joint)
        if registered is not None:
            self.registered[pair] = (registered.address, registered.data)
            if registered.second is not None:
                # the function of the first finds the state of the second right after it
                other = registered.second
                r_p, p_p, r_c, p_c = joint_frames(other)
                self.add(self.end(other.parent, r_p, p_p), self.end(other.child, r_c, p_c))
        return pair

    def sort(self, order: np.ndarray) -> np.ndarray:
        """Put the pairs into another order; return the new number of each."""
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        self.link, self.frame = [self.link[i] for i in order], [self.frame[i] for i in order]
        self.compound = {int(number[pair]): factors for pair, factors in self.compound.items()}
        self.registered = {int(number[pair]): one for pair, one in self.registered.items()}
        return number


def gear_rows(model: Model, pairs: Pairs, index: int, joint: Joint, *, reduced: bool) -> list[Row]:
    """Return the row of a gear: between coordinates if `reduced`; from a carrier and on loop joints between frames."""
    row = Row(index, target=(joint.offset, 0.0))
    ends = [(joint.parent, 1.0), (joint.child, -joint.ratio)]
    for name, weight in ends:
        info, spec = model.joint(name), model.joint_spec(name)
        if joint.carrier is not None:
            if spec.kind not in ("hinge", "screw"):
                raise UnsupportedByMethod(
                    f'gear "{joint.name}": joint "{name}" is a {spec.kind}; from a carrier only hinges and screws turn'
                )
            r_p, p_p, r_c, p_c = joint_frames(spec)
            carrier = pairs.end(joint.carrier, np.eye(3), np.zeros(3))
            pair = pairs.add(carrier, pairs.end(spec.child, r_c, p_c))
            row.terms.append((pair, (TURN, 0, 2, weight)))
            row.speed, row.target = True, (0.0, 0.0)
        elif info.is_loop or not reduced:
            code, i, j, _ = coordinate_terms(spec)[max(model.axis_number(name), 0)]
            row.terms.append((pairs.joint(spec), (code, i, j, weight)))
        else:
            row.coordinates.append((info.v_start, info.q_start, weight))
    return [row]


def spring_rows(model: Model, pairs: Pairs, k: int) -> list[Row]:
    """Return the row along spring k, a compliant row."""
    spring = model.springs[k]
    a = pairs.end(spring.a, np.eye(3), np.array(spring.at_a))
    b = pairs.end(spring.b, np.eye(3), np.array(spring.at_b))
    soft = (spring.stiffness, spring.damping, 0.0)
    term = (pairs.add(a, b), (LENGTH, 0, 0, 1.0))
    return [Row(model.joint_count + k, [term], target=(spring.rest, 0.0), role=SPRING, soft=soft)]


def collect(model: Model, *, loops: bool, gears: bool, limits: bool) -> tuple[list[Row], Pairs]:
    """Return the rows that a tree in reduced coordinates needs beside its coordinates, and their pairs."""
    pairs, rows = Pairs(model), []
    for index, name in enumerate(model.joint_names):
        joint = model.joint_spec(name)
        loop = index >= model.joint_count - len(model.loop_names)
        if joint.kind == "gear":
            rows += gear_rows(model, pairs, index, joint, reduced=True) if gears else []
            continue
        if not loop and joint.limits is None and joint.cone is None and joint.twist is None:
            continue  # most joints of most models; those of compound axes come below, as coordinates
        own = joint_rows(joint) if loop and loops else []
        ends = limit_rows(joint, scalars=loop, smooth=True) if limits else []
        if own or ends:
            pair = pairs.joint(joint)
            if all(a == b for a, b in pairs.link[pair:]):
                continue  # both ends on one rigid link: no relative motion
            speed = at_velocity_level(joint)
            rows += [Row(index, on_pairs(joint, pair, terms), target=(value, 0.0), speed=speed) for terms, value in own]
            rows += [
                Row(index, on_pairs(joint, pair, terms), target=(value, 0.0), role=INEQUALITY) for terms, value in ends
            ]
    if limits:
        a = model.arrays
        index_q = np.full(model.nv, -1, np.int64)
        for i in range(len(a.links.runs)):
            v, q, length = a.links.runs[i]
            index_q[v : v + length] = np.arange(q, q + length)
        for v in np.flatnonzero(np.isfinite(a.limits).any(axis=1) & (index_q >= 0)):
            owner = int(np.searchsorted(a.v_start, v, side="right")) - 1
            for side, value in zip((1.0, -1.0), a.limits[v], strict=True):
                if np.isfinite(value):
                    spot = [(int(v), int(index_q[v]), side)]
                    rows.append(Row(owner, coordinates=spot, target=(side * float(value), 0.0), role=INEQUALITY))
    return rows, pairs


def _factors(pairs: Pairs) -> tuple[list[tuple[int, int, int]], list[int], list[tuple[float, ...]]]:
    """Return the entries of compound joints and registered kinds, and the factors they point to."""
    entries: list[tuple[int, int, int]] = []
    kinds: list[int] = []
    data: list[tuple[float, ...]] = []
    for pair in sorted({*pairs.compound, *pairs.registered}):
        factors = pairs.compound.get(pair, ())
        entries.append((pair, len(kinds), len(factors) or -1))
        kinds += [f.kind for f in factors]
        data += [(*f.axis, *f.point, f.pitch) for f in factors]
        if pair in pairs.registered:
            address, numbers = pairs.registered[pair]
            count = max(-(-len(numbers) // 7), 2)
            padded = np.zeros(7 * count)
            padded[: len(numbers)] = numbers
            kinds += [address, len(numbers), *(0,) * (count - 2)]
            data += [tuple(row) for row in padded.reshape(-1, 7)]
    return entries, kinds, data


def new_table(rows: list[Row], pairs: Pairs) -> Table:
    """Return the table of `rows`, in the order given."""
    start, terms, weights = [0], [], []
    own = np.full((len(rows), 2), -1, np.int64)
    indices, share = np.full((len(rows), 4), -1, np.int64), np.zeros((len(rows), 2))
    for r, row in enumerate(rows):
        for pair, (code, i, j, weight) in row.terms:
            slot = 0 if own[r, 0] in (-1, pair) else 1
            own[r, slot] = pair
            terms.append((code, pair, i, j))
            weights.append(weight)
        for slot, (v, q, weight) in enumerate(row.coordinates):
            indices[r, slot], indices[r, 2 + slot], share[r, slot] = v, q, weight
        start.append(len(terms))
    compound, factor_kind, factor_data = _factors(pairs)
    return Table(
        np.array(pairs.link, np.int64).reshape(-1, 2),
        np.array(pairs.frame, float).reshape(-1, 24),
        np.array(start, np.int64),
        np.array(terms, np.int64).reshape(-1, 4),
        np.array(weights, float),
        own,
        np.array([row.target for row in rows], float).reshape(-1, 2),
        indices,
        share,
        np.array([row.role for row in rows], np.int64),
        np.array([row.speed for row in rows], np.int64),
        np.array([row.soft for row in rows], float).reshape(-1, 3),
        np.array([row.drive for row in rows], np.int64).reshape(-1, 2),
        np.array(compound, np.int64).reshape(-1, 3),
        np.array(factor_kind, np.int64),
        np.array(factor_data, float).reshape(-1, 7),
        np.array([row.joint for row in rows], np.int64),
    )
