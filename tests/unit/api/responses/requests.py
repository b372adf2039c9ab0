"""Request bodies, as the route reads them."""

from __future__ import annotations

import msgspec

from millstream.api.prompts import Prompt
from millstream.api.responses.schemas import ResponsesRequest


def request(**members: object) -> ResponsesRequest:
    """A body with these members over the least that is needed."""
    content = {"model": "words", "input": "Hello", **members}
    return ResponsesRequest.model_validate_json(msgspec.json.encode(content))


PROMPT = Prompt(lambda tokenizer: tokenizer.encode("Hello"), 5, "input")
