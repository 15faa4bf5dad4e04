"""The allow-list of filter and feature expressions (row-wise, total)."""

from __future__ import annotations


def check_filter(text: str) -> None:
    """Refuse a filter outside the allow-list."""


def check_feature(text: str) -> None:
    """Refuse a feature outside the allow-list."""
