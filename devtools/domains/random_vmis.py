"""A random VMI with what its launcher reads, made of a seed alone: valid where nothing hostile was drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

from launcher import AddressSources, HostTopology
from launcher.placement.host import PciLocation
from virt_dra.api.core_v1 import Pod

T = TypeVar("T")
Json = dict[str, Any]

HOSTILE: Final = (
    "", " ", "\0", "\n", "\ud800", "\x85", "\ufffe", "\u202e", "<x/>", "]]>", "--", "<!--", "&lt;", "&x;", '"',
    "' a='b", '"/><hostdev/>', "../..", "a/b", "*", "[", "%s", "{}", "\u00e4" * 70, "0x", "-1", "99999999999999999999",
    "\u00e9", "ua-", "\U00010000",
)  # fmt: skip
RELEASES: Final = ("1.6", "1.7", "1.8.0", "1.8", "1.8", "1.9", "1.9", "1.9", "main", "main")
_FUNCTIONS: Final = tuple(f"0000:{bus:02x}:00.{function}" for bus in range(0x40, 0x50, 2) for function in (0, 1))
HOST: Final = HostTopology(
    nodes={0: tuple(range(8)), 1: tuple(range(8, 16))},
    functions={
        address: PciLocation(None if number % 7 == 6 else number // 8, f"pci0000:{0x40 + number // 4 * 4:02x}")
        for number, address in enumerate(_FUNCTIONS)
    },
    siblings={cpu: (cpu & ~1, cpu | 1) for cpu in range(16)},
)


@dataclass(frozen=True)
class RandomVmi:
    """A VMI as it is written, and the arguments of its conversion."""

    vmi: Json
    sources: AddressSources
    kubevirt: str
    topology: HostTopology | None


def random_vmi(seed: int) -> RandomVmi:
    """The VMI of a seed; every second one has hostile texts."""
    return _Maker(Random(seed), hostility=0.06 if seed % 2 else 0.0).vmi()


class _Maker:
    def __init__(self, random: Random, hostility: float) -> None:
        self._random = random
        self._hostility = hostility
        self._env: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._statuses: dict[str, list[Json]] = {"gpus": [], "hostDevices": []}
        self._is_direct = self._random.random() < 0.5
        self._unused = self._random.sample(_FUNCTIONS, len(_FUNCTIONS))

    def vmi(self) -> RandomVmi:
        devices: Json = {
            kind: [self._device(kind, number) for number in range(self._random.randrange(4))]
            for kind in ("gpus", "hostDevices")
        }
        devices["disks"] = [self._disk(number) for number in range(self._random.randrange(3))]
        networks = [self._network(number) for number in range(self._random.choice((0, 0, 1, 2)))]
        devices["interfaces"] = [interface for interface, _ in networks]
        claims = [
            {"name": "c", "resourceClaimName" if self._is_direct else "resourceClaimTemplateName": self._text("o")}
        ]
        vmi = {
            "metadata": {
                "name": self._text("vm"),
                "namespace": self._text("ns"),
                "annotations": self._optional(
                    lambda: {
                        "virt-dra.io/pci-placement": self._text(self._choice("none", "pcie-root", "numa-node,strict"))
                    },
                    {},
                ),
            },
            "spec": {
                "architecture": self._text(self._choice("amd64", "amd64", "amd64", "arm64", "s390x", "")),
                "resourceClaims": claims,
                "networks": [network for _, network in networks],
                "domain": {
                    "cpu": self._cpu(),
                    "memory": self._memory(),
                    "machine": self._optional(lambda: {"type": self._text(self._choice("q35", "pc", "virt"))}, None),
                    "devices": devices,
                },
            },
            "status": {
                "deviceStatus": {
                    "gpuStatuses": self._statuses["gpus"],
                    "hostDeviceStatuses": self._statuses["hostDevices"],
                }
            },
        }
        status = {"resourceClaimStatuses": [] if self._is_direct else [{"name": "c", "resourceClaimName": "made"}]}
        return RandomVmi(
            vmi,
            AddressSources(
                self._env,
                self._files,
                Pod.from_wire({"status": status}),
            ),
            self._choice(*RELEASES),
            self._optional(lambda: HOST, None),
        )

    def _device(self, kind: str, number: int) -> Json:
        name = self._text(f"{kind[0]}{number}")
        options = self._optional(
            lambda: {"display": self._choice({}, {"enabled": True, "ramFB": {}}, {"enabled": False})}, None
        )
        entry: Json = {"name": name, **({"virtualGPUOptions": options} if kind == "gpus" and options else {})}
        if self._random.random() < 0.4:
            resource = self._text(f"v.com/{kind.lower()}{number}")
            prefix = self._choice("PCI", "PCI", "MDEV_PCI", *(() if kind == "gpus" else ("USB",)))
            variable = f"{prefix}_RESOURCE_{resource.upper().replace('/', '_').replace('.', '_')}"
            self._env[variable] = self._text(f"{number}:{number + 1}" if prefix == "USB" else self._address(prefix))
            return {**entry, "deviceName": resource}
        request = self._text(f"r{kind[0]}{number}")
        prefix = self._choice("PCI", "MDEV_PCI")
        address = self._text(self._address(prefix))
        source = self._choice("status", "status", "env", "files")
        if source == "status":
            attributes = {"pciAddress" if prefix == "PCI" else "mDevUUID": address}
            self._statuses[kind].append({"name": name, "deviceResourceClaimStatus": {"attributes": attributes}})
        elif source == "env":
            self._env[f"{prefix}_RESOURCE_{('o' if self._is_direct else 'made')}_{request}"] = address
        else:
            attribute = "resource.kubernetes.io/pciBusID" if prefix == "PCI" else "mdevUUID"
            self._file(request, {attribute: {"string": address}})
        return {**entry, "claimName": self._text("c"), "requestName": request}

    def _file(self, request: str, attributes: Json) -> None:
        content = {
            "apiVersion": self._text("metadata.resource.k8s.io/v1alpha1"),
            "requests": [{"name": request, "devices": [{"attributes": attributes}]}],
        }
        folder = "resourceclaims/o" if self._is_direct else "resourceclaimtemplates/c"
        path = f"/var/run/kubernetes.io/dra-device-attributes/{folder}/{request}/d-metadata.json"
        self._files[path] = self._text(json.dumps(content))

    def _network(self, number: int) -> tuple[Json, Json]:
        name, request = self._text(f"net{number}"), self._text(f"vf{number}")
        self._file(request, {"resource.kubernetes.io/pciBusID": {"string": self._address("PCI")}})
        interface: Json = {"name": name, "sriov": {}}
        if self._random.random() < 0.3:
            interface["pciAddress"] = self._text(f"0000:00:{0x10 + number:02x}.0")
        if self._random.random() < 0.3:
            interface["bootOrder"] = self._choice(1, 2, 3, 0)
        return interface, {"name": name, "resourceClaim": {"claimName": "c", "requestName": request}}

    def _disk(self, number: int) -> Json:
        kind = self._choice("disk", "cdrom", "lun")
        options = self._optional(lambda: {"bus": self._text(self._choice("virtio", "sata", "scsi", "usb"))}, {})
        order = self._optional(lambda: {"bootOrder": self._choice(1, 2, -1)}, {})
        return {"name": self._text(f"disk{number}"), kind: options, **order}

    def _cpu(self) -> Json:
        pinned = {"dedicatedCpuPlacement": True, **self._optional(lambda: {"isolateEmulatorThread": True}, {})}
        mirrored = {**pinned, "numa": {"guestMappingPassthrough": {}}}
        return {
            "cores": self._choice(1, 2, 4, 7, 0),
            "threads": self._choice(1, 2),
            **self._optional(lambda: {"model": self._text(self._choice("host-passthrough", "Haswell"))}, {}),
            **self._choice({}, pinned, mirrored),
        }

    def _memory(self) -> Json:
        guest = self._text(self._choice("64Mi", "1G", "1.5Gi", "4Gi"))
        return {"guest": guest, **self._optional(lambda: {"hugepages": {"pageSize": self._text("2Mi")}}, {})}

    def _address(self, prefix: str) -> str:
        """Of a function that no other device has, or of a mediated device."""
        if prefix == "PCI" and self._unused:
            return self._unused.pop()
        return f"{self._random.getrandbits(32):08x}-1111-2222-3333-{self._random.getrandbits(48):012x}"

    def _text(self, usual: str) -> str:
        """The text, or one that is hostile, alone or within it."""
        if self._random.random() >= self._hostility:
            return usual
        hostile = self._random.choice(HOSTILE)
        position = self._random.randrange(len(usual) + 1)
        return self._choice(hostile, usual[:position] + hostile + usual[position:])

    def _choice(self, *choices: T) -> T:
        return self._random.choice(choices)

    def _optional(self, make: Callable[[], T], otherwise: Any) -> Any:
        return make() if self._random.random() < 0.5 else otherwise
