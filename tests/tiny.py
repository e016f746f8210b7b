"""Random bases of a few thousand weights, made on the spot; the same arguments, the same bytes."""

from pathlib import Path
from typing import Any, Literal

Architecture = Literal["qwen3", "llama", "qwen3_moe"]

SPECIALS = ("<|pad|>", "<|start|>", "<|end|>")

CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|start|>{{ message.role }}
{{ message.content }}<|end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{% endif -%}"""


def tiny_base(folder: Path, architecture: Architecture = "qwen3", seed: int = 0) -> Path:
    """Writes a random base that transformers loads like any other, and returns its folder.

    Two layers, width 32, a byte-level vocabulary of 259 tokens (one a byte), a chat template
    with the end of turn `<|end|>` as EOS, and fp32 safetensors weights.
    """
    import torch
    from transformers import AutoModelForCausalLM

    tokenizer = tiny_tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(_config(architecture, tokenizer))
    model.to(torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_tokenizer() -> Any:
    """One token a byte, three special tokens, a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*SPECIALS, *alphabet])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    pad, start, end = SPECIALS
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=pad,
        eos_token=end,
        additional_special_tokens=[start],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )


def _config(architecture: Architecture, tokenizer: Any) -> Any:
    from transformers import LlamaConfig, Qwen3Config, Qwen3MoeConfig

    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
    }
    if architecture == "qwen3_moe":
        sparse = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
        return Qwen3MoeConfig(**shape, **sparse, decoder_sparse_step=1)
    return (Qwen3Config if architecture == "qwen3" else LlamaConfig)(**shape)
