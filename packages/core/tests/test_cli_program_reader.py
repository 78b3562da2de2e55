"""Settings in a Python program are those that it gives to its producer, or a line says what is not read."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.foreign_program import settings_of_program
from ottla.config.translation import Client, Decided, Outcome


class MadeError(Exception):
    """The producer was made, with these settings."""

    def __init__(self, conf: dict[str, Any] | None = None, /, **arguments: Any) -> None:
        super().__init__()
        self.settings = {**(conf or {}), **arguments}


def settings_given(program: str) -> dict[str, Any]:
    """What a program gives to its first producer when it is run."""

    def make(*conf: Any, **arguments: Any) -> None:
        raise MadeError(*conf, **arguments)

    try:
        exec(program, {"Producer": make, "__name__": "__main__", "dumps": print})
    except MadeError as made:
        return made.settings
    raise AssertionError("no producer was made")


def read(program: str) -> dict[str, Any]:
    found, _client = settings_of_program(program)
    return {given.key: given.value for given in found}


def unread(program: str) -> list[tuple[int, str, str]]:
    """Line, subject and remark of each change that was not read."""
    found, _client = settings_of_program(program)
    return [
        (given.line, given.key, given.value.remark)
        for given in found
        if isinstance(given.value, Decided) and given.value.outcome is Outcome.FAILED
    ]


@pytest.mark.parametrize(
    "program",
    [
        "conf = {'a': 1}\nconf['b'] = 2\nconf['a'] = 3\nconf |= {'c': 4}\nProducer(conf)",
        "conf = {'a': 1}\nconf.update({'b': 2}, c=3)\nconf.update(d=4)\nProducer(conf)",
        "conf = {'a': 1}\nconf.setdefault('a', 2)\nconf.setdefault('b', 3)\nProducer(conf)",
        "conf = {'a': 1, 'b': 2, 'c': 3}\ndel conf['a']\nx = conf.pop('b')\nProducer(conf)",
        "conf = {'a': 1}\nconf.clear()\nconf['b'] = 2\nProducer(conf)",
        "conf = {'a': 1}\nconf = {'b': 2}\nProducer(conf)\nconf = {'c': 3}",
        "conf = {'a': 1}\nif True:\n    conf = {'b': 2}\nProducer(conf)",
        "conf: dict = {'a': 1}\nif __name__ == '__main__':\n    conf['b'] = 2\n    Producer(conf)",
        "base = {'a': 1}\nconf = {**base, 'b': 2}\nbase['c'] = 3\nProducer(conf)",
        "base = {'a': 1}\nconf = base.copy()\nconf['b'] = 2\nbase['c'] = 3\nProducer(base)",
        "import copy\nbase = {'a': 1}\nconf = copy.deepcopy(base)\nconf['b'] = 2\nProducer(conf)",
        "base = {'a': 1}\nother = base\nother['b'] = 2\nProducer(base)",
        "a = b = {'a': 1}\nb['b'] = 2\nProducer(a)",
        "conf = dict({'a': 1}, b=2)\nProducer(dict(conf, c=3), d=4)",
        "conf = {'a': 1} | {'b': 2}\nProducer(conf | {'a': 3})",
        "Producer(conf := {'a': 1})",
        "conf = {'a': 1}\nProducer(**conf, b=2)",
        "conf = {'a': 1}\ndef make():\n    conf = {'b': 2}\n    conf['c'] = 3\n    Producer(conf)\nmake()",
        "def make():\n    Producer(conf)\nconf = {'a': 1}\nconf['b'] = 2\nmake()",
        "conf = {'a': 1}\nmake = lambda: Producer(conf)\nconf['b'] = 2\nmake()",
        "def make():\n    global conf\n    conf = {'b': 2}\n    Producer(conf)\nmake()",
        "class P:\n    conf = {'a': 1}\n    conf['b'] = 2\n    Producer(conf)",
        "conf = {'a': 1}\nclass P:\n    conf = {'b': 2}\n    def make(self):\n        Producer(conf)\nP().make()",
        "class P:\n  def __init__(self):\n    self.c = {'a': 1}\n    self.c['b'] = 2\n    Producer(self.c)\nP()",
        "conf = {'a': 1}\ntry:\n    conf['b'] = 2\n    Producer(conf)\nexcept KeyError:\n    conf['c'] = 3",
        "conf = {'a': 1}\nfor x in [1]:\n    conf['b'] = 2\n    Producer(conf)\n    conf['c'] = 3",
        "conf = {'a': 1}\nwith open('/dev/null') as f:\n    conf['b'] = 2\nProducer(conf)",
        "conf = {'a': 1}\nif not conf:\n    conf['b'] = 2\nelse:\n    conf['c'] = 3\n    Producer(conf)",
        "conf = {'a': 1}\nprint(conf, conf['a'], conf.get('b'), 'a' in conf, [*conf.items()])\nProducer(conf)",
        "conf = {'a': 1}\ntry:\n    conf['b'] = 2\nexcept KeyError:\n    raise\nProducer(conf)",
        "conf = {'a': 1}\ntry:\n    x = 1\nexcept KeyError:\n    raise\nelse:\n    conf['b'] = 2\nProducer(conf)",
        "conf = {'a': 1}\ntry:\n    x = 1\nexcept KeyError:\n    x = 2\nelse:\n    conf['b'] = 2\n    Producer(conf)",
        "def other():\n    conf = {'b': 1}\n    conf['c'] = 2\nconf = {'a': 1}\nother()\nProducer(conf)",
        "def other(conf):\n    conf['c'] = 2\nconf = {'a': 1}\nProducer(conf)",
    ],
)
def test_the_settings_are_those_that_the_program_gives(program: str) -> None:
    assert read(program) == settings_given(program)


@pytest.mark.parametrize(
    ("program", "line", "subject", "remark"),
    [
        ("conf = {'a': 1}\nconf.update(extra)\nProducer(conf)", 2, "conf.update(...)", "written out"),
        ("conf = {'a': 1}\nconf |= extra\nProducer(conf)", 2, "conf |= ...", "written out"),
        ("conf = {'a': 1}\nconf[key] = 2\nProducer(conf)", 2, "conf[key]", "written out"),
        ("conf = {'a': 1}\nconf['a'], b = 1, 2\nProducer(conf)", 2, "conf['a']", "written out"),
        ("conf = {'a': 1}\nconf['a'] += 1\nProducer(conf)", 2, "conf['a']", "written out"),
        ("conf = {'a': 1}\ndel conf[key]\nProducer(conf)", 2, "del conf[key]", "written out"),
        ("conf = {'a': 1}\nconf.popitem()\nProducer(conf)", 2, "conf.popitem(...)", "written out"),
        ("conf = {'a': ['b']}\nconf['a'].append('c')\nProducer(conf)", 2, "conf['a'].append(...)", "written out"),
        ("conf = {'a': {}}\nconf['a']['b'] = 1\nProducer(conf)", 2, "conf['a']", "written out"),
        ("conf = {'a': 1, **extra}\nProducer(conf)", 1, "extra", "written out"),
        ("conf = {'a': 1, key: 2}\nProducer(conf)", 1, "key: ...", "written out"),
        ("Producer({'a': 1} | extra())", 1, "extra(...)", "written out"),
        ("conf = dict(extra(), a=1)\nProducer(conf)", 1, "extra(...)", "written out"),
        ("conf = {'a': 1}\nif debug:\n    conf['debug'] = 'all'\nProducer(conf)", 3, "conf['debug']", "a condition"),
        ("conf = {'a': 1}\nif x:\n    conf.update(b=1)\nProducer(conf)", 3, "conf.update(...)", "a condition"),
        ("conf = {'a': 1}\nfor k in x:\n    del conf['a']\nProducer(conf)", 3, "conf['a']", "a condition"),
        (
            "conf = {'a': 1}\nmatch x:\n    case 1:\n        conf['a'] = 2\nProducer(conf)",
            4,
            "conf['a']",
            "a condition",
        ),
        ("conf = {'a': 1}\nif x:\n    c = conf\n    c['b'] = 1\nProducer(conf)", 4, "c['b']", "a condition"),
        ("conf = {'a': 1}\ndef f():\n    conf['b'] = 2\nf()\nProducer(conf)", 3, "conf['b']", "function f"),
        ("conf = {'a': 1}\nf = lambda: conf.update(b=2)\nf()\nProducer(conf)", 2, "conf.update(...)", "a lambda"),
        ("c = {'a': 1}\ndef f():\n    c['b'] = 2\nf()\nd = c.copy()\nProducer(d)", 3, "c['b']", "the function f"),
        ("c = {'a': 1}\ndef f():\n    c['b'] = 2\nf()\nd = c\nc = 1\nProducer(d)", 3, "c['b']", "the function f"),
        ("c = {'a': 1}\ndef f():\n    c['b'] = 2\nf()\nd = c\nc = {}\nProducer(d)", 3, "c['b']", "the function f"),
        ("c = {'a': 1}\nx or c.update(b=2)\nProducer(c)", 2, "c.update(...)", "a condition"),
        ("c = {'a': 1}\ny = c.pop('a') if x else 1\nProducer(c)", 2, "c.pop(...)", "a condition"),
        ("c = {'a': 1}\n[c.update(b=y) for y in x]\nProducer(c)", 2, "c.update(...)", "a condition"),
        ("c = {'a': 1}\nu = c.update\nu(b=2)\nProducer(c)", 2, "c.update", "update may change it"),
        ("c = {'a': 1}\npartial(c.__setitem__, 'b')(2)\nProducer(c)", 2, "c.__setitem__", "may change it"),
        ("c = {'a': 1}\ndef g():\n    Producer(c)\ng()\nc['b'] = 2", 5, "c['b']", "after the function that makes"),
        ("c = {'a': 1}\ntry:\n    f()\n    c['b'] = 2\nexcept E:\n    pass\nProducer(c)", 4, "c['b']", "a condition"),
        ("c = {}\ntry:\n    f()\nexcept E:\n    pass\nelse:\n    c['b'] = 2\nProducer(c)", 7, "c['b']", "a condition"),
        ("c = {'a': 1}\nwith suppress(E):\n    c['b'] = f()\nProducer(c)", 3, "c['b']", "a condition"),
        ("conf = {'a': 1}\nadd_sasl(conf)\nProducer(conf)", 2, "add_sasl(conf)", "add_sasl may change it"),
        ("conf = {'a': 1}\nf(x=conf)\nProducer(conf)", 2, "f(conf)", "f may change it"),
        ("conf = {'a': 1}\nx = [conf]\nx[0]['b'] = 1\nProducer(conf)", 2, "conf", "another name"),
        ("conf = {'a': 1}\nx = {'p': conf}\nx['p']['b'] = 1\nProducer(conf)", 2, "conf", "another name"),
        ("self.c = {'a': 1}\nself.change()\nProducer(self.c)", 2, "self.change(...)", "change may change it"),
    ],
)
def test_a_change_that_is_not_read_is_reported(program: str, line: int, subject: str, remark: str) -> None:
    [(found_line, found_subject, found_remark)] = unread(program)

    assert (found_line, found_subject) == (line, subject)
    assert remark in found_remark


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("conf = load()\nProducer(conf)", "line 1 computes the settings"),
        ("conf = {'a': 1}\nconf = load()\nProducer(conf)", "line 2 computes the settings"),
        (
            "if x:\n    conf = {'a': 1}\nelse:\n    conf = {'a': 2}\nProducer(conf)",
            "line 4 sets the settings under a con",
        ),
        (
            "conf = {'a': 1}\ndef f():\n    global conf\n    conf = {}\nf()\nProducer(conf)",
            "line 4 sets the settings in",
        ),
        ("conf = {'a': 1}\ndef make(conf):\n    Producer(conf)\nmake({})", "line 2 computes the settings"),
        ("conf = {'a': 1}\n[Producer(conf) for conf in confs]", "line 2 computes the settings"),
        ("conf = {'a': 1}\ndel conf\nProducer(conf)", "line 2 computes the settings"),
        ("Producer(conf)", "line 1 computes the settings"),
        ("Producer(a if x else b)", "line 1 computes the settings"),
    ],
)
def test_settings_that_are_not_known_are_refused(program: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        settings_of_program(program)


def test_comments_show_no_values() -> None:
    changes = "conf.update(f('hunter2'))\nconf[g('hunter2')] = 1\nh(conf, password='hunter2')"
    program = f"conf = {{'a': 1}}\n{changes}\nProducer(conf)"

    assert "hunter2" not in str(unread(program))
    assert len(unread(program)) == 3


def test_the_first_producer_in_the_text_is_read_and_others_are_named() -> None:
    found, _client = settings_of_program("def make():\n    return Producer({'a': 1})\np = Producer({'b': 2})")

    assert [(given.line, given.key) for given in found] == [(2, "a"), (3, "Producer")]
    assert found[1].value == Decided(
        outcome=Outcome.LEFT_OUT, remark="only the first producer of a program is translated"
    )


@pytest.mark.parametrize(
    ("program", "client", "key"),
    [
        ("from confluent_kafka import Producer as KafkaProducer\nKafkaProducer({'a': 1})", Client.LIBRDKAFKA, "a"),
        ("from confluent_kafka import Producer as Theirs\nclass Producer: ...\nProducer(b=1)\nTheirs({'a': 1})",
         Client.LIBRDKAFKA, "a"),
        ("from kombu import Producer\nfrom kafka import KafkaProducer\nProducer(b=1)\nKafkaProducer(a=1)",
         Client.KAFKA_PYTHON, "a"),
        ("import kombu, kafka.producer\nkombu.Producer(b=1)\nkafka.producer.KafkaProducer(a=1)",
         Client.KAFKA_PYTHON, "a"),
        ("import aiokafka as client\nclient.AIOKafkaProducer(a=1)", Client.AIOKAFKA, "a"),
        ("import confluent_kafka as ck\nProducer(b=1)\nck.Producer({'a': 1})", Client.LIBRDKAFKA, "a"),
        ("from shop.kafka import Producer\nProducer({'a': 1})", Client.LIBRDKAFKA, "a"),
        ("from confluent_kafka.aio import AIOProducer as Producer\nProducer({'a': 1}, max_workers=3)",
         Client.LIBRDKAFKA, "a"),
    ],
)  # fmt: skip
def test_classes_that_are_imported_from_a_client_are_its_producers(program: str, client: Client, key: str) -> None:
    found, found_client = settings_of_program(program)

    assert (found_client, found[0].key) == (client, key)
    assert all(isinstance(other.value, Decided) for other in found[1:])


def test_the_size_of_a_pool_of_threads_is_left_out() -> None:
    found, _client = settings_of_program("AIOProducer(producer_conf={'a': 1}, max_workers=3, batch_size=1000)")

    assert [given.key for given in found] == ["a", "max_workers", "batch_size"]
    assert all(
        given.value == Decided(outcome=Outcome.LEFT_OUT, remark="it needs no pool of threads") for given in found[1:]
    )
