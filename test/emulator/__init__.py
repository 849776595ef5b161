"""An AWS API emulator for cellwall's tests.

Moto's server answers the service APIs. What moto gets wrong in ways that would make our tests lie is
mended here, one module a matter; each module's docstring says which lie it mends:

    cloudformation/  replaces moto's CloudFormation whole: strict, with rollback and real updates
    resources/       what CloudFormation does for each resource type, through the services' own APIs
    templateonly     the reviewed list of types and properties that no API stands behind
    functions        Lambda invocations run the function's real binary
    queues           event source mappings deliver as Lambda's pollers do
    dynamodb         conditional writes are atomic; a replica's ARN leads to its table
    arns             what is named by an ARN is looked for where that says
    identities       roles may come and go while others are used
    buckets          bucket policies are kept, not judged
    alarms           alarms are listed as AWS does, keep their state, and have a history
    composites       alarms over other alarms are made, hold on to these, and follow them
    metrics          metrics are read by all that names them
    cbor             CloudWatch answers the SDK for Go
    trail            CloudTrail has seen nothing
    accounts         clients and credentials of any account, through assume-role
    guardian         nothing outlives the test that started it

`python -m emulator --help` says how to start it; docs/testing.md says what to believe of it.
"""

# The mends reach into moto's internals, so they hold for one version only.
MOTO_VERSION = "5.2.1"
