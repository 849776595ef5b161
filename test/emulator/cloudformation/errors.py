"""The errors that CloudFormation's API answers with."""

from moto.core.exceptions import ServiceException


class ValidationError(ServiceException):
    """The request, its template or its parameters are wrong."""

    code = "ValidationError"


class AlreadyExists(ServiceException):
    """There is a stack of this name."""

    code = "AlreadyExistsException"


class ChangeSetNotFound(ServiceException):
    """The stack has no change set of this name. CDK asks for one before it makes it."""

    code = "ChangeSetNotFound"


class InvalidChangeSetStatus(ServiceException):
    """The change set cannot be executed."""

    code = "InvalidChangeSetStatus"
