"""A certificate is read correctly; bytes that are no certificate are always a ValueError."""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ottla_transport_ssl.certificate import Certificate
from ottla_transport_ssl.der import elements, only

BEGIN, END = datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC), datetime(2051, 1, 1, tzinfo=UTC)
KEY = ec.generate_private_key(ec.SECP256R1())


def made(
    subject: list[tuple[x509.ObjectIdentifier, str]],
    *,
    names: list[x509.GeneralName] | None = None,
    begin: datetime = BEGIN,
    end: datetime = END,
) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(kind, value) for kind, value in subject]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the issuer")]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(end)
    )
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def test_all_supported_fields_of_a_certificate_are_read() -> None:
    subject = [
        (NameOID.COUNTRY_NAME, "CZ"),
        (NameOID.ORGANIZATION_NAME, "Arbeiter-Unfall"),
        (NameOID.COMMON_NAME, "Ottla Kafková"),
    ]
    names: list[x509.GeneralName] = [
        x509.DNSName("a.example.com"),
        x509.RFC822Name("ottla@example.com"),
        x509.DNSName("*.example.com"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]

    read = Certificate.read(made(subject, names=names))

    assert read.subject == "CN=Ottla Kafková, O=Arbeiter-Unfall, C=CZ"
    assert read.issuer == "CN=the issuer"
    assert (read.not_before, read.not_after) == (BEGIN, END)
    assert read.names == ("a.example.com", "*.example.com", "127.0.0.1", "::1")
    assert str(read) == "'CN=Ottla Kafková, O=Arbeiter-Unfall, C=CZ' (issued by 'CN=the issuer')"


@pytest.mark.parametrize("year", [1950, 1999, 2000, 2049, 2050, 9999])
def test_the_years_of_both_time_formats_are_read(year: int) -> None:
    end = datetime(year, 6, 1, tzinfo=UTC)

    assert Certificate.read(made([], begin=end - timedelta(days=1), end=end)).not_after == end


def test_a_common_name_is_not_a_host_name() -> None:
    assert Certificate.read(made([(NameOID.COMMON_NAME, "kafka")])).names == ()
    assert Certificate.read(made([(NameOID.COMMON_NAME, "kafka")], names=[x509.DNSName("other")])).names == ("other",)


def test_extracted_text_is_printable_and_short() -> None:
    read = Certificate.read(
        made([(NameOID.ORGANIZATION_NAME, "a\nWARNING all is well\x1b[2J")], names=[x509.DNSName("x" * 300)] * 50)
    )

    assert read.subject == "O=a\\nWARNING all is well\\x1b[2J"
    assert len(read.names) == 20
    assert all(len(name) == 200 for name in read.names)


def test_combining_marks_in_a_name_cover_no_line_above() -> None:
    read = Certificate.read(made([(NameOID.ORGANIZATION_NAME, "a" + "\u0301" * 50)]))

    assert "\u0301" * 4 not in read.subject
    assert len(read.subject) <= 210


def test_the_result_agrees_with_openssl(ca: trustme.CA) -> None:
    der = ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=der)
    [theirs] = context.get_ca_certs()
    ours = Certificate.read(der)

    assert ours.not_after.timestamp() == ssl.cert_time_to_seconds(str(theirs["notAfter"]))
    assert ours.not_before.timestamp() == ssl.cert_time_to_seconds(str(theirs["notBefore"]))
    assert "Test authority" in ours.subject


def test_a_certificate_cut_short_anywhere_is_invalid() -> None:
    der = made([(NameOID.COMMON_NAME, "kafka")], names=[x509.DNSName("kafka")])
    for size in range(len(der)):
        with pytest.raises(ValueError, match="not a certificate"):
            Certificate.read(der[:size])


WHOLE = made(
    [(NameOID.COMMON_NAME, "kafka")], names=[x509.DNSName("kafka"), x509.IPAddress(ipaddress.ip_address("::1"))]
)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    der = bytearray(WHOLE)
    for at, value in changes:
        der[at] = value
    with contextlib.suppress(ValueError):
        read = Certificate.read(bytes(der))
        assert (read.subject + read.issuer + "".join(read.names)).isprintable()


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(der: bytes) -> None:
    with contextlib.suppress(ValueError):
        Certificate.read(der)


@pytest.mark.parametrize(
    "content",
    [
        "30",  # no length
        "3003 0102",  # too short
        "3080 0000",  # indefinite
        "3085 0000000001 00",  # a length of five bytes
        "3082 01",  # a length cut short
        "1f01 00",  # a tag of two bytes
    ],
)
def test_data_that_is_not_der_is_refused(content: str) -> None:
    with pytest.raises(ValueError, match=r"element|length|tag"):
        list(elements(bytes.fromhex(content)))


def test_a_wrong_type_or_count_of_der_elements_is_refused() -> None:
    assert only(bytes.fromhex("0401aa"), 0x04) == b"\xaa"
    with pytest.raises(ValueError, match="0x04 instead of 0x30"):
        only(bytes.fromhex("0401aa"), 0x30)
    with pytest.raises(ValueError, match="2 elements instead of one"):
        only(bytes.fromhex("04000400"), 0x04)
