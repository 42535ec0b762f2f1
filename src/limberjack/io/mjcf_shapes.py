"""The geoms and sites of a compiled MuJoCo model as shapes and points, and which of them do not collide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from limberjack.io.files import Taken
from limberjack.io.mesh_files import mesh_options
from limberjack.io.mjcf_parts import Parts
from limberjack.model.builder import Builder

__all__ = ["add_shapes", "add_sites"]

# MuJoCo's codes of geoms, which its binary interface fixes.
_PLANE, _HFIELD, _SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = range(8)
_GREY = [0.5, 0.5, 0.5, 1.0]


def add_shapes(builder: Builder, parts: Parts, collision: str) -> dict[int, str]:
    """Add the geoms as shapes, and what must not collide; return the names of the shapes.

    Args:
        builder: has all bodies.
        parts: the compiled model.
        collision: "hull", "exact" or "none", see `lj.load`.
    """
    m = parts.m
    pairs = np.stack([m.pair_geom1, m.pair_geom2], axis=1)
    solid = (m.geom_contype | m.geom_conaffinity) != 0
    solid[pairs.ravel()] = True
    solid &= not parts.disabled("CONTACT") and collision != "none"
    meet = _meet(m, pairs)
    friction, rolling = _friction(parts, solid, meet, pairs)
    groups = _filters(builder, parts, np.flatnonzero(solid), meet)
    out: dict[int, str] = {}
    for g in range(m.ngeom):
        options = {
            "position": m.geom_pos[g],
            "rotation": m.geom_quat[g],
            "friction": float(friction[g]),
            "color": _color(m, g, bool(solid[g])),
            "collide": bool(solid[g]),
            "group": groups.get(g, 0),
            "name": parts.text(m.name_geomadr[g]) or None,
            "friction_rule": "max",
            "torsional_friction": float(rolling[g, 0]),
            "rolling_friction": float(rolling[g, 1]),
            "margin": float(max(0.0, m.geom_margin[g])),
        }
        name = _add_shape(builder, parts, g, parts.bodies[m.geom_bodyid[g]], options, collision)
        if name is not None:
            out[g] = name
        if m.geom_adhesion[g]:
            parts.notes.add("adhesion is left out: nothing holds on to these geoms", parts.named("geom", g))
        if m.geom_surfacevel[g].any():
            parts.notes.add("surface velocities are left out, geoms", parts.named("geom", g))
    for pair in m.exclude_signature:
        builder.exclude_collision(parts.bodies[int(pair) >> 16], parts.bodies[int(pair) & 0xFFFF])
    _exclude_shapes(builder, parts, out, groups, meet)
    return out


def _meet(m: Any, pairs: np.ndarray) -> np.ndarray:
    """Return which geoms may collide (ngeom, ngeom): contype of one matches conaffinity of the other, or a pair."""
    kind, with_kind = m.geom_contype, m.geom_conaffinity
    out = ((kind[:, None] & with_kind[None, :]) | (kind[None, :] & with_kind[:, None])) != 0
    out[pairs[:, 0], pairs[:, 1]] = out[pairs[:, 1], pairs[:, 0]] = True
    return out


def _friction(parts: Parts, solid: np.ndarray, meet: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the friction of each geom: none where all it meets have condim 1, that of its pairs if it has only these.

    Two geoms have the larger condim and friction of theirs. Torsional and rolling friction (ngeom, 2) are those of
    condim 4 and 6.
    """
    m = parts.m
    out, rolling = np.array(m.geom_friction[:, 0]), np.array(m.geom_friction[:, 1:])
    dims = np.array(m.geom_condim)
    alone = (m.geom_contype | m.geom_conaffinity) == 0
    for k, (a, b) in enumerate(pairs.tolist()):
        for g in (a, b):
            if alone[g]:
                out[g], dims[g] = float(m.pair_friction[k, 0]), int(m.pair_dim[k])
                rolling[g] = m.pair_friction[k, 2:4]
    for g in np.flatnonzero(solid & (dims == 1)):
        if (dims[meet[g] & solid] == 1).all():
            out[g] = 0.0
    rolling[dims < 4, 0] = rolling[dims < 6, 1] = 0.0
    return out, rolling


def _add_shape(
    builder: Builder, parts: Parts, g: int, body: str, options: dict[str, Any], collision: str
) -> str | None:
    """Add the shape of a geom and return its name; None where it is left out."""
    m = parts.m
    kind, size = int(m.geom_type[g]), m.geom_size[g]
    if kind == _PLANE:
        return builder.add_shape_plane(body, **options)
    if kind == _SPHERE:
        return builder.add_shape_sphere(body, size[0], **options)
    if kind == _BOX:
        return builder.add_shape_box(body, 2 * size, **options)
    if kind == _CAPSULE:
        return builder.add_shape_capsule(body, size[0], 2 * size[1], **options)
    if kind == _CYLINDER:
        return builder.add_shape_cylinder(body, size[0], 2 * size[1], **options)
    if kind == _ELLIPSOID:
        vertices, faces = _ball_mesh()
        parts.notes.add(f"ellipsoids become meshes of {len(faces)} triangles, geoms", parts.named("geom", g))
        return builder.add_shape_mesh(body, vertices=vertices * size, faces=faces, **options)
    if kind == _MESH and m.mesh_vertnum[m.geom_dataid[g]]:
        i = m.geom_dataid[g]
        vertices = m.mesh_vert[m.mesh_vertadr[i] : m.mesh_vertadr[i] + m.mesh_vertnum[i]]
        faces = m.mesh_face[m.mesh_faceadr[i] : m.mesh_faceadr[i] + m.mesh_facenum[i]]
        shown = parts.named("geom", g)
        mesh = mesh_options(vertices, faces, options["collide"], collision, lambda text: parts.notes.add(text, shown))
        return None if mesh is None else builder.add_shape_mesh(body, **(options | mesh))
    word = "height fields" if kind == _HFIELD else "signed distance fields and meshes without vertices"
    parts.notes.add(f"{word} are left out, geoms", parts.named("geom", g))
    return None


def _color(m: Any, g: int, solid: bool) -> np.ndarray | None:
    """Return the colour of a geom; None for what collides in a group that MuJoCo does not show at first, 3 and up."""
    if solid and m.geom_group[g] >= 3:
        return None
    rgba = m.geom_rgba[g]
    if m.geom_matid[g] >= 0 and np.allclose(rgba, _GREY):
        rgba = m.mat_rgba[m.geom_matid[g]]
    return np.clip(rgba.astype(float), 0.0, 1.0)


def _ball_mesh() -> tuple[np.ndarray, np.ndarray]:
    """Return a unit ball of 320 triangles: an icosahedron, each face cut in four twice."""
    t = (1 + 5**0.5) / 2
    points = [(s * a, r * b, 0.0) for s in (-1, 1) for r in (-1, 1) for a, b in ((1.0, t),)]
    vertices = [np.roll(p, k) for k in range(3) for p in points]
    near = np.array([[np.sum((a - b) ** 2) < 4.5 for a in vertices] for b in vertices])
    faces = []
    for i in range(12):
        for j in range(i + 1, 12):
            for k in range(j + 1, 12):
                if near[i, j] and near[j, k] and near[i, k]:
                    outward = np.dot(vertices[i], np.cross(vertices[j], vertices[k])) > 0
                    faces.append((i, j, k) if outward else (i, k, j))
    for _ in range(2):
        middle: dict[tuple[int, int], int] = {}
        cut = []
        for face in faces:
            mids = []
            for a, b in zip(face, (*face[1:], face[0]), strict=True):
                key = (min(a, b), max(a, b))
                if key not in middle:
                    middle[key] = len(vertices)
                    vertices.append(vertices[a] + vertices[b])
                mids.append(middle[key])
            (i, j, k), (ij, jk, ki) = face, mids
            cut += [(i, ij, ki), (j, jk, ij), (k, ki, jk), (ij, jk, ki)]
        faces = cut
        vertices = [v / np.linalg.norm(v) for v in vertices]
    return np.array(vertices), np.array(faces)


def _filters(builder: Builder, parts: Parts, solid: np.ndarray, may_meet: np.ndarray) -> dict[int, int]:
    """Exclude bodies that must not collide as a whole; return the group of each geom that needs one.

    Geoms that collide with the same others are one class. Classes that collide neither with themselves nor with each
    other share a group. Of the rest, bodies on which no geoms may collide are excluded; what remains is excluded geom
    by geom by `_exclude_shapes`.
    """
    if may_meet[np.ix_(solid, solid)].all():
        return {}
    _, first, which = np.unique(may_meet[np.ix_(solid, solid)], axis=0, return_index=True, return_inverse=True)
    which = which.ravel()
    meet = may_meet[np.ix_(solid[first], solid[first])]
    group = np.zeros(len(first), int)
    for i in np.flatnonzero(~np.diag(meet)):
        for j in range(1, int(group.max()) + 2):
            members = np.flatnonzero(group == j)
            if not meet[i, members].any():
                group[i] = j
                break
    apart = ~meet & ~((group[:, None] == group[None, :]) & (group[:, None] > 0))
    for a, b, classes in _body_pairs(parts, solid, which):
        if apart[classes].any() and not meet[classes].any():
            builder.exclude_collision(parts.bodies[a], parts.bodies[b])
    return {int(g): int(group[k]) for g, k in zip(solid, which, strict=True)}


def _body_pairs(parts: Parts, solid: np.ndarray, which: np.ndarray) -> Iterator[tuple[int, int, Any]]:
    """Yield pairs of bodies that have geoms, and the index of their pairs of classes."""
    on: dict[int, set[int]] = {}
    for g, k in zip(solid, which, strict=True):
        on.setdefault(int(parts.m.geom_bodyid[g]), set()).add(int(k))
    bodies = sorted(on)
    for n, a in enumerate(bodies):
        for b in bodies[n + 1 :]:
            yield a, b, np.ix_(sorted(on[a]), sorted(on[b]))


def _exclude_shapes(
    builder: Builder, parts: Parts, names: dict[int, str], groups: dict[int, int], may_meet: np.ndarray
) -> None:
    """Exclude pairs of geoms that neither a group nor their bodies exclude."""
    apart = {frozenset(pair) for pair in builder.excluded}
    solid = [g for g in names if g in groups]
    for n, g in enumerate(solid):
        for h in solid[n + 1 :]:
            a, b = (parts.bodies[parts.m.geom_bodyid[k]] for k in (g, h))
            grouped = groups[g] != 0 and groups[g] == groups[h]
            if a != b and not (may_meet[g, h] or grouped or frozenset((a, b)) in apart):
                builder.exclude_shapes(names[g], names[h])


def add_sites(builder: Builder, parts: Parts) -> list[str]:
    """Add the sites as points and return their names."""
    m = parts.m
    names = [parts.text(a) for a in m.name_siteadr]
    taken = Taken(*names)
    for i, name in enumerate(names):
        body = parts.bodies[m.site_bodyid[i]]
        names[i] = name or taken.take(f"{body}:site{i}", "")
        builder.add_point(names[i], body, m.site_pos[i], rotation=m.site_quat[i])
    return names
