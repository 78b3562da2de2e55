"""An examination as JSON, for programs."""

from __future__ import annotations

import json

import attrs

from ottla.doctor import Examination, Finding


def document(examination: Examination) -> str:
    """The examination as JSON text: `ok`, a sentence about the first problem or null, and all findings."""
    cause = examination.cause
    return json.dumps(
        {
            "ok": examination.healthy,
            "conclusion": cause.sentence if cause is not None else None,
            "findings": [_entry(finding) for finding in examination.findings],
        },
        indent=2,
    )


def _entry(finding: Finding) -> dict[str, object]:
    return {**attrs.asdict(finding), "seconds": round(finding.seconds, 6)}
