"""Types and parts of types that no API stands behind: the template-only list.

Stock moto skips every CloudFormation type that it does not know and reports success. Here an unknown
type fails its stack, and so does an unknown property. What stands on this list is the reviewed
exception: a type gets a physical id and attributes so that others can refer to it, but nothing is
made. What the project relies on there is asserted on the
synthesised template instead, and docs/testing.md, which a test compares with this list, says where.
"""

TYPES: dict[str, str] = {
    "AWS::ApiGatewayV2::Api": "moto keeps the record but serves no HTTP API: the ingress is asserted on the template",
    "AWS::ApiGatewayV2::Authorizer": "moto verifies no tokens: issuer, audience and routes are asserted on the template",
    "AWS::ApiGatewayV2::Integration": "moto calls no integration: the router is invoked through Lambda instead",
    "AWS::ApiGatewayV2::Route": "moto routes nothing",
    "AWS::ApiGatewayV2::Stage": "moto deploys nothing",
    "AWS::CDK::Metadata": "CDK's usage record: it makes nothing on AWS either",
    "AWS::Logs::SubscriptionFilter": "moto takes every line for one that a pattern in JSON matches: tests send the event themselves",
    "AWS::Lambda::EventInvokeConfig": "nothing repeats asynchronous invocations here: attempts and ages are asserted on the template",
}

# What the handlers of other types leave out on purpose.
PARTS: dict[str, str] = {
    "AWS::Events::Rule: schedules": "a rule is kept with its targets; no clock runs: tests invoke the function",
    "AWS::DynamoDB::Table: maximum throughput": "moto bounds no table",
    "AWS::DynamoDB::GlobalTable: replicas in other regions": "one table is made, in the stack's own region, and a replica's ARN leads there; moto replicates nothing",
}


def describe() -> dict[str, str]:
    """Everything on the list, by name, with its reason."""
    return {**TYPES, **PARTS}
