"""Calling an API with CloudFormation's properties.

CloudFormation lets a template write numbers and booleans as strings and the other way round; the APIs
do not. Everything else is left alone, so that botocore refuses what the API does not know.
"""

from typing import Any

from botocore import xform_name


def call(client: Any, operation: str, /, **parameters: Any) -> dict[str, Any]:
    """Calls an operation, named as in AWS's documentation, with scalars in the types that it wants.

    Parameters that are None are left out.
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    shape = client.meta.service_model.operation_model(operation).input_shape
    return getattr(client, xform_name(operation))(**(_coerce(shape, given) if shape else given))


def _coerce(shape: Any, value: Any) -> Any:
    match shape.type_name:
        case "structure" if isinstance(value, dict):
            return {name: _coerce(shape.members[name], item) if name in shape.members else item for name, item in value.items()}
        case "list" if isinstance(value, list):
            return [_coerce(shape.member, item) for item in value]
        case "map" if isinstance(value, dict):
            return {name: _coerce(shape.value, item) for name, item in value.items()}
        case "integer" | "long" if isinstance(value, (str, float)):
            return int(value)
        case "double" | "float" if isinstance(value, (str, int)):
            return float(value)
        case "boolean" if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        case "string" if isinstance(value, bool):
            return str(value).lower()
        case "string" if isinstance(value, (int, float)):
            return str(value)
    return value
