"""Chat templates that behave like well-known ones, on a small tokenizer that really merges."""

from dataclasses import dataclass
from functools import cache
from typing import Any

QWEN3 = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
Write <tool_call></tool_call> around a call.<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- set ns = namespace(last=messages | length - 1, open=true) %}
{%- for message in messages[::-1] %}
{%- set place = messages | length - 1 - loop.index0 %}
{%- if ns.open and message.role == 'user' and not (message.content.startswith('<tool_response>')
 and message.content.endswith('</tool_response>')) %}
{%- set ns.open = false %}{%- set ns.last = place %}
{%- endif %}
{%- endfor %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{%- set content = message.content or '' %}{%- set thought = '' %}
{%- if '</think>' in content %}
{%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{%- if loop.index0 > ns.last and (loop.last or thought) %}
{{- '<|im_start|>assistant\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content }}
{%- else %}
{{- '<|im_start|>assistant\\n' + content }}
{%- endif %}
{%- for call in message.tool_calls or [] %}
{%- if (loop.first and content) or not loop.first %}{{ '\\n' }}{% endif %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string
 else call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
"""Drops the reasoning of responses before the last user's message; joins tools' results."""

CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
"""Knows no tools; shows any role; a newline after the end of turn."""

LLAMA3 = """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}
{%- set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' + system + '<|eot_id|>' }}
{%- if tools %}
{{- '<|start_header_id|>user<|end_header_id|>\\n\\nGiven the following functions:\\n\\n' }}
{%- for tool in tools %}{{ tool | tojson(indent=4) + '\\n\\n' }}{% endfor %}
{{- messages[0].content | trim + '<|eot_id|>' }}{% set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
{%- if message.tool_calls %}
{%- if message.tool_calls | length != 1 %}
{{- raise_exception('This model only supports single tool-calls at once!') }}
{%- endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name }}
{{- '", "parameters": ' + call.arguments | tojson + '}<|eot_id|>' }}
{%- elif message.role in ('tool', 'ipython') %}
{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + message.content | tojson + '<|eot_id|>' }}
{%- else %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}
{{- message.content | trim + '<|eot_id|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""
"""Trims; writes calls and leaves their content out; takes one call; arguments as objects."""

MISTRAL = """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}{% set system = messages[0].content + '\\n\\n' %}
{%- set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}
{%- if tools and loop.first %}
{{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' }}
{%- endif %}
{{- '[INST]' + (system if loop.last else '') + message.content + '[/INST]' }}
{%- elif message.tool_calls %}
{{- '[TOOL_CALLS][' }}
{%- for call in message.tool_calls %}
{%- if call.id | length != 9 %}{{ raise_exception('Ids of 9 characters!') }}{% endif %}
{{- {'name': call.function.name, 'arguments': call.function.arguments, 'id': call.id} | tojson }}
{{- ', ' if not loop.last else '' }}
{%- endfor %}{{ ']' + eos_token }}
{%- elif message.role == 'assistant' %}{{ ' ' + message.content | trim + eos_token }}
{%- elif message.role == 'tool' %}
{%- if message.tool_call_id | length != 9 %}{{ raise_exception('ids') }}{% endif %}
{{- '[TOOL_RESULTS]{"content": ' + message.content | tojson + ', "call_id": "' }}
{{- message.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else %}{{ raise_exception('Only user, assistant and tool roles!') }}
{%- endif %}
{%- endfor %}"""
"""No generation prompt; the system prompt moves to the last user's message; ids of 9 characters."""

GEMMA3 = """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}{% set system = messages[0].content + '\\n\\n' %}
{%- set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}
{%- for message in messages %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{%- set role = 'model' if message.role == 'assistant' else message.role %}
{{- '<start_of_turn>' + role + '\\n' + (system if loop.first else '') }}
{{- message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""
"""Roles must alternate; refuses tools' results; its end of turn is not the tokenizer's."""

GLM = """\
[gMASK]<sop>
{%- if tools %}{{ '<|system|>\\n# Tools' }}
{%- for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}{{ '<|user|>\\n' + message.content }}
{%- elif message.role == 'system' %}{{ '<|system|>\\n' + message.content }}
{%- elif message.role == 'assistant' %}{{ '<|assistant|>\\n' + message.content.strip() }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>' + call.function.name + '\\n' }}
{%- for key, value in call.function.arguments.items() %}
{{- '<arg_key>' + key + '</arg_key><arg_value>' + value | string + '</arg_value>' }}
{%- endfor %}{{ '</tool_call>' }}
{%- endfor %}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|observation|>' }}{% endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""
"""No end of turn: the next role's token ends a response, and which one it is says what follows."""

DEEPSEEK = """\
{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'system' %}{{ message.content }}
{%- elif message.role == 'user' %}{{ '<|User|>' + message.content }}
{%- elif message.role == 'assistant' and message.tool_calls %}
{{- '<|Assistant|>' + (message.content or '') }}
{%- for call in message.tool_calls %}
{{- '<|call_begin|>' + call.function.name + '<|sep|>' + call.function.arguments }}
{{- '<|call_end|>' }}
{%- endfor %}{{ eos_token }}
{%- elif message.role == 'assistant' %}
{%- set content = message.content.split('</think>')[-1] %}
{{- ('' if loop.index0 and messages[loop.index0 - 1].role == 'tool' else '<|Assistant|>') }}
{{- content + eos_token }}
{%- elif message.role == 'tool' %}{{ '<|output_begin|>' + message.content + '<|output_end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt and messages[-1].role != 'tool' %}{{ '<|Assistant|>' }}{% endif %}"""
"""The generation prompt depends on what was last; special tokens inside of calls."""

PLAIN = """\
{%- for message in messages %}{{ message.role | capitalize }}: {{ message.content }}
{% endfor %}
{%- if add_generation_prompt %}Assistant: {% endif %}"""
"""No special tokens at all."""


@dataclass(frozen=True)
class Style:
    """A template, and the tokens of the tokenizer it belongs to."""

    name: str
    template: str
    specials: tuple[str, ...]
    eos: str
    added: tuple[str, ...] = ()
    """Tokens of their own that are not special."""
    end: str = ""
    """What ends a response, where that is not `eos`."""
    keeps: bool = True
    """Whether rendering a whole conversation keeps what was said in it."""


STYLES = (
    Style(
        "qwen3",
        QWEN3,
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        "<|im_end|>",
        (
            "<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>",
            "</tool_response>",
        ),
        keeps=False,
    ),
    Style("chatml", CHATML, ("<|im_start|>", "<|im_end|>"), "<|im_end|>"),
    Style(
        "llama3",
        LLAMA3,
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "<|eot_id|>",
    ),
    Style(
        "mistral",
        MISTRAL,
        (
            "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]",
            "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
        ),
        "</s>",
        keeps=False,
    ),
    Style(
        "gemma3",
        GEMMA3,
        ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
        "<eos>",
        end="<end_of_turn>",
    ),
    Style(
        "glm",
        GLM,
        (
            "[gMASK]", "<sop>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>",
            "<|observation|>",
        ),
        "<|endoftext|>",
        ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
        end="<|user|>",
    ),
    Style(
        "deepseek",
        DEEPSEEK,
        (
            "<bos>", "<eos>", "<|User|>", "<|Assistant|>", "<|call_begin|>", "<|sep|>",
            "<|call_end|>", "<|output_begin|>", "<|output_end|>",
        ),
        "<eos>",
        keeps=False,
    ),
    Style("plain", PLAIN, ("<eos>",), "<eos>"),
)  # fmt: skip
BOS = ("<s>", "<bos>", "<|begin_of_text|>")
CORPUS = (
    "system user assistant tool\n\nThe order is open.\nWhat is the weather today? I don't know.",
    '{"name": "find", "arguments": {"id": 7}}\n\n\nHello there, how are you? Fine.',
)


@cache
def tokenizer_of(style: Style) -> Any:
    """A byte-level BPE tokenizer with merges, newlines among them, and the style's tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=340, initial_alphabet=alphabet, show_progress=False, min_frequency=1
    )
    backend.train_from_iterator(CORPUS * 4, trainer)
    backend.add_special_tokens([AddedToken(text, special=True) for text in style.specials])
    backend.add_tokens([AddedToken(text, special=False) for text in style.added])
    bos = next((text for text in style.specials if text in BOS), None)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=bos,
        eos_token=style.eos,
        chat_template=style.template,
        clean_up_tokenization_spaces=False,
        model_max_length=100_000,
    )
