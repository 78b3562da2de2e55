"""The Grafana dashboard and the alert rules for Prometheus, from one list of panels and one of alerts.

python tools/dashboard.py           writes docs/grafana-dashboard.json and docs/prometheus-alerts.yml
python tools/dashboard.py --check   changes nothing; ends with 1 if one of them is stale

The names are those that ottla-reporter-prometheus exports; its tests compare them, and try the queries in Prometheus.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
DASHBOARD: Final = "grafana-dashboard.json"
ALERTS_FILE: Final = "prometheus-alerts.yml"

SELECTED: Final = 'client_id=~"$client_id"'
WINDOW: Final = "$__rate_interval"
_WIDTH: Final = 8
_HEIGHT: Final = 7
_COLUMNS: Final = 3
_NAME: Final = re.compile(r"\bkafka_producer_\w+")


@attrs.frozen
class Panel:
    """One graph: queries with their legends. *%s* in a query stands for the selection of producers."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    meaning: str


@attrs.frozen
class Alert:
    """One rule: it fires when the expression holds for a time.

    An expression keeps all labels of a series, so it is about one producer in one process. Those of all processes with
    one client id would add up with the number of processes, and would not say which one is meant.
    """

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    remedy: str


def rate(name: str, by: str = "client_id") -> str:
    """A sum of rates of a counter."""
    return f"sum by ({by}) (rate(kafka_producer_{name}{{%s}}[{WINDOW}]))"


def quantile(share: float, name: str, by: str = "client_id") -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({share}, {rate(f'{name}_bucket', f'le, {by}')})"


def mean(name: str, by: str = "client_id") -> str:
    """The mean of a histogram."""
    return f"{rate(f'{name}_sum', by)} / {rate(f'{name}_count', by)}"


def grew(name: str) -> str:
    """A counter that has grown within five minutes, or was above 0 when Prometheus read it first.

    The second part is for programs whose first records fail before they are read: `increase` needs two values.
    """
    full = f"kafka_producer_{name}"
    return f"increase({full}[5m]) > 0 or ({full} > 0 unless {full} offset 5m)"


DELIVERY: Final = "topic_record_delivery_time_seconds"
QUEUE: Final = "topic_record_queue_time_seconds"
LATENCY: Final = "node_request_latency_seconds"

PANELS: Final = (
    Panel("Records sent", "ops", [(rate("record_send_total"), "{{client_id}}")], "Records in requests, with retries."),
    Panel(
        "Records that failed, or were sent again",
        "ops",
        [
            (rate("record_error_total"), "{{client_id}} failed"),
            (rate("record_retry_total"), "{{client_id}} sent again"),
        ],
        "A failed record is lost unless the program sends it again.",
    ),
    Panel(
        "Delivery time",
        "s",
        [(quantile(0.5, DELIVERY), "{{client_id}} median"), (quantile(0.99, DELIVERY), "{{client_id}} 99 %")],
        "From the queue to the acknowledgement; each record counts with the time of its batch.",
    ),
    Panel(
        "Time in the queue",
        "s",
        [(quantile(0.5, QUEUE), "{{client_id}} median"), (quantile(0.99, QUEUE), "{{client_id}} 99 %")],
        "The part of the delivery time before the request: linger.ms, and brokers that take no more requests.",
    ),
    Panel(
        "Latency of requests by broker",
        "s",
        [(quantile(0.99, LATENCY, "node_id"), "{{node_id}} 99 %")],
        "From a Produce request to its response. One slow broker stands out here.",
    ),
    Panel(
        "What waits now",
        "s",
        [
            ("max by (client_id) (kafka_producer_oldest_record_age_seconds{%s})", "{{client_id}} record"),
            ("max by (client_id) (kafka_producer_oldest_request_age_seconds{%s})", "{{client_id}} request"),
        ],
        "The age of the oldest record without a result, and of the oldest request without a response. While a broker "
        "hangs, the other times show nothing.",
    ),
    Panel(
        "Throttle time",
        "s",
        [(mean("produce_throttle_time_seconds"), "{{client_id}}")],
        "The mean time for which responses asked the client to wait, because of a quota.",
    ),
    Panel(
        "Size of batches",
        "bytes",
        [(mean("topic_batch_size_bytes"), "{{client_id}}")],
        "Mean bytes on the wire. Small batches cost brokers and the program the most.",
    ),
    Panel(
        "Compression",
        "percentunit",
        [(f"{rate('topic_bytes_total')} / {rate('topic_record_size_bytes_sum')}", "{{client_id}}")],
        "The remaining fraction of the records' bytes.",
    ),
    Panel("Records by topic", "ops", [(rate("topic_record_send_total", "topic"), "{{topic}}")], "Records in requests."),
    Panel(
        "Bytes",
        "Bps",
        [(rate("outgoing_bytes_total"), "{{client_id}} out"), (rate("incoming_bytes_total"), "{{client_id}} in")],
        "Requests before encryption, and responses.",
    ),
    Panel(
        "Free memory",
        "percentunit",
        [
            (
                "min by (client_id)"
                " (kafka_producer_buffer_available_bytes{%s} / kafka_producer_buffer_total_bytes{%s})",
                "{{client_id}}",
            )
        ],
        "Of buffer.memory, in the process that has the least. At 0 every send waits.",
    ),
    Panel(
        "Threads that wait for memory",
        "short",
        [(rate("bufferpool_wait_time_seconds_total"), "{{client_id}}")],
        "Seconds of waiting in a second: the mean number of threads that wait.",
    ),
    Panel(
        "Connections",
        "short",
        [
            ("sum by (client_id) (kafka_producer_open_connections{%s})", "{{client_id}} open"),
            (rate("connection_close_total"), "{{client_id}} closed per second"),
        ],
        "Connections that end again and again point to a load balancer, or to a broker that restarts.",
    ),
    Panel(
        "Refused logins",
        "ops",
        [
            (rate("failed_authentication_total"), "{{client_id}} logins"),
            (rate("failed_reauthentication_total"), "{{client_id}} renewals"),
        ],
        "SASL or TLS.",
    ),
    Panel(
        "Work of the I/O thread",
        "percentunit",
        [(rate("io_time_seconds_total"), "{{client_id}}")],
        "The share of time in which it reads and writes; the rest of its work is in the producer's own rounds.",
    ),
)

PRODUCER: Final = "{{ $labels.client_id }} on {{ $labels.instance }}"

ALERTS: Final = (
    Alert(
        "OttlaRecordsFailed",
        grew("record_error_total"),
        "0m",
        "critical",
        f"Records of {PRODUCER} failed.",
        "The program's log has the error of the first one, with what to do.",
    ),
    Alert(
        "OttlaRecordsWait",
        "kafka_producer_oldest_record_age_seconds > 30",
        "0m",
        "warning",
        f"The oldest record of {PRODUCER} has waited for {{{{ $value | humanizeDuration }}}}.",
        "If kafka_producer_oldest_request_age_seconds is as high, a broker does not answer; the program's log names "
        "it. A record fails after delivery.timeout.ms.",
    ),
    Alert(
        "OttlaDeliverySlow",
        f"histogram_quantile(0.99, sum without (topic) (rate(kafka_producer_{DELIVERY}_bucket[5m]))) > 5",
        "10m",
        "warning",
        f"One record in a hundred of {PRODUCER} takes {{{{ $value | humanizeDuration }}}}.",
        "Compare the time in the queue with the latency of requests by broker.",
    ),
    Alert(
        "OttlaBufferNearlyFull",
        "kafka_producer_buffer_available_bytes / kafka_producer_buffer_total_bytes < 0.1",
        "5m",
        "warning",
        f"{PRODUCER} has {{{{ $value | humanizePercentage }}}} of its memory left.",
        "The brokers take less than the program sends. At 0 %, send waits for max.block.ms.",
    ),
    Alert(
        "OttlaBufferExhausted",
        grew("buffer_exhausted_total"),
        "0m",
        "critical",
        f"{PRODUCER} refused records, because no memory came free.",
        "Raise buffer.memory only for short peaks; otherwise the brokers are too slow.",
    ),
    Alert(
        "OttlaManyRetries",
        "rate(kafka_producer_record_retry_total[10m]) / rate(kafka_producer_record_send_total[10m]) > 0.05",
        "10m",
        "warning",
        f"{PRODUCER} sends {{{{ $value | humanizePercentage }}}} of its records again.",
        "Leaders move, or requests time out: see the brokers' logs.",
    ),
    Alert(
        "OttlaThrottled",
        "rate(kafka_producer_produce_throttle_time_seconds_sum[5m]) > 0.1",
        "10m",
        "warning",
        f"Brokers throttle {PRODUCER}.",
        "Raise the quota of its user or client id, or send less.",
    ),
    Alert(
        "OttlaLoginsRefused",
        f"{grew('failed_authentication_total')} or {grew('failed_reauthentication_total')}",
        "0m",
        "critical",
        f"Brokers refuse the login of {PRODUCER}.",
        "`ottla doctor` with the same settings says why.",
    ),
    Alert(
        "OttlaConnectionsUnstable",
        "rate(kafka_producer_connection_close_total[10m]) > 0.1",
        "10m",
        "warning",
        f"{PRODUCER} loses more than six connections a minute.",
        "Look for brokers that restart, and for time limits of load balancers.",
    ),
    Alert(
        "OttlaMetadataOld",
        "kafka_producer_metadata_age_seconds > 900",
        "5m",
        "warning",
        f"{PRODUCER} has had no metadata from any broker for {{{{ $value | humanizeDuration }}}}.",
        "It asks each metadata.max.age.ms, 5 minutes by default, less than the limit. No broker is within its reach.",
    ),
)


def queries() -> Iterator[tuple[str, str]]:
    """Yield the title of each panel with each of its queries, for the producers that are selected."""
    for panel in PANELS:
        for query, _legend in panel.queries:
            yield panel.title, query.replace("%s", SELECTED)


def names() -> set[str]:
    """Return all names of metrics in panels and alerts."""
    expressions = [query for _title, query in queries()] + [alert.expression for alert in ALERTS]
    return {name for expression in expressions for name in _NAME.findall(expression)}


def dashboard() -> str:
    """Return the dashboard as Grafana imports it."""
    made: Mapping[str, Any] = {
        "title": "Ottla producers",
        "uid": "ottla-producers",
        "tags": ["kafka", "ottla"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "client_id",
                    "type": "query",
                    "label": "Producer",
                    "datasource": {"type": "prometheus", "uid": "${datasource}"},
                    "query": "label_values(kafka_producer_app_info, client_id)",
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "refresh": 2,
                },
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }
    return json.dumps(made, indent=2) + "\n"


def _panel(number: int, panel: Panel) -> Mapping[str, Any]:
    row, column = divmod(number, _COLUMNS)
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": source,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(65 + index),
                "datasource": source,
                "expr": query.replace("%s", SELECTED),
                "legendFormat": legend,
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def alert_rules() -> str:
    """Return the rules as Prometheus reads them."""
    lines = ["# Written by `python tools/dashboard.py`: do not edit.", "groups:", "  - name: ottla", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.remedy)}",
        ]
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, report what is stale")
    options = parser.parse_args(arguments)
    stale = 0
    for name, text in ((DASHBOARD, dashboard()), (ALERTS_FILE, alert_rules())):
        path = DOCS / name
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is stale: run python tools/dashboard.py")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
