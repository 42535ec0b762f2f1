"""Pictures of models without a graphics card: what there is to draw, where to look from, and a rasteriser."""

from __future__ import annotations
