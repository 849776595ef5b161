"""Bucket policies are kept, not judged.

Stock moto applies a bucket policy without its conditions: the statement that refuses requests without
TLS refuses every request, and with it CDK's uploads. IAM is not judged here at all; docs/testing.md
says so), and neither are bucket policies; they are stored and read back.
"""

from typing import Any

from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket


def install() -> None:
    def get_permission(self: FakeBucket, action: str, resource: str) -> Any:
        return PermissionResult.NEUTRAL

    FakeBucket.get_permission = get_permission
