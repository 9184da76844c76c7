"""Buckets of objects as a whole: create, bind, change, delete, list. The verbs of ``JetStream``.

Rules:

* A stream that is no bucket is a BadBucketError.
* An update fetches the configuration first. What it has no option for goes back as it came.

Not here: what the options mean (``grammar.object_store_config``), the verbs of one bucket (``object_store``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from jsproto.client.objects.describing import Script, of_store
from jsproto.client.objects.object_store import ObjectStore, bind_store, new_store
from jsproto.client.read.reads import Reads
from jsproto.grammar.object_info import bucket_of, stream_of
from jsproto.grammar.object_store_config import ObjectStoreConfig, ObjectStoreOptions, ObjectStoreStatus
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream


class ObjectStores(Reads):
    """The verbs of ``JetStream`` that make and find buckets of objects."""

    @property
    def _whole(self) -> JetStream:
        return cast("JetStream", self)

    def create_object_store(
        self, name: str, *, now: float, timeout: float | None = None, **options: Unpack[ObjectStoreOptions]
    ) -> Ticket[ObjectStore]:
        """Create a bucket of objects, or find it with the same configuration. ``options``: see ``ObjectStoreOptions``.

        The ticket fails with:
            BucketExistsError: the bucket exists with another configuration.

        Raises:
            LocalProtocolError: the name, or an option, cannot be.
            UnsupportedByServerError: the server is too old for an option.
        """
        js = self._whole
        config = ObjectStoreConfig.of(name, js.session.server, **options)
        return js.session.run(new_store(js, name, js.create_stream(config.stream, now=now, timeout=timeout)))

    def object_store(self, name: str, *, now: float, timeout: float | None = None) -> Ticket[ObjectStore]:
        """Bind to a bucket of objects that exists.

        The ticket fails with:
            BucketNotFoundError: it does not exist.

        Raises:
            LocalProtocolError: ``name`` is that of no bucket.
        """
        js = self._whole
        return js.session.run(bind_store(js, name, js.stream_info(stream_of(name), now=now, timeout=timeout)))

    def update_object_store(
        self, name: str, *, now: float, timeout: float | None = None, **options: Unpack[ObjectStoreOptions]
    ) -> Ticket[ObjectStoreStatus]:
        """Change the ``options`` of a bucket that are given. Of two changes at the same time the last one wins.

        The ticket fails with:
            BucketNotFoundError: there is no such bucket.
            APIError: the server does not change it.

        Raises:
            LocalProtocolError: ``name`` is that of no bucket, or an option cannot be.
        """
        ObjectStoreConfig.of(name, **options)  # to check them
        return self._whole.session.run(_update(self._whole, name, options, now, timeout))

    def delete_object_store(self, name: str, *, now: float, timeout: float | None = None) -> Ticket[bool]:
        """Delete a bucket with all its objects. The ticket fails with BucketNotFoundError where there is none."""
        js = self._whole
        return js.session.run(of_store(name, js.delete_stream(stream_of(name), now=now, timeout=timeout)))

    def object_stores(self, *, now: float, timeout: float | None = None) -> Ticket[list[ObjectStoreStatus]]:
        """All buckets of objects, sorted by name, and how much they hold. ``timeout``: seconds for each page."""
        return self._whole.session.run(_statuses(self._whole, now, timeout))


def _update(
    js: JetStream, name: str, options: ObjectStoreOptions, now: float, timeout: float | None
) -> Script[ObjectStoreStatus]:
    stream = stream_of(name)
    info = yield from of_store(name, js.stream_info(stream, now=now, timeout=timeout))
    changes: Any = ObjectStoreConfig.read(info.config).changes(**options)
    changed = js.change_stream(stream, changes, now=js.session.now, timeout=timeout)
    return ObjectStoreStatus((yield from of_store(name, changed)))


def _statuses(js: JetStream, now: float, timeout: float | None) -> Script[list[ObjectStoreStatus]]:
    infos = yield from js.streams(timeout=timeout).whole(now)
    return [ObjectStoreStatus(info) for info in infos if bucket_of(info.config.name) is not None]
