"""Whether a message spells one of a tokenizer's own tokens."""

import json
import re
from collections.abc import Mapping
from typing import Any


class Spelling:
    """The tokens of a tokenizer that a text can spell."""

    def __init__(self, tokenizer: Any) -> None:
        texts = {str(token) for token in tokenizer.added_tokens_decoder.values()}
        # Tokens of spaces alone are no structure, and any text has them.
        shown = [re.escape(text) for text in texts if not text.isspace()]
        self._tokens = re.compile("|".join(shown) or "(?!)")

    def found_in(self, message: Mapping[str, Any]) -> bool:
        """Whether some token's text stands anywhere in the message."""
        rest = {key: value for key, value in message.items() if key != "content"}
        text = f"{message['content']}\n{json.dumps(rest, ensure_ascii=False)}"
        return self._tokens.search(text) is not None
