"""What commands of `warrenctl` are made of: arguments, what they say, what they print.

A command is a row of a table: its arguments as RabbitMQ's tools have them, and a function that asks
the HTTP API. Nothing here knows the broker.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TextIO, TypeVar
from urllib.parse import quote

from msgspec import Struct

from node.cli.api import EXIT_SOFTWARE, Api, ApiFailure
from node.cli.tables import TABLES, write_json, write_table

Options = argparse.Namespace
Body = Mapping[str, object]
Row = Mapping[str, object]
Run = Callable[[Api, Options, TextIO], None]
RunKind = TypeVar("RunKind", bound=Callable[..., object])


class BadCall(Exception):
    """The call is wrong in a way that the parser of arguments does not see."""


class Argument(Struct, frozen=True):
    """One argument; with dashes an option."""

    name: str
    default: str | None = None  # None: it must be given
    many: bool = False
    is_flag: bool = False
    choices: tuple[str, ...] = ()

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        choices = self.choices or None
        words = f"one of: {', '.join(self.choices)}" if choices else None
        if self.is_flag:
            parser.add_argument(self.name, action="store_true")
        elif self.name.startswith("-"):
            metavar = self.name.lstrip("-").upper()
            parser.add_argument(
                self.name, default=self.default, choices=choices, metavar=metavar, help=words
            )
        elif self.many:
            parser.add_argument(self.name, nargs="*", metavar=self.name.upper())
        elif self.default is not None:
            parser.add_argument(
                self.name, nargs="?", default=self.default, metavar=self.name.upper()
            )
        else:
            metavar = self.name.upper()
            parser.add_argument(self.name, metavar=metavar, choices=choices, help=words)


class Verb(Struct, Generic[RunKind], frozen=True):
    """A command that does something. `told`: what is printed before, from the arguments."""

    help: str
    told: str
    arguments: tuple[Argument, ...]
    run: RunKind
    in_vhost: bool = False

    def describe(self, parser: argparse.ArgumentParser) -> None:
        if self.in_vhost:
            parser.add_argument("-p", "--vhost", default="/")
        for argument in self.arguments:
            argument.add_to(parser)


VHOST: Final = "/"
Commands = Mapping[str, Verb[Run]]


def carried_out(command: Verb[Run]) -> Run:
    """What it prints before, and then itself."""

    def run(api: Api, options: Options, out: TextIO) -> None:
        announce(command.told, options, out)
        command.run(api, options, out)

    return run


def announce(text: str, options: Options, out: TextIO) -> None:
    """The line before; scripts ask for none, and in JSON and CSV it would be no part."""
    if text and not options.quiet and options.formatter in TABLES:
        shown = {
            name: " ".join(map(str, value)) if isinstance(value, list) else value
            for name, value in vars(options).items()
        }
        print(text.format(**shown), file=out)


def done(options: Options, out: TextIO, text: str = "", answer: object = None) -> None:
    """What is printed behind something that was done."""
    if options.formatter == "json":
        write_json({"result": "ok"} if answer is None else answer, out)
    elif text and not options.quiet:
        print(text, file=out)


def tell(options: Options, out: TextIO, text: str, answer: object) -> None:
    """What was asked for: it is printed with `--quiet` too."""
    if options.formatter == "json":
        write_json(answer, out)
    elif text:
        print(text, file=out)


def show(rows: Sequence[Row], columns: Sequence[str], options: Options, out: TextIO) -> None:
    """Rows of the API, or those columns of them."""
    if options.formatter == "json":
        write_json(list(rows), out)
        return
    table = [[row.get(column) for column in columns] for row in rows]
    show_table(columns, table, options, out)


def show_table(
    columns: Sequence[str], table: Sequence[Sequence[object]], options: Options, out: TextIO
) -> None:
    write_table(columns, table, out, not options.no_table_headers, options.formatter)


def show_facts(facts: Sequence[tuple[str, object]], options: Options, out: TextIO) -> None:
    """Names and what they have, one to a line."""
    if options.formatter == "json":
        write_json(dict(facts), out)
        return
    write_table(("Name", "Value"), facts, out, False, options.formatter)


def rows_of(answer: object, place: str) -> list[Row]:
    if not isinstance(answer, list) or not all(isinstance(each, dict) for each in answer):
        raise ApiFailure(f"{place}: the answer is not a list of objects", EXIT_SOFTWARE)
    return answer


def path(*parts: str) -> str:
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


def own_node(api: Api) -> str:
    """The one that is asked."""
    return str(api.get_object("/api/overview?columns=node").get("node"))


def parsed(text: str) -> object:
    """An argument that is JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadCall(f"not JSON: {text}") from error


def parsed_object(text: str) -> Body:
    value = parsed(text)
    if not isinstance(value, dict):
        raise BadCall(f"not a JSON object: {text}")
    return value


def whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadCall(f"not a number: {text}")
    return int(text)
