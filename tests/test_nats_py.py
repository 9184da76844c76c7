"""The page for those who come from nats-py is whole, and what it names is there.

Rules: each public name of nats-py's classes, and each option of its ``connect``, stands in the section of its class.
What stands beside it exists here, or a dash says why there is nothing.

Not here: the program of the page (``test_readme``), nats-py itself against the server in memory (``testing_io``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from importlib.metadata import version
from typing import Any, Final

import nats
import nats.aio.client
import nats.aio.msg
import nats.aio.subscription
import nats.errors
import nats.js
import nats.js.errors
import nats.js.kv
import nats.js.object_store
import pytest

import jsproto
import jsproto.api_errors
import jsproto.errors
import jsproto.events
import jsproto_io
import jsproto_io.asyncio as ours
from jsproto.client.connection.statistics import Statistics
from jsproto.grammar.config import ServerInfo, StreamState
from jsproto.grammar.object_store_config import ObjectStoreConfig, ObjectStoreStatus
from jsproto_io._state.hints import NATS_PY
from tests.readmes import READMES
from tests.sentences import sections

PAGE: Final = READMES["transports/jsproto_io/NATS_PY.md"]
_Msg: Final = nats.aio.msg.Msg
_Context: Final = nats.js.JetStreamContext
_KeyValue: Final = nats.js.kv.KeyValue
_ObjectStore: Final = nats.js.object_store.ObjectStore
THEIRS: Final[dict[str, type]] = {
    "Client": nats.aio.client.Client,
    "Msg": _Msg,
    "Msg.Metadata": _Msg.Metadata,
    "Subscription": nats.aio.subscription.Subscription,
    "JetStreamContext": _Context,
    "PushSubscription": _Context.PushSubscription,
    "PullSubscription": _Context.PullSubscription,
    "JetStreamManager": nats.js.JetStreamManager,
    "KeyValue": _KeyValue,
    "KeyValue.Entry": _KeyValue.Entry,
    "KeyValue.BucketStatus": _KeyValue.BucketStatus,
    "KeyValue.KeyWatcher": _KeyValue.KeyWatcher,
    "ObjectStore": _ObjectStore,
    "ObjectStore.ObjectStoreStatus": _ObjectStore.ObjectStoreStatus,
    "ObjectStore.ObjectResult": _ObjectStore.ObjectResult,
    "ObjectStore.ObjectWatcher": _ObjectStore.ObjectWatcher,
}
OPTIONS: Final = "Options of `nats.connect`"
ERRORS: Final = {f"Errors of `{module.__name__}`": module for module in (nats.errors, nats.js.errors)}
HERE: Final[dict[str, tuple[type, ...]]] = {
    "nc": (ours.Connection,),
    "nc.server_info": (ServerInfo,),
    "js": (ours.JetStream,),
    "msg": (ours.Message,),
    "job": (ours.JSMsg,),
    "job.metadata": (jsproto.JSAck,),
    "pending": (ours.PendingAck,),
    "stored": (jsproto.StoredMsg,),
    "sub": (ours.Subscription, ours.PushSubscription, ours.PullSubscription),
    "info": (jsproto.StreamInfo,),
    "info.config": (jsproto.StreamConfig,),
    "info.state": (StreamState,),
    "bucket": (ours.Bucket,),
    "entry": (jsproto.KeyValueEntry,),
    "watcher": (ours.KeyWatcher, ours.ObjectWatcher),
    "store": (ours.ObjectStore,),
    "reader": (ours.ObjectReader,),
    "objects": (ObjectStoreStatus,),
    "objects.config": (ObjectStoreConfig,),
    "status": (jsproto.BucketStatus,),
    "status.config": (jsproto.BucketConfig,),
}
"""What a name of the right column stands for."""
THEIR_WORDS: Final = frozenset(
    {
        "allow_reconnect=False", "create", "direct=False", "filters", "future", "include_history", "max_msgs",
        "msg_ttl", "ordered_consumer=True", "show_deleted", "stream", "subjects_filter",
    }
)  # fmt: skip
"""What the right column says of nats-py."""
CLASSES: Final = (ours, jsproto, jsproto.events, jsproto.errors, jsproto.api_errors)


def rows(section: str) -> list[tuple[list[str], str]]:
    """The names on the left of each row, and what is on the right."""
    found = []
    for line in sections(PAGE)[section].splitlines():
        if line.startswith("| `"):
            left, right = line.strip("| ").split(" | ", 1)
            found.append((re.findall(r"`([^`]+)`", left), right))
    return found


def members(cls: type, without: Collection[type] = ()) -> set[str]:
    """The public names of a class, fields without a default included. ``without``: bases to leave out."""
    bases = [each for each in cls.__mro__ if each is not object and each not in without]
    own = {name for each in bases for name in (*vars(each), *inspect.get_annotations(each))}
    return {name for name in own if not name.startswith("_")}


def public(section: str) -> set[str]:
    """The public names of nats-py that belong into a section."""
    if section in ERRORS:
        return {
            name
            for name, kind in vars(ERRORS[section]).items()
            if getattr(kind, "__module__", "") == ERRORS[section].__name__
        }
    if section == OPTIONS:
        return set(inspect.signature(nats.aio.client.Client.connect).parameters) - {"self"}
    cls = THEIRS[section.removeprefix("Names of ").strip("`")]
    names = members(cls, without=set(THEIRS.values()) - {cls})
    if cls is nats.aio.client.Client:
        names |= {name for name in vars(cls()) if not name.startswith("_")}
    return names


def keywords() -> set[str]:
    """The keyword arguments of our verbs and of ``connect``."""
    found = {*jsproto_io.ConnectKeywords.__annotations__, "event_cb"}
    for cls in (ours.Connection, *(each for group in HERE.values() for each in group)):
        for name in members(cls):
            value = inspect.getattr_static(cls, name)
            if inspect.isfunction(value):
                found |= set(inspect.signature(value).parameters)
    for cls in (jsproto.StreamConfig, jsproto.ConsumerConfig):
        found |= members(cls)
    js = ours.JetStream
    for verb in (js.get_msg, js.publish, js.subscribe, js.create_bucket, ours.Bucket.watch):
        found |= options_of(verb)
    return found


def options_of(verb: Any) -> set[str]:
    """The keywords that ``**options`` of a verb stands for."""
    annotation = inspect.signature(verb, eval_str=True).parameters["options"].annotation
    return set(annotation.__args__[0].__annotations__)


KEYWORDS: Final = keywords()
_OWNERS: Final = "|".join(name for name in HERE if "." not in name)
_NAME: Final = re.compile(rf"\b((?:{_OWNERS})(?:\.\w+)*)\.(\w+)")


def missing_here(code: str) -> list[str]:
    """The names in a piece of code that do not exist here."""
    code = re.sub(r'"[^"]*"', '""', code) if "stats[" not in code else code
    missing = []
    for owner, name in _NAME.findall(code):
        if owner in HERE:
            missing += [] if any(name in members(cls) for cls in HERE[owner]) else [f"{owner}.{name}"]
            continue
        parent, _, last = owner.rpartition(".")  # an attribute of what we do not look into
        missing += [] if any(last in members(cls) for cls in HERE[parent]) else [owner]
    missing += [f"{word}=" for word in re.findall(r"\b(\w+)=", code) if word not in KEYWORDS]
    missing += [key for key in re.findall(r'stats\["(\w+)"\]', code) if key not in Statistics.__annotations__]
    missing += [
        word for word in re.findall(r"^([A-Z]\w*[a-z]\w*)$", code) if not any(hasattr(each, word) for each in CLASSES)
    ]
    return missing


SECTIONS: Final = [f"Names of `{name}`" for name in THEIRS] + [OPTIONS, *ERRORS]


@pytest.mark.parametrize("section", SECTIONS)
def test_each_name_of_nats_py_stands_there(section: str) -> None:
    named = [name for names, _ in rows(section) for name in names]
    assert len(named) == len(set(named))
    assert public(section) - set(named) == set()


@pytest.mark.skipif(not version("nats-py").startswith("2.16."), reason="the page is about nats-py 2.16")
@pytest.mark.parametrize("section", SECTIONS)
def test_no_other_name_stands_there(section: str) -> None:
    assert {name for names, _ in rows(section) for name in names} - public(section) == set()


@pytest.mark.parametrize("section", SECTIONS)
def test_what_stands_beside_it_exists_or_has_a_reason(section: str) -> None:
    for names, right in rows(section):
        code = re.findall(r"`([^`]+)`", right)
        assert code or right.startswith("— "), names
        theirs = {word for word in code if word in THEIR_WORDS}
        assert [word for each in code if each not in theirs for word in missing_here(each)] == [], names


def test_a_missing_name_would_be_noticed() -> None:
    assert missing_here("nc.server_info.client_id and nc.gone()") == ["nc.gone"]
    assert missing_here('js.publish("a=1", b"", msg_id="1", nonsense=2)') == ["nonsense="]
    assert missing_here('nc.stats["pending_bytes"]') == []
    assert missing_here('nc.stats["gone"]') == ["gone"]
    assert missing_here("NoSuchEvent") == ["NoSuchEvent"]
    assert missing_here("job.metadata.nothing") == ["job.metadata.nothing"]
    assert missing_here("sub.nothing") == ["sub.nothing"]


def test_a_name_of_nats_py_is_told_with_ours() -> None:
    """Each one that JetStream has not. A name of nobody is told as ever, with what is like it."""
    theirs = {
        name for kind in ("JetStreamContext", "JetStreamManager") for name, value in inspect.getmembers(THEIRS[kind])
        if not name.startswith("_") and inspect.isfunction(value) and not hasattr(ours.JetStream, name)
    }  # fmt: skip
    assert theirs - {"is_status_msg"} == set(NATS_PY)
    js: Any = object.__new__(ours.JetStream)
    for name, hint in NATS_PY.items():
        with pytest.raises(AttributeError, match=f"'{name}' is of nats-py") as caught:
            getattr(js, name)
        assert hint in str(caught.value)
    for hint in set(NATS_PY.values()):
        verbs = re.findall(r"(\w+)\(", hint)
        assert all(hasattr(ours.JetStream, verb) for verb in verbs)
    with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
        _ = js.no_such
    assert not hasattr(js, "add_stream")
