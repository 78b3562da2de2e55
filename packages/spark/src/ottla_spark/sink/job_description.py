"""The description of a write's Spark job, which the pages *Jobs* and *SQL* of Spark's UI show.

Only calls have one: Spark itself runs the jobs of a data source.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

_DESCRIPTION: Final = "spark.job.description"


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Add *text* to the description of the jobs that this thread starts in the block.

    Spark describes a micro-batch by its query and batch, and a program may have described its job: both stay, on the
    lines before. Spark Connect has no descriptions.
    """
    if not hasattr(session, "_jsparkSession"):
        yield
        return
    context = session.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"{before}\n{text}" if before else text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type] # None removes it


def topic_text(topic: str | None) -> str:
    """Return the topic of a write for its description."""
    return "the topics of column 'topic'" if topic is None else f"topic {topic!r}"
