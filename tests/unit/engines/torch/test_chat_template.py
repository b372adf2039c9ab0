"""Chat templates come out as transformers renders them, and cannot reach anything else."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from millstream.engines.torch.chat_template import ChatTemplate
from millstream.engines.torch.gguf import GgufFile
from millstream.engines.torch.models import resolve_model
from millstream.errors import ConfigError, InvalidParameter

_MESSAGES: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "S"}, {"role": "user", "content": "a < b & 'c'"}],
    [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "drei\n\tünf"},
    ],
]
_TEMPLATES = {
    "blocks are trimmed": (
        "{% for m in messages %}\n    {% if m.role == 'user' %}\n[{{ m.content }}]\n"
        "    {% endif %}\n{% endfor %}\n{{ bos_token }}{{ eos_token }}"
    ),
    "json is not escaped for HTML": (
        "{% for m in messages %}{{ m | tojson }}{{ m | tojson(indent=2) }}{% endfor %}"
    ),
    "loops can be left": (
        "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
        "{{ m.content | trim }}{% endfor %}"
    ),
    "generation marks its body": (
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    ),
    "namespaces work": (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
        "{{ ns.n }}{% if add_generation_prompt %}>{% endif %}"
    ),
}


def _packaged() -> str:
    file = GgufFile(resolve_model("smollm2-135m-instruct").path)
    return file.text("tokenizer.chat_template")


def _as_transformers(template: str, messages: list[dict[str, Any]], prompt: bool) -> str:
    backend = Backend(BPE(vocab={"<b>": 0, "<e>": 1}, merges=[]))
    peer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend, chat_template=template, bos_token="<b>", eos_token="<e>"
    )
    text = peer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("messages", _MESSAGES, ids=["one", "system", "turns"])
@pytest.mark.parametrize("template", [*_TEMPLATES.values(), _packaged()], ids=[*_TEMPLATES, "own"])
def test_rendering_equals_transformers(
    template: str, messages: list[dict[str, Any]], prompt: bool
) -> None:
    ours = ChatTemplate(template, bos="<b>", eos="<e>")
    rendered = ours.render(messages, add_generation_prompt=prompt)
    assert rendered == _as_transformers(template, messages, prompt)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ().__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ nothing.at.all }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(template: str) -> None:
    with pytest.raises(InvalidParameter):
        ChatTemplate(template).render(_MESSAGES[0])


def test_a_broken_template_is_a_configuration_mistake() -> None:
    with pytest.raises(ConfigError, match="not valid"):
        ChatTemplate("{% for %}")


def test_the_callers_messages_are_not_changed() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    ChatTemplate("{{ messages[0].content }}").render(messages)
    assert messages == [{"role": "user", "content": "Hi"}]
