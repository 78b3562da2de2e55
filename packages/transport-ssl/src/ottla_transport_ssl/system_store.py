"""The system's trusted certificates, read completely before the first connection.

OpenSSL would read their folder during a handshake, which is on the I/O thread: a network file system that does not
respond would then block every connection.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.errors import has_too_many_files

_HASHED: Final = re.compile(r"[0-9a-f]{8}\.[0-9]+")
"""Names that OpenSSL reads in the folder; `openssl rehash` creates them."""


def places() -> Sequence[str]:
    """Return the file and the folders of OpenSSL's authorities, or SSL_CERT_FILE and SSL_CERT_DIR."""
    if sys.platform == "win32":
        return ()
    paths = ssl.get_default_verify_paths()
    file = os.environ.get(paths.openssl_cafile_env, paths.openssl_cafile)
    folders = os.environ.get(paths.openssl_capath_env, paths.openssl_capath)
    return [place for place in (file, *folders.split(os.pathsep)) if place]


def trust_system(context: ssl.SSLContext) -> None:
    """Trust these authorities. Raises OSError if too many files are open; other unreadable files are skipped."""
    if sys.platform == "win32":  # Windows has a store, which Python reads completely
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    known = b""
    for file in (file for place in places() for file in _files(place)):
        try:
            content = _read(file)
            if content.strip() not in known:  # on Debian the file has the same certificates as the folder
                context.load_verify_locations(cafile=file)
        except ssl.SSLError:
            continue  # not a certificate; OpenSSL skips it, too
        except OSError as error:
            if has_too_many_files(error):
                raise
        else:
            known = known or content


def _read(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read()


def _files(place: str) -> Iterator[str]:
    """Yield the file itself, or those of the folder that OpenSSL would read."""
    try:
        names = sorted(os.listdir(place))
    except NotADirectoryError:
        names = []
        if _is_file(place):
            yield place
    except OSError as error:
        if has_too_many_files(error):
            raise
        return
    for name in names:
        if _HASHED.fullmatch(name) and _is_file(path := os.path.join(place, name)):
            yield path


def _is_file(path: str) -> bool:
    """Return whether the path is a regular file: opening a pipe would block until it has a writer."""
    with contextlib.suppress(OSError):
        return stat.S_ISREG(os.stat(path).st_mode)
    return False
