"""What schemathesis has to know about Wellspring beside its description."""

import json
import os
from itertools import cycle
from urllib.request import Request, urlopen

import schemathesis

# Deltas come in two encodings.
ACCEPTED = cycle(["*/*", "text/event-stream"])
SESSIONS = os.environ["WELLSPRING_URL"] + "/api/generation/session"


@schemathesis.deserializer("application/x-ndjson")
def lines(_context, response):
    """NDJSON, which it cannot read by itself: a list of what its lines are."""
    return [json.loads(line) for line in response.content.decode().split("\n") if line]


@schemathesis.hook
def before_call(_context, case, _kwargs):
    """Made-up sessions, made-up providers and two different keys would only ever be refused, so they become real."""
    if case.operation.label.endswith("/stream"):
        case.headers["Accept"] = next(ACCEPTED)
    body = case.body
    if not isinstance(body, dict) or (case.meta and case.meta.generation.mode.is_negative):
        return
    if case.operation.label == "POST /api/generation/stream":
        body["sessionId"] = new_session()
        body.pop("provider", None)
        if "Idempotency-Key" in case.headers:
            body.pop("idempotencyKey", None)
    elif case.operation.label == "POST /chat/stream" and "message" in body:
        body["session_id"] = new_session()


def new_session():
    with urlopen(Request(SESSIONS, method="POST"), timeout=10) as answer:
        return json.load(answer)["sessionId"]
