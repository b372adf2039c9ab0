"""The README's list of parameters is that of the code."""

from __future__ import annotations

from millstream.api.responses.schemas import ResponsesRequest
from tests.unit.api.test_readme import listed

# What a request is made of, beside its parameters.
SHAPE = {"model", "stream", "stream_options"}


def test_what_is_served_is_listed() -> None:
    served = listed(r"Of `/v1/responses` served: ")
    assert served == ResponsesRequest.model_fields.keys() - SHAPE
