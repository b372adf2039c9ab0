"""Streams that requests for responses have made, at any point of their life."""

from __future__ import annotations

from millstream._core import Log
from millstream.api.responses.sampling import sampling_params
from millstream.api.responses.template import response_template
from millstream.store.descriptor import BranchDescriptor, Descriptor
from millstream.store.recording import Recording
from millstream.types import Failure, Kind, Outcome, Usage
from tests.unit.api.responses.requests import PROMPT, request

TIME = 1_750_000_000_000_000_000


def recording(log: Log, **members: object) -> Recording:
    """A stream of this log that such a request made."""
    body = request(**members)
    params = sampling_params(body, PROMPT, prompt_tokens=3, context_length=64, max_tokens_cap=None)
    template = response_template(body, params, stream_id="s1", created=TIME // 10**9)
    descriptor = Descriptor(
        id="s1",
        route="response",
        dialect="responses",
        created=TIME // 10**9,
        branches=(BranchDescriptor(model="words", chunk_id="resp_s1"),),
        response=template,
    )
    return Recording(descriptor, log)


def written(*texts: str, log: Log | None = None) -> Log:
    log = log or Log()
    for text in texts:
        log.append(Kind.TOKEN, text, token_count=1, time_ns=TIME)
    return log


def ended(log: Log, outcome: Outcome, error: Failure | None = None) -> Log:
    if outcome in (Outcome.COMPLETED, Outcome.LENGTH):
        log.append(Kind.FINISH, "stop" if outcome is Outcome.COMPLETED else "length", time_ns=TIME)
        log.append(Kind.USAGE, Usage(3, log.token_count).to_json(), time_ns=TIME)
    if error is not None:
        log.append(Kind.ERROR, error.to_json(), time_ns=TIME)
    log.close(outcome, time_ns=TIME)
    return log
