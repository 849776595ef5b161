"""Who may invoke a function is kept by what was named: the function, or one of its versions or aliases.

Stock moto keeps the policy of an alias with the version that it leads to at that moment, so that it is lost with the
next version; and does not know the two conditions by which Function URLs are opened. Nothing but a Function URL judges
by these policies.

Source: AWS Lambda developer guide, resource-based policies and control access to function URLs.
"""

import json
from typing import Any

from moto.awslambda.exceptions import GenericResourcNotFound
from moto.awslambda.models import LambdaBackend
from moto.awslambda.policy import Policy


def statements(backend: LambdaBackend, function: str, qualifier: str | None = None) -> list[dict[str, Any]]:
    """What is allowed of a function, or of its version or alias."""
    latest = backend.get_function(function)
    arn = f"{latest.function_arn.removesuffix(':$LATEST')}{':' + qualifier if qualifier else ''}"
    return [statement for statement in list(latest.policy.statements) if statement["Resource"] == arn]


def allows(backend: LambdaBackend, function: str, qualifier: str | None, action: str, condition: dict[str, Any]) -> bool:
    """Whether everybody may do that on this condition."""
    found = {"Effect": "Allow", "Principal": "*", "Action": action, "Condition": condition}
    return any(found.items() <= statement.items() for statement in statements(backend, function, qualifier))


def by_url(kind: str) -> dict[str, Any]:
    """The condition of lambda:InvokeFunctionUrl."""
    return {"StringEquals": {"lambda:FunctionUrlAuthType": kind}}


INVOKED_BY_URL: dict[str, Any] = {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}  # of lambda:InvokeFunction


def install() -> None:
    """Has moto keep them so."""
    decode = Policy.decode_policy

    def decode_policy(self: Policy, asked: dict[str, Any]) -> Policy:
        kind, via = asked.pop("FunctionUrlAuthType", None), asked.pop("InvokedViaFunctionUrl", False)
        policy = decode(self, asked)
        for condition in ([by_url(kind)] if kind else []) + ([INVOKED_BY_URL] if via else []):
            policy.statements[0]["Condition"] = {**policy.statements[0].get("Condition", {}), **condition}
        return policy

    def add_permission(self: LambdaBackend, function_name: str, qualifier: str, raw: str) -> dict[str, Any]:
        self.get_function(function_name, qualifier)  # which fails when there is none
        statement, _ = self.get_function(function_name).policy.add_statement(raw, qualifier)
        return statement

    def get_policy(self: LambdaBackend, function_name: str, qualifier: str | None = None) -> str:
        found = statements(self, function_name, qualifier)
        if not found:
            raise GenericResourcNotFound
        document = {"Version": "2012-10-17", "Id": "default", "Statement": found}
        return json.dumps({"Policy": json.dumps(document), "RevisionId": self.get_function(function_name).policy.revision})

    Policy.decode_policy = decode_policy
    LambdaBackend.add_permission, LambdaBackend.get_policy = add_permission, get_policy
