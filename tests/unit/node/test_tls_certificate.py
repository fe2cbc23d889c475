"""What is read of certificates and cipher suites: names, users, dates."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.tls.certificate import (
    LoginName,
    TlsPeer,
    distinguished_name,
    escaped,
    login_name,
    suite_parts,
    tls_peer,
)
from node.tls.validity import BadCertificate, end_of, ends_of
from tests.unit.node.certificates import Authority

CERTIFICATE: dict[str, Any] = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", "Example, Inc."),),
        (("commonName", "orders"), ("userId", "7")),
    ),
    "issuer": ((("commonName", "CA"),),),
    "notBefore": "Jan  1 00:00:00 2026 GMT",
    "notAfter": "Jan  1 00:00:00 2027 GMT",
    "subjectAltName": (
        ("DNS", "a.example"),
        ("IP Address", "10.0.0.1"),
        ("DNS", "b.example"),
        ("email", "x@example"),
        ("URI", "urn:x"),
    ),
}
TLS13 = ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("plain", "plain"), (" x ", "\\ x\\ "), ("#x#", "\\#x#"), ("a,b+c", "a\\,b\\+c"),
        ('<"\\>;', '\\<\\"\\\\\\>\\;'),
        ("a\nb\x7f", "a\\0Ab\\7F"), ("", ""), ("é", "é"), (" ", "\\ "),
    ],
)  # fmt: skip
def test_values_of_a_name_cannot_be_taken_for_its_parts(value: str, line: str) -> None:
    assert escaped(value) == line


def test_a_name_is_told_with_its_last_part_first() -> None:
    line = distinguished_name(CERTIFICATE["subject"])
    assert line == "CN=orders+UID=7,O=Example\\, Inc.,C=DE"
    assert distinguished_name(()) == ""
    assert distinguished_name(((("1.2.3", "x"),),)) == "1.2.3=x"


@pytest.mark.parametrize(
    ("rule", "user"),
    [
        (LoginName(), "CN=orders+UID=7,O=Example\\, Inc.,C=DE"),
        (LoginName("common_name"), "orders"),
        (LoginName("subject_alternative_name"), "a.example"),
        (LoginName("subject_alternative_name", "dns", 1), "b.example"),
        (LoginName("subject_alternative_name", "dns", 2), ""),
        (LoginName("subject_alternative_name", "ip"), "10.0.0.1"),
        (LoginName("subject_alternative_name", "email"), "x@example"),
        (LoginName("subject_alternative_name", "uri"), "urn:x"),
    ],
)
def test_the_user_is_the_part_that_the_setting_names(rule: LoginName, user: str) -> None:
    assert login_name(CERTIFICATE, rule) == user


def test_a_certificate_without_that_part_names_nobody() -> None:
    assert login_name({}, LoginName("common_name")) == ""
    assert login_name({"subject": ((("commonName", "x" * 256),),)}, LoginName("common_name")) == ""
    two = {"subject": ((("commonName", "a"),), (("commonName", "b"),))}
    assert login_name(two, LoginName("common_name")) == "a,b"


def test_a_client_without_a_certificate_has_no_name() -> None:
    empty: dict[str, Any] = {}
    for nothing in (None, empty):
        peer = tls_peer(TLS13, nothing, LoginName())
        assert peer == TlsPeer("tlsv1.3", "any", "aes_256_gcm", "aead")
        assert peer.login_name == ""
    assert tls_peer(None, None, LoginName()) == TlsPeer("", "rsa", "", "aead")


def test_a_verified_certificate_is_told_with_its_dates() -> None:
    peer = tls_peer(TLS13, CERTIFICATE, LoginName("common_name"))
    assert (peer.login_name, peer.peer_issuer) == ("orders", "CN=CA")
    assert peer.peer_validity == "2026-01-01T00:00:00Z - 2027-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("suite", "parts"),
    [
        ("TLS_AES_128_GCM_SHA256", ("any", "aes_128_gcm", "aead")),
        ("TLS_CHACHA20_POLY1305_SHA256", ("any", "chacha20_poly1305", "aead")),
        ("ECDHE-RSA-AES256-GCM-SHA384", ("ecdhe_rsa", "aes_256_gcm", "aead")),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", ("ecdhe_ecdsa", "chacha20_poly1305", "aead")),
        ("ECDHE-RSA-AES128-SHA256", ("ecdhe_rsa", "aes_128_cbc", "sha256")),
        ("AES128-SHA", ("rsa", "aes_128_cbc", "sha")),
        ("DHE-RSA-AES256-CCM8", ("dhe_rsa", "aes_256_ccm8", "aead")),
    ],
)
def test_a_cipher_suite_is_told_in_its_parts(suite: str, parts: tuple[str, str, str]) -> None:
    assert suite_parts(suite) == parts


def test_the_ends_of_all_certificates_in_a_file_are_found(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certfile, keyfile = authority.issue("server", days=3.5)
    (end,) = ends_of(certfile.read_text())
    assert abs(end - datetime.now(UTC) - timedelta(days=3.5)) < timedelta(minutes=1)
    both = certfile.read_text() + authority.cafile.read_text()
    assert [each == end for each in ends_of(both)] == [True, False]
    assert ends_of(keyfile.read_text()) == ends_of("") == []


def test_half_a_certificate_is_none(tmp_path: Path) -> None:
    certfile, _ = Authority(tmp_path).issue("server")
    der = ssl.PEM_cert_to_DER_cert(certfile.read_text())
    for size in (0, 1, 2, 10, 100):
        with pytest.raises(BadCertificate):
            end_of(der[:size])
    with pytest.raises(BadCertificate):
        ends_of("-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n")


@given(st.binary(max_size=80))
def test_any_bytes_are_a_certificate_or_bad(raw: bytes) -> None:
    try:
        end_of(raw)
    except (BadCertificate, ValueError):
        return
