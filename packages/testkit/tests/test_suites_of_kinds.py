"""Each kind of plugins has a suite of conformance and a template, so that authors can begin and check one."""

from __future__ import annotations

from importlib.resources import files

from ottla.plugins.registry import KINDS
from ottla_testkit import conformance
from ottla_testkit.conformance import check


def test_every_kind_of_plugins_has_a_suite_and_a_template() -> None:
    without_suite = [kind for kind in KINDS if kind not in check._SUITES]
    assert not without_suite, "add a class to ottla_testkit.conformance, and its row to _SUITES in conformance/check.py"
    assert {suite.name for suite in check._SUITES.values()} <= set(conformance.__all__)

    templates = files("ottla_testkit") / "template"
    without_template = [kind for kind in KINDS if not (templates / kind).is_dir()]
    assert not without_template, "add a folder of this name to ottla_testkit/template, like those of the other kinds"
