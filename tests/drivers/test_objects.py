"""What an object store needs of every driver: the verbs carry one, as ADR-20 lays it out, on a real server.

The library has no object store. A put sends its chunks by fast ingest where the bucket's stream allows it, else by
publishes with acknowledgements under way. It sends the meta message when all chunks are stored.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest

from jsproto.errors import APIError, BatchError, MessageNotFoundError
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import read_all, unique
from tests.marks import requirement

pytestmark = pytest.mark.anyio

CHUNK = 1_000
DATA = bytes(range(256)) * 40
ENOUGH = 100_000  # bytes of a bucket


async def make_bucket(nc: Any, allow_batched: bool, max_bytes: int) -> tuple[Any, str]:
    js, bucket = nc.jetstream(), unique("B")
    await js.create_stream(
        f"OBJ_{bucket}", subjects=[f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"], storage="memory", discard="new",
        allow_rollup_hdrs=True, allow_direct=True, allow_batched=allow_batched, max_bytes=max_bytes,
    )  # fmt: skip
    return js, bucket


def meta_subject(bucket: str, name: str) -> str:
    return f"$O.{bucket}.M.{urlsafe_b64encode(name.encode()).decode()}"


def digest(data: bytes) -> str:
    return f"SHA-256={urlsafe_b64encode(sha256(data).digest()).decode()}"


async def send_chunks(js: Any, bucket: str, subject: str, chunks: Sequence[bytes]) -> int:
    """Returns how many are stored, all of them. Raises what went wrong."""
    if (await js.stream_info(f"OBJ_{bucket}")).config.allow_batched:
        async with js.fast_publisher(gap="fail") as batch:
            await batch.publish_many((subject, chunk) for chunk in chunks)
            count: int = (await batch.commit()).count
            return count
    under_way = [await js.publish_async(subject, chunk) for chunk in chunks]
    return len([await ack.result() for ack in under_way])


async def put(js: Any, bucket: str, name: str, data: bytes) -> None:
    nuid, chunks = unique(""), [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    sent = await send_chunks(js, bucket, f"$O.{bucket}.C.{nuid}", chunks)
    meta = {"name": name, "bucket": bucket, "nuid": nuid, "size": len(data), "chunks": sent, "digest": digest(data)}
    await js.publish(meta_subject(bucket, name), json.dumps(meta).encode(), headers={"Nats-Rollup": "sub"})


async def get(js: Any, bucket: str, name: str) -> tuple[dict[str, Any], bytes]:
    meta = json.loads((await js.get_last_msg(f"OBJ_{bucket}", meta_subject(bucket, name))).data)
    chunks = await read_all(js.get_batch(f"OBJ_{bucket}", subject=f"$O.{bucket}.C.{meta['nuid']}"))
    assert len(chunks) == meta["chunks"]
    return meta, b"".join(chunk.data for chunk in chunks)


@requirement(93)
@pytest.mark.parametrize("allow_batched", [True, False], ids=["fast", "plain"])
async def test_an_object_is_put_by_fast_ingest_where_its_bucket_allows(
    server: Any, connect: Connect, allow_batched: bool
) -> None:
    async with connect(server.url) as nc:
        js, bucket = await make_bucket(nc, allow_batched, ENOUGH)
        for data in (b"first", DATA):
            await put(js, bucket, "letter é.txt", data)
            meta, found = await get(js, bucket, "letter é.txt")
            assert (found, meta["size"], meta["digest"]) == (data, len(data), digest(found))
        metas = await read_all(js.get_batch(f"OBJ_{bucket}", subject=f"$O.{bucket}.M.>"))
        assert len(metas) == 1  # the second rolled up the first


@requirement(93)
@pytest.mark.parametrize(("allow_batched", "error"), [(True, BatchError), (False, APIError)], ids=["fast", "plain"])
async def test_an_object_that_broke_off_has_no_meta(
    server: Any, connect: Connect, allow_batched: bool, error: type[Exception]
) -> None:
    async with connect(server.url) as nc:
        js, bucket = await make_bucket(nc, allow_batched, len(DATA) // 2)
        with pytest.raises(error):
            await put(js, bucket, "big", DATA)
        with pytest.raises(MessageNotFoundError):
            await get(js, bucket, "big")
        left = await read_all(js.get_batch(f"OBJ_{bucket}", subject=f"$O.{bucket}.C.>"))
        assert 0 < len(left) < len(DATA) // CHUNK  # so that the meta could have been stored too soon
