"""The base of every part of the settings tree."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """One table of the configuration: frozen, unknown keys refused, every field described.

    A field's docstring is its description in `millstream config schema`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=()
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        """Pydantic would take `port = true` for port 1."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and annotation not in (bool, bool | None):
            raise PydanticCustomError("not_boolean", "must not be true or false")
        return value
