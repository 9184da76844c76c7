"""What nats-py calls the verbs of JetStream, for whoever types its names.

Rules: a name that is asked for in vain is told with ours. It leaves out names that are ours.

Not here: the table of all names (``NATS_PY.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

NATS_PY: Final = {
    "add_stream": "it is create_stream() here",
    "add_consumer": "it is create_consumer() here",
    "subscribe_bind": "it is subscribe(consumer=) here",
    "find_stream_name_by_subject": "it is find_stream() here",
    "streams_info": "it is streams() here",
    "streams_info_iterator": "it is streams() here",
    "key_value": "it is bucket() here",
    "create_key_value": "it is create_bucket() here",
    "delete_key_value": "it is delete_bucket() here",
}


class NamesOfNatsPy:
    """Tells the names of this library to those who use the ones of nats-py."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker is to complain of every name that is not there

        def __getattr__(self, name: str) -> Any:
            hint = NATS_PY.get(name)
            if hint is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise AttributeError(f"{name!r} is of nats-py: {hint}", name=name)
