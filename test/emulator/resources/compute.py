"""Launch templates."""

from typing import Any

from ..cloudformation.call import call
from ..cloudformation.handler import Handler, Made, Place, changed, resource


@resource("AWS::EC2::LaunchTemplate")
class LaunchTemplate(Handler):
    """A change makes a new version; what refers to LatestVersionNumber changes with it."""

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        data = _sized(p["LaunchTemplateData"])
        made = call(at.client("ec2"), "CreateLaunchTemplate", **{"LaunchTemplateName": at.name(128), **p, "LaunchTemplateData": data})
        return self._made(made["LaunchTemplate"])

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {"LaunchTemplateData", "VersionDescription"}:
            return None
        ec2 = at.client("ec2")
        call(ec2, "CreateLaunchTemplateVersion", LaunchTemplateId=made.id, LaunchTemplateData=_sized(new["LaunchTemplateData"]))
        return self._made(ec2.describe_launch_templates(LaunchTemplateIds=[made.id])["LaunchTemplates"][0])

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("ec2").delete_launch_template(LaunchTemplateId=made.id)

    def _made(self, template: dict[str, Any]) -> Made:
        return Made(template["LaunchTemplateId"], {
            "LaunchTemplateId": template["LaunchTemplateId"],
            "LatestVersionNumber": str(template["LatestVersionNumber"]),
            "DefaultVersionNumber": str(template["DefaultVersionNumber"]),
        })


def _sized(data: dict[str, Any]) -> dict[str, Any]:
    """The data with a size for each volume that has neither size nor snapshot.

    On AWS such a volume has the size of the image's. Moto knows no image's, and starts no instance with it.
    """
    if "BlockDeviceMappings" not in data:
        return data
    sized = [
        {**mapping, "Ebs": {"VolumeSize": _IMAGE_SIZE, **mapping["Ebs"]}} if "Ebs" in mapping and "SnapshotId" not in mapping["Ebs"] else mapping
        for mapping in data["BlockDeviceMappings"]
    ]
    return {**data, "BlockDeviceMappings": sized}


_IMAGE_SIZE = 8  # GiB, that of Amazon Linux 2023
