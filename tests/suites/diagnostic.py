"""What every diagnostic promises, tested through what its package exports; each kind subclasses the suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from spark_jobs.contract.privacy import exact_decimal
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise


class DiagnosticSuite:
    """A subclass, named ``Test...``, gives the attributes below, and ``check_form`` for what no type says.

    Attributes:
        package: the package of the kind.
        tables: functions that make the statistic of a table, by the table's name.
        empty: makes the statistic of a table without rows.
        nasty: makes the statistic of rows of which many do not fit.
        settings: options of ``release``, without the noise; every one is tried on every table.
        sizes_follow_noise: whether the lengths of arrays depend on figures that were released, not on options alone.
    """

    package: ClassVar[ModuleType]
    tables: ClassVar[Mapping[str, Callable[[], Any]]]
    empty: ClassVar[Callable[[], Any]]
    nasty: ClassVar[Callable[[], Any]]
    settings: ClassVar[Sequence[Mapping[str, Any]]]
    sizes_follow_noise: ClassVar[bool] = False

    def release(self, statistic: Any, **options: Any) -> Any:
        """The kind's ``release``."""
        return self.package.release(statistic, **options)

    def check_form(self, result: Any, options: Mapping[str, Any]) -> None:
        """Assert what holds for every result with these options, whatever the rows are: the rules of its type."""
        fields = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert type(result).violations(fields) == []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test the tables and settings that it asks for."""
        if "table" in metafunc.fixturenames:
            metafunc.parametrize("table", self.tables)
        if "options" in metafunc.fixturenames:
            metafunc.parametrize("options", self.settings, ids=_name_of)

    @pytest.mark.sampled("table", "options")
    def test_every_release_has_the_form_of_every_other(self, table: str, options: Mapping[str, Any]) -> None:
        result = self.release(self.tables[table](), noise=SeededNoise(5), **options)
        reference = self.release(self.empty(), noise=SeededNoise(6), **options)
        for one in (result, reference):
            self.check_form(one, options)
            json.dumps(one.to_dict(), allow_nan=False)
        assert self.sizes_follow_noise or shapes(result) == shapes(reference)
        assert result.to_dict().keys() == reference.to_dict().keys()

    def test_rows_that_do_not_fit_never_raise(self, options: Mapping[str, Any]) -> None:
        self.check_form(self.release(self.nasty(), noise=SeededNoise(1), **options), options)

    @pytest.mark.slow
    @pytest.mark.sampled
    def test_all_of_the_budget_is_spent_and_a_stored_draw_makes_the_same_release(
        self, options: Mapping[str, Any]
    ) -> None:
        [first, *_] = self.tables.values()
        draw = self.package.measure(first(), noise=SecureNoise(), **options)
        assert draw.epsilon == exact_decimal(options["epsilon"])
        stored = json.dumps(draw.to_dict(), allow_nan=False)
        again = self.package.DIAGNOSTIC.measurement.decode(json.loads(stored))
        assert json.dumps(again.to_dict()) == stored
        released = [self.package.summarise(each, seed=2**62 + 1).to_dict() for each in (draw, again)]
        assert released[0] == released[1]

    @pytest.mark.parametrize(("noise", "guarantee"), [(SecureNoise(), PRIVATE), (SeededNoise(1), NOT_PRIVATE)])
    def test_a_result_says_whether_its_noise_was_private(self, noise: Any, guarantee: str) -> None:
        result = self.release(self.empty(), noise=noise, **self.settings[0])
        assert result.guarantee == guarantee


def shapes(result: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of a result's arrays, by their published names."""
    return {name: value.shape for name, value in result.published().items() if isinstance(value, np.ndarray)}


def _name_of(options: Mapping[str, Any]) -> str:
    return "-".join(str(value) for value in options.values())
