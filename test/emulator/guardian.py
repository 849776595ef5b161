"""Nothing outlives the test.

Stock moto leaks Lambda processes on SIGTERM, and a test killed with SIGKILL cleans up nothing. The
guardian is the process that the test starts. It adopts every orphan below it (a Linux "child
subreaper"), and ends them all when its standard input closes, which the kernel does for a test that
died in whatever way, when it is told to stop, or when the server ends.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def watch(command: list[str]) -> int:
    """Runs command until it ends or the guardian is told to stop; returns the exit status."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl: cannot adopt orphaned processes")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def until_end_of_input() -> None:
        while os.read(0, 4096):
            pass
        stop.set()

    threading.Thread(target=until_end_of_input, daemon=True).start()
    try:
        while not stop.is_set() and server.poll() is None:
            stop.wait(0.1)
        status = server.poll()
        return 0 if status is None else status
    finally:
        _end_descendants()


def follow_guardian() -> None:
    """Ends this process and its children as soon as its parent, the guardian, is gone."""
    guardian = os.getppid()

    def follow() -> None:
        while os.getppid() == guardian:
            time.sleep(0.2)
        for pid in _children().get(os.getpid(), []):
            _kill(pid)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _end_descendants() -> None:
    """Kills every descendant; orphans become our children, so few rounds find them all."""
    for _ in range(50):
        children = _children()
        below = list(children.get(os.getpid(), []))
        for pid in below:
            below.extend(children.get(pid, []))
        for pid in below:
            _kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.02)
    print("emulator: some child processes could not be ended", file=sys.stderr)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _children() -> dict[int, list[int]]:
    """Parent process id to its children, from /proc."""
    found: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                # The command's name stands in parentheses and may hold anything.
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        found.setdefault(parent, []).append(int(entry))
    return found
