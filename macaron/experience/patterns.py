"""Shapes of secrets and personal data, each bounded: no text takes more than linear time.

Named-entity models are left out on purpose: they need weights that a first run doesn't have, and
names and places are the matter of many tasks.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """One kind of sensitive text. The group `value` is replaced, or else the whole match."""

    name: str
    """Written as `[NAME]` in place of the text."""
    regex: re.Pattern[str]
    check: Callable[[str], bool] = bool
    """Whether a match is really one, such as by its check digits."""
    needs: str = ""
    """What a text must hold to be searched at all; most texts hold none of it."""


def luhn(text: str) -> bool:
    """Whether the digits in the text end with the right Luhn check digit."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [sum(divmod(2 * d, 10)) for d in digits[-2::-2]]
    return len(digits) >= 13 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def iban(text: str) -> bool:
    """Whether the text is an IBAN by its check digits (ISO 7064, mod 97)."""
    compact = text.replace(" ", "")
    if not 15 <= len(compact) <= 34:
        return False
    return int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1


def personal_ip(text: str) -> bool:
    """Whether the text is an IP address that points at somebody; loopback does not."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def phone(text: str) -> bool:
    """Whether the text has as many digits as a telephone number (E.164: 15 at most)."""
    return 8 <= sum(c.isdigit() for c in text) <= 15


_KEYS = "|".join(
    (
        r"(?:AKIA|ASIA)[0-9A-Z]{16}",  # AWS
        r"gh[pousr]_[A-Za-z0-9]{36,255}",  # GitHub
        r"github_pat_[A-Za-z0-9_]{22,255}",
        r"glpat-[A-Za-z0-9_-]{20,64}",  # GitLab
        r"xox[abeoprs]-[A-Za-z0-9-]{10,255}",  # Slack
        r"sk-[A-Za-z0-9_-]{20,255}",  # OpenAI, Anthropic
        r"AIza[0-9A-Za-z_-]{35}",  # Google
        r"[rs]k_(?:live|test)_[0-9A-Za-z]{16,255}",  # Stripe
        r"hf_[A-Za-z0-9]{30,64}",  # Hugging Face
        r"npm_[A-Za-z0-9]{36}",
        r"pypi-[A-Za-z0-9_-]{50,255}",
        r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}",  # SendGrid
        r"SK[0-9a-f]{32}",  # Twilio
    )
)
_NAMED = r"[A-Za-z0-9_]{0,64}(?:api_?key|secret|token|passw(?:or)?d|access_?key)"

# The order matters: what can hold another kind comes first.
PATTERNS = (
    Pattern(
        "PRIVATE_KEY",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?!-----END)[\s\S]){0,16384}"
            r"(?:-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
        needs="-----BEGIN ",
    ),
    Pattern(
        "URL_PASSWORD",
        re.compile(r"(?<=://)(?P<value>[^\s/:@\[\]]{0,256}:[^\s/]{1,256})(?=@)"),
        needs="://",
    ),
    Pattern(
        "URL_TOKEN",
        re.compile(
            r"[?&](?:access_token|api_?key|auth|key|password|sig|signature|token)="
            r"(?P<value>[^\s&#\"'\[\]]{8,512})",
            re.IGNORECASE,
        ),
        needs="=",
    ),
    Pattern("API_KEY", re.compile(rf"(?<![A-Za-z0-9_])(?:{_KEYS})(?![A-Za-z0-9_])")),
    Pattern(
        "JWT",
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,2048}\.eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,1024}"),
        needs="eyJ",
    ),
    Pattern(
        "AUTHORIZATION",
        re.compile(
            r"\b(?:bearer|basic)\s{1,4}(?P<value>(?=[A-Za-z._~+/=-]{0,64}\d)[A-Za-z0-9._~+/=-]{16,2048})",
            re.IGNORECASE,
        ),
    ),
    # A quoted value, as in code, or an upper-case name, as in an .env file.
    Pattern(
        "SECRET",
        re.compile(
            rf"\b{_NAMED}[\"']?\s{{0,4}}[:=]\s{{0,4}}([\"'])(?P<value>[^\s\"'\[\]]{{8,512}})\1",
            re.IGNORECASE,
        ),
    ),
    Pattern(
        "SECRET",
        re.compile(
            r"\b[A-Z0-9_]{0,64}(?:API_?KEY|SECRET|TOKEN|PASSWORD|ACCESS_?KEY)=(?P<value>[^\s\"'\[\]]{8,512})"
        ),
        needs="=",
    ),
    Pattern(
        "EMAIL",
        re.compile(
            r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,6}[^\W\d_]{2,24}(?![\w-])"
        ),
        needs="@",
    ),
    Pattern(
        "IBAN",
        re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        iban,
    ),
    Pattern(
        "CARD",
        re.compile(
            r"(?<![\d.])(?:[2-6]\d{3}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|3\d{3}[ -]\d{6}[ -]\d{5}"
            r"|[2-6]\d{12,18})(?!\.?\d)"
        ),
        luhn,
    ),
    Pattern(
        "IP_ADDRESS",
        re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"),
        personal_ip,
        needs=".",
    ),
    # The first group must look like real address space, so that slices and times are left alone.
    Pattern(
        "IP_ADDRESS",
        re.compile(r"(?<![\w:])[23fF][0-9a-fA-F]{3}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"),
        personal_ip,
        needs=":",
    ),
    Pattern(
        "PHONE",
        re.compile(r"(?<![\w.+])\+\d{1,3}(?:[ .-]?\(\d{1,4}\))?(?:[ .-]?\d{1,5}){2,6}(?![\w+])"),
        phone,
        needs="+",
    ),
    # National numbers look like any others: only grouped as in North America or France, or named.
    Pattern(
        "PHONE",
        re.compile(
            r"(?<![\w.-])(?:\(\d{3}\) ?\d{3}[-.]\d{4}|\d{3}([-.])\d{3}\1\d{4}"
            r"|0[1-9]([ .-])\d{2}(?:\2\d{2}){3})(?![\w-])"
        ),
        phone,
    ),
    Pattern(
        "PHONE",
        re.compile(
            r"\b(?:phone|tel|telephone|mobile|cell)\b[^\d\n\[\]]{0,16}"
            r"(?P<value>\d[\d ().-]{6,18}\d)",
            re.IGNORECASE,
        ),
        phone,
    ),
)
