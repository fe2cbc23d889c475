"""Environments that begin as a copy of another one are environments of their own."""

from pathlib import Path

import pytest

from tools.environment import move_script

pytestmark = pytest.mark.source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"#!%s/bin/python\nmain()\n", b"#!%s-compiled/bin/python\nmain()\n"),
        (b'VIRTUAL_ENV="%s"\n', b'VIRTUAL_ENV="%s-compiled"\n'),
        (b"%s-run/bin is another one\n", b"%s-run/bin is another one\n"),
    ],
)
def test_scripts_of_a_copied_environment_name_its_own_interpreter(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    old = tmp_path / ".venv"
    named = str(old).encode()
    script = tmp_path / "script"
    script.write_bytes(before % named)
    script.chmod(0o755)
    move_script(script, old, tmp_path / ".venv-compiled")
    assert script.read_bytes() == after % named
    assert script.stat().st_mode & 0o777 == 0o755
