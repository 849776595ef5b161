"""Evaluating intrinsic functions. An unknown one fails the stack; none resolves to nothing quietly."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from .errors import ValidationError

_NO_VALUE = object()
_PLACE = re.compile(r"\$\{([^}]+)\}")
_ZONES = "abc"


class Referable(Protocol):
    """A resource as others see it."""

    id: str

    def attribute(self, name: str) -> Any: ...


class Scope:
    """Everything that a template's expressions may refer to."""

    def __init__(self, template: dict[str, Any], pseudo: dict[str, str], parameters: dict[str, Any], resources: Mapping[str, Referable]) -> None:
        self._template = template
        self._pseudo = pseudo
        self._parameters = parameters
        self._resources = resources

    def value(self, node: Any) -> Any:
        """node with every intrinsic function replaced by what it stands for."""
        result = self._value(node)
        return None if result is _NO_VALUE else result

    def condition(self, name: str) -> bool:
        """Whether the named condition holds."""
        conditions = self._template.get("Conditions", {})
        if name not in conditions:
            raise ValidationError(f"Template error: there is no condition {name}")
        return self._holds(conditions[name])

    def _value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [value for value in map(self._value, node) if value is not _NO_VALUE]
        if isinstance(node, str) and "{{resolve:" in node:
            raise ValidationError(f"the emulator has no support for dynamic references: {node}")
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            (key, argument), = node.items()
            if key == "Ref":
                return self._ref(argument)
            if key.startswith("Fn::"):
                return self._call(key.removeprefix("Fn::"), argument)
        values = {key: self._value(value) for key, value in node.items()}
        return {key: value for key, value in values.items() if value is not _NO_VALUE}

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NO_VALUE
        for source in (self._pseudo, self._parameters):
            if name in source:
                return source[name]
        return self._resource(name).id

    def _resource(self, name: str) -> Referable:
        if name not in self._resources:
            raise ValidationError(f"Template error: unresolved reference to {name}")
        return self._resources[name]

    def _call(self, function: str, argument: Any) -> Any:
        method = getattr(self, f"_fn_{function.lower()}", None)
        if method is None:
            raise ValidationError(f"the emulator has no support for Fn::{function}")
        return method(argument)

    def _fn_getatt(self, argument: Any) -> Any:
        name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        return self._resource(name).attribute(self.value(attribute))

    def _fn_sub(self, argument: Any) -> str:
        text, given = (argument, {}) if isinstance(argument, str) else argument

        def replace(match: re.Match[str]) -> str:
            name = match.group(1)
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            if name in given:
                return str(self.value(given[name]))
            return str(self._fn_getatt(name) if "." in name else self._ref(name))

        return _PLACE.sub(replace, text)

    def _fn_join(self, argument: Any) -> str:
        return argument[0].join(str(part) for part in self.value(argument[1]))

    def _fn_split(self, argument: Any) -> list[str]:
        return self.value(argument[1]).split(argument[0])

    def _fn_select(self, argument: Any) -> Any:
        return self.value(argument[1])[int(self.value(argument[0]))]

    def _fn_if(self, argument: Any) -> Any:
        name, yes, no = argument
        return self._value(yes if self.condition(name) else no)

    def _fn_findinmap(self, argument: Any) -> Any:
        name, first, second = (self.value(part) for part in argument)
        try:
            return self._template["Mappings"][name][first][second]
        except KeyError as error:
            raise ValidationError(f"Template error: Unable to get mapping for {name}::{first}::{second}") from error

    def _fn_getazs(self, argument: Any) -> list[str]:
        region = self.value(argument) or self._pseudo["AWS::Region"]
        return [region + zone for zone in _ZONES]

    def _fn_base64(self, argument: Any) -> str:
        return base64.b64encode(self.value(argument).encode()).decode()

    def _fn_tojsonstring(self, argument: Any) -> str:
        return json.dumps(self.value(argument), separators=(",", ":"))

    def _holds(self, node: Any) -> bool:
        if isinstance(node, bool):
            return node
        (key, argument), = node.items()
        match key:
            case "Condition":
                return self.condition(argument)
            case "Fn::Equals":
                left, right = (self.value(side) for side in argument)
                return str(left) == str(right)
            case "Fn::Not":
                return not self._holds(argument[0])
            case "Fn::And":
                return all(self._holds(part) for part in argument)
            case "Fn::Or":
                return any(self._holds(part) for part in argument)
        raise ValidationError(f"the emulator has no support for {key} in a condition")
