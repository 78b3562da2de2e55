"""PEM as people have it: in files, on one line, with "\\n" spelt out; and what is damaged is refused."""

from __future__ import annotations

import pytest
import trustme

from ottla_transport_ssl.pem import Block, blocks


@pytest.fixture
def certificate(ca: trustme.CA) -> bytes:
    return ca.cert_pem.bytes()


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b" ", b"\\n", b""])
def test_line_ends_do_not_matter(certificate: bytes, line_end: bytes) -> None:
    [plain] = blocks(certificate)
    [block] = blocks(certificate.replace(b"\n", line_end))

    assert block.is_certificate
    assert block == plain


def test_blocks_come_in_order_without_text_between_them(certificate: bytes) -> None:
    key = Block(label="PRIVATE KEY", body=b"key").written()
    found = list(blocks(b"Bag Attributes\n friendlyName: x\n" + certificate + b"\nsubject=...\n" + key))

    assert [block.label for block in found] == ["CERTIFICATE", "PRIVATE KEY"]
    assert found[1].body == b"key"
    assert (found[1].is_key, found[1].is_encrypted) == (True, False)


def test_a_block_is_written_unchanged(certificate: bytes) -> None:
    [block] = blocks(certificate)

    assert list(blocks(block.written())) == [block]


def test_headers_of_an_older_key_are_kept() -> None:
    headers = b"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n"
    text = b"-----BEGIN EC PRIVATE KEY-----\n" + headers + b"\nAAAA\n-----END EC PRIVATE KEY-----\n"
    [block] = blocks(text)

    assert block.body == b"\0\0\0"
    assert block.is_encrypted
    assert block.written() == text


def test_a_damaged_block_is_refused_without_its_content() -> None:
    with pytest.raises(ValueError, match=r"^its PRIVATE KEY block is damaged: it is not base64$"):
        list(blocks(b"-----BEGIN PRIVATE KEY-----\nse!cret\n-----END PRIVATE KEY-----"))


def test_text_without_a_block_has_none() -> None:
    assert list(blocks(b"")) == []
    assert list(blocks(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END PRIVATE KEY-----")) == []


def test_the_content_of_a_block_is_not_in_its_repr() -> None:
    assert "secret" not in repr(Block(label="PRIVATE KEY", body=b"secret", headers=b"secret"))


def test_many_beginnings_without_an_end_take_bounded_work() -> None:
    assert list(blocks(b"-----BEGIN A-----" * 900_000)) == []
    assert list(blocks(b"-----BEGIN A-----" + b"-x" * 4_000_000)) == []
