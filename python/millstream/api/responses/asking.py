"""What the engine is asked for by a request for a response."""

from __future__ import annotations

from millstream.api.branch import context_length_of, deadlines_of, tokenise
from millstream.api.prompts import Prompt
from millstream.api.responses.messages import messages_of
from millstream.api.responses.sampling import sampling_params
from millstream.api.responses.schemas import ResponsesRequest
from millstream.api.services import ServedModel
from millstream.streams.orchestrator import BranchRequest


async def branch_request(served: ServedModel, body: ResponsesRequest) -> BranchRequest:
    """The one branch of the stream.

    Raises `RequestError` for what does not fit the model, `EngineUnavailable` while it is away.
    """
    messages = messages_of(body)
    prompt = Prompt(
        lambda tokenizer: tokenizer.encode_chat(messages),
        sum(len(text) for message in messages for text in message.values()),
        "input",
    )
    context_length = context_length_of(served)
    tokens = await tokenise(served, prompt, context_length)
    params = sampling_params(
        body,
        prompt,
        prompt_tokens=len(tokens),
        context_length=context_length,
        max_tokens_cap=served.settings.max_tokens,
    )
    return BranchRequest(
        model=served.name,
        engine=served.engine,
        prompt=tokens,
        params=params,
        deadlines=deadlines_of(served),
    )
