"""Register the environments of `limberjack.gym` with Gymnasium, as soon as both packages are imported.

Gymnasium 1.4 no longer looks for entry points of other packages, so `import limberjack` registers them: at once where
Gymnasium has been imported before, else when it is. Neither imports the other.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["NAMES", "register", "register_when_imported"]

NAMES = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d")


def register() -> None:
    """Register the environments with Gymnasium, which is imported; those that are there stay."""
    gymnasium: Any = sys.modules["gymnasium"]
    for name in NAMES:
        if f"Limberjack/{name}-v0" not in gymnasium.registry:
            gymnasium.register(
                f"Limberjack/{name}-v0", entry_point="limberjack.gym:LocomotionEnv", max_episode_steps=1000,
                vector_entry_point="limberjack.gym:LocomotionVectorEnv", kwargs={"task": name},
            )  # fmt: skip


def register_when_imported() -> None:
    """Register now if Gymnasium is imported, else as soon as it is."""
    if hasattr(sys.modules.get("gymnasium"), "registry"):
        register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds Gymnasium, once, as the other finders do, and registers the environments after it has been loaded."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the specification of Gymnasium with our own loader around its, of other modules None."""
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = _Loader(spec.loader)
            spec.loader = loader
        return spec


class _Loader:
    """Loads a module by its own loader, then registers."""

    def __init__(self, loader: Any) -> None:
        self._own = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load the module, with its own loader in its specification, and register the environments."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        register()
