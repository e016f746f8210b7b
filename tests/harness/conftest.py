"""The tokenizer that most sessions of these tests speak through."""

from typing import Any

import pytest

from tests.harness.templates import STYLES, tokenizer_of


@pytest.fixture(scope="session")
def chatml() -> Any:
    return tokenizer_of(next(style for style in STYLES if style.name == "chatml"))


@pytest.fixture(scope="session")
def qwen3() -> Any:
    return tokenizer_of(next(style for style in STYLES if style.name == "qwen3"))
