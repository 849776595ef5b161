"""Tags in the forms that the APIs want them: CloudFormation's is a list of Key and Value."""

from typing import Any


def specification(kind: str, p: dict[str, Any]) -> list[dict[str, Any]] | None:
    """EC2's form: tags by resource type. None when there are none, which EC2 wants left out."""
    return [{"ResourceType": kind, "Tags": p["Tags"]}] if p.get("Tags") else None


def mapping(p: dict[str, Any]) -> dict[str, str]:
    """The form of Lambda, SQS and CloudWatch Logs."""
    return {tag["Key"]: tag["Value"] for tag in p.get("Tags", [])}


def without(p: dict[str, Any], *names: str) -> dict[str, Any]:
    """The properties but for some, which the handler passes on in another way."""
    return {name: value for name, value in p.items() if name not in names}
