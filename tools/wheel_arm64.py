"""Cross-compile the wheel for Linux on arm64, and send a message through a node of it under QEMU.

    tools/wheel_arm64.py

The wheel goes to `dist`. It is for the version of Python that runs this, which is that of Debian
bookworm: headers and an arm64 interpreter are unpacked from its packages into `.tools/arm64`, where
nothing is installed or started. Needs root, debootstrap, gcc-aarch64-linux-gnu,
libc6-dev-arm64-cross and qemu-user-static. Wheels for all versions of Python: tools/wheels.sh.
"""

import os
import re
import shutil
import struct
import sys
import tempfile
from pathlib import Path
from typing import Final
from zipfile import ZipFile

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.environment import copy_sources, create, pip, project, run, say  # noqa: E402
from tools.try_image import send_message  # noqa: E402

SUITE: Final = "bookworm"
VERSION: Final = "3.11"
SYSTEM: Final = Path(os.environ.get("WARREN_TOOLS") or ROOT / ".tools") / "arm64"
BUILDING: Final = ROOT / "build" / "arm64"
TRIPLET: Final = "aarch64-linux-gnu"
PROGRAMS: Final = ("debootstrap", f"{TRIPLET}-gcc", f"{TRIPLET}-objdump", "qemu-aarch64-static")
AARCH64: Final = 183  # e_machine in the header of an ELF file
BUILD: Final = "from setuptools import build_meta as b; import sys; b.build_wheel(sys.argv[1])"
GLIBC_OF_SUITE: Final = 36  # its glibc is 2.36
SOURCE_ONLY: Final = "pysyncobj"  # the one dependency that has no wheel
# The emulator does not know pwritev2.
WITHOUT_PWRITEV2: Final = """
import os

def pwritev(handle, parts, offset, flags=0, plain=os.pwritev):
    written = plain(handle, parts, offset)
    if flags & os.RWF_DSYNC:
        os.fdatasync(handle)
    return written

os.pwritev = pwritev
"""


def main() -> int:
    """Build, check, try; raises what fails."""
    found = f"{sys.version_info.major}.{sys.version_info.minor}"
    if found != VERSION:
        raise SystemExit(f"Debian {SUITE} has Python {VERSION} for arm64; this is {found}")
    absent = [each for each in PROGRAMS if shutil.which(each) is None]
    if absent:
        raise SystemExit(f"these programs are not there: {', '.join(absent)}")
    unpack_system(SYSTEM)
    built = cross_compile()
    check(built)
    with tempfile.TemporaryDirectory(prefix="warren-arm64-") as name:
        install(built, Path(name))
        send_message(Path(name))
    print(built.relative_to(ROOT))
    return 0


def unpack_system(target: Path) -> None:
    """Unpack Debian's packages for arm64."""
    if target.exists():
        return
    say(f"unpacking Debian {SUITE} for arm64 into {target.name}")
    fresh = target.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.parent.mkdir(parents=True, exist_ok=True)
    kind = ("--variant=minbase", "--foreign", "--arch=arm64", "--include=python3,libpython3-dev")
    run(["debootstrap", *kind, SUITE, str(fresh)])
    for package in (fresh / "var" / "cache" / "apt" / "archives").glob("*.deb"):
        run(["dpkg-deb", "-x", str(package), str(fresh)])
        package.unlink()
    fresh.rename(target)


def cross_compile() -> Path:
    """Build the wheel by setup.py, which asks sysconfig for compiler, suffix and platform."""
    shutil.rmtree(BUILDING, ignore_errors=True)
    create(BUILDING / "python", with_pip=True)
    pip(BUILDING / "python" / "bin" / "python", "install", *project()["build-system"]["requires"])
    copy_sources(BUILDING / "tree")
    described = f"_sysconfigdata__{TRIPLET}"
    (BUILDING / "target").mkdir()
    shutil.copy(SYSTEM / "usr/lib" / f"python{VERSION}" / f"{described}.py", BUILDING / "target")
    (BUILDING / "programs").mkdir()  # setup.py reads the shared objects with `objdump`
    (BUILDING / "programs" / "objdump").symlink_to(shutil.which(f"{TRIPLET}-objdump") or "")
    headers = SYSTEM / "usr" / "include"
    environment = {
        "_PYTHON_SYSCONFIGDATA_NAME": described,
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "PYTHONPATH": str(BUILDING / "target"),
        "PATH": f"{BUILDING / 'programs'}:{os.environ['PATH']}",
        "CFLAGS": f"-I{headers}/python{VERSION} -idirafter {headers}",
    }
    command = [str(BUILDING / "python" / "bin" / "python"), "-c", BUILD, str(BUILDING)]
    say("compiling; this takes some minutes")
    # The sources are the folder where setup.py is.
    run(["env", "-C", str(BUILDING / "tree"), *command], environment)
    [built] = BUILDING.glob("*.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    return Path(shutil.copy(built, ROOT / "dist"))


def check(built: Path) -> None:
    """Refuse a wheel whose tag, or one of whose shared objects, is not for arm64."""
    if not re.search(r"-manylinux_2_\d+_aarch64\.whl$", built.name):
        raise SystemExit(f"{built.name} has no manylinux tag of arm64")
    with ZipFile(built) as wheel:
        shared = [name for name in wheel.namelist() if name.endswith(".so")]
        machines = {struct.unpack_from("<H", wheel.read(name), 18)[0] for name in shared}
    if machines != {AARCH64} or not all(TRIPLET in name for name in shared):
        raise SystemExit(f"{built.name} holds shared objects for other machines, or none")
    say(f"{built.name}: {built.stat().st_size / 1e6:.1f} MB, {len(shared)} shared objects")


def install(built: Path, folder: Path) -> None:
    """Install the wheel and what it needs, with programs that start an emulated Python."""
    python = BUILDING / "python" / "bin" / "python"
    [source] = [each for each in project()["project"]["dependencies"] if SOURCE_ONLY in each]
    pip(python, "wheel", "--no-deps", "--wheel-dir", str(folder), source)
    glibc = [f"--platform=manylinux_2_{each}_aarch64" for each in range(17, GLIBC_OF_SUITE + 1)]
    only = ("--only-binary=:all:", "--implementation=cp", f"--python-version={VERSION}")
    site, programs = folder / "site", folder / "installed" / "bin"
    target = (*glibc, "--platform=manylinux2014_aarch64", "--target", str(site))
    pip(python, "install", *target, *only, "--find-links", str(folder), str(built))
    (site / "sitecustomize.py").write_text(WITHOUT_PWRITEV2)
    programs.mkdir(parents=True)
    emulated = f"qemu-aarch64-static -L {SYSTEM} {SYSTEM}/usr/bin/python{VERSION}"
    for name, module in (("python", ""), ("warren", "-m node")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {emulated} {module} "$@"\n')
        script.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
