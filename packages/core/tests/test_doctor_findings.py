"""The choice of the cause among the findings, and its text."""

from __future__ import annotations

import pytest

from ottla.doctor import Examination, Finding, Problem, Status, Step

PROBLEM = Problem("it is broken", "mend it")


def ok(step: Step) -> Finding:
    return Finding(step=step, subject="good", status=Status.OK, message="fine")


def failed(step: Step, subject: str = "bad") -> Finding:
    return Finding.failed(step, subject, PROBLEM)


def cause_of(*findings: Finding) -> Finding | None:
    return Examination(findings=findings).cause


def test_without_a_failure_there_is_no_cause() -> None:
    warned = Finding(step=Step.TCP, subject="", status=Status.WARNING, message="")
    examination = Examination(findings=[ok(Step.TCP), warned, Finding.skipped(Step.TLS, "not used")])

    assert examination.healthy
    assert examination.cause is None


def test_the_first_failure_is_the_cause() -> None:
    first = failed(Step.NAMES, "first")

    assert cause_of(ok(Step.NAMES), first, ok(Step.TCP), failed(Step.TCP, "second")) is first


def test_a_step_that_failed_everywhere_comes_before_a_partial_failure() -> None:
    stopping = failed(Step.ADVERTISED)

    assert cause_of(failed(Step.TCP), ok(Step.TCP), stopping, failed(Step.TOPIC)) is stopping


def test_the_sentence_names_subject_problem_and_remedy() -> None:
    assert failed(Step.TCP, "kafka:9092").sentence == "kafka:9092: it is broken; mend it."


def test_the_sentence_without_subject_or_remedy_is_complete() -> None:
    assert Finding.failed(Step.CONFIGURATION, "", Problem("it is broken.", "")).sentence == "it is broken."


@pytest.mark.parametrize(
    ("reported", "problem"),
    [
        ("a; b", Problem("a", "b")),
        ("a; b; c", Problem("a", "b; c")),
        ("a", Problem("a", "else")),
        ("two\n  lines", Problem("two lines", "else")),
    ],
)
def test_the_remedy_of_an_error_is_the_text_after_its_first_semicolon(reported: str, problem: Problem) -> None:
    assert Problem.of_error(OSError(reported), remedy="else") == problem


def test_an_error_without_a_message_is_reported_by_its_class() -> None:
    assert Problem.of_error(BrokenPipeError(), remedy="else") == Problem("BrokenPipeError", "else")
