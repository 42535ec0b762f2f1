"""The rasteriser: triangles into a depth buffer, then light, shadow and ground per pixel.

Images need no graphics card. The parts are drawn twice, once from the light (the shadow map) and once from the camera;
depth, normal and part are stored per pixel. `shade` then computes the colour of every pixel, and `shrink` averages the
pixels of a supersampled image. A view is a row of 16 numbers: a 4 x 4 matrix, row by row, that takes
points of the world to (x, y, z, w); x / w and y / w are pixels, z / w grows with the distance.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, kernel

__all__ = ["draw", "shade", "shrink", "wipe"]

_NEAR = 1e-9


@kernel
def wipe(
    # out
    depth, part,
):  # fmt: skip
    """Clear the buffers: no part, infinitely far."""
    for i in range(depth.shape[0]):
        for j in range(depth.shape[1]):
            depth[i, j] = math.inf
            part[i, j] = -1


@inner
def _projected(view, x, y, z):
    w = view[12] * x + view[13] * y + view[14] * z + view[15]
    near = w < _NEAR
    s = 0.0 if near else 1.0 / w
    return (
        (view[0] * x + view[1] * y + view[2] * z + view[3]) * s,
        (view[4] * x + view[5] * y + view[6] * z + view[7]) * s,
        (view[8] * x + view[9] * y + view[10] * z + view[11]) * s,
        near,
    )


@kernel
def draw(
    # in
    vertices, normals, faces, poses, first, last, view, screen,
    # out
    depth, normal, part,
):  # fmt: skip
    """Draw parts first .. last - 1, all of one geometry.

    Args:
        vertices: (n, 3), in the frame of a part before it is scaled.
        normals: (n, 3).
        faces: (m, 3).
        poses: (parts, 15): rotation, row by row, position, scale.
        first: first part.
        last: one past the last part.
        view: (16,).
        screen: (n, 4) scratch: pixel, depth and 1 where a vertex is behind the camera.
        depth: (rows, columns).
        normal: (rows, columns, 3) float32.
        part: (rows, columns).
    """
    rows, columns = depth.shape[0], depth.shape[1]
    for k in range(first, last):
        r0, r1, r2, r3 = poses[k, 0], poses[k, 1], poses[k, 2], poses[k, 3]
        r4, r5, r6, r7, r8 = poses[k, 4], poses[k, 5], poses[k, 6], poses[k, 7], poses[k, 8]
        sx, sy, sz = poses[k, 12], poses[k, 13], poses[k, 14]
        for i in range(vertices.shape[0]):
            x, y, z = sx * vertices[i, 0], sy * vertices[i, 1], sz * vertices[i, 2]
            px, py, pz, near = _projected(
                view,
                r0 * x + r1 * y + r2 * z + poses[k, 9],
                r3 * x + r4 * y + r5 * z + poses[k, 10],
                r6 * x + r7 * y + r8 * z + poses[k, 11],
            )
            screen[i, 0] = px
            screen[i, 1] = py
            screen[i, 2] = pz
            screen[i, 3] = 1.0 if near else 0.0
        for f in range(faces.shape[0]):
            a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
            if screen[a, 3] + screen[b, 3] + screen[c, 3] > 0.0:
                continue
            ax, ay, bx, by = screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1]
            cx, cy = screen[c, 0], screen[c, 1]
            area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
            # rows grow downwards: triangles that face the camera have the opposite orientation
            if not area < 0.0:
                continue
            low_x, high_x = min(ax, bx, cx), max(ax, bx, cx)
            low_y, high_y = min(ay, by, cy), max(ay, by, cy)
            if high_x < 0.0 or high_y < 0.0 or low_x > columns or low_y > rows:
                continue
            j0, j1 = max(0, math.ceil(low_x - 0.5)), min(columns - 1, math.floor(high_x - 0.5))
            i0, i1 = max(0, math.ceil(low_y - 0.5)), min(rows - 1, math.floor(high_y - 0.5))
            if j0 > j1 or i0 > i1:
                continue
            inverse = 1.0 / area
            az, bz, cz = screen[a, 2], screen[b, 2], screen[c, 2]
            for i in range(i0, i1 + 1):
                y = i + 0.5
                for j in range(j0, j1 + 1):
                    x = j + 0.5
                    u = ((bx - x) * (cy - y) - (cx - x) * (by - y)) * inverse
                    v = ((cx - x) * (ay - y) - (ax - x) * (cy - y)) * inverse
                    w = 1.0 - u - v
                    if u < 0.0 or v < 0.0 or w < 0.0:
                        continue
                    z = u * az + v * bz + w * cz
                    if z < depth[i, j]:
                        depth[i, j] = z
                        part[i, j] = k
                        # normals scale inversely
                        nx = (u * normals[a, 0] + v * normals[b, 0] + w * normals[c, 0]) / sx
                        ny = (u * normals[a, 1] + v * normals[b, 1] + w * normals[c, 1]) / sy
                        nz = (u * normals[a, 2] + v * normals[b, 2] + w * normals[c, 2]) / sz
                        normal[i, j, 0] = r0 * nx + r1 * ny + r2 * nz
                        normal[i, j, 1] = r3 * nx + r4 * ny + r5 * nz
                        normal[i, j, 2] = r6 * nx + r7 * ny + r8 * nz


@inner
def _lit(light_view, light_depth, x, y, z, slack):
    """Return the fraction of light that reaches a point, over nine samples of the shadow map."""
    px, py, pz, near = _projected(light_view, x, y, z)
    j, i = int(math.floor(px)), int(math.floor(py))
    if near or j < 1 or i < 1 or j >= light_depth.shape[1] - 1 or i >= light_depth.shape[0] - 1:
        return 1.0
    free = 0.0
    for di in range(-1, 2):
        for dj in range(-1, 2):
            if light_depth[i + di, j + dj] > pz - slack:
                free += 1.0
    return free / 9.0


@inner
def _toned(x):
    """Return the light x tone-mapped."""
    return 255.0 * math.sqrt(min(max(x, 0.0), 1.0))


@kernel
def shade(
    # in
    eye, light, slack, light_view, light_depth, ground, sky, colors, depth, normal, part,
    # out
    picture,
):  # fmt: skip
    """Compute the colour of every pixel.

    Args:
        eye: (14,): position, directions right, up and ahead, tangent of half the opening, and the factor k of the
            depth, which is -k / distance ahead.
        light: (3,) unit vector towards the light.
        slack: depth bias of the shadow map.
        light_view: (16,) of the shadow map.
        light_depth: (m, m) the shadow map.
        ground: (12,): 1 if there is one, point, normal, colour, width of a tile, how far it can be seen.
        sky: (6,) colour at the top and at the bottom of the picture.
        colors: (parts, 3), 0 to 1.
        depth: as `draw` left it, as are normal and part.
        picture: (rows, columns, 3) float32, 0 to 255.
    """
    rows, columns = depth.shape[0], depth.shape[1]
    scale = 2.0 * eye[12] / rows
    lx, ly, lz = light[0], light[1], light[2]
    for i in range(rows):
        up = (0.5 * rows - i - 0.5) * scale
        t = (i + 0.5) / rows
        for j in range(columns):
            right = (j + 0.5 - 0.5 * columns) * scale
            # the point seen is eye + distance * d, where d has length 1 along the direction ahead
            dx = eye[9] + right * eye[3] + up * eye[6]
            dy = eye[10] + right * eye[4] + up * eye[7]
            dz = eye[11] + right * eye[5] + up * eye[8]
            r, g, b = sky[0] + t * (sky[3] - sky[0]), sky[1] + t * (sky[4] - sky[1]), sky[2] + t * (sky[5] - sky[2])
            k = part[i, j]
            distance = math.inf
            if k >= 0:
                distance = -eye[13] / depth[i, j]
            over = math.inf
            if ground[0] > 0.0:
                steep = dx * ground[4] + dy * ground[5] + dz * ground[6]
                if steep < -1e-9:
                    over = (
                        (ground[1] - eye[0]) * ground[4]
                        + (ground[2] - eye[1]) * ground[5]
                        + (ground[3] - eye[2]) * ground[6]
                    ) / steep
                    if over <= 0.0:
                        over = math.inf
            if over < distance:
                x, y, z = eye[0] + over * dx, eye[1] + over * dy, eye[2] + over * dz
                gx, gy, gz = x - ground[1], y - ground[2], z - ground[3]
                far = min(1.0, (gx * gx + gy * gy + gz * gz) / (ground[11] * ground[11]))
                tile = (math.floor(x / ground[10]) + math.floor(y / ground[10])) % 2.0
                # tiles as fine as pixels would alias: they fade with the distance
                shown = 0.07 * max(0.0, 1.0 - 12.0 * over * scale / ground[10])
                tint = 1.0 - shown * tile
                free = _lit(light_view, light_depth, x, y, z, slack)
                strength = tint * (0.52 + 0.48 * free)
                r += (1.0 - far) * (ground[7] * ground[7] * strength - r)
                g += (1.0 - far) * (ground[8] * ground[8] * strength - g)
                b += (1.0 - far) * (ground[9] * ground[9] * strength - b)
            elif k >= 0:
                nx, ny, nz = normal[i, j, 0], normal[i, j, 1], normal[i, j, 2]
                s = 1.0 / math.sqrt(max(1e-30, nx * nx + ny * ny + nz * nz))
                nx, ny, nz = nx * s, ny * s, nz * s
                x, y, z = eye[0] + distance * dx, eye[1] + distance * dy, eye[2] + distance * dz
                facing = nx * lx + ny * ly + nz * lz
                free = 0.0
                if facing > 0.0:
                    free = _lit(light_view, light_depth, x, y, z, slack)
                direct = max(0.0, facing) * free
                around = 0.30 + 0.14 * nz
                # a soft highlight half-way between the eye and the light
                s = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
                hx, hy, hz = lx - dx * s, ly - dy * s, lz - dz * s
                s = 1.0 / math.sqrt(max(1e-30, hx * hx + hy * hy + hz * hz))
                shine = max(0.0, (nx * hx + ny * hy + nz * hz) * s)
                shine = shine * shine
                shine = shine * shine
                shine = shine * shine
                shine = 0.12 * shine * shine * free
                strength = around + 0.72 * direct
                r = colors[k, 0] * colors[k, 0] * strength + shine
                g = colors[k, 1] * colors[k, 1] * strength + shine
                b = colors[k, 2] * colors[k, 2] * strength + shine
            picture[i, j, 0] = _toned(r)
            picture[i, j, 1] = _toned(g)
            picture[i, j, 2] = _toned(b)


@kernel
def shrink(
    # in
    picture, times,
    # out
    small,
):  # fmt: skip
    """Average squares of times x times pixels into one (uint8)."""
    share = 1.0 / (times * times)
    for i in range(small.shape[0]):
        for j in range(small.shape[1]):
            for c in range(3):
                total = 0.0
                for di in range(times):
                    for dj in range(times):
                        total += picture[times * i + di, times * j + dj, c]
                small[i, j, c] = int(total * share + 0.5)
