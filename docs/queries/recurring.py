"""Prints the socket() calls over 100 µs with one idle thread, and in how many passes each position recurs.

The kernel causes an outlier that recurs. One that does not recur is probably interference.

python3 docs/queries/recurring.py FILE.landau.ndjson
"""

import sys

import pandas

lines = pandas.read_json(sys.argv[1], lines=True, dtype=False)
of = {kind: rows.dropna(axis="columns", how="all") for kind, rows in lines.groupby("kind")}

# Only completed passes count; Landau repeats an interrupted pass.
completed = of["pass_end"].loc[of["pass_end"].outcome.isin(["done", "limit"]), "pass"]
passes = of["pass"][of["pass"]["pass"].isin(completed)].merge(of["case"][["case", "label"]], on="case")
wanted = passes.loc[passes.label == "socket threads=1", "pass"]

chunks = of["chunk"][of["chunk"]["pass"].isin(wanted) & (of["chunk"].phase == "socket")]
samples = chunks.explode("ns")
# The first call of a chunk is at n = first, the next at first + stride, and so on.
samples["n"] = (samples["first"] + samples.groupby(level=0).cumcount() * samples.stride).astype(int)
samples["ms"] = samples.ns.astype(float) / 1e6

outliers = samples[samples.ms > 0.1]
table = outliers.groupby("n").agg(passes=("pass", "nunique"), ms_min=("ms", "min"), ms_max=("ms", "max"))
table["of"] = wanted.size
print(table[["passes", "of", "ms_min", "ms_max"]].round(2).to_string())

total, own = samples.ms.sum(), outliers.ms.sum()
print(f"\nall calls {total:.0f} ms, these {len(outliers)} of {len(samples)} calls {own:.0f} ms ({own / total:.0%})")
