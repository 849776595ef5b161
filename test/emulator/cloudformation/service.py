"""CloudFormation's API. Moto's frame parses requests and writes responses; the rest is ours.

Stock moto finds change sets by name alone: with `cdk deploy --concurrency`, stacks were reported done
that did not exist. Here a change set belongs to its stack, and when one is executed, the stack's others are gone.
"""

import threading
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

from moto.core.responses import ActionResult, BaseResponse, EmptyResult

from ..accounts import Accounts
from . import obstacles, parameters
from .deployment import Deployment
from .errors import AlreadyExists, ChangeSetNotFound, InvalidChangeSetStatus, ValidationError
from .stack import Content, Stack, now
from .template import parse, references

_NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."


@dataclass
class ChangeSet:
    """A change set of one stack."""

    id: str
    name: str
    stack: Stack
    kind: str
    content: Content
    tags: list[dict[str, str]] | None
    description: str | None
    changes: list[dict[str, Any]]
    execution: str | None = None  # its status, once it was executed

    @property
    def empty(self) -> bool:
        return self.kind == "UPDATE" and self.content.same_as(self.stack.content) and self.tags in (None, self.stack.tags)

    def describe(self) -> dict[str, Any]:
        return {
            "ChangeSetId": self.id,
            "ChangeSetName": self.name,
            "StackId": self.stack.id,
            "StackName": self.stack.name,
            "Description": self.description,
            "Parameters": [{"ParameterKey": name, "ParameterValue": value} for name, value in self.content.given.items()],
            "CreationTime": now(),
            **self._state(),
            "Tags": self.tags or [],
            "Changes": self.changes,
        }

    def _state(self) -> dict[str, str]:
        if self.execution is not None:
            return {"Status": "CREATE_COMPLETE", "ExecutionStatus": self.execution}
        if self.empty:
            return {"Status": "FAILED", "ExecutionStatus": "UNAVAILABLE", "StatusReason": _NO_CHANGES}
        return {"Status": "CREATE_COMPLETE", "ExecutionStatus": "AVAILABLE"}


class Region:
    """The stacks of one account and region."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.stacks: dict[str, Stack] = {}
        self.change_sets: dict[tuple[str, str], ChangeSet] = {}

    def find(self, name_or_id: str) -> Stack:
        """The stack; a deleted one by its id only."""
        with self.lock:
            for stack in self.stacks.values():
                if name_or_id == stack.id or (name_or_id == stack.name and stack.status != "DELETE_COMPLETE"):
                    return stack
        raise ValidationError(f"Stack with id {name_or_id} does not exist")

    def live(self, name: str) -> Stack | None:
        try:
            return self.find(name)
        except ValidationError:
            return None

    def find_change_set(self, name_or_id: str, stack: str | None) -> ChangeSet:
        with self.lock:
            for change_set in self.change_sets.values():
                named = change_set.name == name_or_id and stack in (change_set.stack.name, change_set.stack.id)
                if change_set.id == name_or_id or named:
                    return change_set
        raise ChangeSetNotFound(f"ChangeSet [{name_or_id}] does not exist")


class Service(BaseResponse):
    """The API's operations, each named as moto's dispatcher wants it."""

    accounts: Accounts
    regions: dict[tuple[str, str], Region] = {}
    _regions_lock = threading.Lock()

    def __init__(self) -> None:
        super().__init__(service_name="cloudformation")
        self.automated_parameter_parsing = True

    @property
    def _here(self) -> Region:
        with self._regions_lock:
            return self.regions.setdefault((self.current_account, self.region), Region())

    # Change sets.

    def create_change_set(self) -> ActionResult:
        here, name = self._here, self._get_param("StackName")
        kind = self._get_param("ChangeSetType", "UPDATE")
        with here.lock:
            stack = here.live(name)
            if kind == "CREATE":
                if stack is not None and stack.status != "REVIEW_IN_PROGRESS":
                    raise ValidationError(f"Stack {stack.id} already exists and cannot be created again with the changeSet")
                content = self._content(None)
                if stack is None:
                    stack = self._new_stack(name, "REVIEW_IN_PROGRESS")
                    stack.enter("REVIEW_IN_PROGRESS", "User Initiated")
            else:
                stack = here.find(name)
                self._refuse_update(stack)
                content = self._content(stack)
            key = (stack.id, self._get_param("ChangeSetName"))
            if key in here.change_sets:
                raise AlreadyExists(f"ChangeSet {key[1]} cannot be created due to a mismatch with existing attribute Name")
            change_set = ChangeSet(
                id=f"arn:aws:cloudformation:{stack.region}:{stack.account}:changeSet/{key[1]}/{uuid.uuid4()}",
                name=key[1],
                stack=stack,
                kind=kind,
                content=content,
                tags=self._get_param("Tags"),
                description=self._get_param("Description"),
                changes=_changes(stack, content),
            )
            here.change_sets[key] = change_set
        return ActionResult({"Id": change_set.id, "StackId": stack.id})

    def describe_change_set(self) -> ActionResult:
        return ActionResult(self._change_set().describe())

    def list_change_sets(self) -> ActionResult:
        stack = self._here.find(self._get_param("StackName"))
        with self._here.lock:
            return ActionResult({"Summaries": [c.describe() for c in self._here.change_sets.values() if c.stack is stack]})

    def delete_change_set(self) -> EmptyResult:
        here = self._here
        with here.lock:
            try:
                change_set = self._change_set()
            except ChangeSetNotFound:
                return EmptyResult()
            del here.change_sets[(change_set.stack.id, change_set.name)]
        return EmptyResult()

    def execute_change_set(self) -> EmptyResult:
        here, change_set = self._here, self._change_set()
        stack, token = change_set.stack, self._get_param("ClientRequestToken")
        began = threading.Event()
        with here.lock:
            if change_set.execution is not None or change_set.empty:
                raise InvalidChangeSetStatus(f"ChangeSet [{change_set.id}] cannot be executed in its current status")
            if change_set.kind == "UPDATE":
                self._refuse_update(stack)
            change_set.execution = "EXECUTE_IN_PROGRESS"
            for key in [key for key, other in here.change_sets.items() if other.stack is stack and other is not change_set]:
                del here.change_sets[key]

        def execute() -> None:
            with stack.lock:
                stack.token, stack.change_set = token, change_set.id
                if change_set.tags is not None:
                    stack.tags = change_set.tags
                stack.status = "CREATE_IN_PROGRESS" if change_set.kind == "CREATE" else "UPDATE_IN_PROGRESS"
                began.set()
                self._deploy(stack, change_set.content, create=change_set.kind == "CREATE")
                succeeded = stack.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
                change_set.execution = "EXECUTE_COMPLETE" if succeeded else "EXECUTE_FAILED"

        if obstacles.has(stack.name, "hold"):
            threading.Thread(target=execute, daemon=True).start()
            began.wait()
        else:
            execute()
        return EmptyResult()

    # Stacks.

    def create_stack(self) -> ActionResult:
        here, name = self._here, self._get_param("StackName")
        with here.lock:
            if here.live(name) is not None:
                raise AlreadyExists(f"Stack [{name}] already exists")
            content = self._content(None)
            stack = self._new_stack(name, "CREATE_IN_PROGRESS")
            stack.protected = self._get_bool_param("EnableTerminationProtection", False)
        with stack.lock:
            stack.token = self._get_param("ClientRequestToken")
            self._deploy(stack, content, create=True)
        return ActionResult({"StackId": stack.id})

    def update_stack(self) -> ActionResult:
        stack = self._here.find(self._get_param("StackName"))
        with stack.lock:
            self._refuse_update(stack)
            content, tags = self._content(stack), self._get_param("Tags")
            if content.same_as(stack.content) and tags in (None, stack.tags):
                raise ValidationError("No updates are to be performed.")
            stack.token = self._get_param("ClientRequestToken")
            if tags is not None:
                stack.tags = tags
            self._deploy(stack, content, create=False)
        return ActionResult({"StackId": stack.id})

    def delete_stack(self) -> EmptyResult:
        stack = self._here.live(self._get_param("StackName"))
        if stack is None:
            return EmptyResult()
        if stack.protected:
            raise ValidationError(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
        with stack.lock:
            Deployment(self.accounts, stack).delete()
        if stack.status == "DELETE_COMPLETE":  # its change sets go with it
            with self._here.lock:
                for key in [key for key in self._here.change_sets if key[0] == stack.id]:
                    del self._here.change_sets[key]
        return EmptyResult()

    def update_termination_protection(self) -> ActionResult:
        stack = self._here.find(self._get_param("StackName"))
        stack.protected = self._get_bool_param("EnableTerminationProtection", False)
        return ActionResult({"StackId": stack.id})

    def describe_stacks(self) -> ActionResult:
        name, here = self._get_param("StackName"), self._here
        stacks = [here.find(name)] if name else [s for s in here.stacks.values() if s.status != "DELETE_COMPLETE"]
        return ActionResult({"Stacks": [stack.describe() for stack in stacks]})

    def list_stacks(self) -> ActionResult:
        wanted = self._get_param("StackStatusFilter", [])
        found = [stack.describe() for stack in self._here.stacks.values() if not wanted or stack.status in wanted]
        return ActionResult({"StackSummaries": found})

    def describe_stack_events(self) -> ActionResult:
        return ActionResult({"StackEvents": self._here.find(self._get_param("StackName")).events[::-1]})

    def describe_stack_resources(self) -> ActionResult:
        stack = self._here.find(self._get_param("StackName"))
        logical = self._get_param("LogicalResourceId")
        return ActionResult({"StackResources": [r for r in stack.describe_resources() if logical in (None, r["LogicalResourceId"])]})

    def describe_stack_resource(self) -> ActionResult:
        stack, logical = self._here.find(self._get_param("StackName")), self._get_param("LogicalResourceId")
        for resource in stack.describe_resources():
            if resource["LogicalResourceId"] == logical:
                return ActionResult({"StackResourceDetail": resource})
        raise ValidationError(f"Resource {logical} does not exist for stack {stack.name}")

    def list_stack_resources(self) -> ActionResult:
        return ActionResult({"StackResourceSummaries": self._here.find(self._get_param("StackName")).describe_resources()})

    def get_template(self) -> ActionResult:
        stack = self._here.find(self._get_param("StackName"))
        return ActionResult({"TemplateBody": stack.content.body if stack.content else "", "StagesAvailable": ["Original", "Processed"]})

    def get_template_summary(self) -> ActionResult:
        name = self._get_param("StackName")
        stack = self._here.find(name) if name else None
        template = stack.content.template if stack and stack.content else parse(self._body(None))
        slots = template.get("Parameters", {}).items()
        return ActionResult({
            "Parameters": [{"ParameterKey": key, "ParameterType": slot["Type"], "DefaultValue": slot.get("Default")} for key, slot in slots],
            "ResourceTypes": sorted({resource["Type"] for resource in template["Resources"].values()}),
        })

    def list_exports(self) -> ActionResult:
        exports = [
            {"ExportingStackId": stack.id, "Name": output["ExportName"], "Value": output["OutputValue"]}
            for stack in self._here.stacks.values() for output in stack.outputs if "ExportName" in output
        ]
        return ActionResult({"Exports": exports})

    # Parts of the above.

    def _change_set(self) -> ChangeSet:
        return self._here.find_change_set(self._get_param("ChangeSetName"), self._get_param("StackName"))

    def _new_stack(self, name: str, status: str) -> Stack:
        stack = Stack(name, self.current_account, self.region, status)
        stack.role, stack.tags = self._get_param("RoleARN"), self._get_param("Tags", [])
        self._here.stacks[stack.id] = stack
        return stack

    def _deploy(self, stack: Stack, content: Content, create: bool) -> None:
        deployment = Deployment(self.accounts, stack)
        if create:
            deployment.create(content)
        else:
            deployment.update(content)

    def _refuse_update(self, stack: Stack) -> None:
        if not stack.status.endswith("_COMPLETE") or stack.status in ("ROLLBACK_COMPLETE", "DELETE_COMPLETE"):
            raise ValidationError(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")

    def _content(self, stack: Stack | None) -> Content:
        previous = stack.content if stack else None
        body = self._body(previous)
        template = parse(body)
        given = parameters.given(template, self._get_param("Parameters", []), previous.given if previous else {})
        ssm = self.accounts.client("ssm", self.current_account, self.region)
        return Content(body, template, given, parameters.resolved(template, given, ssm))

    def _body(self, previous: Content | None) -> str:
        if body := self._get_param("TemplateBody"):
            return body
        if url := self._get_param("TemplateURL"):
            bucket, key = _bucket_and_key(url)
            s3 = self.accounts.client("s3", self.current_account, self.region)
            return s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
        if self._get_bool_param("UsePreviousTemplate", False) and previous is not None:
            return previous.body
        raise ValidationError("Either Template URL or Template Body must be specified.")


def _bucket_and_key(url: str) -> tuple[str, str]:
    parsed = urlparse(url)
    host, path = parsed.hostname or "", parsed.path.lstrip("/")
    if host in ("localhost", "127.0.0.1") or host.startswith("s3"):
        bucket, _, key = path.partition("/")
        return bucket, key
    return host.split(".")[0], path


def _changes(stack: Stack, content: Content) -> list[dict[str, Any]]:
    """What a change set shows: by template and parameters, before anything is resolved."""
    old = stack.content.template["Resources"] if stack.content else {}
    new = content.template["Resources"]
    moved = {name for name, value in content.resolved.items() if stack.content and stack.content.resolved.get(name) != value}
    changes = []
    for logical in sorted(old.keys() | new.keys()):
        if logical not in old:
            action = "Add"
        elif logical not in new:
            action = "Remove"
        elif old[logical] != new[logical] or references(new[logical]) & moved:
            action = "Modify"
        else:
            continue
        kind = new.get(logical, old.get(logical))["Type"]
        changes.append({"Type": "Resource", "ResourceChange": {"Action": action, "LogicalResourceId": logical, "ResourceType": kind}})
    return changes
