"""Resolving stack parameters.

Stock moto passes an SSM parameter's resolved value where its name belongs and does not notice a
changed one. Here a stack remembers the name that was given and the value that it had.
"""

from typing import Any

from botocore.exceptions import ClientError

from .errors import ValidationError

_SSM = "AWS::SSM::Parameter::Value<"


def given(template: dict[str, Any], incoming: list[dict[str, Any]], previous: dict[str, str]) -> dict[str, str]:
    """The parameters' values as given: incoming, previous or default; SSM parameters by name."""
    declared = template.get("Parameters", {})
    values = {name: slot["Default"] for name, slot in declared.items() if "Default" in slot}
    for item in incoming:
        name = item["ParameterKey"]
        if name not in declared:
            raise ValidationError(f"Parameters: [{name}] do not exist in the template")
        if not item.get("UsePreviousValue"):
            values[name] = item["ParameterValue"]
        elif name in previous:
            values[name] = previous[name]
        else:
            raise ValidationError(f"Invalid value for parameter {name}: there is no previous value")
    if missing := sorted(set(declared) - set(values)):
        raise ValidationError(f"Parameters: {missing} must have values")
    for name, value in values.items():
        allowed = declared[name].get("AllowedValues")
        if allowed and str(value) not in map(str, allowed):
            raise ValidationError(f"Parameter '{name}' must be one of AllowedValues")
    return {name: str(value) for name, value in values.items()}


def resolved(template: dict[str, Any], values: dict[str, str], ssm: Any) -> dict[str, Any]:
    """What the values stand for, in the type that the template declares."""
    result: dict[str, Any] = {}
    missing: list[str] = []
    for name, slot in template.get("Parameters", {}).items():
        kind, value = slot["Type"], values[name]
        if kind.startswith(_SSM):
            kind = kind.removeprefix(_SSM).removesuffix(">")
            try:
                value = ssm.get_parameter(Name=value)["Parameter"]["Value"]
            except ClientError as error:
                if error.response["Error"]["Code"] != "ParameterNotFound":
                    raise
                missing.append(value)
                continue
        result[name] = _typed(kind, value)
    if missing:
        raise ValidationError(f"Unable to fetch parameters [{','.join(missing)}] from parameter store for this account.")
    return result


def _typed(kind: str, value: str) -> Any:
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [part.strip() for part in value.split(",")]
    if kind == "Number":
        return float(value) if "." in value else int(value)
    return value
