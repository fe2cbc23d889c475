"""Object stores: the same behaviour of a directory and of S3, which moto's server stands in for."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import pytest
from moto.server import ThreadedMotoServer

from warren.storage.objects.directory import UNFINISHED
from warren.storage.objects.location import Location, location_fault, open_store
from warren.storage.objects.store import NoSuchObject, ObjectStore, StoreUnavailable

BUCKET = "warren"
T = TypeVar("T")
Run = Callable[[Callable[[ObjectStore], Awaitable[T]]], T]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def s3(endpoint: str, url: str = f"s3://{BUCKET}/streams") -> Location:
    return Location(url, endpoint, "us-east-1", "key", "secret")


def client(location: Location) -> Any:
    from aiobotocore.session import get_session

    return get_session().create_client(
        "s3",
        region_name=location.region,
        endpoint_url=location.endpoint,
        aws_access_key_id=location.access_key,
        aws_secret_access_key=location.secret_key,
    )


async def make_bucket(location: Location) -> None:
    async with client(location) as made:
        await made.create_bucket(Bucket=BUCKET)


def run(location: Location, work: Callable[[ObjectStore], Awaitable[T]]) -> T:
    async def main() -> T:
        store = open_store(location)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


@pytest.fixture(params=["directory", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path, endpoint: str) -> Location:
    if request.param == "directory":
        return Location(f"file://{tmp_path}")
    asyncio.run(make_bucket(s3(endpoint)))
    return s3(endpoint, f"s3://{BUCKET}/{tmp_path.name}")


async def parts_of(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_an_object_is_read_by_range_listed_and_deleted(location: Location) -> None:
    async def work(store: ObjectStore) -> None:
        await store.put("c/1/one", parts_of(b"abc", b"def"))
        await store.put("c/1/two", parts_of())
        await store.put("c/2/one", parts_of(b"x"))
        assert await store.get("c/1/one", 2, 2) == b"cd"
        assert await store.get("c/1/one", 4, 100) == b"ef"
        assert await store.get("c/1/one", 6, 1) == await store.get("c/1/one", 100, 5) == b""
        assert await store.keys("c/1/") == ["c/1/one", "c/1/two"]
        assert await store.folders("c/") == ["1", "2"]
        await store.put("c/1/one", parts_of(b"new"))
        assert await store.get("c/1/one", 0, 9) == b"new"
        await store.delete("c/1/one")
        await store.delete("c/1/one")
        assert await store.keys("c/1/") == ["c/1/two"]
        with pytest.raises(NoSuchObject, match="c/1/one"):
            await store.get("c/1/one", 0, 1)
        assert await store.keys("c/none/") == await store.folders("none/") == []

    run(location, work)


def test_an_object_of_several_parts_is_whole(location: Location) -> None:
    content = os.urandom(1 << 20)

    async def work(store: ObjectStore) -> None:
        await store.put("c/1/large", parts_of(*[content] * 18))
        for at in (0, 7 << 20, 8 << 20, 16 << 20, 17 << 20):
            assert await store.get("c/1/large", at, 1 << 20) == content
        assert await store.get("c/1/large", (18 << 20) - 1, 9) == content[-1:]

    run(location, work)


def test_a_put_that_is_cut_short_leaves_no_object(location: Location) -> None:
    """The error of the reader comes through; what is left is listed or gone, and can be deleted."""

    async def broken() -> AsyncIterator[bytes]:
        yield bytes(9 << 20)
        raise ValueError("the file is damaged")

    async def work(store: ObjectStore) -> None:
        with pytest.raises(ValueError, match="damaged"):
            await store.put("c/1/torn", broken())
        with pytest.raises(NoSuchObject):
            await store.get("c/1/torn", 0, 1)
        for key in await store.keys("c/1/"):
            await store.delete(key)
        assert await store.keys("c/1/") == []

    run(location, work)


def test_an_upload_of_a_killed_node_is_listed_and_deleted(endpoint: str) -> None:
    from warren.storage.objects.s3 import S3Store

    asyncio.run(make_bucket(s3(endpoint)))

    async def work() -> None:
        store = S3Store(s3(endpoint, f"s3://{BUCKET}/killed"))
        async with client(s3(endpoint)) as other:
            await other.create_multipart_upload(Bucket=BUCKET, Key="killed/c/1/torn")
        assert await store.keys("c/1/") == ["c/1/torn"]
        await store.delete("c/1/torn")
        assert await store.keys("c/1/") == []
        await store.close()

    asyncio.run(work())


def test_a_file_that_was_not_finished_is_listed_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "c" / "1").mkdir(parents=True)
    (tmp_path / "c" / "1" / f"torn{UNFINISHED}").write_bytes(b"half")

    async def work(store: ObjectStore) -> None:
        assert await store.keys("c/1/") == ["c/1/torn"]
        await store.delete("c/1/torn")
        assert await store.keys("c/1/") == []

    run(Location(f"file://{tmp_path}"), work)


async def put_one(store: ObjectStore) -> None:
    await store.put("c/1/one", parts_of(b"abc"))


async def get_one(store: ObjectStore) -> bytes:
    return await store.get("c/1/one", 0, 3)


@pytest.mark.parametrize("work", [put_one, get_one])
def test_a_store_that_cannot_be_used_says_which_and_why(
    tmp_path: Path, endpoint: str, work: Callable[[ObjectStore], Awaitable[object]]
) -> None:
    absent = tmp_path / "not mounted"
    with pytest.raises(StoreUnavailable, match="not mounted: there is no such directory"):
        run(Location(f"file://{absent}"), work)
    assert not absent.exists()
    with pytest.raises(StoreUnavailable, match="s3://nowhere: NoSuchBucket"):
        run(s3(endpoint, "s3://nowhere"), work)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        run(s3("http://127.0.0.1:1"), work)


def need_credentials(endpoint: str, after_calls: bytes) -> None:
    """Have moto look at credentials, after so many calls."""
    place, headers = f"{endpoint}/moto-api/reset-auth", {"Content-Type": "text/plain"}
    urlopen(Request(place, after_calls, headers, method="POST"), timeout=10).close()


@pytest.mark.parametrize("work", [put_one, get_one])
def test_wrong_credentials_are_an_unavailable_store(
    endpoint: str, work: Callable[[ObjectStore], Awaitable[object]]
) -> None:
    asyncio.run(make_bucket(s3(endpoint)))
    need_credentials(endpoint, b"0")
    try:
        with pytest.raises(StoreUnavailable, match="InvalidAccessKeyId"):
            run(s3(endpoint), work)
    finally:
        need_credentials(endpoint, b"Infinity")


@pytest.mark.parametrize("url", ["", "file://relative", "s3://", "s3:///prefix", "http://x/y"])
def test_what_names_no_store_is_refused(url: str) -> None:
    assert location_fault(url) is not None


@pytest.mark.parametrize("url", ["file:///mnt/streams", "s3://bucket", "s3://bucket/a/b"])
def test_a_url_of_a_store_is_taken(url: str) -> None:
    assert location_fault(url) is None
