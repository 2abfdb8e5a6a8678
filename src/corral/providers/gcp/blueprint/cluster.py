"""A cluster file in the words of Google's Cluster Toolkit: blueprints and their settings.

Pure, but for ``export``, which reads the script that the file names.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from corral.errors import Code, CorralError
from corral.providers.export_files import Export, unexpressed
from corral.providers.gcp.blueprint import modules as parts
from corral.providers.gcp.blueprint import networks
from corral.providers.gcp.blueprint.releases import check
from corral.providers.gcp.figures import figures
from corral.providers.gcp.image import LABEL, digest_of, script_of
from corral.providers.gcp.machines import gpu_machine_of, gpu_machines
from corral.providers.gcp.section import Gcp
from corral.providers.gcp.toolkit_cluster import section_of
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.nodes import nodes_of, partitions_of

HEADER: Final = "# Written by Corral from the cluster file {name}: edits here are lost.\n"
IMAGE_FAMILY: Final = "slurm-{name}"
IMAGE_GROUPS: Final = ("build-script", "slurm-build")
FOLDED: Final = 4096
_MISSING: Final = (
    "  # server_ip_{id}: ADDRESS\n"
    "  #   write here server_ip of the output network_storage_{id} of {base}, once that is made\n"
)
_EXPRESSED: Final[frozenset[str]] = frozenset(
    (
        "corral", "name", "controller", "groups[].name", "groups[].provider", "groups[].nodes",
        "groups[].machine", "groups[].gpu.type", "groups[].gpu.count", "partitions",
        "gcp.project", "gcp.zone",
        "gcp.state_bucket", "gcp.toolkit", "gcp.provisioning", "gcp.reservation", "gcp.storage",
        "gcp.public_addresses", "gcp.network", "gcp.image_script", "gcp.gpu_check",
        "gcp.ops_agent",
    )
)  # fmt: skip
_NOTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "": "the Cluster Toolkit has no setting for it that Corral knows",
        "groups[].ssh": "how Corral logs in",
        "users": "Google's OS Login knows the people",
        "gcp.nccl_tests": "what corral prove measures",
        "gcp.nccl_image": "what corral prove measures",
        "slurm.version": "the toolkit's release decides",
    }
)
_SETTINGS: Final = {True: "deployment-base.yaml", False: "deployment-image-cluster.yaml"}


@dataclass(frozen=True, slots=True)
class Phase:
    """One run of gcluster.

    Attributes:
        name: base, image, cluster; or all.
        deployment: the deployment's name, which is its folder's.
        blueprint: name of the blueprint's file.
        settings: name of the deployment file's.
        groups: its deployment groups in order.
    """

    name: str
    deployment: str
    blueprint: str
    settings: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Deployment:
    """All files of a cluster, and the runs that make it.

    Attributes:
        release: the toolkit's.
        files: text by file name.
        phases: in the order of making; removed in reverse.
        image: digest of what the image is made from.
    """

    release: str
    files: Mapping[str, str]
    phases: tuple[Phase, ...]
    image: str


def deployment_of(
    spec: ClusterSpec,
    addresses: Mapping[str, str] | None = None,
    unknown: str = "",
    script: str = "",
) -> Deployment:
    """The toolkit's files for a cluster.

    Args:
        spec: the cluster.
        addresses: of the file systems that the base made (v1.39.0), by module id, once they are
            known: the phases after the base need them.
        unknown: stands for an address that is not known yet; "" leaves it out, and gcluster refuses
            the last phase at once. Nodes that mount from 0.0.0.0 would fail an hour later.
        script: text of the file that the section's ``image_script`` names.

    Raises:
        CorralError: SPEC_INVALID, the file is not about Google Cloud; NOT_GOOD, a module lacks a
            setting.
    """
    gcp = section_of(spec)
    if gcp is None or not spec.groups or any(not g.capabilities.configures for g in spec.groups):
        raise CorralError(
            Code.SPEC_INVALID,
            "this cluster is not made by the Cluster Toolkit",
            hint="write gcp: and groups with provider: gcp",
        )
    made = _Maker(spec, gcp, script)
    return made.three(addresses or {}, unknown) if gcp.toolkit == "v1.39.0" else made.single()


def export(spec: ClusterSpec, _folder: str) -> Export:
    """The toolkit's files, and the commands that make the deployment from their folder.

    Raises:
        CorralError: SPEC_INVALID, the cluster is not made by the toolkit; NOT_FOUND, the image's
            script cannot be read.
    """
    made = deployment_of(spec, script=script_of(spec))
    return Export(made.files, commands(made), not_exported(spec))


def commands(made: Deployment) -> tuple[str, ...]:
    """How gcluster makes the deployment, from its folder."""
    lines: list[str] = []
    for phase in made.phases:
        lines.append(f"gcluster deploy -w -d {phase.settings} {phase.blueprint} --auto-approve")
        if phase.name == "base" and any("server_ip_" in t for t in made.files.values()):
            # The next phases mount what the base made: corral up fills the address in
            # automatically.
            lines.append(f"terraform -chdir={phase.deployment}/{phase.groups[0]} output -json")
            later = made.phases[-1].settings
            lines.append(f"# write each server_ip that it prints into {later}, as described there")
    return tuple(lines)


def not_exported(spec: ClusterSpec) -> tuple[str, ...]:
    """What the cluster file declares and blueprints cannot express, with why."""
    return unexpressed(spec, _EXPRESSED, _NOTES)


class _Maker:
    """Puts one cluster's blueprints together."""

    def __init__(self, spec: ClusterSpec, gcp: Gcp, script: str) -> None:
        self.spec, self.gcp, self.script = spec, gcp, script
        self.kind = gpu_machine_of(spec)
        self.region = gcp.zone.rpartition("-")[0]
        self.sizes = {g.name: 0 for g in spec.groups}
        for node in nodes_of(spec):
            self.sizes[node.group.name] += 1
        self.storage = gcp.file_systems()

    def single(self) -> Deployment:
        """One blueprint with four groups, as the toolkit's example has been since v1.53."""
        groups = [
            _group("primary", self._network()),
            *(image := self._image()),
            _group("cluster", *self._cluster()),
        ]
        settings = {**self._vars(), "deployment_name": self.spec.name, "enable_slurm_auth": True}
        phase = Phase(
            "all",
            self.spec.name,
            "blueprint.yaml",
            "deployment.yaml",
            tuple(g["group"] for g in groups),
        )
        return self._deployment(
            {
                "blueprint.yaml": self._blueprint(self.spec.name, groups),
                "deployment.yaml": self._settings(settings),
            },
            (phase,),
            image,
        )

    def three(self, addresses: Mapping[str, str], unknown: str) -> Deployment:
        """Base, image and cluster, each its own blueprint, as in v1.39."""
        name = self.spec.name
        base = [self._network(), *parts.base_storage(self.storage)]
        image = self._image(networks.known_network())
        phases = tuple(
            Phase(p, f"{name}-{p}", f"{p}.yaml", _SETTINGS[p == "base"], groups)
            for p, groups in (
                ("base", ("primary",)),
                ("image", IMAGE_GROUPS),
                ("cluster", ("cluster",)),
            )
        )
        later = self._vars()
        missing = ""
        for id in parts.made_by_base(self.storage):
            address = addresses.get(id, unknown)
            if address:
                later[f"server_ip_{id}"] = address
            else:
                missing += _MISSING.format(id=id, base=f"{name}-base")
        files = {
            "base.yaml": self._blueprint(f"{name}-base", [_group("primary", *base)]),
            "image.yaml": self._blueprint(
                f"{name}-image", image, {"deployment_name": f"{name}-image"}
            ),
            "cluster.yaml": self._blueprint(
                f"{name}-cluster",
                [_group("cluster", networks.known_network(), *self._cluster())],
                {"deployment_name": f"{name}-cluster"},
            ),
            "deployment-base.yaml": self._settings(
                {k: v for k, v in self._vars().items() if k in parts.BASE_VARS}
                | {"deployment_name": f"{name}-base"}
            ),
            "deployment-image-cluster.yaml": self._settings(later) + missing,
        }
        return self._deployment(files, phases, image)

    def _image(self, *first: dict[str, Any]) -> list[dict[str, Any]]:
        """The groups that make the image, with the label by which it is known again."""
        script, build = IMAGE_GROUPS
        modules = parts.image_script(self.gcp, self.kind, self.script)
        groups = [_group(script, *first, *modules), _group(build, parts.image(self.gcp, self.kind))]
        groups[1]["modules"][0]["settings"]["labels"] = {LABEL: digest_of(groups)}
        return groups

    def _network(self) -> dict[str, Any]:
        if self.gcp.network:
            return networks.known_network()
        return networks.system_network(self.kind)

    def _cluster(self) -> list[dict[str, Any]]:
        partitions = partitions_of(self.spec)
        with_gpus = {g.name for g in self.spec.groups if g.machine in gpu_machines()}
        gpus = [p.name for p in partitions if with_gpus.intersection(p.groups)]
        return [
            *parts.cluster_storage(self.gcp, self.storage),
            *networks.gpu_networks(self.kind),
            *(m for g in self.spec.groups if g.machine for m in self._group(g)),
            *(parts.partition(p, self.kind if p.name in gpus else None) for p in partitions),
            *parts.controller(self.gcp, self.kind, partitions, self.storage, gpus),
        ]

    def _group(self, group: NodeGroup) -> list[dict[str, Any]]:
        make = parts.nodeset if group.machine in gpu_machines() else parts.cpu_nodeset
        return make(self.gcp, group, self.sizes[group.name])

    def _vars(self) -> dict[str, Any]:
        network = self.gcp.network
        return {
            "project_id": self.gcp.project,
            "region": self.region,
            "zone": self.gcp.zone,
            "network_name_system": network.name if network else f"{self.spec.name}-sys-net",
            "subnetwork_name_system": (
                network.subnetwork if network else f"{self.spec.name}-sys-subnet"
            ),
            "slurm_cluster_name": self.spec.name,
            "final_image_family": IMAGE_FAMILY.format(name=self.spec.name),
            "disk_size_gb": figures().boot_disk_gb,
            "instance_image": {
                "family": IMAGE_FAMILY.format(name=self.spec.name),
                "project": self.gcp.project,
            },
            **({"instance_image_custom": True} if self.gcp.toolkit == "v1.39.0" else {}),
        }

    def _blueprint(
        self, name: str, groups: list[dict[str, Any]], variables: dict[str, Any] | None = None
    ) -> str:
        blueprint: dict[str, Any] = {
            "blueprint_name": name,
            # The deployment file serves several blueprints, or a variable is used by some releases.
            "validators": [
                {"validator": "test_deployment_variable_not_used", "inputs": {}, "skip": True}
            ],
            **({"vars": variables} if variables else {}),
            "deployment_groups": groups,
        }
        check(self.gcp.toolkit, blueprint)
        return self._yaml(blueprint)

    def _settings(self, variables: dict[str, Any]) -> str:
        backend = {"type": "gcs", "configuration": {"bucket": self.gcp.state_bucket}}
        return self._yaml({"terraform_backend_defaults": backend, "vars": variables})

    def _yaml(self, data: dict[str, Any]) -> str:
        yaml = YAML()
        yaml.width = FOLDED
        yaml.indent(mapping=2, sequence=4, offset=2)
        out = io.StringIO()
        yaml.dump(_literal(data), out)  # pyright: ignore[reportUnknownMemberType]
        return HEADER.format(name=self.spec.name) + out.getvalue()

    def _deployment(
        self, files: dict[str, str], phases: tuple[Phase, ...], image: list[dict[str, Any]]
    ) -> Deployment:
        source = image[1]["modules"][0]["settings"]["labels"][LABEL]
        return Deployment(self.gcp.toolkit, files, phases, source)


def _group(name: str, *modules: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any]:
    flat = [m for part in modules for m in (part if isinstance(part, list) else [part])]
    return {"group": name, "modules": flat}


def _literal(value: Any) -> Any:
    """Texts of several lines as YAML blocks, which people can read."""
    if isinstance(value, dict):
        return {k: _literal(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_literal(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
