"""The kinds of value a cluster file holds, and how a field is written.

Every field states what a change of it does to a live cluster (``impact``), by ``about``. Every
string field has a pattern or an enumeration, so that nothing hostile gets past loading.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from corral.spec import texts

Name = Annotated[str, Field(pattern=texts.NAME.pattern)]
ClusterName = Annotated[str, Field(pattern=texts.CLUSTER_NAME.pattern, max_length=40)]
PartitionName = Annotated[str, Field(pattern=texts.PARTITION_NAME.pattern)]
AccountName = Annotated[str, Field(pattern=texts.ACCOUNT_NAME.pattern)]
HostList = Annotated[str, Field(pattern=texts.HOST_LIST.pattern, max_length=65536)]
HostName = Annotated[str, Field(pattern=texts.HOST_NAME.pattern, max_length=63)]
Address = Annotated[str, Field(pattern=texts.ADDRESS.pattern)]
AbsolutePath = Annotated[str, Field(pattern=texts.ABSOLUTE_PATH.pattern, max_length=1024)]
ImageName = Annotated[str, Field(pattern=texts.IMAGE_NAME.pattern, max_length=255)]
KeyPath = Annotated[str, Field(pattern=texts.KEY_PATH.pattern, max_length=1024)]
Jump = Annotated[str, Field(pattern=texts.JUMP.pattern, max_length=1024)]
UserName = Annotated[str, Field(pattern=texts.USER_NAME.pattern)]
Feature = Annotated[str, Field(pattern=texts.FEATURE.pattern)]
GpuType = Annotated[str, Field(pattern=texts.GPU_TYPE.pattern)]
VersionRange = Annotated[str, Field(pattern=texts.VERSION_RANGE.pattern)]
TimeLimit = Annotated[str, Field(pattern=texts.TIME_LIMIT.pattern)]
Interval = Annotated[str, Field(pattern=texts.INTERVAL.pattern)]
Interface = Annotated[str, Field(pattern=texts.INTERFACE.pattern)]
PartitionKey = Annotated[str, Field(pattern=texts.PKEY.pattern)]
NcclSetting = Annotated[str, Field(pattern=texts.NCCL.pattern)]
SshKey = Annotated[str, Field(pattern=texts.SSH_KEY.pattern, max_length=4096)]
Driver = Annotated[str, Field(pattern=texts.DRIVER.pattern)]
Cuda = Annotated[str, Field(pattern=texts.CUDA.pattern)]
DebSource = Annotated[str, Field(pattern=texts.DEB_SOURCE.pattern, max_length=1024)]
PackagePlace = Annotated[str, Field(pattern=texts.PACKAGE_PLACE.pattern, max_length=1024)]
GcpProject = Annotated[str, Field(pattern=texts.GCP_PROJECT.pattern)]
GcpZone = Annotated[str, Field(pattern=texts.GCP_ZONE.pattern)]
GcpBucket = Annotated[str, Field(pattern=texts.GCP_BUCKET.pattern)]
GcpReservation = Annotated[str, Field(pattern=texts.GCP_RESERVATION.pattern)]
Sha256 = Annotated[str, Field(pattern=texts.SHA256.pattern)]
ControlUrl = Annotated[str, Field(pattern=texts.CONTROL_URL.pattern)]
TrackingUri = Annotated[str, Field(pattern=texts.TRACKING_URI.pattern, max_length=1024)]
ImpactWord = Literal["none", "reload", "restart", "drain", "reboot", "recreate", "refused"]


def about(impact: ImpactWord, text: str, **more: Any) -> Any:
    """A field with its meaning and what changing it does to a live cluster."""
    return Field(description=text, json_schema_extra={"x-impact": impact}, **more)


class Model(BaseModel):
    """Base: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
