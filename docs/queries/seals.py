"""Verifies the chain of seals: names the first line that was altered, or prints the seal of the whole record.

python3 docs/queries/seals.py FILE.landau.ndjson
"""

import hashlib
import sys

seal = "0" * 8
for number, line in enumerate(open(sys.argv[1], "rb"), start=1):
    if not line.endswith(b"\n"):
        sys.exit(f"line {number} is torn: the run was killed; the lines before it are intact")
    open_body, _, tail = line.rpartition(b',"seal":"')
    expected = hashlib.sha256(seal.encode() + open_body + b"}").hexdigest()[:8]
    if tail != expected.encode() + b'"}\n':
        sys.exit(f"line {number} was altered")
    seal = expected
print(f"{number} lines, seal {seal}")
