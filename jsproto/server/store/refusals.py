"""The errors with which the server refuses publishes, reads and configurations, in the words of nats-server 2.15.1.

Rules: one table has them by their code, with ``{}`` for what is filled in. The draft of ADR-50 has other numbers and
words for four errors of fast ingest (``draft_of``).

Not here: when each error occurs (the machines), how it is encoded (``grammar.acks``).
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import APIError

_REFUSALS: Final[dict[int, tuple[int, str]]] = {
    10003: (400, "bad request"),
    10010: (503, "JetStream clustering support required"),
    10012: (500, "{}"),
    10013: (400, "consumer name already in use"),
    10014: (404, "consumer not found"),
    10017: (400, "consumer name in subject does not match durable name in request"),
    10018: (400, "consumer expected to be durable but a durable name was not set"),
    10020: (400, "consumer expected to be ephemeral but a durable name was set in request"),
    10025: (400, "invalid JSON: {}"),
    10026: (400, "maximum consumers limit reached"),
    10031: (400, "stream mirrors can not also contain other sources"),
    10034: (400, "stream mirrors can not contain subjects"),
    10037: (404, "no message found"),
    10052: (500, "{}"),
    10054: (400, "message size exceeds maximum allowed"),
    10055: (400, "stream mirror configuration can not be updated"),
    10057: (500, "{}"),
    10059: (404, "stream not found"),
    10060: (400, "expected stream does not match"),
    10062: (500, "restore failed: {}"),
    10064: (500, "snapshot failed: {}"),
    10070: (400, "wrong last msg ID: {}"),
    10071: (400, "wrong last sequence: {}"),
    10077: (503, "{}"),
    10079: (400, "consumer deliver subject has wildcards"),
    10080: (400, "consumer in push mode can not set max waiting"),
    10081: (400, "consumer deliver subject forms a cycle"),
    10083: (400, "consumer idle heartbeat needs to be >= 100ms"),
    10084: (400, "consumer in pull mode requires explicit ack policy on workqueue stream"),
    10086: (400, "consumer in pull mode can not have rate limit set"),
    10088: (400, "consumer idle heartbeat requires a push based consumer"),
    10089: (400, "consumer flow control requires a push based consumer"),
    10090: (400, "consumer direct requires a push based consumer"),
    10091: (400, "consumer direct requires an ephemeral consumer"),
    10093: (400, "consumer filter subject is not a valid subset of the interest subjects"),
    10094: (400, "{}"),
    10095: (400, "failed to parse consumer sampling configuration: {}"),
    10097: (400, "header size exceeds maximum allowed of 64k"),
    10098: (400, "workqueue stream requires explicit ack"),
    10099: (400, "multiple non-filtered consumers not allowed on workqueue stream"),
    10100: (400, "filtered consumer not unique on workqueue stream"),
    10101: (400, "consumer must be deliver all on workqueue stream"),
    10102: (400, "consumer name is too long, maximum allowed is {}"),
    10103: (400, "durable name can not contain '.', '*', '>'"),
    10107: (400, "consumer description is too long, maximum allowed is {}"),
    10108: (400, "consumer with flow control also needs heartbeats"),
    10109: (400, "invalid operation on sealed stream"),
    10111: (500, "{}"),
    10112: (400, "invalid push consumer deliver subject"),
    10115: (400, "consumer max request expires needs to be >= 1ms"),
    10116: (400, "max deliver is required to be > length of backoff values"),
    10121: (400, "consumer max ack pending exceeds system limit of {}"),
    10126: (400, "consumer config replica count exceeds parent stream"),
    10127: (400, "Consumer name can not contain path separators"),
    10131: (400, "Consumer create request did not match filtered subject from create subject"),
    10133: (400, "replicas count cannot be negative"),
    10134: (400, "consumer config replicas must match interest retention stream's replicas"),
    10135: (400, "consumer metadata exceeds maximum size of {}"),
    10136: (400, "consumer cannot have both FilterSubject and FilterSubjects specified"),
    10137: (400, "consumer with multiple subject filters cannot use subject based API"),
    10138: (400, "consumer subject filters cannot overlap"),
    10139: (400, "consumer filter in FilterSubjects cannot be empty"),
    10140: (400, "duplicate source configuration detected"),
    10141: (400, "sourced stream name is invalid"),
    10142: (400, "mirrored stream name is invalid"),
    10143: (400, "stream mirrors can not have first sequence configured"),
    10144: (400, "source with multiple subject transforms cannot also have a single subject filter"),
    10146: (400, "source transform: {}"),
    10147: (400, "source filters can not overlap"),
    10148: (400, "consumer already exists"),
    10149: (400, "consumer does not exist"),
    10150: (400, "mirror with multiple subject transforms cannot also have a single subject filter"),
    10152: (400, "mirror subject filters can not overlap"),
    10154: (400, "mirror transform: {}"),
    10153: (400, "consumer inactive threshold exceeds system limit of {}"),
    10155: (400, "stream transform source: {}"),
    10156: (400, "stream transform: {}"),
    10157: (400, "pedantic mode: {}"),
    10159: (400, "Setting PriorityPolicy requires at least one PriorityGroup to be set"),
    10160: (400, "Provided priority group does not exist for this consumer"),
    10161: (400, "Group name cannot be an empty string"),
    10162: (400, "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters"),
    10164: (400, "wrong last sequence"),
    10165: (400, "invalid per-message TTL"),
    10166: (400, "per-message TTL is disabled"),
    10173: (400, "stream mirrors can not also calculate counters"),
    10174: (400, "atomic publish is disabled"),
    10175: (400, "atomic publish sequence is missing"),
    10176: (400, "atomic publish batch is incomplete"),
    10177: (400, "atomic publish unsupported header used: {}"),
    10178: (400, "priority groups can not be used with push consumers"),
    10179: (400, "atomic publish batch ID is invalid"),
    10183: (400, "consumer ack wait needs to be positive"),
    10184: (400, "consumer backoff needs to be positive"),
    10185: (412, "JetStream minimum api level required"),
    10186: (400, "stream mirrors can not also schedule messages"),
    10187: (400, "stream source can not also schedule messages"),
    10193: (400, "missing sequence for expected last sequence per subject"),
    10196: (400, "consumer can not have priority groups when policy is none"),
    10197: (400, "PinnedTTL cannot be set when PriorityPolicy is none"),
    10198: (400, "stream mirrors can not also use atomic publishing"),
    10199: (400, "atomic publish batch is too large: {}"),
    10200: (400, "atomic publish batch commit is invalid"),
    10201: (400, "atomic publish batch contains duplicate message id"),
    10204: (400, "invalid reset: {}"),
    10205: (400, "batch publish is disabled"),
    10206: (400, "batch publish pattern is invalid"),
    10207: (400, "batch publish ID is invalid"),
    10208: (400, "batch publish ID unknown"),
    10209: (400, "stream mirrors can not also use batch publishing"),
    10210: (429, "atomic publish too many inflight"),
    10211: (429, "batch publish too many inflight"),
    10213: (400, "stream mirror consumer config is invalid"),
    10214: (400, "stream mirror consumer requires flow control ack policy"),
    10215: (400, "stream source consumer config is invalid"),
    10216: (400, "duplicate stream source consumer detected"),
    10217: (400, "stream source consumer requires flow control ack policy"),
    10218: (400, "flow control ack policy requires a push based consumer"),
    10219: (400, "flow control ack policy requires flow control"),
    10220: (400, "flow control ack policy requires max ack pending"),
    10221: (400, "flow control ack policy requires unset ack wait"),
    10222: (400, "flow control ack policy requires unset max deliver"),
    10225: (400, "consumer's stream identity does not match: {}"),
    10227: (400, "message stream source header is not allowed"),
}
_DRAFT: Final[dict[int, tuple[int, str]]] = {
    10205: (10203, "Batch publish not enabled on stream"),
    10206: (10204, "Batch publish invalid pattern used"),
    10207: (10205, "Batch publish ID is invalid (exceeds 64 characters)"),
    10208: (10206, "Batch publish ID is unknown"),
}


def refusal(err_code: int, filling: str | int = "") -> APIError:
    """The error with the code ``err_code``. ``filling`` takes the place of ``{}`` in its description."""
    code, description = _REFUSALS[err_code]
    return APIError.from_fields(code, err_code, description.format(filling))


def draft_of(error: APIError) -> APIError:
    """``error`` with the number and the words of ADR-50's draft. Most errors are the same there."""
    if error.err_code not in _DRAFT:
        return error
    err_code, description = _DRAFT[error.err_code]
    return APIError.from_fields(error.code, err_code, description)
