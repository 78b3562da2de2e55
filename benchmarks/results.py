"""Results of the whole benchmark by scenario: medians and their spread, and Ottla compared with the best rival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import attrs
from figures import Figures, figures
from latency import Latency
from rounds import Run
from scenarios import RIVALS, Scenario


@attrs.frozen(kw_only=True)
class Ratio:
    """Ottla's figure divided by the rival's, round by round: the median, the lowest and the highest."""

    middle: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.lowest:.2f} - {self.highest:.2f})"


@attrs.frozen(kw_only=True)
class Result:
    """One scenario's result. `rates` and `cpu` are relative to confluent-kafka's faster setting, round by round."""

    scenario: Scenario
    rows: Sequence[Figures]
    rates: Mapping[str, Ratio]
    cpu: Mapping[str, Ratio]
    problems: Sequence[str]


@attrs.frozen(kw_only=True)
class LatencyResult:
    """One load's result: the medians of every client's percentiles over the rounds."""

    load: str
    rows: Mapping[str, Latency]


def result(scenario: Scenario, runs: Sequence[Run]) -> Result:
    """Summarize the runs of one scenario."""
    valid = [run for run in runs if run.problem is None]
    best: dict[int, Run] = {}
    for run in valid:
        if run.peer in RIVALS and (run.round not in best or run.rate > best[run.round].rate):
            best[run.round] = run
    ours = [peer for peer in scenario.peers if peer.startswith("ottla")]
    return Result(
        scenario=scenario,
        rows=[row for peer in scenario.peers if (row := figures(runs, peer, ours=scenario.peers[0]))],
        rates={
            peer: ratio
            for peer in ours
            if (ratio := _ratio([r.rate / best[r.round].rate for r in valid if r.peer == peer and r.round in best]))
        },
        cpu={
            peer: ratio
            for peer in ours
            if (
                ratio := _ratio(
                    [
                        r.cpu_per_million / best[r.round].cpu_per_million
                        for r in valid
                        if r.peer == peer and r.round in best
                    ]
                )
            )
        },
        problems=[f"{run.peer}, round {run.round}: {run.problem}" for run in runs if run.problem],
    )


def latency_result(load: str, rounds: Mapping[str, Sequence[Latency]]) -> LatencyResult:
    """Return the medians over the rounds of one load."""
    return LatencyResult(
        load=load,
        rows={
            client: Latency(
                records=each[0].records,
                p50=median(one.p50 for one in each),
                p99=median(one.p99 for one in each),
                p999=median(one.p999 for one in each),
            )
            for client, each in rounds.items()
            if each
        },
    )


def _ratio(found: Sequence[float]) -> Ratio | None:
    return Ratio(middle=median(found), lowest=min(found), highest=max(found)) if found else None
