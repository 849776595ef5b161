#!/usr/bin/env python3
"""Writes internal/change/properties.json: what CloudFormation replaces a resource for, by resource type.

    .venv/bin/python scripts/create-only.py          write the file
    .venv/bin/python scripts/create-only.py --check  status 1 when the file is not what would be written

The source is the resource schemas that the pinned cfn-lint carries (requirements.txt), of us-east-1, which has all
types. Of each type of the services below it keeps

    is        every property there is, so that one that is new to the schemas is told from one that is changed in place
    replace   paths whose change replaces the resource: the schema's createOnlyProperties
    may       paths whose change may replace it: conditionalCreateOnlyProperties, and what the schema counts to the
              identity of the resource without saying that it can only be set at creation (the name of a record set)
    fixed     attributes that live as long as the resource does: its primaryIdentifier
"""
import importlib.metadata
import importlib.resources
import json
import pathlib
import sys

# The services whose resources cellwall stamps, or that stand in a deployment next to them.
SERVICES = """ApiGatewayV2 ApplicationAutoScaling AutoScaling CertificateManager CloudFormation CloudWatch DynamoDB EC2
ElasticLoadBalancingV2 Events IAM KMS Lambda Logs Route53 S3 Scheduler SecretsManager SNS SQS SSM StepFunctions""".split()

FILE = pathlib.Path(__file__).resolve().parent.parent / "internal" / "change" / "properties.json"


def short(pointer):
    return pointer.removeprefix("/properties/").replace("/items/", "/*/").replace("/properties/", "/")


def kept(schema):
    create = {short(p) for p in schema.get("createOnlyProperties", [])}
    read = {short(p) for p in schema.get("readOnlyProperties", [])}
    identity = [short(p) for p in schema.get("primaryIdentifier", [])]
    may = {short(p) for p in schema.get("conditionalCreateOnlyProperties", [])} | (set(identity) - read)
    entry = {
        "is": sorted(schema.get("properties", {}).keys() - read),
        "replace": sorted(create),
        "may": sorted(may - create),
        "fixed": sorted(identity),
    }
    return {key: value for key, value in entry.items() if value}


def table():
    data = importlib.resources.files("cfnlint").joinpath("data", "schemas")
    types = json.loads(data.joinpath("providers", "us-east-1.json").read_text())
    lines = []
    for name in sorted(types):
        if name.split("::")[1] in SERVICES and name.startswith("AWS::"):
            schema = json.loads(data.joinpath("resources", types[name] + ".json").read_text())
            lines.append(f"{json.dumps(name)}: {json.dumps(kept(schema), separators=(',', ':'))}")
    date = json.loads(data.joinpath("version.json").read_text())["schema_date"]
    source = f"cfn-lint {importlib.metadata.version('cfn-lint')}, schemas of {date}, by scripts/create-only.py"
    return "{\n" + f'"source": {json.dumps(source)},\n"types": {{\n' + ",\n".join(lines) + "\n}}\n"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(f"usage: {sys.argv[0]} [--check]", file=sys.stderr)
        return 2
    text = table()
    if not arguments:
        FILE.write_text(text)
        return 0
    if FILE.read_text() == text:
        return 0
    print("error: internal/change/properties.json is not what the pinned cfn-lint's schemas give\n"
          "hint: .venv/bin/python scripts/create-only.py writes it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
