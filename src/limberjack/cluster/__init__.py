"""Many runs over the cores of one machine or over many machines (extra `[cluster]`), resumable and reproducible.

`sweep` evaluates one function over many parameters: parameter studies and random starts. `crowd` simulates a crowd in
shards, in chunks of time. A run is a pure function of
its parameters and its seed, so that one whose machine was lost is repeated elsewhere with the same result, bit for bit.
"""

from limberjack.cluster.records import Sweep
from limberjack.cluster.shards import crowd
from limberjack.cluster.sweep import sweep

__all__ = ["Sweep", "crowd", "sweep"]
