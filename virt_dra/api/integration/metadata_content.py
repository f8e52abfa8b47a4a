"""The content of KEP-5304's metadata file (K-7.8). Apart from its names, since it brings the types of resource.k8s.io
along, which who only needs a path shouldn't import."""

from __future__ import annotations

from pydantic import Field

from virt_dra.api.integration.device_metadata import METADATA_KIND, METADATA_VERSION
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import DeviceAttribute, NetworkDeviceData
from virt_dra.api.wire import EMPTY_MAP, List, Map, Object, Str, Wire


class MetadataDevice(Wire):
    driver: Str = ""
    pool: Str = ""
    name: Str = ""
    attributes: Map[DeviceAttribute] = EMPTY_MAP
    network_data: NetworkDeviceData | None = None


class MetadataRequest(Wire):
    """``name`` is ``request/subrequest`` where firstAvailable chose (K-7.8)."""

    name: Str = ""
    devices: List[MetadataDevice] = ()


class DeviceMetadata(Object):
    """One claim's devices. ``pod_claim_name`` only for claims made of a template."""

    API_VERSION = METADATA_VERSION
    KIND = METADATA_KIND

    metadata: ObjectMeta = ObjectMeta.empty()
    pod_claim_name: Str | None = Field(default=None, alias="podClaimName")
    requests: List[MetadataRequest] = ()
