"""The geoms and sites of a compiled MuJoCo model as shapes and points, and which of them do not collide."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.io.mjcf_parts import Parts, free_name
from limberjack.model.builder import Builder

__all__ = ["add_shapes", "add_sites"]

# MuJoCo's codes of geoms, which its binary interface fixes.
_PLANE, _HFIELD, _SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = range(8)
_GREY = [0.5, 0.5, 0.5, 1.0]


def add_shapes(builder: Builder, parts: Parts) -> None:
    """Add the geoms as shapes, and what must not collide."""
    m = parts.m
    solid = ((m.geom_contype | m.geom_conaffinity) != 0) & (not parts.disabled("CONTACT"))
    smooth = bool(solid.any()) and bool((m.geom_condim[solid] == 1).all())
    groups = _filters(builder, parts, np.flatnonzero(solid))
    for g in range(m.ngeom):
        options = {
            "position": m.geom_pos[g],
            "rotation": m.geom_quat[g],
            "friction": 0.0 if smooth else float(m.geom_friction[g, 0]),
            "color": _color(m, g),
            "collide": bool(solid[g]),
            "group": groups.get(g, 0),
            "name": parts.text(m.name_geomadr[g]) or None,
        }
        _add_shape(builder, parts, g, parts.bodies[m.geom_bodyid[g]], options)
        if solid[g] and m.geom_condim[g] > 3:
            parts.note("torsional and rolling friction are left out, geoms", parts.named("geom", g))
        if m.geom_adhesion[g]:
            parts.note("adhesion is left out, geoms", parts.named("geom", g))
        if m.geom_surfacevel[g].any():
            parts.note("surface velocities are left out, geoms", parts.named("geom", g))
    for pair in m.exclude_signature:
        builder.exclude_collision(parts.bodies[int(pair) >> 16], parts.bodies[int(pair) & 0xFFFF])


def _add_shape(builder: Builder, parts: Parts, g: int, body: str, options: dict[str, Any]) -> None:
    m = parts.m
    kind, size = int(m.geom_type[g]), m.geom_size[g]
    if kind == _PLANE:
        builder.add_shape_plane(body, **options)
    elif kind == _SPHERE:
        builder.add_shape_sphere(body, size[0], **options)
    elif kind == _BOX:
        builder.add_shape_box(body, 2 * size, **options)
    elif kind == _CAPSULE:
        builder.add_shape_capsule(body, size[0], 2 * size[1], **options)
    elif kind == _CYLINDER:
        builder.add_shape_cylinder(body, size[0], 2 * size[1], **options)
    elif kind == _ELLIPSOID:
        vertices, faces = _ball_mesh()
        builder.add_shape_mesh(body, vertices=vertices * size, faces=faces, **options)
        parts.note(f"ellipsoids become meshes of {len(faces)} triangles, geoms", parts.named("geom", g))
    elif kind == _MESH and m.mesh_facenum[m.geom_dataid[g]]:
        i = m.geom_dataid[g]
        vertices = m.mesh_vert[m.mesh_vertadr[i] : m.mesh_vertadr[i] + m.mesh_vertnum[i]]
        faces = m.mesh_face[m.mesh_faceadr[i] : m.mesh_faceadr[i] + m.mesh_facenum[i]]
        builder.add_shape_mesh(body, vertices=vertices, faces=faces, **options)
    else:
        word = {_HFIELD: "height fields", _MESH: "meshes without faces"}.get(kind, "signed distance fields")
        parts.note(f"{word} are left out, geoms", parts.named("geom", g))


def _color(m: Any, g: int) -> np.ndarray:
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


def _filters(builder: Builder, parts: Parts, solid: np.ndarray) -> dict[int, int]:
    """Translate contype and conaffinity to groups and excluded pairs; return the group of each geom that needs one.

    MuJoCo lets two geoms collide when the contype of one matches the conaffinity of the other. Classes of geoms
    that collide neither with themselves nor with each other share a group; other pairs of classes are excluded body by
    body where nothing else on the two bodies collides.
    """
    m = parts.m
    sorts, which = np.unique(np.c_[m.geom_contype, m.geom_conaffinity][solid], axis=0, return_inverse=True)
    which = which.ravel()
    meet = ((sorts[:, None, 0] & sorts[None, :, 1]) | (sorts[None, :, 0] & sorts[:, None, 1])) != 0
    if meet.all():
        return {}
    group = np.zeros(len(sorts), int)
    for i in np.flatnonzero(~np.diag(meet)):
        for j in range(1, int(group.max()) + 2):
            members = np.flatnonzero(group == j)
            if not meet[i, members].any():
                group[i] = j
                break
    apart = ~meet & ~((group[:, None] == group[None, :]) & (group[:, None] > 0))
    if apart.any():
        _exclude(builder, parts, solid, which, meet, apart)
    return {int(g): int(group[k]) for g, k in zip(solid, which, strict=True)}


def _exclude(
    builder: Builder, parts: Parts, solid: np.ndarray, which: np.ndarray, meet: np.ndarray, apart: np.ndarray
) -> None:
    on: dict[int, set[int]] = {}
    for g, k in zip(solid, which, strict=True):
        on.setdefault(int(parts.m.geom_bodyid[g]), set()).add(int(k))
    bodies = sorted(on)
    for n, a in enumerate(bodies):
        for b in bodies[n + 1 :]:
            pair = np.ix_(sorted(on[a]), sorted(on[b]))
            if not apart[pair].any():
                continue
            if meet[pair].any():
                names = f'"{parts.bodies[a]}" and "{parts.bodies[b]}"'
                parts.note("contype and conaffinity are left out, more geoms collide between bodies", names)
            else:
                builder.exclude_collision(parts.bodies[a], parts.bodies[b])


def add_sites(builder: Builder, parts: Parts) -> None:
    """Add the sites as points."""
    m = parts.m
    names = [parts.text(a) for a in m.name_siteadr]
    taken = set(names)
    for i, name in enumerate(names):
        body = parts.bodies[m.site_bodyid[i]]
        builder.add_point(name or free_name(f"{body}:site{i}", taken), body, m.site_pos[i])
