"""How long compiling may still take."""

from __future__ import annotations

from limberjack.methods import METHODS
from limberjack.simulation.compiling import FUNCTIONS, remaining


def test_the_rest_is_estimated_at_the_pace_so_far():
    """Half of the functions done means as long again; too few or all of them say nothing."""
    for method, count in FUNCTIONS.items():
        assert method in METHODS
        assert abs((remaining(method, 30.0, count // 2) or 0.0) - 30.0) < 0.2
        assert remaining(method, 30.0, 3) is None and remaining(method, 30.0, count) is None
    assert remaining("midpoint", 30.0, 100) is None
