"""What CloudFormation does for each resource type, through the services' own APIs.

One module a family of services. To support another type, add a handler to the module that it belongs
to; where moto has no API for it, see templateonly.
"""

from . import alarms, autoscaling, balancing, compute, dns, events, identity, lambdas, network, parameters, secrets, storage  # noqa: F401
