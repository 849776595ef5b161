"""Stacks, their resources and their events: what the API shows."""

import datetime
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any

from .errors import ValidationError
from .handler import Made


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


@dataclass(frozen=True)
class Resource:
    """A resource of a stack, as it was made last."""

    logical: str
    type: str
    made: Made
    properties: dict[str, Any]
    on_delete: str = "Delete"
    on_replace: str = "Delete"

    @property
    def id(self) -> str:
        return self.made.id

    def attribute(self, name: str) -> Any:
        if name not in self.made.attributes:
            raise ValidationError(f"the emulator knows no attribute {name} of {self.type} ({self.logical})")
        return self.made.attributes[name]


@dataclass(frozen=True)
class Content:
    """What a stack is made from."""

    body: str
    template: dict[str, Any]
    given: dict[str, str]  # parameters as given; SSM parameters by name
    resolved: dict[str, Any]

    def same_as(self, other: "Content | None") -> bool:
        return other is not None and self.template == other.template and self.given == other.given and self.resolved == other.resolved


@dataclass
class Stack:
    """One stack. Everything but its lock is what DescribeStacks and its siblings show."""

    name: str
    account: str
    region: str
    status: str
    content: Content | None = None
    resources: dict[str, Resource] = field(default_factory=dict)
    outputs: list[dict[str, str]] = field(default_factory=list)
    tags: list[dict[str, str]] = field(default_factory=list)
    protected: bool = False
    reason: str | None = None
    role: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    created: datetime.datetime = field(default_factory=now)
    updated: datetime.datetime | None = None
    token: str | None = None
    change_set: str | None = None  # the id of that which was executed last
    lock: Any = field(default_factory=threading.Lock)
    id: str = ""

    def __post_init__(self) -> None:
        self.id = f"arn:aws:cloudformation:{self.region}:{self.account}:stack/{self.name}/{uuid.uuid4()}"

    def enter(self, status: str, reason: str | None = None) -> None:
        """The stack enters a status, with an event."""
        self.status, self.reason = status, reason
        self.event(self.name, "AWS::CloudFormation::Stack", self.id, status, reason)

    def event(self, logical: str, kind: str, physical: str, status: str, reason: str | None = None) -> None:
        self.events.append({
            "EventId": str(uuid.uuid4()),
            "StackId": self.id,
            "StackName": self.name,
            "LogicalResourceId": logical,
            "PhysicalResourceId": physical,
            "ResourceType": kind,
            "Timestamp": now(),
            "ResourceStatus": status,
            "ResourceStatusReason": reason,
            "ClientRequestToken": self.token,
        })

    def describe(self) -> dict[str, Any]:
        content = self.content
        parameters = [] if content is None else [
            {"ParameterKey": name, "ParameterValue": value, **_resolved_value(value, content.resolved[name])}
            for name, value in content.given.items()
        ]
        return {
            "StackId": self.id,
            "StackName": self.name,
            "ChangeSetId": self.change_set,
            "Description": content.template.get("Description") if content else None,
            "Parameters": parameters,
            "CreationTime": self.created,
            "LastUpdatedTime": self.updated,
            "StackStatus": self.status,
            "StackStatusReason": self.reason,
            "DisableRollback": False,
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
            "Outputs": self.outputs,
            "RoleARN": self.role,
            "Tags": self.tags,
            "EnableTerminationProtection": self.protected,
        }

    def describe_resources(self) -> list[dict[str, Any]]:
        return [
            {
                "StackName": self.name,
                "StackId": self.id,
                "LogicalResourceId": resource.logical,
                "PhysicalResourceId": resource.id,
                "ResourceType": resource.type,
                "Timestamp": self.updated or self.created,
                "LastUpdatedTimestamp": self.updated or self.created,
                "ResourceStatus": "CREATE_COMPLETE" if self.updated is None else "UPDATE_COMPLETE",
            }
            for resource in self.resources.values()
        ]


def _resolved_value(given: str, resolved: Any) -> dict[str, str]:
    text = ",".join(resolved) if isinstance(resolved, list) else str(resolved)
    return {} if text == given else {"ResolvedValue": text}
