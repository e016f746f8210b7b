"""The shipped document: its digest is in pairs and experience, so that it must not move."""

from pathlib import Path

from macaron.hcp.document import load_hcp

ROOT = Path(__file__).resolve().parents[2]


def test_the_shipped_documents_digest_is_that_of_schema_1_0() -> None:
    digest = "1eb95310c59550bf2c9ffdd1403f152049c1458c523adc0bb959a5991a4e7d12"
    assert load_hcp(ROOT / "contracts/hcp/nano.toml").digest == digest
