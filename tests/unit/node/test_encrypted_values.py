"""Passwords of the configuration that are encrypted."""

import base64
from pathlib import Path

import pytest

from node.cli.warrenctl import main
from node.config.encrypted_values import PASSPHRASE, PREFIX, decrypt, encrypt
from node.config.settings import ConfigError, load


def with_password(text: str) -> str:
    """The password that a configuration with this text has."""
    return load(sets=[f"anonymous_login_pass={text}"]).anonymous_login_pass


@pytest.mark.parametrize("text", ["x", "correct horse", "ü" * 500])
def test_a_text_comes_back_with_its_passphrase_alone(text: str) -> None:
    value = encrypt(text, "staple")
    assert value != encrypt(text, "staple")
    assert decrypt(value, "staple") == decrypt(value.removeprefix(PREFIX), "staple") == text
    with pytest.raises(ValueError, match="another passphrase"):
        decrypt(value, "stable")


def test_a_value_that_was_changed_anywhere_is_refused() -> None:
    raw = base64.b64decode(encrypt("correct horse", "staple").removeprefix(PREFIX))
    for place in (0, 16, 28, len(raw) - 1):
        changed = raw[:place] + bytes((raw[place] ^ 1,)) + raw[place + 1 :]
        with pytest.raises(ValueError, match="another passphrase"):
            decrypt(base64.b64encode(changed).decode(), "staple")


@pytest.mark.parametrize("value", ["encrypted:", "encrypted:AAAA", "encrypted:%", "encrypted:ü"])
def test_a_value_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"base64|another passphrase"):
        decrypt(value, "staple")


def test_the_configuration_has_the_text_and_the_environment_the_passphrase(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    value = encrypt("correct horse", "staple")
    with pytest.raises(ConfigError, match=f"the environment has no {PASSPHRASE}") as caught:
        with_password(value)
    assert value not in str(caught.value)
    monkeypatch.setenv(PASSPHRASE, "staple")
    assert with_password(value) == "correct horse"
    assert with_password(f"plain:{value}") == value
    (tmp_path / "passphrase").write_text("staple\n")
    monkeypatch.setenv(PASSPHRASE, f"file:{tmp_path}/passphrase")
    assert with_password(value) == "correct horse"
    monkeypatch.setenv(PASSPHRASE, "other")
    with pytest.raises(ConfigError, match="another passphrase"):
        with_password(value)


def test_warrenctl_encodes_and_decodes_without_a_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        status = main(["--node-url", "http://127.0.0.1:1", *arguments])
        shown = capsys.readouterr()
        return status, shown.out.strip() or shown.err

    status, value = run("encode", "correct horse", "staple")
    assert (status, decrypt(value, "staple")) == (0, "correct horse")
    assert run("decode", value, "staple") == (0, "correct horse")
    status, text = run("decode", value)
    assert status != 0 and PASSPHRASE in text
    monkeypatch.setenv(PASSPHRASE, "staple")
    assert run("decode", value) == (0, "correct horse")
