"""The choice of the cause among the findings, and its text."""

from __future__ import annotations

import pytest

from ottla.doctor import Examination, Finding, Step, Trouble, Verdict

TROUBLE = Trouble("it is broken", "mend it")


def ok(step: Step) -> Finding:
    return Finding(step=step, subject="good", verdict=Verdict.OK, said="fine")


def failed(step: Step, subject: str = "bad") -> Finding:
    return Finding.failed(step, subject, TROUBLE)


def cause_of(*findings: Finding) -> Finding | None:
    return Examination(findings=findings).cause


def test_without_a_failure_there_is_no_cause() -> None:
    warned = Finding(step=Step.TCP, subject="", verdict=Verdict.WARNING, said="")
    examination = Examination(findings=[ok(Step.TCP), warned, Finding.skipped(Step.TLS, "not used")])

    assert examination.healthy
    assert examination.cause is None


def test_the_first_failure_is_the_cause() -> None:
    first = failed(Step.NAMES, "first")

    assert cause_of(ok(Step.NAMES), first, ok(Step.TCP), failed(Step.TCP, "second")) is first


def test_a_step_that_nothing_passed_comes_before_one_that_something_passed() -> None:
    stopping = failed(Step.ADVERTISED)

    assert cause_of(failed(Step.TCP), ok(Step.TCP), stopping, failed(Step.TOPIC)) is stopping


def test_the_sentence_names_the_subject_what_is_wrong_and_what_to_change() -> None:
    assert failed(Step.TCP, "kafka:9092").sentence == "kafka:9092: it is broken; mend it."


def test_the_sentence_of_a_finding_without_subject_or_remedy_has_no_holes() -> None:
    assert Finding.failed(Step.CONFIGURATION, "", Trouble("it is broken.", "")).sentence == "it is broken."


@pytest.mark.parametrize(
    ("told", "trouble"),
    [
        ("a; b", Trouble("a", "b")),
        ("a; b; c", Trouble("a", "b; c")),
        ("a", Trouble("a", "else")),
        ("two\n  lines", Trouble("two lines", "else")),
    ],
)
def test_an_errors_remedy_is_what_follows_its_first_semicolon(told: str, trouble: Trouble) -> None:
    assert Trouble.of_error(OSError(told), remedy="else") == trouble


def test_an_error_without_words_is_told_by_its_kind() -> None:
    assert Trouble.of_error(BrokenPipeError(), remedy="else") == Trouble("BrokenPipeError", "else")
