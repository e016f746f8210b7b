"""A person's approval of a rewrite that waits. Only the command line calls this: the loop never
approves what it proposed.
"""

from macaron.errors import ConfigError, DigestError
from macaron.files import digest_file
from macaron.hcp.document import load_hcp
from macaron.hcp.ledger import Ledger, Record


def approve(ledger: Ledger, rewrite: str, who: str, why: str = "") -> Record:
    """Records who approved a rewrite, and when; from then on the loop may apply it.

    Args:
        ledger: the record of rewrites.
        rewrite: id of one that waits, or the beginning of it.
        who: the person's name.
        why: their reason.

    Raises:
        ConfigError: no name is given, or no one rewrite that waits begins so.
        DigestError: the document or the record is not what was proposed.
    """
    if not who.strip():
        raise ConfigError("nobody is named", where="--who", mend="name the person who approves")
    waiting = _waiting(ledger, rewrite)
    check_document(ledger, waiting)
    return ledger.append(
        "approved",
        waiting.id,
        who=who.strip(),
        why=why,
        before=waiting.facts["before"],
        after=waiting.facts["after"],
    )


def check_document(ledger: Ledger, waiting: Record) -> None:
    """Passes where the document that waits is still the one that was proposed.

    Raises:
        DigestError: it is missing or was changed.
    """
    path = ledger.document(waiting.id)
    # The bytes before the values: a comment can mislead whoever reads the document.
    same = path.exists() and digest_file(path) == waiting.facts["document"]
    if not same or load_hcp(path).digest != waiting.facts["after"]:
        raise DigestError(
            "is not the document that was proposed",
            where=str(path),
            mend="it cannot be approved; let the loop propose it anew",
        )


def _waiting(ledger: Ledger, rewrite: str) -> Record:
    waiting = ledger.waiting()
    found = [record for record in waiting if rewrite and record.id.startswith(rewrite)]
    if len(found) == 1:
        return found[0]
    if approval := ledger.find(rewrite, "approved"):
        what = f"{approval.facts['who']} approved it at {approval.at}"
    else:
        what = "several that wait begin so" if found else "no rewrite of that name waits"
    raise ConfigError(what, where=rewrite, mend="`macaron hcp approve` lists those that wait")
