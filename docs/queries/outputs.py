"""Updates the command output in the documents.

A comment before a code block names the command:

    <!-- output of: jq -rsf docs/queries/limits.jq docs/records/sample.landau.ndjson -->

Run this script from the root of the repository. It runs each command and replaces the block that follows. With --check
it only lists the blocks that differ. It skips a command whose program is not installed, and says so. Such blocks
contain results computed from a record, never timings of the current machine.

python3 docs/queries/outputs.py [--check] [DOCUMENT…]
"""

import pathlib
import re
import shutil
import subprocess
import sys

BLOCK = re.compile(r"(<!-- output of: (?P<command>.+?) -->\n+```(?P<kind>\w*)\n)(?P<text>.*?)(```\n)", re.DOTALL)
words = sys.argv[1:]
check = "--check" in words
names = [word for word in words if word != "--check"]
everything = sorted([*pathlib.Path().glob("*.md"), *pathlib.Path("docs").rglob("*.md")])
documents = [pathlib.Path(name) for name in names] or everything
stale = []


def fresh(document):
    """Returns the document's text with every block regenerated."""

    def one(block):
        command = block["command"]
        program = command.split()[0]
        if shutil.which(program) is None:
            print(f"{document}: {program} is not installed; skipped: {command}")
            return block[0]
        run = subprocess.run(command, shell=True, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"{document}: {command}: {run.stderr}")
        text = "\n".join(line.rstrip() for line in run.stdout.strip("\n").splitlines()) + "\n"
        if text != block["text"]:
            stale.append(f"{document}: {command}")
        return block[1] + text + block[5]

    return BLOCK.sub(one, document.read_text())


for document in documents:
    text = fresh(document)
    if not check:
        document.write_text(text)
print("\n".join(stale) or "every block is up to date")
sys.exit(1 if check and stale else 0)
