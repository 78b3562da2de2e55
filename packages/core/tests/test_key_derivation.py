"""The iterations of encrypted keys are counted, in all formats, before a library does them."""

from __future__ import annotations

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from locked_keys import locked_pem

from ottla.config.key_derivation import MOST_ITERATIONS, _counts, check_iterations
from ottla.interfaces import Secret


@pytest.fixture(scope="module")
def issued() -> trustme.LeafCert:
    return trustme.CA().issue_cert("client.example.com")


def key_of(issued: trustme.LeafCert) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def pem(issued: trustme.LeafCert) -> bytes:
    return key_of(issued).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def store(issued: trustme.LeafCert, rounds: int) -> bytes:
    certificate = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    how = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(rounds).hmac_hash(hashes.SHA256()).build(b"secret")
    return pkcs12.serialize_key_and_certificates(b"name", key_of(issued), certificate, None, how)


def test_the_iterations_of_a_key_in_pem_are_found(issued: trustme.LeafCert) -> None:
    [count] = _counts(pem(issued))
    assert 1000 < count < MOST_ITERATIONS
    check_iterations(Secret(issued.cert_chain_pems[0].bytes() + pem(issued)))


def test_the_iterations_of_a_pkcs12_file_are_found(issued: trustme.LeafCert) -> None:
    content = store(issued, 4321)
    assert 4321 in list(_counts(content))
    check_iterations(Secret(content))


def test_a_pkcs12_file_with_too_many_iterations_is_refused(issued: trustme.LeafCert) -> None:
    content = store(issued, 0x12345)
    few, many = b"\x02\x03\x01\x23\x45", b"\x02\x03\x7f\xff\xff"
    places = [place for place in range(len(content)) if content.startswith(few, place)]
    assert places
    for place in places:
        with pytest.raises(ValueError, match="needs more than 5,000,000 iterations"):
            check_iterations(Secret(content[:place] + many + content[place + len(few) :]))


def test_a_key_with_too_many_iterations_is_refused_with_a_remedy() -> None:
    check_iterations(Secret(locked_pem(MOST_ITERATIONS)))
    for count in (MOST_ITERATIONS + 1, 2**31 - 1, 2**62):
        with pytest.raises(ValueError, match=r"encrypt it again with fewer, such as 600,000 \(openssl pkcs8"):
            check_iterations(Secret(locked_pem(count)))


@pytest.mark.parametrize(
    "content", [b"", b"\x30", b"\x30\x84\xff\xff\xff\xff", b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nA\n-----END x"]
)
def test_damaged_content_is_left_to_the_library(content: bytes) -> None:
    check_iterations(Secret(content))


@pytest.mark.parametrize(
    "content",
    [b"\x30\x84\x00\x40\x00\x00" + b"\x30\x00" * (1 << 21), b"-----BEGIN ENCRYPTED PRIVATE KEY-----" * 400_000],
    ids=["elements", "beginnings"],
)
def test_a_large_file_takes_bounded_work(content: bytes) -> None:
    check_iterations(Secret(content))
