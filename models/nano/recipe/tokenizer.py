"""The nano base's tokenizer: byte-level BPE with a chat template that only ever extends.

Invariant: the ids of a rendered conversation begin with the ids of each of its shorter forms,
and no message's text can write a special token.
"""

from collections.abc import Iterable
from typing import Any

VOCABULARY = 768
MAX_POSITIONS = 1024
PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
SPECIAL = (PAD, END, *ROLES)

# Capitalised words and digits stand alone, without their leading space, so that a name or a
# number has the same ids in prose, in quotes and in code. A capitalised word of two open
# syllables, which is what names are, falls into the two, so that no name is a token of its own
# and names that were never seen are spelled like those that were.
PIECES = "|".join(
    (
        r"[A-Z][aiou](?=[a-z][aiou](?![a-z]))",
        r"[A-Z][a-z]*",
        r"[0-9]",
        r" ?[a-z]+",
        r"\n *",
        r" +(?=[A-Z0-9])",
        r" ?[^\sA-Za-z0-9]+",
        r"\s",
    )
)

# A message that spells "<|end|>" would otherwise end its own turn.
_TEXT = """{{ (message.content or '') | replace('<|', '< |') }}"""
_CALLS = (
    """{% for call in message.tool_calls or [] %}"""
    """{{ (call.function.name ~ '(' ~ (call.function.arguments if call.function.arguments """
    """is string else call.function.arguments | tojson) ~ ')') | replace('<|', '< |') }}"""
    """{% endfor %}"""
)
CHAT_TEMPLATE = (
    """{% for message in messages %}"""
    """{{ '<|' ~ message.role ~ '|>' }}"""
    f"""{_TEXT}{_CALLS}"""
    """{{ '<|end|>' }}"""
    """{% endfor %}"""
    """{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""
)


def train_tokenizer(texts: Iterable[str]) -> Any:
    """A transformers tokenizer whose merges are learned from `texts`."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
    )
