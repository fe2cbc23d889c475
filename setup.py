"""Builds the compiled modules; everything else is in pyproject.toml.

`WARREN_PURE=1`, or a machine without a C compiler, gives a pure build of the same sources.
The modules named here are also run uncompiled, so they may use nothing that only mypyc knows.
"""

import os
import shutil
import sysconfig

from setuptools import setup

COMPILED: list[str] = []


def compiler_found() -> bool:
    """Whether the compiler that this Python was built for, or any other, is on the path."""
    wanted = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(wanted) is not None


def compiled_modules() -> list:
    if os.environ.get("WARREN_PURE") == "1" or not COMPILED or not compiler_found():
        return []
    from mypyc.build import mypycify

    return mypycify(COMPILED, opt_level="3", debug_level="1")


setup(ext_modules=compiled_modules())
