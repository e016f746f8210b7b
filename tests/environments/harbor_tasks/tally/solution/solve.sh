#!/bin/bash
python3 - <<'CODE'
import csv, json, os
totals = {}
for row in csv.DictReader(open(os.environ["SHOPS"])):
    totals[row["shop"]] = totals.get(row["shop"], 0) + int(row["amount"])
json.dump(totals, open(os.environ["OUT"], "w"))
CODE
