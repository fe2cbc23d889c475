"""`warren convert-config FILE`: a rabbitmq.conf as a configuration file of Warren.

The result goes to standard output, what cannot be carried over to standard error. Exit codes: 0
everything that has an effect was carried over, 1 something was not, 65 the file is malformed, 66 it
cannot be read.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Final, TextIO

from node.config.rabbitmq_conf import BadLine, convert, toml_of
from node.config.settings import ConfigError, load

EXIT_LOST: Final = 1
EXIT_DATA: Final = 65  # EX_DATAERR
EXIT_NO_INPUT: Final = 66  # EX_NOINPUT


def main(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Convert the file; the exit code is returned."""
    try:
        text = options.file.read_text("utf-8")
    except OSError as error:
        print(f"warren: {options.file}: {error.strerror}", file=err)
        return EXIT_NO_INPUT
    except UnicodeDecodeError:
        print(f"warren: {options.file} is not text in UTF-8", file=err)
        return EXIT_DATA
    try:
        converted = convert(text)
    except BadLine as error:
        print(f"warren: {options.file}: {error}", file=err)
        return EXIT_DATA
    written = toml_of(converted)
    print(written, end="", file=out)
    for note in converted.notes:
        kind = "not carried over" if note.is_lost else "not needed"
        print(f"{options.file}:{note.line}: {kind}: {note.text}: {note.reason}", file=err)
    refusal = _refusal(written)
    if refusal:
        print(
            f"warren: the result needs a change before a node starts with it: {refusal}", file=err
        )
    return EXIT_LOST if refusal or any(note.is_lost for note in converted.notes) else 0


def _refusal(written: str) -> str:
    """Why no node would start with the result; empty: one would."""
    with tempfile.TemporaryDirectory(prefix="warren-convert-") as folder:
        path = Path(folder) / "warren.toml"
        path.write_text(written, "utf-8")
        try:
            load(path)
        except ConfigError as error:
            return str(error).replace(f"{path}: ", "")
    return ""
