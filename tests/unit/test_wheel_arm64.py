"""What `make wheel-arm64` accepts as a wheel for arm64."""

import struct
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.wheel_arm64 import AARCH64, check

pytestmark = pytest.mark.source

X86_64 = 62
SUFFIX = "cpython-311-aarch64-linux-gnu.so"


def wheel(folder: Path, tag: str, shared: dict[str, int]) -> Path:
    """A wheel whose shared objects are headers of ELF files for these machines."""
    path = folder / f"warrenmq-0.1.0-{tag}.whl"
    with ZipFile(path, "w") as archive:
        archive.writestr("node/__init__.py", "")
        for name, machine in shared.items():
            archive.writestr(
                name, b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, machine)
            )
    return path


def test_a_wheel_of_arm64_is_accepted(tmp_path: Path) -> None:
    check(wheel(tmp_path, "cp311-cp311-manylinux_2_17_aarch64", {f"node/clock.{SUFFIX}": AARCH64}))


@pytest.mark.parametrize(
    ("tag", "shared", "reason"),
    [
        ("py3-none-any", {}, "no manylinux tag"),
        ("cp311-cp311-linux_aarch64", {f"node/clock.{SUFFIX}": AARCH64}, "no manylinux tag"),
        ("cp311-cp311-manylinux_2_17_x86_64", {"node/clock.so": X86_64}, "no manylinux tag"),
        ("cp311-cp311-manylinux_2_17_aarch64", {}, "other machines, or none"),
        (
            "cp311-cp311-manylinux_2_17_aarch64",
            {f"node/clock.{SUFFIX}": AARCH64, f"node/turn.{SUFFIX}": X86_64},
            "other machines, or none",
        ),
        (
            "cp311-cp311-manylinux_2_17_aarch64",
            {"node/clock.cpython-311-x86_64-linux-gnu.so": AARCH64},
            "other machines, or none",
        ),
    ],
)
def test_other_wheels_are_refused(
    tag: str, shared: dict[str, int], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match=reason):
        check(wheel(tmp_path, tag, shared))
