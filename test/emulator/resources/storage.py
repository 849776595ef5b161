"""Buckets, tables and queues."""

import json
from typing import Any

from botocore import xform_name

from ..cloudformation.call import call
from ..cloudformation.errors import ValidationError
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from ..dynamodb import replicas
from .tags import mapping, without


@resource("AWS::S3::Bucket")
class Bucket(Handler):
    _APART = {"BucketName", "Tags", "VersioningConfiguration", "BucketEncryption", "PublicAccessBlockConfiguration", "LifecycleConfiguration", "OwnershipControls", "AccessControl"}

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        s3, name = at.client("s3"), p.get("BucketName") or at.name(63).lower()
        if unknown := set(p) - self._APART:
            raise ValidationError(f"the emulator has no support for {sorted(unknown)} of a bucket")
        elsewhere = {} if at.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": at.region}}
        s3.create_bucket(Bucket=name, **elsewhere)
        self._configure(s3, name, p)
        return Made(name, {
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{at.region}.amazonaws.com",
        })

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"BucketName"} or set(old) - set(new):
            return None
        self._configure(at.client("s3"), made.id, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("s3").delete_bucket(Bucket=made.id)  # refused while it holds objects

    def _configure(self, s3: Any, name: str, p: dict[str, Any]) -> None:
        if "VersioningConfiguration" in p:
            call(s3, "PutBucketVersioning", Bucket=name, VersioningConfiguration=p["VersioningConfiguration"])
        if "PublicAccessBlockConfiguration" in p:
            call(s3, "PutPublicAccessBlock", Bucket=name, PublicAccessBlockConfiguration=p["PublicAccessBlockConfiguration"])
        if "OwnershipControls" in p:
            call(s3, "PutBucketOwnershipControls", Bucket=name, OwnershipControls=p["OwnershipControls"])
        if "AccessControl" in p:  # LogDeliveryWrite is log-delivery-write
            s3.put_bucket_acl(Bucket=name, ACL=xform_name(p["AccessControl"], "-"))
        if "Tags" in p:
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": p["Tags"]})
        if "BucketEncryption" in p:
            call(s3, "PutBucketEncryption", Bucket=name, ServerSideEncryptionConfiguration={"Rules": [
                {name.replace("ServerSideEncryptionByDefault", "ApplyServerSideEncryptionByDefault"): value for name, value in rule.items()}
                for rule in p["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            ]})
        if "LifecycleConfiguration" in p:
            rules = [_lifecycle_rule(rule) for rule in p["LifecycleConfiguration"]["Rules"]]
            call(s3, "PutBucketLifecycleConfiguration", Bucket=name, LifecycleConfiguration={"Rules": rules})


def _lifecycle_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule in the API's form. Properties that it lacks are passed on, for botocore to refuse."""
    names = {"Id": "ID", "NoncurrentVersionExpiration": "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload": "AbortIncompleteMultipartUpload"}
    result = {names.get(name, name): value for name, value in rule.items() if name not in ("ExpirationInDays", "Prefix")}
    if "ExpirationInDays" in rule:
        result["Expiration"] = {"Days": rule["ExpirationInDays"]}
    result["Filter"] = {"Prefix": rule.get("Prefix", "")}
    return result


@resource("AWS::S3::BucketPolicy")
class BucketPolicy(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        at.client("s3").put_bucket_policy(Bucket=p["Bucket"], Policy=json.dumps(p["PolicyDocument"]))
        return Made(p["Bucket"])

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        return None if changed(old, new) & {"Bucket"} else self.create(at, new)

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("s3").delete_bucket_policy(Bucket=p["Bucket"])


@resource("AWS::DynamoDB::Table")
class Table(Handler):
    _APART = {"Tags", "SSESpecification", "PointInTimeRecoverySpecification", "TimeToLiveSpecification", "StreamSpecification", "ResourcePolicy", "OnDemandThroughput"}
    _FIXED = {"TableName", "KeySchema", "LocalSecondaryIndexes"}

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        client = at.client("dynamodb")
        settings = {"TableName": at.name(255), **without(p, *self._APART), "SSESpecification": _encryption(p), "StreamSpecification": _stream(p)}
        made = call(client, "CreateTable", Tags=p.get("Tags") or None, **settings)["TableDescription"]
        self._configure(client, made["TableName"], {}, p)
        return self._made(made)

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        moved = changed(old, new)
        if moved & (self._FIXED | {"Tags"}):
            return None
        client = at.client("dynamodb")
        whole = moved - self._APART | moved & {"StreamSpecification", "SSESpecification"}
        if whole - {"AttributeDefinitions", "BillingMode", "ProvisionedThroughput", "DeletionProtectionEnabled", "StreamSpecification", "SSESpecification"}:
            raise ValidationError(f"the emulator cannot change {sorted(whole)} of a table")
        if whole:
            settings = {name: new.get(name) for name in whole - {"StreamSpecification", "SSESpecification"}}
            if "StreamSpecification" in whole:
                settings["StreamSpecification"] = _stream(new) or {"StreamEnabled": False}
            if "SSESpecification" in whole:
                settings["SSESpecification"] = _encryption(new) or {"Enabled": False}
            call(client, "UpdateTable", TableName=made.id, **settings)
        self._configure(client, made.id, old, new)
        return self._made(client.describe_table(TableName=made.id)["Table"])

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("dynamodb").delete_table(TableName=made.id)

    def _configure(self, client: Any, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        """What CreateTable does not take, and stock moto's CloudFormation drops."""
        live = "TimeToLiveSpecification"
        if new.get(live) != old.get(live):
            call(client, "UpdateTimeToLive", TableName=name, TimeToLiveSpecification=new.get(live) or {**old[live], "Enabled": False})
        recovery = "PointInTimeRecoverySpecification"
        if new.get(recovery) != old.get(recovery):
            call(client, "UpdateContinuousBackups", TableName=name, PointInTimeRecoverySpecification=new.get(recovery) or {"PointInTimeRecoveryEnabled": False})

        policy, arn = "ResourcePolicy", client.describe_table(TableName=name)["Table"]["TableArn"]
        if new.get(policy) != old.get(policy):
            if policy in new:
                client.put_resource_policy(ResourceArn=arn, Policy=json.dumps(new[policy]["PolicyDocument"]))
            else:
                client.delete_resource_policy(ResourceArn=arn)

    def _made(self, table: dict[str, Any]) -> Made:
        attributes = {"Arn": table["TableArn"], "TableId": table.get("TableId", "")}
        if "LatestStreamArn" in table:
            attributes["StreamArn"] = table["LatestStreamArn"]
        return Made(table["TableName"], attributes)


def _encryption(p: dict[str, Any]) -> dict[str, Any] | None:
    if "SSESpecification" not in p:
        return None
    return {"Enabled": p["SSESpecification"]["SSEEnabled"], **without(p["SSESpecification"], "SSEEnabled")}


def _stream(p: dict[str, Any]) -> dict[str, Any] | None:
    return {"StreamEnabled": True, **p["StreamSpecification"]} if "StreamSpecification" in p else None


@resource("AWS::DynamoDB::GlobalTable")
class GlobalTable(Table):
    """One real table in the stack's own region, with the settings of the replica there.

    The other replicas stand on the template-only list, but what CloudFormation refuses of them is
    refused here, and who names one by its ARN finds this table.
    """

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        self._refuse_policies(at, p, {replica["Region"] for replica in p["Replicas"]})
        made = super().create(at, self._home(at, p))
        self._lead(at, made, p)
        return made

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        before, after = ({replica["Region"] for replica in p["Replicas"]} for p in (old, new))
        if len(moved := before ^ after) > 1:
            # Source: AWS CloudFormation, AWS::DynamoDB::GlobalTable Replicas.
            raise ValidationError(f"only one replica can be added or removed in an update, not {sorted(moved)}")
        self._refuse_policies(at, new, after - before)
        result = super().update(at, made, self._home(at, old), self._home(at, new))
        if result is not None:
            self._lead(at, made, new)
        return result

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        super().delete(at, made, p)
        self._lead(at, made, {"Replicas": []})

    def _lead(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        """Has the ARNs of the replicas lead to the table."""
        for key in [key for key in replicas if key[0] == at.account and key[2] == made.id]:
            del replicas[key]
        replicas.update({(at.account, replica["Region"], made.id): at.region for replica in p["Replicas"]})

    def _refuse_policies(self, at: Place, p: dict[str, Any], added: set[str]) -> None:
        """Source: Amazon DynamoDB developer guide, resource-based policy considerations."""
        for replica in p["Replicas"]:
            if replica["Region"] in added - {at.region} and "ResourcePolicy" in replica:
                raise ValidationError(
                    f"a replica in another region, {replica['Region']}, cannot be created together with its resource policy: add the policy in the next update")

    def _home(self, at: Place, p: dict[str, Any]) -> dict[str, Any]:
        """The properties of a plain table that is like the home replica."""
        home = [replica for replica in p["Replicas"] if replica["Region"] == at.region]
        if len(home) != 1:
            raise ValidationError(f"a global table needs one replica in its stack's region, {at.region}")
        indexes = "GlobalSecondaryIndexes"
        settings = {index["IndexName"]: index for index in home[0].get(indexes, [])}  # of the replica, by name
        merged = {indexes: [{**index, **settings.get(index["IndexName"], {})} for index in p[indexes]]} if indexes in p else {}
        return {**without(p, "Replicas"), **without(home[0], "Region", indexes), **merged}


@resource("AWS::SQS::Queue")
class Queue(Handler):
    _NESTED = ("RedrivePolicy", "RedriveAllowPolicy")

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        fifo = ".fifo" if str(p.get("FifoQueue", False)).lower() == "true" else ""
        name = p.get("QueueName") or at.name(80 - len(fifo)) + fifo
        url = call(at.client("sqs"), "CreateQueue", QueueName=name, Attributes=self._attributes(p), tags=mapping(p) or None)["QueueUrl"]
        return Made(url, {"Arn": at.arn("sqs", name), "QueueName": name, "QueueUrl": url})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"QueueName", "FifoQueue", "Tags"} or set(old) - set(new):
            return None
        call(at.client("sqs"), "SetQueueAttributes", QueueUrl=made.id, Attributes=self._attributes(new))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("sqs").delete_queue(QueueUrl=made.id)

    def _attributes(self, p: dict[str, Any]) -> dict[str, Any]:
        attributes = without(p, "QueueName", "Tags", *self._NESTED)
        for name in self._NESTED:
            if name in p:
                attributes[name] = json.dumps(p[name])
        return attributes


@resource("AWS::SQS::QueuePolicy")
class QueuePolicy(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        self._set(at, p["Queues"], json.dumps(p["PolicyDocument"]))
        return Made(at.name(), {"Id": at.logical})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) & {"Queues"}:
            return None
        self._set(at, new["Queues"], json.dumps(new["PolicyDocument"]))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        self._set(at, p["Queues"], "")

    def _set(self, at: Place, queues: list[str], policy: str) -> None:
        for url in queues:
            at.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
