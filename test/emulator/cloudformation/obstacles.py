"""What tests put in the way of a stack, by its name. Here nothing fails and nothing takes long unless it is told to.

    hold    the next executions of change sets are answered at once, and stay in progress until this is taken away
    fail    they fail when everything is changed, and are rolled back
    stuck   what is rolled back fails to be
"""

import threading

KINDS = {"hold", "fail", "stuck"}

_changed = threading.Condition()
_of: dict[str, set[str]] = {}


def put(stack: str, kinds: set[str]) -> None:
    """Puts these in the way, and nothing else any more."""
    if unknown := kinds - KINDS:
        raise ValueError(f"{sorted(unknown)} are no obstacles; there are {sorted(KINDS)}")
    with _changed:
        _of[stack] = kinds
        _changed.notify_all()


def has(stack: str, kind: str) -> bool:
    """Whether this is in the way."""
    with _changed:
        return kind in _of.get(stack, ())


def wait(stack: str) -> None:
    """Returns when nothing holds the stack."""
    with _changed:
        _changed.wait_for(lambda: "hold" not in _of.get(stack, ()))
