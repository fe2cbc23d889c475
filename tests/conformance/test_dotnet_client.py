"""RabbitMQ's .NET client of 2008, the one in Debian: a session over AMQP 0-9.

It is older than confirms and than AMQP 0-9-1. RabbitMQ 3 and 4 answer this session in the same way.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.conformance.broker import Broker
from tests.conformance.programs import missing, output, program

CLIENT: Final = Path("/usr/lib/mono/4.5/RabbitMQ.Client.dll")
SOURCE: Final = Path(__file__).resolve().parent / "dotnet" / "Session.cs"


def compiled(source: Path, folder: Path) -> list[str]:
    """The command that runs the program."""
    mcs, mono = program("mcs", "mono-mcs"), program("mono", "mono-runtime")
    if not CLIENT.exists():
        missing(f"{CLIENT} is not there (Debian: libmono-rabbitmq4.0-cil)")
    built = folder / f"{source.stem}.exe"
    output([mcs, f"-r:{CLIENT}", f"-out:{built}", str(source)])
    return [mono, str(built)]


@pytest.fixture(scope="module")
def report(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    session = compiled(SOURCE, tmp_path_factory.mktemp("dotnet"))
    shown = output([*session, f"{broker.host}:{broker.port}", "dotnet-session"])
    return dict(line.split(" ", 1) for line in shown.splitlines())


EXPECTED: Final = {
    "capability": "True",
    "in-order": "500",
    "large": "300000",
    "headers": "words -7 1.25 ((time_t)1700000000) 1",
    "unbound": "404",
    "returned": "312 NO_ROUTE stray",
    "redelivered": "False True again",
    "missing": "404",
    "inequivalent": "406",
    "default-exchange": "403",
    "deleted": "0",
    "usable": "True",
    "closed": "Application 200",
    "immediate": "540",
    "open-after-immediate": "False",
    "login": "PossibleAuthenticationFailureException",
}


@pytest.mark.parametrize("step", EXPECTED)
def test_the_dotnet_client_sees_what_rabbitmq_would_show(report: dict[str, str], step: str) -> None:
    assert report.get(step) == EXPECTED[step]
