"""`warren chaos check HISTORY`: judge what clients did and saw (warren.testing.history).

Findings are named by message and rule; as JSON, or as a table by kind of fault in Markdown, if
that is asked for.

Exit codes: 0 nothing is wrong, 1 something is, 65 it is no history, 66 it cannot be read.
"""

import argparse
import json
from typing import Final, TextIO

from warren.testing.chaos.table import markdown, rows
from warren.testing.chaos.timeline import timeline
from warren.testing.history import BadHistory, Verdict, judge, read

EXIT_WRONG: Final = 1
EXIT_DATA: Final = 65  # sysexits
EXIT_NO_INPUT: Final = 66


def main(options: argparse.Namespace, out: TextIO, errors: TextIO) -> int:
    """Run the command; the exit code is returned."""
    try:
        verdict = judge(read(options.history), ordered=not options.unordered)
    except BadHistory as error:
        print(f"warren: {options.history}: {error}", file=errors)
        return EXIT_DATA
    except (OSError, UnicodeDecodeError) as error:
        print(f"warren: {options.history}: {error}", file=errors)
        return EXIT_NO_INPUT
    if options.formatter == "json":
        json.dump(as_json(verdict), out, indent=2)
        out.write("\n")
    elif options.formatter == "markdown":
        out.write(markdown(rows(timeline(read(options.history)), verdict)))
    else:
        out.write(verdict.format() + "\n")
    return 0 if verdict.is_clean else EXIT_WRONG


def as_json(verdict: Verdict) -> dict[str, object]:
    """The verdict as plain values."""
    return {
        "clean": verdict.is_clean,
        "published": verdict.published,
        "confirmed": verdict.confirmed,
        "refused": verdict.refused,
        "deliveries": verdict.deliveries,
        "redeliveries": verdict.redeliveries,
        "taken": verdict.taken,
        "unconfirmed_taken": verdict.unconfirmed_taken,
        "faults": verdict.faults,
        "undrained": verdict.undrained,
        "counts": {kind.name.lower(): count for kind, count in verdict.counts.items()},
        "findings": [
            {
                "rule": finding.kind.name.lower(),
                "message": finding.message,
                "line": finding.line,
                "detail": finding.detail,
            }
            for finding in verdict.findings
        ],
    }
