"""Public names of a package that are imported from its modules when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose import imports none of its modules.

    Args:
        package: its ``__name__``.
        modules: its modules, each with its public names, separated by spaces; one that lists itself is public too.
    """
    origins = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{origins[name]}")
        value = module if origins[name] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *origins}), sorted(origins)
