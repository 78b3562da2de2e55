"""Diagnosis of problems between a program and its Kafka cluster, step by step, with what to change."""

from ottla.doctor.examination import DEFAULT_TIMEOUT, examine
from ottla.doctor.findings import Examination, Finding, Problem, Status, Step

__all__ = ["DEFAULT_TIMEOUT", "Examination", "Finding", "Problem", "Status", "Step", "examine"]
