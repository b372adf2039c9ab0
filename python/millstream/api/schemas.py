"""The request bodies of the routes that generate."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

StopText = Annotated[str, Field(min_length=1, max_length=256, strict=True)]
TokenId = Annotated[int, Field(ge=0, lt=2**31, strict=True)]
Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]

# Every list fails fast: a body of a million wrong items held the loop for 40 s with an error each.


class _Body(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class StreamOptions(_Body):
    """``stream_options`` of a request."""

    include_usage: StrictBool | None = None
    include_metadata: StrictBool | None = None
    include_obfuscation: StrictBool | None = None
    resumable: StrictBool | None = None
    integrity: StrictBool | None = None
    fields: StrictBool | None = None


class TextPart(_Body):
    """One part of a message's content."""

    type: StrictStr
    text: StrictStr | None = None


class Message(_Body):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: StrictStr | Annotated[list[TextPart], Field(fail_fast=True)] | None = None


ModelName = Annotated[StrictStr, Field(min_length=1)]
TokenCount = Annotated[StrictInt, Field(ge=1)]
Messages = Annotated[list[Message], Field(fail_fast=True, min_length=1, max_length=4096)]
# Ids before texts: of two members that fail alike, the first one's error is shown.
Prompt = (
    StrictStr
    | Annotated[list[TokenId], Field(fail_fast=True, min_length=1)]
    | Annotated[list[StrictStr], Field(fail_fast=True, min_length=1)]
)


class SamplingFields(_Body):
    """How tokens are chosen, whatever the API."""

    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    top_k: Annotated[StrictInt, Field(ge=0, le=1_000_000)] | None = None
    min_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    seed: Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | None = None
    presence_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[Number, Field(gt=0, le=10)] | None = None
    stop: StopText | Annotated[list[StopText], Field(fail_fast=True, max_length=16)] | None = None
    ignore_eos: StrictBool | None = None


class CompletionFields(SamplingFields):
    """The same with how many tokens, and how many choices."""

    max_tokens: TokenCount | None = None
    n: Annotated[StrictInt, Field(ge=1, le=16)] | None = None


class GenerationRequest(CompletionFields):
    """What chat and text completions have in common."""

    model: ModelName
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    adapt_max_tokens: StrictBool | TokenCount | None = None


class ChatCompletionRequest(GenerationRequest):
    """The body of ``POST /v1/chat/completions``."""

    messages: Messages
    max_completion_tokens: TokenCount | None = None


class CompletionRequest(GenerationRequest):
    """The body of ``POST /v1/completions``."""

    prompt: Prompt


class BranchFields(CompletionFields):
    """What one model is asked for; unset fields are those of the request around it."""

    model: ModelName | None = None
    messages: Messages | None = None
    prompt: Prompt | None = None
    max_completion_tokens: TokenCount | None = None


MAX_BRANCHES = 16


class CreateStreamRequest(BranchFields):
    """The body of ``POST /v1/streams``."""

    branches: (
        Annotated[list[BranchFields], Field(fail_fast=True, min_length=1, max_length=MAX_BRANCHES)]
        | None
    ) = None
    stream: StrictBool | None = None
    resumable: StrictBool | None = None
    integrity: StrictBool | None = None
    metadata: StrictBool | None = None
    fields: StrictBool | None = None
    adapt_max_tokens: StrictBool | TokenCount | None = None


class CancelRequest(_Body):
    """The body of ``POST /v1/streams/{id}/cancel``, which may be empty."""

    branch: Annotated[StrictInt, Field(ge=0, lt=MAX_BRANCHES)] | None = None
