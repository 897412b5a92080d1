#!/usr/bin/env python3
"""Measures what landau inspect costs a server: its processor time per request, with and without, in random order.

    tests/inspect/overhead.py LANDAU PORT PID ROUNDS

PID is the server's first process; that of its descendants counts, too. Prints microseconds per request of each round,
then the median ratio over the rounds with its 95% interval by the bootstrap.
"""

import json
import os
import random
import statistics
import subprocess
import sys

SECONDS = 4
KINDS = ("none", "proc", "bpf")


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


def per_request(landau, port, pid, kind):
    url = f"http://127.0.0.1:{port}/"
    load = [landau, "load", url, "--connections", "100", "--rate", "4000", "--duration", f"{SECONDS}s", "--json"]
    before = processor_ns(pid)
    running = subprocess.Popen(load, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if kind != "none":
        inspect = [landau, "inspect", "--port", port, "--for", f"{SECONDS}s", "--json", "--evidence", kind]
        subprocess.run(inspect, stdout=subprocess.DEVNULL, check=False)
    responses = json.loads(running.communicate()[0])["responses"]
    return (processor_ns(pid) - before) / responses


def main():
    landau, port, pid, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rows = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in random.sample(KINDS, len(KINDS)):
            rows[kind].append(per_request(landau, port, pid, kind))
        print({kind: round(values[-1] / 1000, 2) for kind, values in rows.items()}, flush=True)
    draw = random.Random(1)
    for kind in KINDS[1:]:
        ratios = [one / other for one, other in zip(rows[kind], rows["none"])]
        medians = sorted(statistics.median(draw.choices(ratios, k=rounds)) for _ in range(2000))
        print(f"{kind}: {statistics.median(ratios):.3f} ({medians[50]:.3f} to {medians[1949]:.3f})")


main()
