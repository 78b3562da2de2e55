"""Options name only the URLs and files that the user who runs the program allows, however they are written."""

from __future__ import annotations

import os
import socket
import string
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ottla
from ottla.config import allow_lists
from ottla.config.allow_lists import (
    NotAllowedError,
    check_file,
    check_login,
    check_url,
    normal_url,
    options_of_others,
    read_file,
)

IDP = "https://idp.example.com/realms/x/token"


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(allow_lists.URLS, raising=False)
    monkeypatch.delenv(allow_lists.FILES, raising=False)
    monkeypatch.setattr(allow_lists, "_urls", None)
    monkeypatch.setattr(allow_lists, "_files", set())


@pytest.fixture
def allow_urls(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv(allow_lists.URLS, f"{IDP}, http://127.0.0.1:8080/token")
    return monkeypatch


# URLs


def test_https_is_allowed_and_http_is_not() -> None:
    check_url(IDP)
    with pytest.raises(NotAllowedError) as caught:
        check_url("http://127.0.0.1:8080/token")

    assert str(caught.value) == (
        "http://127.0.0.1:8080/token is not allowed: http is not encrypted, so each http URL must be allowed; the user "
        "who runs the program can allow it with OTTLA_ALLOWED_URLS=http://127.0.0.1:8080/token in the environment, "
        "or with ottla.allow(urls=[...])"
    )


@pytest.mark.rule("security.allowed.urls")
def test_options_of_others_need_https_allowed_too() -> None:
    with options_of_others("the driver's {variable}"), pytest.raises(NotAllowedError) as caught:
        check_url(IDP)
    check_url(IDP)

    assert str(caught.value) == (
        f"{IDP} is not allowed: the options may come from a user other than the one who runs the program; the user who "
        f"runs the program can allow it with OTTLA_ALLOWED_URLS={IDP} in the driver's OTTLA_ALLOWED_URLS"
    )


def test_the_target_of_a_link_is_reported_only_to_the_operator(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("secret-place")
    with pytest.raises(NotAllowedError, match="secret-place"):
        check_file(str(tmp_path / "link"))
    with options_of_others(), pytest.raises(NotAllowedError) as caught:
        check_file(str(tmp_path / "link"))

    assert "secret-place" not in str(caught.value)


@pytest.mark.rule("security.allowed.urls")
@pytest.mark.parametrize("url", [IDP, "HTTPS://IDP.example.com:443/realms/x/token", "http://127.0.0.1:8080/token"])
def test_urls_allowed_by_the_environment_are_allowed(allow_urls: pytest.MonkeyPatch, url: str) -> None:
    check_url(url)
    with options_of_others():
        check_url(url)


@pytest.mark.rule("security.allowed.urls")
@pytest.mark.parametrize(
    "url",
    [
        "https://idp.example.com/realms/x/token?tenant=7",
        "https://idp.example.com/realms/x/token/",
        "https://idp.example.com/realms/x/../x/token",
        "https://idp.example.com/realms/x/%74oken",
        "https://idp.example.com/realms/X/token",
        "https://idp.example.com//realms/x/token",
        "https://idp.example.com./realms/x/token",
        "https://idp.example.com:8443/realms/x/token",
        "http://idp.example.com/realms/x/token",
        "http://idp.example.com:443/realms/x/token",
        "http://127.0.0.1/token",
        "http://localhost:8080/token",
        "http://[::1]:8080/token",
        "http://2130706433:8080/token",
    ],
)
def test_only_the_whole_url_is_allowed(allow_urls: pytest.MonkeyPatch, url: str) -> None:
    with pytest.raises(NotAllowedError, match="OTTLA_ALLOWED_URLS="):
        check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://idp.example.com@evil.example.com/realms/x/token",
        "https://evil.example.com#@idp.example.com/realms/x/token",
        "https://idp.example.com\\@evil.example.com/realms/x/token",
        "https://idp.example.com%2f@evil.example.com/realms/x/token",
        "https://idp%2eexample.com/realms/x/token",
        "https://idp.example.com\t/realms/x/token",
        " https://idp.example.com/realms/x/token",
        "https://idp\u3002example\u3002com/realms/x/token",
        "https://[::1%25eth0]/token",
        "https://idp.example.com:/realms/x/token",
        "https://idp.example.com:0443/realms/x/token",
        "https://idp.example.com:+443/realms/x/token",
        "https:idp.example.com/realms/x/token",
        "file:///etc/passwd",
        "ftp://idp.example.com/",
        "",
    ],
)
def test_urls_that_parsers_may_read_differently_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"it must|its (host|port)"):
        check_url(url)


def test_a_query_is_compared_and_not_shown(allow_urls: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotAllowedError) as caught:
        check_url(f"{IDP}?key=secret")
    assert "secret" not in str(caught.value)
    allow_urls.setenv(allow_lists.URLS, f"{IDP}?key=secret")

    check_url(f"{IDP}?key=secret")


@pytest.mark.rule("security.allowed.urls")
def test_an_empty_list_allows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(allow_lists.URLS, "")

    with pytest.raises(NotAllowedError, match="it is not in the list of allowed URLs"):
        check_url(IDP)


def test_the_program_itself_may_allow_urls_and_files(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc")
    ottla.allow(urls=["http://127.0.0.1:8080/token"], files=[str(tmp_path / "token")])

    check_url("http://127.0.0.1:8080/token")
    assert read_file(str(tmp_path / "token"), max_bytes=9) == b"abc"
    with pytest.raises(NotAllowedError):
        check_url(IDP)


def test_entries_that_cannot_be_allowed_are_refused() -> None:
    with pytest.raises(ValueError, match="'token' is not an absolute path"):
        ottla.allow(files=["token"])
    with pytest.raises(ValueError, match="it must be https"):
        ottla.allow(urls=["token"])
    with pytest.raises(ValueError, match="must be lists of strings"):
        ottla.allow(urls=IDP)
    with pytest.raises(ValueError, match="must be lists of strings"):
        ottla.allow(files="/")


SPELT = (
    "https:// HTTPS:// http:// idp.example.com IDP.example.com evil.example.com @ : :443 :0443 :80 / /realms/x/token "
    ".. . %2e %2F \\ # ? // \t \n \x00 [::1] \u2025 ; , *"
)
PIECES = st.sampled_from(SPELT.split(" "))


@pytest.mark.rule("security.allowed.urls")
@given(st.lists(PIECES, max_size=8).map("".join) | st.text() | st.text(string.printable).map(IDP.__add__))
def test_no_spelling_passes_except_that_of_the_allowed_url(url: str) -> None:
    """A URL that is let through is, character by character, the allowed one in its normal form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(allow_lists.URLS, IDP)
        try:
            check_url(url)
        except ValueError:
            return
    assert normal_url(url) == IDP
    assert url[: len("https://idp.example.com")].lower() == "https://idp.example.com"
    assert url[len("https://idp.example.com") :].removeprefix(":443").removesuffix("?") == "/realms/x/token"


@given(st.lists(PIECES, max_size=8).map("".join) | st.text())
def test_a_normal_url_stays_unchanged(url: str) -> None:
    try:
        normal = normal_url(url)
    except ValueError:
        return
    assert normal_url(normal) == normal


# Files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is allowed, with a file; a secret is next to it."""
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "token").write_text("abc")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "allowed-not").mkdir()
    (tmp_path / "allowed-not" / "token").write_text("secret")
    monkeypatch.setenv(allow_lists.FILES, f"{tmp_path}/allowed/")
    return tmp_path / "allowed"


def test_no_file_is_allowed_by_default_and_the_error_names_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("abc")
    with pytest.raises(NotAllowedError) as caught:
        read_file(str(path), max_bytes=9)

    assert f"OTTLA_ALLOWED_FILES={path} in the environment, or with ottla.allow(files=[...])" in str(caught.value)


def test_a_file_in_an_allowed_folder_is_read(folder: Path) -> None:
    assert read_file(str(folder / "token"), max_bytes=3) == b"abc"
    assert read_file(f"{folder}/../allowed/./token", max_bytes=3) == b"abc"


def test_a_listed_folder_without_its_slash_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("abc")
    monkeypatch.setenv(allow_lists.FILES, str(tmp_path))
    hint = f"; the list has the folder {tmp_path}: write {tmp_path}/ to allow the files in it"
    with pytest.raises(NotAllowedError) as caught:
        check_file(str(tmp_path / "token"))
    assert str(caught.value).endswith(hint)
    with options_of_others(), pytest.raises(NotAllowedError) as caught:
        check_file(f"{tmp_path}/below/../token")
    assert str(caught.value).endswith(hint)
    monkeypatch.setenv(allow_lists.FILES, f"{tmp_path}/")

    check_file(str(tmp_path / "token"))


def test_no_hint_names_another_entry_or_the_target_of_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "listed").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "listed" / "token")
    monkeypatch.setenv(allow_lists.FILES, f"{tmp_path}/listed,{tmp_path}/lis,{tmp_path}/other")
    with options_of_others(), pytest.raises(NotAllowedError) as caught:
        check_file(str(tmp_path / "link"))
    assert "the list has" not in str(caught.value)
    with pytest.raises(NotAllowedError) as caught:
        check_file(str(tmp_path / "listed-too"))

    assert "the list has" not in str(caught.value)


@pytest.mark.rule("security.allowed.logins")
def test_only_options_of_others_need_process_logins_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(allow_lists.LOGINS, raising=False)
    check_login("kerberos", what="Kerberos' tickets")
    for listed in ("", "aws", "kerberos2"):
        monkeypatch.setenv(allow_lists.LOGINS, listed)
        with options_of_others("the driver, as {variable}"), pytest.raises(NotAllowedError) as caught:
            check_login("kerberos", what="Kerberos' tickets")
        assert str(caught.value) == (
            "a login with Kerberos' tickets uses the identity of the process, and the options may come from another "
            "user; the user who runs the process can allow it with OTTLA_ALLOWED_LOGINS=kerberos in the driver, as "
            "OTTLA_ALLOWED_LOGINS"
        )
    monkeypatch.setenv(allow_lists.LOGINS, "aws, Kerberos")

    with options_of_others():
        check_login("kerberos", what="Kerberos' tickets")


@pytest.mark.rule("security.allowed.files")
@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/../allowed-not/token",
        "-not/token",
        "/link",
        "/loop",
        "/links/secret",
        "",
        "/missing/../../secret",
    ],
)
def test_no_path_leaves_the_allowed_folder(folder: Path, path: str) -> None:
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "links").symlink_to(folder.parent)
    (folder / "loop").symlink_to(folder / "loop")

    with pytest.raises((NotAllowedError, OSError)):
        read_file(f"{folder}{path}", max_bytes=99)


NAMES = st.sampled_from(
    ["..", ".", "allowed", "allowed-not", "secret", "token", "link", "links", "ALLOWED", "", "x", "~", "*"]
)


@pytest.mark.rule("security.allowed.files")
@given(st.lists(NAMES, max_size=8))
def test_every_file_that_is_read_is_in_the_allowed_folder(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    root = tmp_path_factory.getbasetemp() / "walks"
    if not root.exists():
        (root / "allowed" / "x").mkdir(parents=True)
        (root / "allowed" / "token").write_text("abc")
        (root / "secret").write_text("secret")
        (root / "allowed" / "link").symlink_to(root / "secret")
        (root / "allowed" / "links").symlink_to(root)
        (root / "links").symlink_to(root / "allowed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(allow_lists.FILES, f"{root}/allowed/")
        try:
            content = read_file("/".join([str(root), *names]), max_bytes=99)
        except (NotAllowedError, OSError):
            return
    assert content == b"abc"


def test_an_allowed_link_may_change_its_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kubernetes renews what it mounts."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_text(version)
    (tmp_path / "data").symlink_to("1")
    (tmp_path / "token").symlink_to("data/token")
    monkeypatch.setenv(allow_lists.FILES, f"/somewhere,{tmp_path}/token")
    assert read_file(f"{tmp_path}/token", max_bytes=9) == b"1"
    (tmp_path / "data").unlink()
    (tmp_path / "data").symlink_to("2")

    assert read_file(f"{tmp_path}/token", max_bytes=9) == b"2"


@pytest.mark.rule("security.allowed.files")
@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="there is no /proc")
@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "//proc/self/environ", "/proc/1/environ", "/dev/fd/0", "/sys/kernel/profiling"]
)
def test_files_of_proc_and_similar_views_are_never_read(
    monkeypatch: pytest.MonkeyPatch, path: str, tmp_path: Path
) -> None:
    monkeypatch.setenv(allow_lists.FILES, f"/,/proc/,{path}")
    (tmp_path / "link").symlink_to(path)

    for each in (path, str(tmp_path / "link")):
        with pytest.raises((NotAllowedError, OSError)) as caught:
            read_file(each, max_bytes=99)
        assert "leads into /proc or /sys" in str(caught.value) or "not a regular file" in str(caught.value)


@pytest.mark.rule("security.allowed.files")
def test_a_special_file_is_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
        for name in ("pipe", "folder", "socket"):
            with pytest.raises(OSError, match=r"regular file|No such device|Is a directory"):
                read_file(str(folder / name), max_bytes=99)


def test_a_device_is_refused_without_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(allow_lists.FILES, "/dev/zero")

    with pytest.raises(OSError, match="not a regular file"):
        read_file("/dev/zero", max_bytes=99)


def test_a_large_file_is_refused(folder: Path) -> None:
    (folder / "large").write_bytes(b"x" * 100)

    with pytest.raises(ValueError, match="has more than 99 bytes"):
        read_file(str(folder / "large"), max_bytes=99)


@pytest.mark.parametrize("path", ["token", "", "./token", "/a\0b", "~/token"])
def test_a_path_must_be_absolute(path: str) -> None:
    with pytest.raises(NotAllowedError, match="is not an absolute path"):
        check_file(path)


@pytest.mark.rule("security.allowed.files")
def test_a_link_that_appears_after_the_check_is_not_followed(folder: Path) -> None:
    real = check_file(str(folder / "token"))
    (folder / "token").unlink()
    (folder / "token").symlink_to(folder.parent / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        allow_lists.open_without_links(real)
    (folder / "token").unlink()
    folder.rename(folder.parent / "moved")
    folder.symlink_to(folder.parent / "allowed-not")

    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        allow_lists.open_without_links(real)


def test_an_entry_allowed_in_one_thread_is_allowed_in_all() -> None:
    ottla.allow(urls=["http://127.0.0.1:1/"])
    failed: list[Exception] = []

    def check() -> None:
        try:
            check_url("http://127.0.0.1:1/")
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=check)
    thread.start()
    thread.join(20)
    assert failed == []


def test_an_invalid_url_in_the_environment_allows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(allow_lists.URLS, "*,https://,,idp.example.com,https://*/,https://idp.example.com/*")
    for url in (IDP, "https://idp.example.com/"):
        with pytest.raises(NotAllowedError):
            check_url(url)


@given(st.text())
def test_a_path_in_an_error_is_one_line(path: str) -> None:
    with pytest.raises(NotAllowedError) as caught:
        check_file(f"/nowhere/{path}" if "\0" not in path else path)
    assert str(caught.value).isprintable()
