"""The checksum of records: the extension that is loaded alone, and the package, agree."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from warren.checksum import crc32c


def test_the_checksum_is_that_of_rfc_3720() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_the_checksum_goes_on_behind_what_came_before(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)
    assert crc32c(memoryview(first)) == package.crc32c(first)


def test_the_extension_is_loaded_without_its_package() -> None:
    home = importlib.import_module("warren").__file__
    assert home is not None
    environment = os.environ | {"PYTHONPATH": str(Path(home).parent.parent)}
    program = "import sys, warren.checksum; sys.exit('importlib.metadata' in sys.modules)"
    command = [sys.executable, "-P", "-c", program]
    assert subprocess.run(command, check=False, env=environment).returncode == 0
