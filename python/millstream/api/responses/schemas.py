"""The request bodies of the Responses routes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    StringConstraints,
)

from millstream.api.schemas import ModelName, SamplingFields, TextPart, TokenCount

MetadataKey = Annotated[str, StringConstraints(max_length=64, strict=True)]
MetadataValue = Annotated[str, StringConstraints(max_length=512, strict=True)]
Echoed = Annotated[str, StringConstraints(max_length=512, strict=True)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class InputItem(_Body):
    """One item of ``input``; only messages are served, which `type` need not say."""

    type: StrictStr | None = None
    role: StrictStr | None = None
    content: StrictStr | Annotated[list[TextPart], Field(fail_fast=True)] | None = None


class TextFormat(_Body):
    """The form that the text must have."""

    type: StrictStr


class TextOptions(_Body):
    """``text`` of a request."""

    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ResponseStreamOptions(_Body):
    """``stream_options`` of a request."""

    include_obfuscation: StrictBool | None = None
    include_metadata: StrictBool | None = None
    resumable: StrictBool | None = None


class ResponsesRequest(SamplingFields):
    """The body of ``POST /v1/responses``."""

    model: ModelName
    input: (
        StrictStr | Annotated[list[InputItem], Field(fail_fast=True, min_length=1, max_length=4096)]
    )
    instructions: StrictStr | None = None
    stream: StrictBool | None = None
    stream_options: ResponseStreamOptions | None = None
    background: StrictBool | None = None
    store: StrictBool | None = None
    max_output_tokens: TokenCount | None = None
    adapt_max_tokens: StrictBool | TokenCount | None = None
    text: TextOptions | None = None
    include: Annotated[list[StrictStr], Field(fail_fast=True, max_length=64)] | None = None
    metadata: (
        Annotated[dict[MetadataKey, MetadataValue], Field(fail_fast=True, max_length=16)] | None
    ) = None
    parallel_tool_calls: StrictBool | None = None
    prompt_cache_key: Echoed | None = None
    safety_identifier: Echoed | None = None
    user: Echoed | None = None
