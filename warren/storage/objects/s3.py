"""An object store that speaks S3: Amazon's, or one of its kind at another address (aiobotocore).

Objects of more than 8 MiB are uploaded in parts; S3 shows the object when all parts are there. An
upload that fails is aborted. What a killed node leaves is listed among the keys, and `delete`
aborts it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from aiohttp import ClientError as HttpError
from botocore.exceptions import BotoCoreError, ClientError

from warren.storage.objects.location import S3, Location
from warren.storage.objects.store import NoSuchObject, StoreUnavailable

PART_BYTES: Final = 8 << 20  # S3 wants 5 MiB or more of each part but the last one
CONNECT_S: Final = 5
ANSWER_S: Final = 30
ATTEMPTS: Final = 2
ABSENT: Final = ("404", "NoSuchKey", "NoSuchUpload")
BEHIND: Final = ("416", "InvalidRange")  # the range begins where the object ends, or behind


class S3Store:
    """Keeps `warren.storage.objects.store.ObjectStore`."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._bucket, _, prefix = location.url.removeprefix(S3).partition("/")
        self._prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        self._client: Any = None

    async def _connected(self) -> Any:
        if self._client is None:
            location = self._location
            config = AioConfig(
                connect_timeout=CONNECT_S,
                read_timeout=ANSWER_S,
                retries={"max_attempts": ATTEMPTS},
                s3={"addressing_style": "path"} if location.endpoint else None,
            )
            context = get_session().create_client(
                "s3",
                region_name=location.region or None,
                endpoint_url=location.endpoint or None,
                aws_access_key_id=location.access_key or None,
                aws_secret_access_key=location.secret_key or None,
                config=config,
            )
            self._client = await context.__aenter__()
        return self._client

    @asynccontextmanager
    async def _asking(self, key: str = "") -> AsyncIterator[Any]:
        """The client; what it raises becomes an error of stores."""
        try:
            yield await self._connected()
        except ClientError as error:
            told = error.response.get("Error", {})
            code = str(told.get("Code", ""))
            if key and code in ABSENT:
                raise NoSuchObject(f"{S3}{self._bucket}/{self._prefix}{key}") from error
            reason = f"{code}: {told.get('Message', '')}"
            raise StoreUnavailable(f"{self._location.url}: {reason}") from error
        except (BotoCoreError, HttpError, OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise StoreUnavailable(f"{self._location.url}: {reason}") from error

    def _place(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    async def put(self, key: str, parts: AsyncIterator[bytes]) -> None:
        place = self._place(key)
        upload = ""
        etags: list[dict[str, object]] = []
        waiting = bytearray()
        try:
            async for part in parts:
                waiting += part
                while len(waiting) >= PART_BYTES:
                    if not upload:
                        async with self._asking() as client:
                            upload = (await client.create_multipart_upload(**place))["UploadId"]
                    piece = bytes(waiting[:PART_BYTES])
                    del waiting[:PART_BYTES]
                    await self._put_part(place, upload, etags, piece)
            if upload and waiting:
                await self._put_part(place, upload, etags, bytes(waiting))
            async with self._asking() as client:
                if upload:
                    await client.complete_multipart_upload(
                        **place, UploadId=upload, MultipartUpload={"Parts": etags}
                    )
                else:
                    await client.put_object(**place, Body=bytes(waiting))
        except BaseException:
            if upload:
                await self._abort(key)
            raise

    async def _put_part(
        self, place: dict[str, str], upload: str, etags: list[dict[str, object]], piece: bytes
    ) -> None:
        number = len(etags) + 1
        async with self._asking() as client:
            done = await client.upload_part(**place, UploadId=upload, PartNumber=number, Body=piece)
        etags.append({"ETag": done["ETag"], "PartNumber": number})

    async def _abort(self, key: str) -> None:
        """Abort all uploads of an object that are not complete; they are listed if this fails."""
        try:
            for found, upload in await self._uploads(key):
                if found == key:
                    async with self._asking() as client:
                        await client.abort_multipart_upload(**self._place(key), UploadId=upload)
        except StoreUnavailable:
            return

    async def get(self, key: str, start: int, length: int) -> bytes:
        reach = f"bytes={start}-{start + length - 1}"
        async with self._asking(key) as client:
            try:
                found = await client.get_object(**self._place(key), Range=reach)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in BEHIND:
                    return b""
                raise
            async with found["Body"] as body:
                content: bytes = await body.read()
        return content

    async def keys(self, prefix: str) -> list[str]:
        found = {
            each["Key"] for page in await self._pages(prefix) for each in page.get("Contents", ())
        }
        keys = {str(each).removeprefix(self._prefix) for each in found}
        return sorted(keys | {key for key, _ in await self._uploads(prefix)})

    async def folders(self, prefix: str) -> list[str]:
        begin = len(self._prefix) + len(prefix)
        pages = await self._pages(prefix, Delimiter="/")
        names = [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", ())]
        return sorted(str(each)[begin:].rstrip("/") for each in names)

    async def _pages(self, prefix: str, **options: str) -> list[Any]:
        async with self._asking() as client:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix, **options
            )
            return [page async for page in pages]

    async def _uploads(self, prefix: str) -> list[tuple[str, str]]:
        """Key and id of uploads that are not complete."""
        async with self._asking() as client:
            pages = client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            found = [each async for page in pages for each in page.get("Uploads", ())]
        return [(each["Key"].removeprefix(self._prefix), each["UploadId"]) for each in found]

    async def delete(self, key: str) -> None:
        async with self._asking() as client:
            await client.delete_object(**self._place(key))
        await self._abort(key)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.__aexit__(None, None, None)
            self._client = None
