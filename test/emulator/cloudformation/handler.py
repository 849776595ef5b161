"""What CloudFormation asks of a resource type, and the table of types."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from ..accounts import Accounts


@dataclass(frozen=True)
class Place:
    """Where a resource is being made: the stack's account and region, and its logical id."""

    accounts: Accounts
    account: str
    region: str
    stack: str
    logical: str

    def client(self, service: str) -> Any:
        """A client of the service in this account and region."""
        return self.accounts.client(service, self.account, self.region)

    def name(self, longest: int = 64) -> str:
        """A fresh physical name of at most `longest` characters, as CloudFormation makes one up."""
        suffix = "-" + secrets.token_hex(6).upper()
        return f"{self.stack}-{self.logical}"[: longest - len(suffix)].rstrip("-") + suffix

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource in this account and region."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"


@dataclass(frozen=True)
class Made:
    """What was made: Ref gives the id, Fn::GetAtt the attributes."""

    id: str
    attributes: dict[str, Any] = field(default_factory=dict)


class Handler:
    """One resource type. Properties come resolved, in CloudFormation's form.

    An API that does not know a property refuses the call, which fails the stack: so nothing can be
    left out without being left out on purpose.
    """

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        raise NotImplementedError

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        """Changes the resource in place; None when it must be replaced."""
        return None

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        raise NotImplementedError


HANDLERS: dict[str, Handler] = {}


def resource(*types: str) -> Any:
    """Registers a handler class for resource types."""

    def register(cls: type[Handler]) -> type[Handler]:
        for name in types:
            if name in HANDLERS:
                raise ValueError(f"{name} has two handlers")
            HANDLERS[name] = cls()
        return cls

    return register


def changed(old: dict[str, Any], new: dict[str, Any]) -> set[str]:
    """The names of the properties that differ."""
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
