"""The dashboard and the alert rules use names that the reporter exports, and are the files of the documentation."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from dashboard import ALERTS, ALERTS_FILE, DASHBOARD, DOCS, PANELS, main, names, queries

from ottla.metrics.catalogue import HISTOGRAMS, METRICS
from ottla_reporter_prometheus.names import family, omitted


def test_the_files_of_the_documentation_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["--check"]), capsys.readouterr().out) == (0, "")


def test_every_name_in_a_panel_or_alert_is_exported() -> None:
    exported = {
        family(each.group, each.name, unit=each.unit, kind="counter" if each.kind.cumulative else "gauge").name
        for each in METRICS
        if not omitted(each.group, each.name)
    }
    for each in HISTOGRAMS:
        histogram = family(each.group, each.name, unit=each.unit, kind="histogram").name
        exported |= {f"{histogram}{suffix}" for suffix in ("_bucket", "_sum", "_count")}

    assert names() - exported == set()
    assert len(names()) > 20


def test_panels_of_the_dashboard_fill_its_rows_without_overlap() -> None:
    made = json.loads((DOCS / DASHBOARD).read_text())
    places = [tuple(panel["gridPos"].values()) for panel in made["panels"]]

    assert len(set(places)) == len(places) == len(PANELS)
    assert all(x + w <= 24 for x, _y, w, _h in places)
    assert len({panel["title"] for panel in made["panels"]}) == len(PANELS)


def test_every_query_selects_producers_and_every_alert_says_what_to_do() -> None:
    assert [title for title, query in queries() if "$client_id" not in query] == []
    assert all(alert.summary.endswith(".") and alert.remedy.endswith(".") for alert in ALERTS)
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_reads_the_alert_rules() -> None:
    command = ["promtool", "check", "rules", str(DOCS / ALERTS_FILE)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, f"SUCCESS: {len(ALERTS)} rules found" in ended.stdout) == (0, True), ended.stderr


FIRES = {
    "failed records": ("OttlaRecordsFailed", {"record_error_total": "0x20 3x60"}, "6m"),
    "records that failed before the first scrape": ("OttlaRecordsFailed", {"record_error_total": "_x4 5x40"}, "3m"),
    "a broker that hangs": ("OttlaRecordsWait", {"oldest_record_age_seconds": "0x20 0+15x40"}, "10m"),
    "slow deliveries": (
        "OttlaDeliverySlow",
        {
            'topic_record_delivery_time_seconds_bucket{topic="t",le="5.0"}': "0+1x160",
            'topic_record_delivery_time_seconds_bucket{topic="t",le="7.5"}': "0+100x160",
            'topic_record_delivery_time_seconds_bucket{topic="t",le="+Inf"}': "0+100x160",
        },
        "20m",
    ),
    "little memory": (
        "OttlaBufferNearlyFull",
        {"buffer_available_bytes": "9x80", "buffer_total_bytes": "100x80"},
        "10m",
    ),
    "exhausted memory": ("OttlaBufferExhausted", {"buffer_exhausted_total": "0x20 1x60"}, "6m"),
    "retries": ("OttlaManyRetries", {"record_retry_total": "0+6x160", "record_send_total": "0+100x160"}, "30m"),
    "throttling": ("OttlaThrottled", {"produce_throttle_time_seconds_sum": "0+2x160"}, "20m"),
    "refused logins": (
        "OttlaLoginsRefused",
        {"failed_authentication_total": "1x20", "failed_reauthentication_total": "0x20"},
        "1m",
    ),
    "refused renewals": (
        "OttlaLoginsRefused",
        {"failed_authentication_total": "0x60", "failed_reauthentication_total": "0x20 1x40"},
        "6m",
    ),
    "connections that end": ("OttlaConnectionsUnstable", {"connection_close_total": "0+2x160"}, "30m"),
    "old metadata": ("OttlaMetadataOld", {"metadata_age_seconds": "0+15x160"}, "25m"),
}
"""What makes an alert fire, and until when: values every 15 seconds."""


def rule_test(name: str, series: Mapping[str, str], firing: Mapping[str, str | None], *, processes: int = 1) -> Any:
    """A test for promtool with these series in each of the processes: the alert that fires at each time, if any."""
    labels = {"client_id": "shop", "job": "j", "instance": "i0"}
    return {
        "name": name,
        "interval": "15s",
        "input_series": [
            {"series": selector(metric, {**labels, "instance": f"i{process}"}), "values": values}
            for metric, values in series.items()
            for process in range(processes)
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname, client_id, job, instance) (ALERTS{alertstate="firing"})',
                "eval_time": at,
                "exp_samples": [
                    {"labels": selector("", {**labels, "alertname": each}, prefix=""), "value": 1}
                    for each in (alert,)
                    if each is not None
                ],
            }
            for at, alert in firing.items()
        ],
    }


def selector(metric: str, labels: Mapping[str, str], *, prefix: str = "kafka_producer_") -> str:
    """A series in Prometheus' notation."""
    name, _brace, more = metric.rstrip("}").partition("{")
    pairs = [f'{label}="{value}"' for label, value in labels.items()] + ([more] if more else [])
    return f"{prefix}{name}{{{','.join(pairs)}}}"


def promtool_tests(folder: Path, tests: Sequence[Any]) -> None:
    """Have promtool run tests of the alert rules; JSON is YAML, too."""
    given = {"rule_files": [str(DOCS / ALERTS_FILE)], "evaluation_interval": "15s", "tests": tests}
    (folder / "tests.yml").write_text(json.dumps(given))
    command = ["promtool", "test", "rules", str(folder / "tests.yml")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_every_alert_fires_for_what_it_is_about(tmp_path: Path) -> None:
    tests = [rule_test(name, series, {at: alert}) for name, (alert, series, at) in FIRES.items()]

    promtool_tests(tmp_path, tests)
    assert {alert for alert, _series, _at in FIRES.values()} == {each.name for each in ALERTS}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_alerts_are_silent_while_all_is_well(tmp_path: Path) -> None:
    usual = {
        "record_error_total": "7x240",  # an old failure
        "buffer_exhausted_total": "0x240",
        "failed_authentication_total": "0x240",
        "failed_reauthentication_total": "0x240",
        "record_send_total": "0+1000x240",
        "record_retry_total": "0+10x240",
        "produce_throttle_time_seconds_sum": "0+0.01x240",
        "connection_close_total": "0x36 3x36 6x36 9x36 12x96",  # connections that were idle
        "metadata_age_seconds": "0x19 300x19 0x19 300x180",
        "buffer_available_bytes": "90x240",
        "buffer_total_bytes": "100x240",
        'topic_record_delivery_time_seconds_bucket{topic="t",le="5.0"}': "0+100x240",
        'topic_record_delivery_time_seconds_bucket{topic="t",le="7.5"}': "0+100x240",
        'topic_record_delivery_time_seconds_bucket{topic="t",le="+Inf"}': "0+100x240",
    }

    times = dict.fromkeys(["7m", "20m", "40m", "58m"])
    tests = [rule_test(f"{number} processes", usual, times, processes=number) for number in (1, 30)]
    promtool_tests(tmp_path, tests)
