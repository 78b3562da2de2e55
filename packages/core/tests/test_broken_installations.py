"""Broken installations: survived by every producer that does not choose them, refused by name for one that does."""

from __future__ import annotations

import json
import logging
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from command_runner import CliRunner
from ottla.cli.commands import ottla
from ottla.errors import ConfigError, OttlaError
from ottla.plugins.config_references import read_draft
from ottla.plugins.registry import KindName, Registry
from ottla.plugins.selection import Plugins, choose
from plugin_site import Site, plugin_site

site = plugin_site

SERVERS = {"bootstrap.servers": "127.0.0.1:9"}
KEYS: Mapping[str, str] = {
    "partitioner": "partitioner.class",
    "encoder": "record.encoder",
    "reporter": "metric.reporters",
    "interceptor": "interceptor.classes",
    "compressor": "compression.type",
    "serializer": "value.serializer",
    "transport": "connection.via",
}
"""The keys that choose a plugin, by kind."""

GOOD = """
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey

class Good:
    def partition(self, topic, key, view):
        return 0

@hookimpl
def ottla_partitioner():
    return Good()
"""
HANG = "import acme_released; acme_released.event.wait(60)"


def with_keys(returned: str) -> str:
    return f"{GOOD}\n@hookimpl\ndef ottla_config_keys():\n    {returned}\n"


def hook(body: str, *, name: str = "ottla_partitioner(config)") -> str:
    return f"from ottla.hookspecs import hookimpl\n@hookimpl\ndef {name}:\n    {body}\n"


def encoder(columns: str) -> str:
    made = hook("return Mine()", name="ottla_encoder()")
    return f"class Mine:\n    priority, record_cost = 1, 100\n    def columns(self, kind, limit): {columns}\n{made}"


def compressor(codec_id: str) -> str:
    methods = "def compress(self, chunks, *, level): ...\n    def decompress(self, buffer, *, limit): ..."
    made = hook("return Mine()", name="ottla_compressor()")
    return f"class Mine:\n    codec_id = {codec_id}\n    {methods}\n{made}"


USE_ENCODER = """
from ottla.hookspecs import hookimpl

class Mine:
    def serialize(self, topic, data, headers):
        return data

    def use_encoder(self, encoder):
        raise KeyError("boom")

@hookimpl
def ottla_serializer():
    return Mine()
"""


def with_attribute(line: str) -> str:
    return GOOD.replace("class Good:", f"class Good:\n    {line}")


TEXTLESS = "class Textless(Exception):\n    def __str__(self): raise RuntimeError\n    __repr__ = __str__"
TRUTHLESS = "class Truthless:\n    def __bool__(self): raise KeyError('no truth')"


@attrs.frozen
class Broken:
    """A package whose plugin cannot be used, and a part of the error for a producer that chooses it."""

    case: str
    source: str
    error: str
    kind: KindName = "partitioner"
    attr: str = ""

    @property
    def dist(self) -> str:
        return f"acme-{self.case}"


BROKEN = (
    Broken(
        "raises", "raise RuntimeError('boom')", "cannot be imported: RuntimeError: boom; install another version of"
    ),
    Broken("asserts", "assert False, 'boom'", "cannot be imported: AssertionError: boom; install another version of"),
    Broken("misses", "import no_such_library", "No module named 'no_such_library'; install what acme-misses needs, or"),
    Broken(
        "refuses", "raise ImportError('pip install acme-core')", "cannot be imported: ImportError: pip install acme"
    ),
    Broken("syntax", "def :", "cannot be imported: SyntaxError: invalid syntax"),
    Broken("nulls", "\0", "cannot be imported: "),
    Broken("exits", "import sys; sys.exit('bye')", "cannot be imported: SystemExit: bye; install another version of"),
    Broken("quits", "raise SystemExit", "cannot be imported: SystemExit; install another version of"),
    Broken("recursion", "def f(): f()\nf()", "cannot be imported: RecursionError"),
    Broken("memory", "raise MemoryError", "cannot be imported: MemoryError"),
    Broken("stops", "raise StopIteration", "cannot be imported: StopIteration"),
    Broken("prints", "print('HELLO'); import no_such_library", "No module named 'no_such_library'"),
    Broken("warns", "import warnings; warnings.warn('old', stacklevel=1)\n1 / 0", "cannot be imported: "),
    Broken("olderottla", "import ottla.not_any_more", "; it is made for another ottla than "),
    Broken("newerottla", "from ottla import NotYet", "; it is made for another ottla than "),
    Broken("nothing", GOOD, "cannot be imported: AttributeError", attr=":Nothing"),
    Broken("deeper", GOOD, "cannot be imported: AttributeError", attr=":Good.partition.nothing"),
    Broken("colon", GOOD, "is not an entry point; write 'module' or 'module:object'", attr=":"),
    Broken("call", GOOD, "is not an entry point; write 'module' or 'module:object'", attr=":Good()"),
    Broken("words", GOOD, "is not an entry point; write 'module' or 'module:object'", attr=" of mine"),
    Broken("nomodule", GOOD, "; install another version of acme-nomodule, or choose", attr=".sub"),
    Broken("newer", f"ottla_spec = 99\n{GOOD}", "upgrade ottla, or install an older acme-newer"),
    Broken("older", f"ottla_spec = 0\n{GOOD}", "upgrade acme-older"),
    Broken("spectext", f"ottla_spec = '1'\n{GOOD}", "upgrade acme-spectext"),
    Broken("spectuple", f"ottla_spec = (1, 2)\n{GOOD}", "upgrade acme-spectuple"),
    Broken("empty", "", "has no hook for its kind; it must implement ottla_partitioner"),
    Broken("unmarked", GOOD.replace("@hookimpl", ""), "mark ottla_partitioner with @ottla.hookspecs.hookimpl"),
    Broken(
        "keysunmarked",
        with_keys("return []").replace("@hookimpl\ndef ottla_config", "def ottla_config"),
        "does not declare its keys; mark ottla_config_keys with @ottla.hookspecs.hookimpl",
    ),
    Broken("misspelt", GOOD.replace("ottla_partitioner", "ottla_partitoner"), "ottla_partit"),
    Broken("otherkind", GOOD.replace("ottla_partitioner", "ottla_compressor"), "it must implement ottla_partitioner"),
    Broken("arguments", hook("...", name="ottla_partitioner(settings, client)"), "a parameter 'client'; "),
    Broken("class", f"{GOOD}class P:\n    def __init__(self, x): ...", "missing 1 required positional", attr=":P"),
    Broken("classraises", "class P:\n    def __init__(self): 1 / 0", "ZeroDivisionError", attr=":P"),
    Broken("returnsnone", hook("return None"), "ottla_partitioner returned nothing; it must return an object"),
    Broken("returnsclass", hook("return object"), "returned the class object, not an object"),
    Broken("returnsother", hook("return object()"), "is not a Partitioner: it lacks partition"),
    Broken(
        "uncallable", GOOD.replace("return Good()", "g = Good(); g.partition = 5; return g"), "are not methods: part"
    ),
    Broken(
        "hookraises", hook("raise RuntimeError('boom')"), "ottla_partitioner raised RuntimeError: boom; install another"
    ),
    Broken("hookexits", hook("raise SystemExit(3)"), "ottla_partitioner raised SystemExit: 3"),
    Broken("textless", f"{TEXTLESS}\nraise Textless", "cannot be imported: Textless; install another version of"),
    Broken("hooktextless", f"{TEXTLESS}\n{hook('raise Textless')}", "ottla_partitioner raised Textless; install"),
    Broken(
        "hookcancelled", hook("import asyncio; raise asyncio.CancelledError"), "ottla_partitioner raised CancelledError"
    ),
    Broken("group", "raise BaseExceptionGroup('two', [SystemExit(3)])", "cannot be imported: BaseExceptionGroup: two"),
    Broken("escapes", hook(r"raise RuntimeError('\x1b[2J\n' * 9999)"), r"raised RuntimeError: \x1b[2J\n\x1b[2J\n"),
    Broken(
        "lazymodule",
        f"{GOOD}\ndef __getattr__(name): raise RuntimeError('boom')",
        "reading its attribute ottla_spec raised RuntimeError: boom; install another version of acme-lazymodule",
    ),
    Broken("specunprintable", f"{TEXTLESS}\n{GOOD}\nottla_spec = Textless()", "made for hook specs of type Textless"),
    Broken(
        "itself",
        f"import ottla; ottla.Producer({{'bootstrap.servers': 'a:9', 'partitioner.class': 'mine'}})\n{GOOD}",
        "cannot be imported: InvalidPluginError: partitioner 'mine' of acme-itself 1.0",
    ),
    Broken("coroutine", GOOD.replace("def ottla", "async def ottla"), "ottla_partitioner only makes a generator or a"),
    Broken("generator", GOOD.replace("return Good()", "yield Good()"), "; write it without yield and async"),
    Broken(
        "wrapper",
        GOOD.replace("@hookimpl", "@hookimpl(wrapper=True)").replace("return Good()", "return (yield)"),
        "ottla_partitioner only makes a generator or a coroutine",
    ),
    Broken(
        "asyncmethod", GOOD.replace("def partition", "async def partition"), "whose partition only makes a generator"
    ),
    Broken("yieldingmethod", GOOD.replace("return 0", "yield 0"), "whose partition only makes a generator or a coro"),
    Broken(
        "asyncclose", with_attribute("async def close(self): ..."), "whose close only makes a generator or a coroutine"
    ),
    Broken("liar", with_attribute("def __getattr__(self, name): 1 / 0"), "raised ZeroDivisionError: division by zero"),
    Broken("classless", with_attribute("__class__ = property(lambda self: 1 / 0)"), "raised ZeroDivisionError"),
    Broken("flag", f"{TRUTHLESS}\n{with_attribute('sticky = Truthless()')}", "raised KeyError: 'no truth'"),
    Broken(
        "keysfail",
        with_keys("return type('Failing', (list,), {'__iter__': lambda self: 1 / 0})()"),
        "reading what ottla_config_keys returned raised ZeroDivisionError",
    ),
    Broken("keysyield", with_keys("yield"), "ottla_config_keys only makes a generator or a coroutine"),
    Broken("keysjunk", with_keys("return ['a', 'b']"), "ottla_config_keys must return a sequence of ConfigKey"),
    Broken("keysraise", with_keys("raise RuntimeError('boom')"), "ottla_config_keys raised RuntimeError: boom"),
    Broken(
        "keystype",
        with_keys("return [ConfigKey(name='mine.x', type='int', default=1, meaning='m')]"),
        "the type of mine.x is 'int', which cannot be called",
    ),
    Broken(
        "keystwice",
        with_keys("return [ConfigKey(name='mine.x', type=int, default=1, meaning='m')] * 2"),
        "mine.x is declared 2 times",
    ),
    Broken("encraises", "raise RuntimeError('boom')", "cannot be imported: RuntimeError: boom", kind="encoder"),
    Broken("encexits", "raise SystemExit(3)", "cannot be imported: SystemExit: 3", kind="encoder"),
    Broken("encnewer", "ottla_spec = 99", "install an older acme-encnewer", kind="encoder"),
    Broken("enchook", hook("1 / 0", name="ottla_encoder()"), "ottla_encoder raised ZeroDivision", kind="encoder"),
    Broken("encother", hook("return 5", name="ottla_encoder()"), "is not a RecordEncoder", kind="encoder"),
    Broken("enccolumns", encoder("1 / 0"), "failed in columns: ZeroDivisionError", kind="encoder"),
    Broken("encobject", encoder("return 5"), "returned builtins.int in columns, which is no ottla.", kind="encoder"),
    Broken("codec", compressor("[4]"), "codec_id of type builtins.list is none of Kafka's", kind="compressor"),
    Broken("codecfloat", compressor("4.0"), "codec_id of type builtins.float is none of Kafka's", kind="compressor"),
    Broken("reporter", "1 / 0", "cannot be imported: ZeroDivisionError", kind="reporter"),
    Broken("interceptor", "1 / 0", "cannot be imported: ZeroDivisionError", kind="interceptor"),
    Broken("compressor", "1 / 0", "cannot be imported: ZeroDivisionError", kind="compressor"),
    Broken("serializer", "1 / 0", "cannot be imported: ZeroDivisionError", kind="serializer"),
    Broken("transport", "1 / 0", "cannot be imported: ZeroDivisionError", kind="transport"),
)
INTERRUPTING = (
    Broken("interrupts", "raise KeyboardInterrupt", "raised while the partitioner 'mine' of acme-interrupts 1.0"),
    Broken("hookinterrupts", hook("raise KeyboardInterrupt"), "raised in ottla_partitioner of the partitioner 'mine'"),
)
HANGING = (
    Broken("hangs", f"{HANG}\n{GOOD}", "still waiting for the import of the partitioner 'mine' of acme-hangs 1.0"),
    Broken("hookhangs", GOOD.replace("return", f"{HANG}; return"), "still waiting for ottla_partitioner of the part"),
)
DAMAGED: Mapping[str, Callable[[pathlib.Path], object]] = {
    "no METADATA": lambda info: (info / "METADATA").unlink(),
    "METADATA is binary": lambda info: (info / "METADATA").write_bytes(b"\xff\xfe\0Name: \xff"),
    "METADATA is empty": lambda info: (info / "METADATA").write_text(""),
    "METADATA has no version": lambda info: (info / "METADATA").write_text("Name: acme-damaged\n"),
    "entry points are binary": lambda info: (info / "entry_points.txt").write_bytes(b"\xff\xfe\0"),
    "entry points without a section": lambda info: (info / "entry_points.txt").write_text("mine = acme\n"),
    "entry points without a value": lambda info: (info / "entry_points.txt").write_text("[ottla.partitioners]\nmine\n"),
    "entry points without a name": lambda info: (info / "entry_points.txt").write_text("[ottla.encoders]\n= acme\n"),
    "an unfinished section": lambda info: (info / "entry_points.txt").write_text("[ottla.partitioners"),
    "entry points are a folder": lambda info: make_folder(info / "entry_points.txt"),
    "a folder without files": lambda info: empty(info),
}


@pytest.fixture(autouse=True)
def released(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What hanging plugins wait for; set at the end, when their threads are joined."""
    event = threading.Event()
    monkeypatch.setitem(sys.modules, "acme_released", SimpleNamespace(event=event))
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name in ("ottla-plugin-condition", "chooser"):
            thread.join()


def make_folder(file: pathlib.Path) -> None:
    file.unlink()
    file.mkdir()


def empty(folder: pathlib.Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def install(site: Site, broken: Broken, *, name: str = "mine") -> None:
    site.install(broken.source, dist=broken.dist, name=name, kind=broken.kind, attr=broken.attr)


def chosen(**settings: Any) -> Plugins:
    registry = Registry()
    written = {key.replace("_", "."): value for key, value in settings.items()}
    return choose(read_draft({**SERVERS, **written}, registry=registry), registry)[1]


def imported() -> list[str]:
    return [name for name in sys.modules if name.startswith("ottla_test_")]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.case)
def test_a_broken_plugin_is_refused_with_its_name_package_and_remedy(site: Site, broken: Broken) -> None:
    install(site, broken)

    with pytest.raises(OttlaError) as caught:
        chosen(**{KEYS[broken.kind]: "mine"})

    assert f"{broken.kind} 'mine' of {broken.dist} 1.0" in str(caught.value)
    assert broken.error in str(caught.value)


@pytest.mark.parametrize("broken", INTERRUPTING, ids=lambda broken: broken.case)
def test_an_interruption_passes_with_a_note_that_names_the_plugin(site: Site, broken: Broken) -> None:
    install(site, broken)

    with pytest.raises(KeyboardInterrupt) as caught:
        chosen(partitioner_class="mine")

    assert broken.error in "".join(caught.value.__notes__)


@pytest.mark.parametrize("broken", HANGING, ids=lambda broken: broken.case)
def test_a_plugin_that_hangs_is_logged_while_it_is_waited_for(
    site: Site,
    broken: Broken,
    released: threading.Event,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.plugins.registry.slow_calls.SLOW", 0.05)
    caplog.set_level(logging.INFO)
    install(site, broken)
    chooser = threading.Thread(target=lambda: chosen(partitioner_class="mine"), name="chooser")
    chooser.start()
    deadline = time.monotonic() + 60
    while broken.error not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    released.set()
    chooser.join()

    # On a busy machine the calls before and after the one that hangs may be slow, too.
    mine = [record for record in caplog.records if "acme" in record.getMessage()]
    waiting = next(number for number, record in enumerate(mine) if broken.error in record.getMessage())
    call = broken.error.removeprefix("still waiting for ")
    ended = next(record for record in mine[waiting:] if record.getMessage().startswith(call))
    assert [mine[waiting].levelname, ended.levelname] == ["WARNING", "INFO"]
    assert " took " in ended.getMessage()


def test_a_plugin_works_where_no_thread_can_be_started(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    site.install(GOOD, name="good")
    monkeypatch.setattr(threading.Timer, "start", start)

    assert type(chosen(partitioner_class="good").partitioner).__name__ == "Good"


def test_an_interrupted_call_is_not_reported_as_slow_later(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin, started = threading.Timer.start, list[threading.Timer]()

    def start(timer: threading.Timer) -> None:
        begin(timer)
        started.append(timer)
        raise KeyboardInterrupt  # in the wait for the thread, which has been started

    site.install(GOOD, name="good")
    monkeypatch.setattr("ottla.plugins.registry.slow_calls.SLOW", 10.0)
    monkeypatch.setattr(threading.Timer, "start", start)
    with pytest.raises(KeyboardInterrupt):
        chosen(partitioner_class="good")
    for timer in started:
        timer.join(20)

    assert len(started) == 1
    assert caplog.messages == []


def test_a_slow_built_in_plugin_is_logged_at_its_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.plugins.registry.slow_calls.SLOW", 0.0)
    caplog.set_level(logging.INFO)
    chosen()

    assert "the import of the partitioner 'murmur2' of ottla " in caplog.text
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_a_broken_installation_affects_no_producer_that_does_not_use_it(
    site: Site, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for broken in (*BROKEN, *INTERRUPTING, *HANGING):
        install(site, broken)
    site.install(GOOD, dist="acme-good", name="good")

    assert type(chosen(partitioner_class="good").partitioner).__name__ == "Good"
    assert len(imported()) == 1
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


def test_a_misspelt_key_imports_no_installed_plugin(site: Site) -> None:
    for broken in (*BROKEN, *INTERRUPTING, *HANGING):
        install(site, broken)

    with pytest.raises(ConfigError, match=r"'lingr\.ms' is not a known key; did you mean 'linger\.ms'\?"):
        chosen(lingr_ms=5)
    assert imported() == []


def test_a_key_of_a_broken_plugin_is_unused_and_imports_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    install(site, BROKEN[0])
    chosen(mine_port=5)

    [record] = caplog.records
    assert "mine.port (not chosen: partitioner 'mine' of acme-raises 1.0" in record.getMessage()
    assert imported() == []


def test_the_list_of_plugins_has_every_broken_one_with_its_reason(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.plugin_commands._LONGEST", 3.0)
    everything = (*BROKEN, *INTERRUPTING, HANGING[0])
    for broken in everything:
        install(site, broken)

    result = CliRunner().invoke(ottla, ["plugins", "--json"])

    problems = {entry["distribution"]: entry["problem"] for entry in json.loads(result.stdout)["plugins"]}
    assert result.exit_code == 0
    assert [broken.case for broken in everything if problems[broken.dist] is None] == []


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_metadata_disturbs_no_other_package(
    site: Site, tmp_path: pathlib.Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.install("1 / 0", dist="acme-damaged", name="mine")
    DAMAGED[damage](tmp_path / "acme-damaged-1.0.dist-info")
    site.install(GOOD, dist="acme-good", name="good")

    assert type(chosen(partitioner_class="good").partitioner).__name__ == "Good"
    assert all(str(tmp_path) in record.getMessage() for record in caplog.records)
    with pytest.raises(OttlaError, match="'mine'"):
        chosen(partitioner_class="mine")


def refuse_all(distribution: Distribution) -> None:
    raise ValueError("Invalid object reference")


def test_a_wrong_line_hides_no_other_entry_point_of_its_file(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site.install(GOOD, dist="acme-good", name="good")
    site.install(GOOD, attr=":Good()", name="call")
    site.install_metadata("acme-lines", "[console_scripts]\nonly-a-name\n[ottla.partitioners]\n# none\n")
    monkeypatch.setattr(Distribution, "entry_points", property(refuse_all))  # as Python 3.15, for one value

    assert type(chosen(partitioner_class="good").partitioner).__name__ == "Good"
    with pytest.raises(OttlaError, match="is not an entry point; write 'module' or 'module:object'"):
        chosen(partitioner_class="call")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("ottla.")]
    assert {line.rpartition(": ")[2] for line in lines} == {"only-a-name"}


def test_names_of_a_package_cannot_hide_or_move_text(site: Site, tmp_path: pathlib.Path) -> None:
    site.install("1 / 0", dist="acme", name="mine")
    metadata = "Metadata-Version: 2.1\nName: acme\x1b[2J\nVersion: 1.0\u202e\n"
    (tmp_path / "acme-1.0.dist-info" / "METADATA").write_text(metadata, encoding="utf-8")

    with pytest.raises(OttlaError) as caught:
        chosen(partitioner_class="mine")

    assert "of acme\\x1b[2J 1.0\\u202e " in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise SystemExit(3)", "the key's type raised SystemExit instead of ValueError or TypeError"),
        ("raise Textless", "the key's type raised Textless instead of ValueError or TypeError"),
        ("raise type('Wrong', (Textless, ValueError), {})", "mine.x='5': it is not accepted"),
    ],
)
def test_a_key_whose_type_misbehaves_is_a_problem_of_the_configuration(site: Site, line: str, said: str) -> None:
    key = "return [ConfigKey(name='mine.x', type=convert, default=1, meaning='m')]"
    site.install(f"{with_keys(key)}\n{TEXTLESS}\ndef convert(written):\n    {line}\n", name="mine")

    with pytest.raises(ConfigError) as caught:
        chosen(partitioner_class="mine", mine_x="5")

    assert said in str(caught.value)
    assert "partitioner 'mine' of acme 1.0" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "class_"),
    [
        (
            "interceptor",
            "ottla_spec = 2\nclass Mine:\n    def on_send(self, record): return record\n"
            "    async def on_acknowledgement(self, metadata, error, context): ...",
        ),
        ("reporter", "class Mine:\n    async def start(self, registry): ...\n    def close(self): ..."),
        ("serializer", "class Mine:\n    async def serialize(self, topic, data, headers): ..."),
    ],
)
def test_a_method_that_nothing_awaits_is_refused(site: Site, kind: KindName, class_: str) -> None:
    site.install(f"{class_}\n{hook('return Mine()', name=f'ottla_{kind}()')}", name="mine", kind=kind)

    with pytest.raises(OttlaError, match=r"only makes a generator or a coroutine: write it without yield and async"):
        chosen(**{KEYS[kind]: "mine"})


def test_a_serializer_that_fails_with_the_encoder_is_named(site: Site) -> None:
    site.install(USE_ENCODER, name="mine", kind="serializer")

    with pytest.raises(
        OttlaError, match=r"the serializer 'mine' of acme 1\.0 .* failed in use_encoder: KeyError: 'boom'; "
    ):
        chosen(value_serializer="mine")


def test_a_plugin_in_a_misspelt_group_is_found_for_the_error(site: Site) -> None:
    site.install_metadata("acme", "[ottla.partitioner]\nmine = acme\n")

    with pytest.raises(
        OttlaError, match=r"one in the group 'ottla\.partitioner', which its author must correct to 'ott"
    ):
        chosen(partitioner_class="mine")


def test_two_packages_without_names_are_two(site: Site, tmp_path: pathlib.Path) -> None:
    for number in (1, 2):
        site.install(GOOD, dist=f"nameless{number}", name=f"mine{number}")
        (tmp_path / f"nameless{number}-1.0.dist-info" / "METADATA").unlink()

    assert {chosen(partitioner_class=name).partitioner is not None for name in ("mine1", "mine2")} == {True}


@pytest.mark.parametrize("raised", [AttributeError, AssertionError, ValueError])
def test_an_entry_point_that_cannot_be_parsed_is_reported_on_every_python(
    site: Site, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def module(entry: object) -> str:
        raise raised

    site.install(GOOD, attr=" of mine")
    monkeypatch.setattr("importlib.metadata.EntryPoint.module", property(module))

    with pytest.raises(OttlaError, match="is not an entry point; write 'module' or 'module:object'"):
        chosen(partitioner_class="first")


def test_a_finder_that_fails_leaves_the_packages_before_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def find_distributions(context: object) -> Iterator[Any]:
        raise RuntimeError("boom")

    site.install(GOOD, name="good")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, SimpleNamespace(find_distributions=find_distributions)])

    assert chosen(partitioner_class="good")
    assert "the installed packages cannot be listed completely: RuntimeError: boom" in caplog.text


def test_a_plugin_that_a_list_names_twice_is_refused(site: Site) -> None:
    site.install(GOOD.replace("ottla_partitioner", "ottla_interceptor"), name="mine", kind="interceptor")

    with pytest.raises(ConfigError, match="is named 2 times, as mine and acme:mine; leave one"):
        chosen(interceptor_classes="mine, acme:mine")
