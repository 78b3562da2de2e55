"""The whole benchmark: every scenario, every peer, then latencies; `python benchmarks/suite.py --help`.

It takes about an hour with five rounds; `--only partitions` and `--rounds 1` give a quick result.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import attrs
import click
from latency import CLIENTS, Latency
from result_pages import markdown, page
from results import LatencyResult, Result, latency_result, result
from rounds import Broker, run_rounds
from scenarios import SCENARIOS, Scenario
from send import environment, report, scaled

from ottla_testkit.java.jars import kafka_jars
from ottla_testkit.java.runtime import java_command
from ottla_testkit.kafka_cluster import KafkaCluster

HERE: Final = Path(__file__).parent
RUN_WITHIN: Final = 300.0
DELETING: Final = {"log.segment.delete.delay.ms": 1_000}
"""In a minute, topics with 5,000 partitions need more files than a broker may open."""

ONE_BY_ONE: Final = "one at a time"
AWAITED_RECORDS: Final = 5_000
PACED_SECONDS: Final = 5
SHARES: Final = (0.1, 0.8)
"""Loads, as shares of confluent-kafka's rate when all records are due at once, equal for all clients."""

AT_ONCE: Final = 1e9
DUE_AT_ONCE: Final = 500_000


def throughput(broker: Broker, scenarios: Sequence[Scenario], rounds: int) -> list[Result]:
    """Run every scenario with all its peers."""
    found = []
    for scenario in scenarios:
        click.echo(f"== {scenario.group}: {scenario.name}", err=True)
        workloads = scaled(scenario.workload, scenario.peers)
        runs = run_rounds(broker, workloads, rounds=rounds, timeout=RUN_WITHIN, report=report)
        found.append(result(scenario, runs))
    return found


def latencies(broker: Broker, rounds: int) -> list[LatencyResult]:
    """Measure one record at a time, then records at a rate."""
    all_at_once = [_latency(broker, "confluent-kafka", DUE_AT_ONCE, AT_ONCE) for _ in range(rounds)]
    rate = DUE_AT_ONCE / (median(each.p999 for each in all_at_once) / 1e6)
    loads = {ONE_BY_ONE: (AWAITED_RECORDS, 0.0)}
    for share in SHARES:
        pace = share * rate
        loads[f"{share:.0%} load, {pace:,.0f} a second"] = (int(pace * PACED_SECONDS), pace)
    found = []
    for load, (records, pace) in loads.items():
        click.echo(f"== latency: {load}", err=True)
        measured: dict[str, list[Latency]] = {client: [] for client in (*CLIENTS, "java")}
        for _ in range(rounds):
            for client, each in measured.items():
                each.append(_latency(broker, client, records, pace))
                click.echo(f"{client:<16} p50 {each[-1].p50:>9,.0f} us, p99 {each[-1].p99:>9,.0f} us", err=True)
        found.append(latency_result(load, measured))
    return found


def _latency(broker: Broker, client: str, records: int, pace: float) -> Latency:
    topic = broker.create_topic(1)
    arguments = [broker.servers, topic, str(records), str(pace)]
    command = [sys.executable, str(HERE / "latency.py"), client, *arguments]
    if client == "java":
        command = [java_command(), "-cp", str(kafka_jars() / "*"), str(HERE / "JavaLatency.java"), *arguments]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_WITHIN, check=True
        )
    except subprocess.CalledProcessError as error:
        raise click.ClickException(f"{client}: {error.stderr[-1_000:]}") from error
    finally:
        broker.delete_topic(topic)
    return Latency(**json.loads(ended.stdout.splitlines()[-1]))


def _as_json(results: Sequence[Result], found: Sequence[LatencyResult], before: Mapping[str, Any]) -> str:
    content = {
        "environment": before,
        "results": [attrs.asdict(each) for each in results],
        "latencies": [attrs.asdict(each) for each in found],
    }
    return json.dumps(content, indent=2) + "\n"


@click.command(context_settings={"show_default": True})
@click.option("--rounds", default=5, help="Rounds that count; one more goes before them.")
@click.option("--only", multiple=True, help="Scenarios whose group or name contains this; more than once for more.")
@click.option("--records", type=click.FloatRange(min=0, min_open=True), default=1.0, help="Records, as a multiple.")
@click.option("--rates/--no-rates", default=True, help="Measure the scenarios.")
@click.option("--latency/--no-latency", default=True, help="Measure latencies, too.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("benchmark-results"),
    help="Where results.md, results.html and results.json go.",
)
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write results.json there, too.")
def main(
    rounds: int, only: Sequence[str], records: float, rates: bool, latency: bool, folder: Path, file: Path | None
) -> None:
    """Measure everything on a broker of its own, and write a page of it."""
    chosen = [
        attrs.evolve(each, workload=attrs.evolve(each.workload, records=int(each.workload.records * records)))
        for each in SCENARIOS
        if not only or any(word in f"{each.group}: {each.name}" for word in only)
    ]
    if not chosen:
        raise click.BadParameter(f"no scenario has {' or '.join(only)} in its name", param_hint="--only")
    before = environment()
    with KafkaCluster(config=DELETING, sustained=True) as kafka:
        broker = Broker(kafka.bootstrap_servers, {})
        results = throughput(broker, chosen, rounds) if rates else []
        found = latencies(broker, rounds) if latency else []
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(results, found, before, rounds)
    (folder / "results.md").write_text(text)
    (folder / "results.html").write_text(page(results, found, before, rounds))
    for each in (folder / "results.json", *([file] if file is not None else [])):
        each.write_text(_as_json(results, found, before))
    click.echo(text)
    click.echo(f"written to {folder}/", err=True)
    if any(each.problems for each in results):
        sys.exit("some runs are invalid; they count for nothing")


if __name__ == "__main__":
    main()
