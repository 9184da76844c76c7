"""Backups of streams: the server's own snapshot of a stream in a folder, and a stream made of it again.

A folder has the two files that ``nats stream backup`` makes, and is read by ``nats stream restore``, too::

    stream.tar.s2    messages, and consumers with their state, as the server has them
    backup.json      {"config": …, "state": …, "sha256": …}: the stream, and the digest of the other file

Rules
 * The restored stream has the name, sequences, times and consumers of the one before. The time of a deleted last
   message is lost.
 * ``backup.json`` is written last: a folder without it is no backup. What has failed leaves no file.
 * The digest is proved before a restore begins. Backups of ``nats`` have none, and the server judges them.
 * Each chunk is acknowledged after it is written. So a slow disk slows the server down.

Not here: streams in memory, which servers do not back up, other names for a restored stream.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from jsproto.errors import Error, TimeoutError
from jsproto.grammar.api import ApiSubjects, decode_response
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.headers import status_line
from jsproto.grammar.subjects import check_name
from jsproto_io.cli.records import BadInput, BadUsage
from jsproto_io.cli.terminal import Failure
from jsproto_io.sync import Connection, Message

DATA: Final = "stream.tar.s2"
ABOUT: Final = "backup.json"
CHUNK: Final = 131_072  # bytes
SILENCE: Final = 60.0  # seconds without a chunk, after which the server has given up
RESTORING: Final = 3_600.0  # seconds that the server may need for what it has received
_END: Final = 204  # the status of the message after the last chunk

Progress = Callable[[int], object]
"""Called with the number of bytes so far."""


def back_up(
    nc: Connection, api: ApiSubjects, stream: str, folder: Path, *, consumers: bool, check: bool, progress: Progress
) -> int:
    """Write a backup of a stream. ``folder`` is made if need be. Returns its bytes.

    Args:
        nc: the connection.
        api: the subjects of the API.
        stream: the stream.
        folder: where to, without a backup in it.
        consumers: consumers are in it, too.
        check: the server checks each message first.
        progress: called with the number of bytes so far.

    Raises:
        BadUsage: there is a backup in the folder.
        APIError: the server refused.
        Failure: the server gave up.
        OSError: a file cannot be written.
    """
    if any((folder / name).exists() for name in (DATA, ABOUT)):
        raise BadUsage(f"there is a backup in {folder}: give another folder")
    inbox = nc.new_inbox()
    asked = {"deliver_subject": inbox, "no_consumers": not consumers, "chunk_size": CHUNK, "jsck": check}
    with nc.subscribe(inbox) as subscription:
        answer = _ask(nc, f"{api.prefix}.STREAM.SNAPSHOT.{check_name(stream)}", asked, f"stream {stream}")
        folder.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        with open(folder / DATA, "xb") as file:
            try:
                while message := _chunk(subscription.next_msg, stream):
                    file.write(message.data)
                    digest.update(message.data)
                    size += len(message.data)
                    progress(size)
                    if message.reply:
                        message.respond()
            except BaseException:
                os.remove(folder / DATA)
                raise
    about = {"config": answer["config"], "state": answer["state"], "sha256": digest.hexdigest()}
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return size


def _chunk(next_msg: Callable[..., Message], stream: str) -> Message | None:
    """The next chunk. None: there are no more. Failure: the server says why, or nothing any more."""
    try:
        message = next_msg(timeout=SILENCE)
    except TimeoutError:
        raise Failure(f"the backup of stream {stream} has stopped: nothing came for {SILENCE:g} s") from None
    if message.data:
        return message
    status = None if message._raw.header is None else status_line(message._raw.header)
    if status is not None and status[0] != _END:
        raise Failure(f"the backup of stream {stream} has stopped: {status[0]} {status[1]}".rstrip())
    return None


def restore(nc: Connection, api: ApiSubjects, folder: Path, *, progress: Progress) -> StreamInfo:
    """Make a stream of its backup.

    Args:
        nc: the connection.
        api: the subjects of the API.
        folder: where the backup is.
        progress: called with the number of bytes so far.

    Raises:
        BadInput: there is no backup in the folder, or it is damaged. Nothing was sent.
        APIError: the server refused, for example because the stream is there.
    """
    about = read_about(folder)
    name = about["config"]["name"]
    what = f"stream {name}"
    if not (folder / DATA).is_file():
        raise BadInput(f"the backup in {folder} is damaged: {DATA} is missing")
    with open(folder / DATA, "rb") as file:
        _prove(about, file, folder)
        request = {"config": about["config"], "state": about["state"]}
        to = _ask(nc, f"{api.prefix}.STREAM.RESTORE.{check_name(name)}", request, what)["deliver_subject"]
        while data := file.read(min(CHUNK, nc.max_payload)):
            _answer(nc.request(to, data).data, what)
            progress(file.tell())
        answer = nc.request(to, b"", timeout=RESTORING).data
    return StreamInfo.from_json(decode_response(answer, about=what))


def read_about(folder: Path) -> dict[str, Any]:
    """What a backup says of itself. BadInput: there is none, or it is damaged."""
    try:
        about = json.loads((folder / ABOUT).read_bytes())
        StreamInfo.from_json({"config": about["config"], "state": about["state"]})
        check_name(about["config"]["name"])
    except FileNotFoundError:
        raise BadInput(f"{folder} has no backup: {ABOUT} is missing") from None
    except (ValueError, KeyError, TypeError, Error):
        raise BadInput(f"the backup in {folder} is damaged: {ABOUT} says of no stream") from None
    assert isinstance(about, dict)
    return about


def _prove(about: dict[str, Any], file: BinaryIO, folder: Path) -> None:
    """BadInput: these are other bytes than those that were written."""
    wanted = about.get("sha256")
    if wanted is not None:
        digest = hashlib.sha256()
        while data := file.read(CHUNK):
            digest.update(data)
        if digest.hexdigest() != wanted:
            raise BadInput(f"the backup in {folder} is damaged: {DATA} is not what was written")
        file.seek(0)


def _ask(nc: Connection, subject: str, body: dict[str, Any], what: str) -> dict[str, Any]:
    return decode_response(nc.request(subject, json.dumps(body).encode()).data, about=what)


def _answer(payload: bytes, what: str) -> None:
    """APIError: the server refuses a chunk. Most answers are empty."""
    if payload:
        decode_response(payload, about=what)
