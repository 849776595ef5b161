"""Reading templates: JSON, or YAML with short-form intrinsics, into one plain form."""

import graphlib
import json
import re
from typing import Any

import yaml

from .errors import ValidationError

_SUPPORTED = {"AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Mappings", "Conditions", "Resources", "Outputs"}
_REFERENCE = re.compile(r"\$\{([^!}][^}]*)\}")


class _Loader(yaml.SafeLoader):
    """Safe YAML without dates: a policy's Version is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _short_form(loader: Any, suffix: str, node: Any) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_form)


def parse(body: str) -> dict[str, Any]:
    """The template as plain data. ValidationError when it is none that this emulator takes."""
    try:
        template = json.loads(body) if body.lstrip().startswith("{") else yaml.load(body, _Loader)
    except (ValueError, yaml.YAMLError) as error:
        raise ValidationError(f"Template format error: {error}") from error
    if not isinstance(template, dict) or not isinstance(template.get("Resources"), dict) or not template["Resources"]:
        raise ValidationError("Template format error: At least one Resources member must be defined.")
    if unknown := set(template) - _SUPPORTED:
        raise ValidationError(f"the emulator has no support for template sections {sorted(unknown)}")
    return template


def references(node: Any) -> set[str]:
    """The names that node refers to by Ref, Fn::GetAtt or Fn::Sub."""
    if isinstance(node, list):
        return set().union(*(references(item) for item in node)) if node else set()
    if not isinstance(node, dict):
        return set()
    if len(node) == 1:
        (key, value), = node.items()
        if key == "Ref":
            return {value}
        if key == "Fn::GetAtt":
            return {value[0] if isinstance(value, list) else value.split(".")[0]}
        if key == "Fn::Sub":
            text, given = (value, {}) if isinstance(value, str) else value
            named = {match.split(".")[0] for match in _REFERENCE.findall(text)}
            return (named - set(given)) | references(given)
    return set().union(*(references(value) for value in node.values())) if node else set()


def dependency_order(template: dict[str, Any]) -> list[str]:
    """The logical ids, each after all that it depends on."""
    resources = template["Resources"]
    graph = graphlib.TopologicalSorter()
    for logical, resource in resources.items():
        explicit = resource.get("DependsOn", [])
        named = {explicit} if isinstance(explicit, str) else set(explicit)
        if missing := named - set(resources):
            raise ValidationError(f"Template format error: Unresolved resource dependencies {sorted(missing)} in the Resources block of the template")
        graph.add(logical, *sorted((named | references(resource.get("Properties", {}))) & set(resources)))
    try:
        return list(graph.static_order())
    except graphlib.CycleError as error:
        raise ValidationError(f"Circular dependency between resources: {error.args[1]}") from error
