"""Every failure that Millstream raises on purpose.

MillstreamError
├── ConfigError              the configuration cannot be used
├── RequestError             the client's request cannot be served as it stands
│   ├── InvalidParameter     a field has a value that is not allowed
│   ├── UnsupportedParameter a field that would change the meaning and is not supported
│   ├── ContextLengthExceeded
│   ├── CostExceedsLimit     a limit that this request could never pass
│   └── UnknownModel
├── EngineError              the engine failed, the request was right
│   └── EngineUnavailable    no engine can take requests at the moment
├── StoreUnavailable         the stream store does not answer, the request was right
├── LimiterUnavailable       the limits cannot be counted, the request was right
├── KeysUnavailable          tokens cannot be checked, the request may be right
├── NotAuthenticated         no credential, or one that does not hold
└── NotAllowed               a credential that holds, for something else

A refusal by a limit is a value (`millstream.admission`), not a failure, and so is the loss of an
engine that works on a stream: it is the stream's outcome.
"""

from __future__ import annotations


class MillstreamError(Exception):
    """Base of every failure raised on purpose; ``code`` is stable and machine-readable."""

    code: str = "internal_error"


class ConfigError(MillstreamError):
    """The configuration cannot be used; the message names the setting."""

    code = "config_error"


class RequestError(MillstreamError):
    """The client's request cannot be served as it stands; ``param`` names the field."""

    code = "invalid_request"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class InvalidParameter(RequestError):
    """A field has a value that is not allowed; the message names the limit."""

    code = "invalid_value"


class UnsupportedParameter(RequestError):
    """A field that would change the meaning of the answer and is not supported."""

    code = "unsupported_parameter"


class ContextLengthExceeded(RequestError):
    """Prompt and completion do not fit the model's context or the whole cache."""

    code = "context_length_exceeded"


class CostExceedsLimit(RequestError):
    """The request costs more than a limit could ever grant, so waiting would not help."""

    code = "cost_exceeds_limit"


class UnknownModel(RequestError):
    """No model of this name is served."""

    code = "model_not_found"


class EngineError(MillstreamError):
    """The engine failed, the request was right."""

    code = "engine_error"


class EngineUnavailable(EngineError):
    """No engine can take requests at the moment."""

    code = "engine_unavailable"


class StoreUnavailable(MillstreamError):
    """The stream store does not answer: whether there is such a stream cannot be said now."""

    code = "store_unavailable"


class LimiterUnavailable(MillstreamError):
    """The counters of the limits cannot be reached: whether the request fits cannot be said now."""

    code = "limiter_unavailable"


class KeysUnavailable(MillstreamError):
    """The keys cannot be had: whether a token holds cannot be said now."""

    code = "keys_unavailable"


class NotAuthenticated(MillstreamError):
    """There is no credential, or one that does not hold; ``reason`` is stable and for logs.

    The message is for the client and tells nothing of what was expected. ``subject`` is whom it
    claims to be, as far as that may stand in a log.
    """

    code = "invalid_credential"

    def __init__(self, message: str, *, reason: str, subject: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.subject = subject


class NotAllowed(MillstreamError):
    """The credential holds, but not for this: ``code`` says what is missing.

    ``scope`` is the one that the route needs, if that is it. ``subject`` is who asked, for logs.
    """

    code = "not_allowed"

    def __init__(
        self,
        message: str,
        *,
        code: str = "not_allowed",
        scope: str | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.scope = scope
        self.subject = subject
