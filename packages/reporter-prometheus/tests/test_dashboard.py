"""The dashboard and the alert rules use names that the reporter exports, and are the files of the documentation."""

from __future__ import annotations

import json
import shutil
import subprocess

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
