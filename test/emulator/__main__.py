"""Starts the emulator and watches over it.

It prints one line of JSON when it serves: its address, and the template-only list. It ends, with every
function process that it started, when its standard input ends or it is told to stop.
"""

import argparse
import shutil
import sys
import tempfile

from . import guardian, server


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m emulator", description=__doc__)
    arguments.add_argument("--rie", required=True, metavar="FILE", help="aws-lambda-rie, as `go tool -n aws-lambda-rie` prints it")
    options = arguments.parse_args()
    server.check_version()
    folder = tempfile.mkdtemp(prefix="cellwall-emulator-")
    try:
        return guardian.watch([sys.executable, "-m", "emulator.server", "--rie", options.rie, "--folder", folder])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
