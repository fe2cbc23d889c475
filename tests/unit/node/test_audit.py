"""The audit log: lines and events, who is noted down and who is not."""

import logging

import pytest

from node.events.audit import Audit, Extent
from node.events.authors import AMQP, HTTP, Author
from node.events.events import Event, Events
from queues.definitions.broker_objects import Binding, Destination, Queue, Uid, VhostEntry
from queues.definitions.metadata.outcomes import Added, Removed, Replaced
from warren.wire.errors import ProtocolError, ReplyCode

ANN = Author("ann", "10.0.0.1", AMQP)
API = Author("root", "10.0.0.2", HTTP)
QUEUE = Queue(Uid(17), "/", "orders", True, "", False, b"", "n1")
BINDING = Binding(Uid(18), "/", "x", Destination.QUEUE, "orders", b"k", b"", 17)


class Harness:
    """An audit log, and what it says."""

    def __init__(self, extent: Extent, caplog: pytest.LogCaptureFixture) -> None:
        self.events: list[Event] = []
        bus = Events("n1", lambda: 1)
        bus.subscribe(self.events.append)
        self.audit = Audit(bus, extent)
        self._caplog = caplog
        caplog.set_level(logging.INFO, "warren.audit")

    @property
    def lines(self) -> list[str]:
        return [each.getMessage() for each in self._caplog.records if each.name == "warren.audit"]


def test_a_request_is_a_line_and_an_event(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness("api", caplog)
    harness.audit.requested(API, "PUT", "/api/queues/%2F/orders", "201")
    assert harness.lines == ["user 'root' at 10.0.0.2 by http: PUT /api/queues/%2F/orders: 201"]
    (event,) = harness.events
    assert event.name == "audit.changed"
    assert event.properties == {
        "user": "root",
        "address": "10.0.0.2",
        "way": "http",
        "action": "PUT",
        "object": "/api/queues/%2F/orders",
        "outcome": "201",
    }
    assert caplog.records[-1].__dict__["ids"] == event.properties


def test_definitions_by_amqp_are_noted_where_all_is(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness("all", caplog)
    vhost = VhostEntry(Uid(19), "v", "", ())
    harness.audit.definitions_changed((Added(QUEUE), Removed(BINDING), Replaced(vhost)), ANN)
    assert [line.removeprefix("user 'ann' at 10.0.0.1 by amqp: ") for line in harness.lines] == [
        "create queue 'orders' in vhost '/': ok",
        "delete binding 'x -> orders' in vhost '/': ok",
        "change vhost 'v': ok",
    ]


def test_what_the_api_changes_is_not_noted_twice(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness("all", caplog)
    harness.audit.definitions_changed((Added(QUEUE),), API)
    assert harness.lines == []


def test_a_refused_change_is_noted_and_a_question_is_not(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness("all", caplog)
    text = "access refused"
    harness.audit.refused(ANN, ProtocolError(ReplyCode.ACCESS_REFUSED, text, None, 50, 10))
    harness.audit.refused(ANN, ProtocolError(ReplyCode.NOT_FOUND, "no queue", None, 50, 10))
    harness.audit.refused(ANN, ProtocolError(ReplyCode.ACCESS_REFUSED, text, None, 60, 40))
    assert harness.lines == [
        "user 'ann' at 10.0.0.1 by amqp: queue.declare definitions: refused: access refused"
    ]


@pytest.mark.parametrize(("extent", "count"), [("off", 0), ("api", 1)])
def test_less_is_noted_where_less_is_asked_for(
    extent: Extent, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(extent, caplog)
    harness.audit.requested(API, "DELETE", "/api/queues/%2F/orders", "204")
    harness.audit.definitions_changed((Added(QUEUE),), ANN)
    harness.audit.refused(ANN, ProtocolError(ReplyCode.ACCESS_REFUSED, "no", None, 50, 10))
    assert len(harness.lines) == count
