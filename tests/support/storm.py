"""Many processes on one ledger, a killer that ends random ones with SIGKILL, and a court that trusts the log alone."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from dp_operators.budget import BudgetExceeded, Charge, ChargeConflict, LedgerUnavailable, PrivacyLedger
from spark_jobs.contract.expressions.blocks import expand_ranges
from tests.support.ledgers import DRAW

BLOCKS = ("2026-01", "2026-02", "2026-03", "2026-04")
CAPS = {"blocks": 40, "sum": 60, "team": 15}
COSTS = ("0.1", "0.30", "0.017", "0.000000000000000000000000000001")


@dataclass(frozen=True, kw_only=True)
class Storm:
    """How many processes, operations of each, and kills."""

    processes: int
    operations: int
    kills: int


def prepare(url: str) -> None:
    ledger = PrivacyLedger(url)
    ledger.open_account("blocks", epsilon=CAPS["blocks"], blocks="month(at)", tables=["/lake/blocks"])
    ledger.open_account("sum", epsilon=CAPS["sum"], blocks="month(at)", unit_stays=False)
    ledger.allot("blocks", "team", epsilon=CAPS["team"])
    ledger.close()


def rage(url: str, folder: Path, storm: Storm, seed: int) -> int:
    """Let every process do its operations, however often it is killed; how many kills there were."""
    fork = multiprocessing.get_context("fork")
    chance = random.Random(seed)
    killed = 0

    def start(number: int) -> multiprocessing.process.BaseProcess:
        process = fork.Process(target=_work, args=(url, folder / f"worker-{number}", number, storm.operations))
        process.start()
        return process

    living = {number: start(number) for number in range(storm.processes)}
    while living:
        time.sleep(chance.uniform(0.01, 0.1))
        for number, process in list(living.items()):
            if process.exitcode is None:
                continue
            process.join()
            del living[number]
            if process.exitcode == -signal.SIGKILL:
                living[number] = start(number)
            elif process.exitcode != 0:
                raise AssertionError(f"worker {number} ended with {process.exitcode}")
        if living and killed < storm.kills:
            victim = chance.choice(list(living.values()))
            if victim.pid is not None and victim.exitcode is None:
                os.kill(victim.pid, signal.SIGKILL)
                killed += 1
    return killed


def _work(url: str, diary: Path, number: int, operations: int) -> None:
    """One process: what the ledger answers goes into its diary, a line for each operation, whole or not at all."""
    done = len(_lines(diary))
    ledger = PrivacyLedger(url, patience=60)
    chance = random.Random(f"{number} {done} {time.monotonic_ns()}")
    mine: list[str] = []
    with diary.open("ab", buffering=0) as answers:
        for operation in range(done, operations):
            told = _operate(ledger, chance, f"worker {number}, {operation}", mine)
            answers.write((json.dumps(told) + "\n").encode())
    os._exit(0)


def _operate(ledger: PrivacyLedger, chance: random.Random, key: str, mine: list[str]) -> list[str]:
    try:
        if mine and chance.random() < 0.5:
            charge_id = mine.pop(chance.randrange(len(mine)))
            settle = chance.choice([_commit, _void, _void, _burn])
            return ["settled", charge_id, settle(ledger, charge_id, actor=key).state.value]
        release = f"shared {chance.randrange(50)}" if chance.random() < 0.3 else key
        account = chance.choice(["blocks", "sum"])
        charge = ledger.reserve(
            account,
            release=release,
            epsilon=chance.choice(COSTS),
            blocks=chance.sample(BLOCKS, chance.randrange(1, 4)),
            allotment="team" if account == "blocks" and chance.random() < 0.3 else None,
            actor=key,
        )
        mine.append(charge.id)
        return ["reserved", charge.id, charge.release]
    except (BudgetExceeded, ChargeConflict, LedgerUnavailable) as error:
        return ["refused", type(error).__name__]


def _commit(ledger: PrivacyLedger, charge_id: str, *, actor: str) -> Charge:
    """Commit as a release does: a run is started, and its draw recorded."""
    ledger.start_run(charge_id, actor=actor)
    ledger.record_draw(charge_id, DRAW, actor=actor)
    return ledger.commit(charge_id, actor=actor)


def _void(ledger: PrivacyLedger, charge_id: str, *, actor: str) -> Charge:
    """Give a charge back once its run has ended without reading a row."""
    run = ledger.start_run(charge_id, actor=actor)
    ledger.end_run(charge_id, run.number, actor=actor)
    return ledger.void(charge_id, actor=actor)


def _burn(ledger: PrivacyLedger, charge_id: str, *, actor: str) -> Charge:
    return ledger.burn(charge_id, actor=actor)


def _lines(diary: Path) -> list[list[str]]:
    if not diary.exists():
        return []
    return [json.loads(line) for line in diary.read_bytes().split(b"\n") if line.endswith(b"]")]


def judge(url: str, folder: Path, storm: Storm) -> Counter[str]:
    """Recompute everything from the audit log; what the processes were answered, counted."""
    ledger = PrivacyLedger(url)
    assert ledger.verification().findings == ()
    spent: defaultdict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    states: dict[str, str] = {}
    orders: dict[str, tuple[str, dict]] = {}
    alive: dict[tuple[str, str], str] = {}
    running: defaultdict[str, set[int]] = defaultdict(set)
    drawn: set[str] = set()
    previous = "0" * 64
    for number, entry in enumerate(ledger.log(), 1):
        fields = {name: value for name, value in asdict(entry).items() if name != "hash"}
        assert (fields["seq"], fields["previous"]) == (number, previous)
        previous = hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        assert entry.hash == previous
        details = json.loads(entry.details)
        if entry.action == "reserved":
            assert entry.charge not in states
            key = (entry.account, details["release_key"])
            assert key not in alive, "I2: a key is charged once"
            alive[key], orders[entry.charge] = entry.charge, (entry.account, details)
            states[entry.charge] = entry.action
            _add(spent, *orders[entry.charge], sign=1)
        elif entry.action in ("committed", "burnt", "void"):
            assert states[entry.charge] == "reserved"
            states[entry.charge] = entry.action
            if entry.action == "void":
                assert not running[entry.charge], "what may have been drawn is not given back"
                assert entry.charge not in drawn
                account, order = orders[entry.charge]
                _add(spent, account, order, sign=-1)
                del alive[account, order["release_key"]]
            assert entry.action != "committed" or entry.charge in drawn, "a draw is recorded before it counts"
        elif entry.action == "run started":
            running[entry.charge].add(details["run"])
        elif entry.action == "run ended":
            running[entry.charge].remove(details["run"])
        elif entry.action == "draw recorded":
            assert entry.charge not in drawn, "a charge has one draw"
            drawn.add(entry.charge)
    for account in ("blocks", "sum"):
        told = {charge.id: charge.state.value for charge in ledger.history(account)}
        assert told == {charge: state for charge, state in states.items() if orders[charge][0] == account}
        for block, total in ledger.blocks(account).items():
            assert Fraction(total.epsilon) == spent[account, "", block]
    ledger.close()
    return _answers(folder, storm, states, orders)


def _add(spent: defaultdict, account: str, order: dict, *, sign: int) -> None:
    for purse in {"", order["allotment"]}:
        for block in expand_ranges(order["blocks"]) if account == "blocks" else ["all"]:
            spent[account, purse, block] += sign * Fraction(order["epsilon"])
            assert 0 <= spent[account, purse, block] <= CAPS[purse or account], "I3: nothing exceeds its cap, ever"


def _answers(folder: Path, storm: Storm, states: dict[str, str], orders: dict) -> Counter[str]:
    """I4: whatever a process was answered is what the ledger holds."""
    counted: Counter[str] = Counter()
    for number in range(storm.processes):
        lines = _lines(folder / f"worker-{number}")
        assert len(lines) == storm.operations
        for what, *told in lines:
            counted[told[0] if what == "refused" else what] += 1
            if what == "reserved":
                assert orders[told[0]][1]["release_key"] == told[1], "an answered reservation is lost"
            elif what == "settled":
                assert states[told[0]] == told[1], "an answered settlement is lost"
                counted[told[1]] += 1
    return counted
