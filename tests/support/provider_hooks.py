"""Hooks of other providers for tests: every call is checked against the provider's own class, if it is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from unittest.mock import create_autospec

import pytest


def hook_class(path: str) -> type[Any]:
    """The class of a provider's hook; the test is skipped, with the reason, where the provider is not installed."""
    module, _, name = path.rpartition(".")
    provider = pytest.importorskip(
        module, reason=f"{module} is not installed: its backend is tested where it is", exc_type=ImportError
    )
    return getattr(provider, name)


def autospecced(path: str) -> Any:
    """An instance whose methods take exactly the arguments of the hook's own."""
    return create_autospec(hook_class(path), instance=True, spec_set=True)


def client_class(path: str) -> type[Any]:
    """A class of the library behind a hook."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)
