"""The request of a release: the document that the Airflow side and the Spark side exchange."""

from __future__ import annotations

from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.parser import check_feature
from spark_jobs.contract.federation import OF_ONE_SILO, Federation, require_add_remove, require_linear
from spark_jobs.contract.options import DIAGNOSTICS, Options, Statistic
from spark_jobs.contract.options.base import entries_of
from spark_jobs.contract.privacy import ExactDecimal, GroupBound, exact_decimal, plain
from spark_jobs.contract.request_documents import load_fields, without_gate
from spark_jobs.contract.rho_budget import require_gaussian
from spark_jobs.contract.stated_scale import with_stated_scale
from spark_jobs.contract.table_request import TableRequest, canonical, canonical_sha256
from spark_jobs.contract.tables import Label, LinearModel, LogisticModel, Model, Scoring

DEFAULT_POPULATION_SHARE = Decimal("0.2")
MAX_POPULATION_SHARE = Decimal("0.9")
MAX_ROWS_BY_DEFAULT = 50
"""Units with more rows need a stated share: the noise in the sums of their squares hides them, but in large tables."""
MAX_UNIT_FIGURES = 8
"""The most figures whose variance between units one request buys: the more, the more noise is in each."""


class ReleaseRequest(TableRequest):
    """Everything that shapes a release; the ledger's charge is tied to its hash.

    Attributes:
        label: the 0/1 outcome, for diagnostics of a classifier.
        model: the source of scores or fitted values, for diagnostics of a model. A label or a model that no diagnostic
            of the request needs is not read.
        scoring: the public rule for scores outside [0, 1].
        diagnostics: what to release; each kind at most once.
        federation: a registered federation, whose silos' rows are released together; None for one table.
        row_id: a column that distinguishes the rows of one unit, such as the number of a visit; None for none.
        population_share: the share of epsilon that pays for measuring how much headline figures vary between units, on
            which their intervals for the population are based. None stands for ``DEFAULT_POPULATION_SHARE`` if a figure
            can use it and a unit may have several rows, at most ``MAX_ROWS_BY_DEFAULT``; otherwise for 0. With 0, the
            intervals assume the largest variation that units of so many rows can have.
    """

    label: Label | None = None
    model: Model | None = None
    scoring: Scoring = Scoring()
    diagnostics: Annotated[tuple[SerializeAsAny[Options], ...], Field(min_length=1)]
    federation: Federation | None = None
    row_id: Annotated[str, Field(min_length=1)] | None = None
    population_share: ExactDecimal | None = None

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """The request in a file, without the gate that may stand beside it; see ``TableRequest.from_file``.

        Raises:
            InvalidRequest: the file cannot be read, or does not contain a request.
        """
        return cls.build(without_gate(load_fields(path)))

    @model_validator(mode="before")
    @classmethod
    def _on_stated_scale(cls, data: Any) -> Any:
        return with_stated_scale(data) if isinstance(data, dict) else data

    @field_validator("population_share", mode="before")
    @classmethod
    def _part_of_epsilon(cls, value: Any) -> Decimal | None:
        if value is None:
            return None
        part = exact_decimal(value, what="")
        if not 0 <= part <= MAX_POPULATION_SHARE:
            raise InvalidRequest(
                "", plain(part), f"must be from 0 to {MAX_POPULATION_SHARE}",
                f"leave it out for {DEFAULT_POPULATION_SHARE}, or give 0 to spend nothing on it",
            )  # fmt: skip
        return part

    @field_validator("diagnostics", mode="before")
    @classmethod
    def _known_kinds(cls, value: Any) -> Any:
        return entries_of(value, DIAGNOSTICS)

    @model_validator(mode="after")
    def _check(self) -> Self:
        other = next((options.kind for options in self.diagnostics if not options.accepts_rho), None)
        require_gaussian(self.budget, other, federated=self.federation is not None)
        for options in self.diagnostics:
            if options.approximate and self.budget.delta == 0 and self.budget.rho is None:
                in_rho = ", in a zcdp account a rho in place of epsilon" if options.accepts_rho else ""
                raise InvalidRequest(
                    "budget.delta", "0", f"must be above 0 for {options.kind} with these options",
                    f"give a delta such as '1e-6'{in_rho}, or choose a method with pure privacy",
                )  # fmt: skip
            options.check(self)
        if self.group_bound is not None and len(self.diagnostics) > 1:
            raise InvalidRequest(
                "max_groups", self.group_bound.groups, "must be left out unless its diagnostic is the only one of the "
                "request",
                "request the other diagnostics in a separate release, or leave max_groups out",
            )  # fmt: skip
        self._check_needed()
        self._check_rows_of_unit()
        if self.row_id is not None and self.unit.column is None:
            raise InvalidRequest(
                "row_id", self.row_id, "must be left out where every row is a unit of its own",
                "name the unit's column in unit.column, or leave it out",
            )  # fmt: skip
        if self.population_share and not self._could_vary_by_unit:
            raise InvalidRequest(
                "population_share", plain(self.population_share), "must be 0 or left out, because no diagnostic of "
                "this request uses it",
                "leave it out: it is used only by roc_curve, roc_comparison of two models and confusion_matrix, of one "
                "table with unit.max_rows above 1",
            )  # fmt: skip
        if self.federation is not None:
            self._check_federated()
        if isinstance(self.model, (LinearModel, LogisticModel)):
            for feature in self.model.coefficients:
                check_feature(feature)
        return self

    def _check_rows_of_unit(self) -> None:
        limited = next((o.kind for o in self.diagnostics if o.used_rows is not None or o.chooses_rows), None)
        if limited is not None and len(self.diagnostics) > 1:
            raise InvalidRequest(
                "diagnostics", limited, "must be the only diagnostic of the request, because it has max_rows",
                "request the other diagnostics in a separate release, or leave max_rows out",
            )  # fmt: skip

    def _check_federated(self) -> None:
        require_add_remove(self.neighbours)
        if self.budget.delta:
            raise InvalidRequest(
                "budget.delta", plain(self.budget.delta), "must be 0 in a federation",
                "leave it out: the noise of the servers is purely private",
            )  # fmt: skip
        for options in self.diagnostics:
            require_linear(options.kind, dict(options))
            options.check_for_silos()

    def _check_needed(self) -> None:
        for options in self.diagnostics:
            if any(statistic.of_label for statistic in options.statistics) and self.label is None:
                raise InvalidRequest(
                    "label", None, f"is required by {options.kind}",
                    "name the column of the 0/1 outcome, with its two values if they are not 0 and 1",
                )  # fmt: skip
            if any(statistic.of_model is not None for statistic in options.statistics) and self.model is None:
                raise InvalidRequest(
                    "model", None, f"is required by {options.kind}",
                    "name the source of scores or fitted values, e.g. a column of scores",
                )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; decimals as strings. Fields added in later versions are left out where they are None."""
        fields = super().to_dict()
        for name in ("federation", "row_id", "population_share"):
            if fields[name] is None:
                del fields[name]
        return fields

    @property
    def shared_sha256(self) -> str:
        """The hash of what the silos of a federation have in common: every field that is not in ``OF_ONE_SILO``.

        The path of a saved pipeline is left out too, if there is the hash of its content.
        """
        fields: dict[str, Any] = {name: value for name, value in self.to_dict().items() if name not in OF_ONE_SILO}
        if (fields["model"] or {}).get("sha256") is not None:
            del fields["model"]["path"]
        return canonical_sha256({name: canonical(value) for name, value in fields.items()})

    @property
    def uses_label(self) -> bool:
        """Whether any diagnostic reads the label."""
        return any(statistic.of_label for statistic in self.statistics)

    @property
    def uses_model(self) -> bool:
        """Whether any diagnostic reads the output of the model."""
        return any(statistic.of_model is not None for statistic in self.statistics)

    @property
    def output_of_model(self) -> str:
        """Which output of the model the diagnostics read, in words: scores, fitted values, or both."""
        return " and ".join(dict.fromkeys(s.of_model for s in self.statistics if s.of_model is not None))

    @property
    def needed_label(self) -> Label:
        """The label, for diagnostics that need one; without it the request would have been rejected."""
        if self.label is None:
            raise ValueError("the request has no label")
        return self.label

    @property
    def needed_model(self) -> Model:
        """The model, for diagnostics that need one; without it the request would have been rejected."""
        if self.model is None:
            raise ValueError("the request has no model")
        return self.model

    @property
    def group_bound(self) -> GroupBound | None:
        """The bounds on the groups of one unit, and on its rows in each; None if only its rows are bounded."""
        return next((options.group_bound for options in self.diagnostics if options.group_bound is not None), None)

    @property
    def of_unit_totals(self) -> bool:
        """Whether a unit counts once in each of its groups, with the totals of its rows there."""
        return any(options.of_unit_totals for options in self.diagnostics)

    @property
    def rows_of_unit(self) -> int:
        """The most rows of one unit that are used: the account's bound, or a smaller one of a diagnostic."""
        if self.group_bound is not None:
            return self.group_bound.rows_of_unit
        return next((o.used_rows for o in self.diagnostics if o.used_rows is not None), self.unit.max_rows)

    @property
    def chooses_rows(self) -> bool:
        """Whether a separate release has yet to choose how many rows of a unit are used (``contract.row_choice``)."""
        return any(options.chooses_rows for options in self.diagnostics)

    @property
    def _could_vary_by_unit(self) -> bool:
        return (
            self.unit.max_rows > 1
            and self.federation is None
            and any(options.unit_figures for options in self.diagnostics)
        )

    @property
    def share_of_units(self) -> Decimal:
        """The share of epsilon that pays for measuring how much headline figures vary between units; 0 for none."""
        if not self._could_vary_by_unit:
            return Decimal(0)
        if self.population_share is not None:
            return self.population_share
        return DEFAULT_POPULATION_SHARE if self.unit.max_rows <= MAX_ROWS_BY_DEFAULT else Decimal(0)

    @property
    def unit_figures(self) -> tuple[tuple[str, str], ...]:
        """The kinds and names of the figures whose variance between units is measured; at most ``MAX_UNIT_FIGURES``."""
        if not self.share_of_units:
            return ()
        named = [[(options.kind, name) for name in options.unit_figures] for options in self.diagnostics]
        turns = zip_longest(*named)
        return tuple(figure for turn in turns for figure in turn if figure is not None)[:MAX_UNIT_FIGURES]

    def sizes_are_public(self, statistic: Statistic) -> bool:
        """Whether a diagnostic that uses ``statistic`` treats the number of rows in use as public."""
        return any(
            statistic in options.statistics and options.sizes_are_public(self.neighbours)
            for options in self.diagnostics
        )

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that Spark counts for the diagnostics: each once, in the order of the diagnostics."""
        return tuple(dict.fromkeys(statistic for options in self.diagnostics for statistic in options.statistics))
