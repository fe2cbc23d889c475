"""Peeks by /management: what cannot be asked, what is answered, and what a lost connection ends."""

import asyncio

import pytest

from node.amqp10 import looking
from node.amqp10.looking import decode_peek
from node.amqp10.management import Management
from node.amqp10.requests import Reply, Request, RequestError
from tests.unit.node.fake_managed import FakeManaged, FakeRequester


@pytest.mark.parametrize(
    "body",
    [
        [], 5, {"count": 0}, {"count": 65}, {"count": True}, {"count": "1"}, {"offset": -1},
        {"truncate": 65_537}, {"other": 1}, {1: 1},
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_400(body: object) -> None:
    with pytest.raises(RequestError) as refused:
        decode_peek(body)
    assert refused.value.status == 400


def test_what_is_not_said_has_a_default() -> None:
    assert decode_peek(None) == {"offset": 0, "count": 1, "truncate": 4096}
    assert decode_peek({"count": 64, "offset": 7}) == {"offset": 7, "count": 64, "truncate": 4096}


def asked(broker: FakeManaged, body: object, name: str = "q", closes: bool = False) -> list[Reply]:
    replies: list[Reply] = []

    async def run() -> None:
        management = Management(FakeRequester(broker))
        management.handle(Request("PUT", "/queues/q", {}), replies.append)
        broker.commit()
        replies.clear()
        management.handle(Request("POST", f"/queues/{name}/peek", body), replies.append)
        if closes:
            management.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    return replies


def test_messages_are_told_with_all_that_is_known_of_them() -> None:
    broker = FakeManaged()
    (reply,) = asked(broker, {"offset": 3, "truncate": 2})
    assert broker.peeks == [("q", 3, 1, 2)]
    assert (reply.status, reply.body) == (
        200,
        [
            {
                "position": 3,
                "readable": True,
                "redelivered": True,
                "failed_deliveries": 2,
                "exchange": "x",
                "routing_key": "k",
                "properties": {},
                "payload": b"bo",
                "payload_bytes": 4,
            }
        ],
    )


def test_who_cannot_tell_is_503_and_who_asks_wrongly_starts_nothing() -> None:
    broker = FakeManaged()
    broker.elsewhere.add("q")
    assert [each.status for each in asked(broker, None)] == [503]
    assert [each.status for each in asked(broker, {"count": 0})] == [400]
    assert [each.status for each in asked(broker, None, "none")] == [400]
    assert len(broker.peeks) == 1


def test_a_connection_that_is_gone_is_not_answered() -> None:
    assert asked(FakeManaged(), None, closes=True) == []


def test_only_so_many_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "TASKS_MAX", 0)
    assert [each.status for each in asked(FakeManaged(), None)] == [503]
