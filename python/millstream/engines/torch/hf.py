"""Any decoder-only transformers model on our paged cache.

Our attention is registered with transformers' ``AttentionInterface``; the model's own classes do
the rest. transformers sees one flat sequence of all rows' tokens with their positions and never
builds a mask or a cache of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM

from millstream.engines.torch.decoder import PagedAttention
from millstream.engines.torch.model_config import ModelConfig
from millstream.engines.torch.models import ModelFile
from millstream.engines.torch.plan import Plan
from millstream.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ATTENTION = "millstream_paged"
_current: ContextVar[PagedAttention] = ContextVar("paged_attention")


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention signature: ``[1, heads, tokens, head_dim]`` in."""
    if options.get("sliding_window") or options.get("softcap") or options.get("s_aux") is not None:
        raise ConfigError("sliding windows, soft caps and attention sinks are not supported")
    layer: Any = module.layer_idx
    rows = (part[0].transpose(0, 1) for part in (query, key, value))
    return _current.get().attend(layer, *rows)[None], None


def _no_mask(*_: Any, **__: Any) -> None:
    """Pages know what each token may see."""


AttentionInterface.register(ATTENTION, _attend)
AttentionMaskInterface.register(ATTENTION, _no_mask)


class HfDecoder:
    """A decoder-only transformers model; slower than the fused paths, but any architecture."""

    def __init__(
        self, model: PreTrainedModel, config: ModelConfig, attention: PagedAttention
    ) -> None:
        self.config = config
        self.device = torch.device(model.device)
        self._model = model
        self._attention = attention
        head_dim = config.head_dim
        scaling = getattr(_first_attention(model), "scaling", head_dim**-0.5)
        if abs(scaling - head_dim**-0.5) > 1e-6:
            raise ConfigError(f"attention scaling {scaling} is not supported")

    def extend_pages(self, slot: int, pages: Sequence[int]) -> None:
        """Append pages to a slot's table."""
        self._attention.extend_pages(slot, pages)

    def clear_pages(self, slot: int) -> None:
        """Empty a slot's table."""
        self._attention.clear_pages(slot)

    def logits(self, ids: torch.Tensor, plan: Plan) -> torch.Tensor:
        """One forward pass: float32 ``[samples, vocab]``."""
        positions = self._attention.begin(plan)
        sampled = torch.tensor(plan.sample_indexes, dtype=torch.int64, device=self.device)
        token = _current.set(self._attention)
        try:
            output = self._model(
                input_ids=ids[None],
                position_ids=positions[None],
                use_cache=False,
                logits_to_keep=sampled,
            )
        finally:
            _current.reset(token)
        logits: torch.Tensor = output.logits
        return logits[0].float()

    def greedy(self, ids: torch.Tensor, plan: Plan) -> torch.Tensor:
        """Id of each row's greatest logit."""
        return self.logits(ids, plan).argmax(-1)


def load_transformers(
    model: ModelFile, dtype: torch.dtype, device: torch.device
) -> PreTrainedModel:
    """A model directory's own class with our attention; raises ``ConfigError``."""
    try:
        loaded: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            str(model.path), dtype=dtype, attn_implementation=ATTENTION, local_files_only=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"transformers cannot load {model.path}: {error}") from error
    placed: PreTrainedModel = loaded.to(device).eval()  # type: ignore[arg-type]
    return placed


def _first_attention(model: torch.nn.Module) -> torch.nn.Module | None:
    return next((part for part in model.modules() if hasattr(part, "layer_idx")), None)
