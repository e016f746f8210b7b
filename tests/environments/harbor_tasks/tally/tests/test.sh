#!/bin/bash
# A comment may say pip install; only code counts.
mkdir -p /logs/verifier
if python3 /tests/check.py > /logs/verifier/output.txt; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
