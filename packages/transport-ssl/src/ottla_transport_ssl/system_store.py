"""The system's authorities, read whole before the first connection.

OpenSSL would look into their folder in the middle of a handshake, which is on the I/O thread: a folder on a network
file system that does not answer would then keep every connection waiting.
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

from ottla.errors.open_files import exhausted

_HASHED: Final = re.compile(r"[0-9a-f]{8}\.[0-9]+")
"""The names that OpenSSL looks for in the folder, which `openssl rehash` makes."""


def places() -> Sequence[str]:
    """The file and the folders where OpenSSL has its authorities, or SSL_CERT_FILE and SSL_CERT_DIR."""
    if sys.platform == "win32":
        return ()
    paths = ssl.get_default_verify_paths()
    file = os.environ.get(paths.openssl_cafile_env, paths.openssl_cafile)
    folders = os.environ.get(paths.openssl_capath_env, paths.openssl_capath)
    return [place for place in (file, *folders.split(os.pathsep)) if place]


def trust_system(context: ssl.SSLContext) -> None:
    """Have the context trust them. OSError: too many files are open; what else cannot be read is passed over."""
    if sys.platform == "win32":  # a store of Windows, which Python reads whole
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    known = b""
    for file in (file for place in places() for file in _files(place)):
        try:
            content = _read(file)
            if content.strip() not in known:  # on Debian the file has what the folder has
                context.load_verify_locations(cafile=file)
        except ssl.SSLError:
            continue  # no certificate, as for OpenSSL
        except OSError as error:
            if exhausted(error):
                raise
        else:
            known = known or content


def _read(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read()


def _files(place: str) -> Iterator[str]:
    """The file itself, or those of the folder that OpenSSL would read."""
    try:
        names = sorted(os.listdir(place))
    except NotADirectoryError:
        names = []
        if _is_file(place):
            yield place
    except OSError as error:
        if exhausted(error):
            raise
        return
    for name in names:
        if _HASHED.fullmatch(name) and _is_file(path := os.path.join(place, name)):
            yield path


def _is_file(path: str) -> bool:
    """Whether it can be read without waiting: the open of a pipe would wait for its writer."""
    with contextlib.suppress(OSError):
        return stat.S_ISREG(os.stat(path).st_mode)
    return False
