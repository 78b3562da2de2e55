"""Files, URLs and logins that options of a producer may name; decided by the user who runs the program.

The author of the options may have fewer rights than the process: may not read its files, reach services next to it, or
act as its user. The lists come from the environment (`OTTLA_ALLOWED_URLS`, `OTTLA_ALLOWED_FILES`,
`OTTLA_ALLOWED_LOGINS`) or from the program (`allow`), never from options.
Plugins check here before they open what an option names. Java has the system properties
org.apache.kafka.sasl.oauthbearer.allowed.urls and .allowed.files for this (CVE-2025-27817).
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.config.regular_files import FileTooLargeError, content_of
from ottla.errors import printable, quoted

URLS: Final = "OTTLA_ALLOWED_URLS"
FILES: Final = "OTTLA_ALLOWED_FILES"
LOGINS: Final = "OTTLA_ALLOWED_LOGINS"

_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_HOST: Final = re.compile(r"[a-z0-9_][a-z0-9._-]*|[0-9a-f.]*:[0-9a-f:.]*")
_KERNEL: Final = ("/proc/", "/sys/")
"""File systems of the kernel, which options can never name: /proc/self/environ contains the secrets of the process."""

_LONGEST_PATH: Final = 4096

_lock: Final = threading.Lock()
_urls: set[str] | None = None
_files: set[str] = set()
_others: contextvars.ContextVar[str | None] = contextvars.ContextVar("ottla_options_of_others", default=None)


class NotAllowedError(ValueError):
    """An option names a file, a URL or a login that no list allows; the message says how to allow it."""


def allow(*, urls: Iterable[str] = (), files: Iterable[str] = ()) -> None:
    """Let options name these URLs and files, for all producers that this process makes from now on.

    Each entry of *urls* allows this URL only, and no other one of its server. Once any URL is listed, `https` URLs have
    to be listed, too. *files* are absolute paths; a path that ends with `/` allows everything in this folder. Raises
    ValueError.
    """
    global _urls
    if isinstance(urls, str) or isinstance(files, str):
        raise ValueError("urls and files must be lists of strings, not a string")
    more_urls, more_files = {normal_url(url) for url in urls}, set(files)
    relative = sorted(path for path in more_files if not os.path.isabs(path))
    if relative:
        raise ValueError(f"{relative[0]!r} is not an absolute path; files can only be allowed by absolute paths")
    with _lock:
        if more_urls:
            _urls = (_urls or set()) | more_urls
        _files.update(more_files)


@contextlib.contextmanager
def options_of_others(place: str = "the environment") -> Iterator[None]:
    """Treat options in this block as written by another user: `https` URLs have to be allowed, too.

    Errors use *place* to say where the environment variable is set; `{variable}` in it is replaced by its name.
    """
    token = _others.set(place)
    try:
        yield
    finally:
        _others.reset(token)


def from_others() -> bool:
    """Return whether the options that are read now may be written by a user other than the one who runs the program.

    If so, a plugin has to check every file that an option names (`check_file`), not only those whose content leaves
    the process.
    """
    return _others.get() is not None


def normal_url(url: str) -> str:
    """An http or https URL in the form in which URLs are compared. Raises ValueError, which does not quote the URL.

    Refuses users, fragments, blanks and backslashes, because URL parsers differ in how they read them.
    """
    if not url.isascii() or any(letter <= " " or letter in '\x7f\\"<>^`{|}' for letter in url):
        raise ValueError("it must be ASCII without blanks; write other characters as %XX")
    import urllib.parse  # imported late: only options that name a URL need it

    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("its host or port cannot be read") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError("it must be https://host/path, http://host/path or file:///path")
    if "@" in parts.netloc or "#" in url:
        raise ValueError("it must have neither a user nor a fragment (#) in it")
    if not _HOST.fullmatch(parts.hostname):
        raise ValueError("its host must be a name or an address, without escapes")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if parts.netloc.lower() not in (host, f"{host}:{port}"):  # such as "host:" and "host:0443"
        raise ValueError("its port must be a number without leading zeros")
    place = host if port in (None, _DEFAULT_PORTS[parts.scheme]) else f"{host}:{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{place}{parts.path or '/'}{query}"


def check_url(url: str) -> None:
    """Raise NotAllowedError if an option may not name this URL; ValueError if it is not a URL."""
    url = normal_url(url)
    listed = _listed_urls()
    if listed is None and url.startswith("https:") and not from_others():
        return
    if url in (listed or ()):
        return
    shown = url.partition("?")[0] + ("?<its query>" if "?" in url else "")
    if url.startswith("http:"):
        why = "http is not encrypted, so each http URL must be allowed"
    elif listed is None:
        why = "the options may come from a user other than the one who runs the program"
    else:
        why = "it is not in the list of allowed URLs"
    raise NotAllowedError(f"{shown} is not allowed: {why}; {_remedy(URLS, shown, 'urls')}")


def check_file(path: str) -> str:
    """The path, with links resolved, of a file that an option may name. Raises NotAllowedError."""
    if "\0" in path or not os.path.isabs(path):
        raise NotAllowedError(f"{quoted(path)} is not an absolute path")
    real = os.path.realpath(path)
    if real.startswith(_KERNEL):
        raise NotAllowedError(f"{quoted(path)} leads into /proc or /sys, from which options may never read")
    if not any(_covers(entry, real) for entry in _listed_files()):
        # The target of a link is not shown to users who may not read the file.
        through = "" if from_others() or real == os.path.normpath(path) else f" (which leads to {quoted(real)})"
        raise NotAllowedError(
            f"{quoted(path)}{through} may not be read: it is not in the list of allowed files; "
            f"{_remedy(FILES, printable(path, limit=_LONGEST_PATH), 'files')}{_slash_missing(path, real)}"
        )
    return real


def check_login(name: str, *, what: str) -> None:
    """Raise NotAllowedError if these options may not use the process's own credentials.

    *what* names the credentials in the error, for example Kerberos tickets. Options set by the user who runs the
    process may always use them, because that user ran `kinit`, too; options of others only if *name* is in the list.
    """
    listed = {entry.strip().lower() for entry in os.environ.get(LOGINS, "").split(",")}
    place = _others.get()
    if place is None or name.lower() in listed:
        return
    raise NotAllowedError(
        f"a login with {what} uses the identity of the process, and the options may come from another user; the user "
        f"who runs the process can allow it with {LOGINS}={name} in {place.format(variable=LOGINS)}"
    )


def read_file(path: str, *, max_bytes: int) -> bytes:
    """The content of a file that an option may name.

    Raises NotAllowedError; OSError, also if it is not a regular file; ValueError if it has more than *max_bytes* bytes.
    """
    real = check_file(path)
    try:
        return content_of(open_without_links(real), max_bytes=max_bytes)
    except FileTooLargeError:
        raise ValueError(f"{quoted(path)} has more than {max_bytes} bytes") from None


def _remedy(variable: str, value: str, argument: str) -> str:
    place = _others.get()
    if place is None:
        return (
            f"the user who runs the program can allow it with {variable}={value} in the environment, or with "
            f"ottla.allow({argument}=[...])"
        )
    return f"the user who runs the program can allow it with {variable}={value} in {place.format(variable=variable)}"


def _slash_missing(path: str, real: str) -> str:
    """A hint if the list names a folder of this file without a slash at the end, and so allows none of its files."""
    others = from_others()
    seen = os.path.normpath(path) if others else real  # the target of a link is not shown to others
    for entry in sorted(_listed_files()):
        folder = os.path.join(entry if others else os.path.realpath(entry), "")
        if not entry.endswith(("/", os.sep)) and seen.startswith(folder) and os.path.isdir(entry):
            return f"; the list has the folder {entry}: write {os.path.join(entry, '')} to allow the files in it"
    return ""


def _listed_urls() -> set[str] | None:
    """The listed URLs; None if there is no list."""
    written = os.environ.get(URLS)
    if written is None:
        return _urls
    found = set(_urls or ())
    for entry in written.split(","):
        with contextlib.suppress(ValueError):  # an entry that is not a URL allows none
            found.add(normal_url(entry.strip()))
    return found


def _listed_files() -> set[str]:
    written = {entry.strip() for entry in os.environ.get(FILES, "").split(",")}
    return _files | {entry for entry in written if os.path.isabs(entry)}


def _covers(entry: str, real: str) -> bool:
    """Return whether an entry allows a file.

    Resolves links of both: Kubernetes replaces a mounted secret by replacing a link.
    """
    target = os.path.realpath(entry)
    if entry.endswith(("/", os.sep)):
        return real.startswith(os.path.join(target, ""))
    return real == target


def open_without_links(real: str) -> int:
    """Open a path for reading, and return a descriptor that the caller has to close.

    No link is followed. Raises OSError if one has appeared in the path since it was checked.
    """
    no_wait = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its writer
    if sys.platform == "win32" or os.open not in os.supports_dir_fd:
        return os.open(real, os.O_RDONLY | getattr(os, "O_BINARY", 0) | no_wait)
    step = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    *folders, name = real.split(os.sep)[1:]
    folder = os.open(os.sep, step)
    try:
        for each in folders:
            below = os.open(each, step, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | no_wait, dir_fd=folder)
    finally:
        os.close(folder)
