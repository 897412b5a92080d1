#!/usr/bin/env python3
"""Measures the overhead of landau inspect on a server: the processor time per request and the response time, with and
without inspect, in random order.

    tests/inspect/overhead.py LANDAU PORT PID ROUNDS [RATE [KINDS]]

PID is the server's first process; the processor time of its descendants is included. RATE is in requests per second,
4000 by default. KINDS are none, followed by the kinds of evidence to compare with it; none,proc,bpf,ptrace by default.

For each round, prints the processor time per request and the quantiles of the response time, in microseconds. Then
prints the median ratios over the rounds with their 95% bootstrap intervals. With ptrace, also prints the last line of
evidence from inspect.
"""

import json
import os
import random
import statistics
import subprocess
import sys

SECONDS = 4
FIGURES = ("processor time per request", "response time p50", "response time p99")


def tree(pid):
    found = [pid]
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += tree(int(name))
    return found


def processor_ns(pid):
    total = 0
    for process in tree(pid):
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
    return total


def measured(landau, port, pid, kind, rate):
    """Returns nanoseconds: processor time per request, median and 99th percentile of the response time."""
    url = f"http://127.0.0.1:{port}/"
    load = [landau, "load", url, "--connections", "100", "--rate", rate, "--duration", f"{SECONDS}s", "--json"]
    before = processor_ns(pid)
    running = subprocess.Popen(load, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    said = ""
    if kind != "none":
        inspect = [landau, "inspect", "--port", port, "--for", f"{SECONDS}s", "--json", "--evidence", kind]
        found = json.loads(subprocess.run(inspect, stdout=subprocess.PIPE, check=False).stdout)
        said = found["evidence"][-1] if kind == "ptrace" else ""
    answer = json.loads(running.communicate()[0])
    latency = answer["phases"]["latency"]
    cost = (processor_ns(pid) - before) / answer["responses"]
    return (cost, latency["p50_ns"], latency["p99_ns"]), said


def main():
    landau, port, pid, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rate = sys.argv[5] if len(sys.argv) > 5 else "4000"
    kinds = (sys.argv[6] if len(sys.argv) > 6 else "none,proc,bpf,ptrace").split(",")
    rows = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in random.sample(kinds, len(kinds)):
            figures, said = measured(landau, port, pid, kind, rate)
            rows[kind].append(figures)
            if said:
                print(said)
        print({kind: [round(one / 1000, 1) for one in values[-1]] for kind, values in rows.items()}, flush=True)
    draw = random.Random(1)
    for place, figure in enumerate(FIGURES):
        for kind in kinds[1:]:
            ratios = [one[place] / other[place] for one, other in zip(rows[kind], rows["none"])]
            medians = sorted(statistics.median(draw.choices(ratios, k=rounds)) for _ in range(2000))
            print(f"{figure}, {kind}: {statistics.median(ratios):.3f} ({medians[50]:.3f} to {medians[1949]:.3f})")


main()
