"""``max_rows: auto``: a choice that is a release of its own, drawn once and paid for once, and the table after it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from dp_operators.budget import BudgetExceeded
from dp_operators.releasing import ChargedRequest, ReleaseClosed, forecast, give_back, with_references
from dp_operators.releasing.affordability import AffordabilityCheck
from dp_operators.releasing.earlier_releases import require_as_released
from dp_operators.releasing.released_bounds import released_bound
from spark_jobs.contract.budget_split import split_budget
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.row_bound import ReleasedBound
from spark_jobs.contract.privacy import PrivacyUnit
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.row_choice import choice_key, choice_of, steps_of
from spark_jobs.contract.store.failpoints import APPLICATION_POINTS, CHOICE_POINTS, PROTOCOL_POINTS
from spark_jobs.contract.store.layout import folder_name
from spark_jobs.contract.written import read_written
from tests.support.release_lab import KEY, ForkRunner, Lab, NoRunner, judge, make_request, retried

UNIT = {"column": "person", "max_rows": 40}
CHOICE_KEY = choice_key(KEY)
RELEASING = PROTOCOL_POINTS[: PROTOCOL_POINTS.index("before_end_run")]
BY = [{"column": "region", "values": ["north", "south"]}]


def table(output, *, unit=UNIT, max_rows="auto", epsilon="1", **options):
    entry = {"kind": "aggregates", "by": BY, "max_rows": max_rows, **options}
    changes = {"label": None, "model": None, "unit": unit, "diagnostics": [entry], "budget": {"epsilon": epsilon}}
    return make_request(output, **changes)


@pytest.fixture
def units(lab: Lab) -> Lab:
    """A laboratory whose account has units of up to 40 rows, and an attempt at a table that chooses among them."""
    lab.reopen(epsilon=lab.cap, unit=PrivacyUnit(**UNIT))
    lab.request = table(lab.output)
    return lab


def test_a_folder_below_the_accounts_own_has_the_choice_and_the_table(units):
    units.output = f"{units.output}/team"
    units.request = table(units.output)
    retried(units)
    assert [charge.state.value for charge in units.charges()] == ["committed", "committed"]
    assert manifest(units, KEY)["request"]["diagnostics"][0]["max_rows"]["released_by"] == CHOICE_KEY


def manifest(lab, key):
    return json.loads((Path(lab.output) / folder_name(key) / "release.json").read_text())


def assert_one_choice(lab):
    published = retried(lab)
    judge(lab)
    paid = {charge.release: (charge.state.value, charge.cost.epsilon) for charge in lab.charges()}
    assert paid == {CHOICE_KEY: ("committed", Decimal("0.45")), KEY: ("committed", Decimal("0.55"))}
    assert len(lab.charges()) == 2
    chosen, used = manifest(lab, CHOICE_KEY), manifest(lab, KEY)["request"]["diagnostics"][0]["max_rows"]
    assert used == {
        "rows": chosen["results"]["rows_per_unit"]["bound"],
        "epsilon": "0.45",
        "released_by": CHOICE_KEY,
        "release": f"file://{lab.output}/{folder_name(CHOICE_KEY)}",
    }
    again = lab.release(runner=NoRunner())
    assert (again.adopted, again.manifest_sha256) == (True, published.manifest_sha256)
    assert len(lab.charges()) == 2


def test_a_choice_is_found_where_it_was_made_when_the_accounts_folder_has_changed(units: Lab):
    """Between the choice and its table the account is bound to another folder: the table goes there, by the choice."""
    fields = {name: value for name, value in units.request.to_dict().items() if name != "output"}
    units.request = read_written(ReleaseRequest, fields)
    units.attempt("after_choice").wait()
    [choice] = units.charges()
    before, after = units.output, f"{units.output}-of-december"
    ledger = units.ledger()
    ledger.bind_outputs("people", [after], actor="admin", reason="a new bucket")
    ledger.close()
    published = units.release()
    assert published.uri.startswith(after)
    assert [(one.release, one.state.value) for one in units.charges()] == [
        (CHOICE_KEY, "committed"),
        (KEY, "committed"),
    ]
    units.output = after
    used = manifest(units, KEY)["request"]["diagnostics"][0]["max_rows"]
    assert used["release"].endswith(f"{before}/{folder_name(CHOICE_KEY)}")
    assert units.charges()[0].draw_sha256 == choice.draw_sha256


def test_the_choice_is_committed_before_the_table_begins(units: Lab):
    units.attempt("after_choice").wait()
    assert [(charge.release, charge.state.value) for charge in units.charges()] == [(CHOICE_KEY, "committed")]
    assert units.charges()[0].draw_sha256
    before = manifest(units, CHOICE_KEY)
    assert_one_choice(units)
    assert manifest(units, CHOICE_KEY) == before


@pytest.mark.slow
@pytest.mark.parametrize("point", CHOICE_POINTS)
def test_attempts_killed_around_the_choice_make_one_choice(units: Lab, point):
    assert units.attempt(point).wait().killed
    judge(units)
    units.attempt(point).wait()  # with the choice there is none to make, and nothing kills this one
    assert_one_choice(units)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("step", ["the choice", "the table"])
@pytest.mark.parametrize("point", RELEASING)
def test_attempts_killed_at_each_step_of_either_make_one_choice(units: Lab, point, step):
    drawn = None
    if step == "the table":
        units.attempt("after_choice").wait()
        drawn = manifest(units, CHOICE_KEY)
    assert units.attempt(point).wait().killed
    judge(units)
    assert_one_choice(units)
    assert drawn in (None, manifest(units, CHOICE_KEY))


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("point", APPLICATION_POINTS)
def test_an_application_killed_in_the_choice_is_taken_up(units: Lab, point):
    units.attempt(app_failpoint=point).wait()
    judge(units)
    assert_one_choice(units)


def test_a_choice_whose_draw_is_lost_is_never_made_again(units: Lab):
    """Whoever deletes the draw does not get a second choice for the same money."""
    units.attempt("after_record_draw").wait()
    [charge] = units.charges()
    (Path(units.output) / folder_name(CHOICE_KEY) / "_draft" / charge.id / "draw.json").unlink()
    with pytest.raises(ReleaseClosed):
        units.release()
    with pytest.raises(ReleaseClosed):
        units.release()
    assert [(one.release, one.state.value) for one in units.charges()] == [(CHOICE_KEY, "burnt")]


def test_a_table_of_other_rows_under_the_same_key_is_refused_its_choice(units: Lab):
    units.attempt("after_choice").wait()
    units.request = units.request.changed(where="age > 40")
    with pytest.raises(InvalidRequest):
        units.release()
    assert [one.release for one in units.charges()] == [CHOICE_KEY]


def test_a_dry_run_prices_both_and_what_is_left_of_them(units: Lab):
    def priced():
        ledger = units.ledger()
        price = forecast(ChargedRequest.of(units.request, ledger, KEY), runner=ForkRunner())
        ledger.close()
        return price

    assert (priced().cost.epsilon, priced().left["all"].epsilon) == (1, 10)
    assert [one.budget.epsilon for one in steps_of(priced().charged.request)] == [Decimal("0.45"), Decimal("0.55")]
    units.attempt("after_record_draw").wait()  # the choice is reserved
    assert priced().cost.epsilon == Decimal("0.55")
    units.attempt("after_choice").wait()
    assert priced().cost.epsilon == Decimal("0.55")
    units.release()
    assert priced().charge is not None


def test_an_account_that_cannot_pay_for_both_is_charged_for_neither(units: Lab):
    units.request = table(units.output, epsilon="10.5")
    with pytest.raises(BudgetExceeded):
        units.release()
    assert units.charges() == ()


@pytest.mark.parametrize(
    ("unit", "options", "line"),
    [
        ({}, {}, "must be left out where every row is a unit of its own"),
        ({**UNIT, "max_rows": 1}, {}, "must be left out if the account allows only one row of a unit"),
        (UNIT, {"max_rows_limit": 0}, "max_rows_limit: got 0; must be a whole number from 1 to 1000000"),
        (UNIT, {"max_rows_limit": 41}, "max_rows_limit: got 41; must be at most unit.max_rows, which is 40"),
        (UNIT, {"max_rows_share": "0.6"}, "max_rows_share: got '0.6'; must be above 0 and at most 0.5"),
        (UNIT, {"max_rows": 41}, "max_rows: got 41; must be at most unit.max_rows, which is 40"),
        (UNIT, {"max_rows": "most"}, "max_rows: got 'most'; must be a whole number from 1 to 1000000, auto, or"),
        (UNIT, {"method": "gaussian"}, "budget.delta: got '0'; must be above 0 for aggregates with these options"),
        (UNIT, {"max_groups": 2, "max_rows_per_group": 1}, "cannot be combined with max_groups"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(units: Lab, unit, options, line):
    with pytest.raises(InvalidRequest) as refused:
        table(units.output, unit=unit, **options)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_table_without_a_bound_has_the_fields_that_it_had(units: Lab):
    plain = table(units.output, max_rows=None).to_dict()["diagnostics"][0]
    assert not {"max_rows", "max_rows_limit", "max_rows_share"} & plain.keys()
    assert plain["weight"] is None


def test_a_table_with_a_bound_spends_no_delta(units: Lab):
    bounded = table(units.output, max_rows=3).changed(budget={"epsilon": "1", "delta": "1e-6"})
    assert [part.granted.delta for part in split_budget(bounded)] == [0]


def test_later_tables_may_name_the_choice_at_no_cost(units: Lab):
    units.release()
    place = manifest(units, KEY)["request"]["diagnostics"][0]["max_rows"]["release"]
    fields = {**units.request.to_dict(), "budget": {"epsilon": "0.5"}}
    fields["diagnostics"] = [{"kind": "aggregates", "by": BY, "max_rows": {"release": place}}]
    ledger = units.ledger()
    later = ReleaseRequest.parse(with_references(fields, ledger))
    assert later.diagnostics[0].max_rows == ReleasedBound.parse(released_bound(place, ledger))
    assert later.rows_of_unit == manifest(units, CHOICE_KEY)["results"]["rows_per_unit"]["bound"]
    require_as_released(later, ledger)
    forged = later.diagnostics[0].max_rows.model_copy(update={"rows": later.rows_of_unit % 40 + 1})
    with pytest.raises(InvalidRequest, match="must be as in the release that the request names"):
        require_as_released(later.changed(diagnostics=[later.diagnostics[0].changed(max_rows=forged)]), ledger)
    ledger.close()
    assert units.release(request=later, key="later").cost.epsilon == Decimal("0.5")
    assert len(units.charges()) == 3


def test_a_request_that_leaves_its_unit_to_the_account_is_completed_first(units: Lab):
    fields = {"account": "people", "diagnostics": [{"kind": "aggregates", "by": BY, "max_rows": "auto"}]}
    from spark_jobs.contract.written import read_written

    written = read_written(
        ReleaseRequest,
        {**fields, "budget": {"epsilon": "1"}, "table": {"snapshot": {"path_version": "v1"}}},
    )
    ledger = units.ledger()
    whole = ChargedRequest.of(written, ledger, "k").request
    ledger.close()
    assert choice_of(whole).diagnostics[0].largest == 40
    assert choice_of(whole).unit == whole.unit == units.request.unit


def test_giving_back_ends_what_is_reserved_of_the_two(units: Lab):
    units.attempt("after_reserve").wait()
    ledger = units.ledger()
    assert give_back(ChargedRequest.of(units.request, ledger, KEY), reason="tests").state.value == "void"
    ledger.close()
    units.attempt("after_choice").wait()
    units.attempt("after_reserve").wait()
    ledger = units.ledger()
    charge = give_back(ChargedRequest.of(units.request, ledger, KEY), reason="tests")
    ledger.close()
    assert (charge.release, charge.state.value) == (KEY, "void")
    assert_one_choice_among(units)


def assert_one_choice_among(lab):
    retried(lab)
    kept = [charge for charge in lab.charges() if charge.state.value == "committed"]
    assert sorted(charge.release for charge in kept) == [KEY, CHOICE_KEY]


def test_a_sensor_knows_that_a_table_with_its_choice_is_paid_for(units: Lab):
    units.release()
    ledger = units.ledger()
    check = AffordabilityCheck(account="people", epsilon="1", key=KEY)
    assert check.run(ledger).reason == "it has its charge already"
    ledger.close()
