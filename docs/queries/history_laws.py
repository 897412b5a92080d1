"""Prints which law each curve follows, by kernel, from the index of a collection.

python3 docs/queries/history_laws.py DIR/.landau-history.sqlite
"""

import sqlite3
import sys

import pandas

query = """
    SELECT curve.label, curve.phase, curve.outcome, curve.law, curve.cliff_n, record.release
    FROM curve JOIN record USING (record)
    WHERE record.state = 'sound'
"""
with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True) as index:
    curves = pandas.read_sql(query, index)

curves["told"] = curves.law.where(curves.outcome == "grows", curves.outcome).fillna("no simple law")
curves["told"] += curves.cliff_n.notna().map({True: ", then a cliff", False: ""})
laws = curves.pivot_table(index=["label", "phase"], columns="release", values="told", aggfunc=lambda told: told.mode()[0])
print(laws.fillna("–").to_string())
