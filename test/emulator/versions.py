"""A function's versions are numbered on, whatever became of the earlier ones.

Stock moto counts those that are there, so that of two versions one number is the other's, once one has been deleted; and
an alias that should lead to the new version then leads to none.

Source: AWS Lambda developer guide, function versions: numbers are not used again.
"""

import copy

from moto.awslambda.models import LambdaFunction, LambdaStorage


def install() -> None:
    """Has moto publish so."""

    def publish_version(self: LambdaStorage, name_or_arn: str, description: str = "") -> LambdaFunction:
        latest = self.get_function_by_name_or_arn_forbid_qualifier(name_or_arn)
        versions = self._functions[latest.function_name]["versions"]
        if versions and not latest.code_or_config_updated:
            return versions[-1]  # what has not changed is not published again
        latest.code_or_config_updated = False
        latest.published = getattr(latest, "published", 0) + 1
        version = copy.copy(latest)
        version.set_version(latest.published)
        version.description = description or version.description
        versions.append(version)
        self._arns[version.function_arn] = version
        return version

    LambdaStorage.publish_version = publish_version
