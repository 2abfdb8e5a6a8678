r"""The kinds of value a cluster file may hold, and how each is written. Pure.

Every field states what a change of it does to a live cluster (``impact``), by ``about``. Every
string field has a pattern or an enumeration, so that nothing hostile gets past loading.

The patterns are anchored at both ends. pydantic runs them in Rust's regex crate, where ``$`` is the
end of the text and nothing else (Python's ``re`` also lets it come before a last newline); ``\d``
would take digits of every script, so it is not used. Tests prove both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from corral.durations import FORM
from corral.spec.impacts import FieldImpact


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of text.

    Attributes:
        name: what the reference page calls it.
        pattern: what it must match, from end to end.
        words: what the pattern allows, for a reader.
        example: a text of this kind.
    """

    name: str
    pattern: str
    words: str
    example: str


NAME: Final = Kind(
    "name",
    r"^[a-z][a-z0-9-]{0,38}[a-z0-9]$|^[a-z]$",
    "lower-case letters, digits and '-', from a letter to a letter or digit, 40 at most",
    "lab",
)
# Slurm lower-cases ClusterName itself (read_config.c), so there is no other one. It is also the
# name of a folder: no dot at either end, no two in a row.
CLUSTER_NAME: Final = Kind(
    "cluster name",
    r"^[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*$",
    "lower-case letters, digits, '_', '-' and single dots, 40 at most",
    "lab",
)
HOST_LIST: Final = Kind(
    "hostlist",
    r"^[A-Za-z0-9][A-Za-z0-9_.,\[\]-]*$",
    "names in Slurm's hostlist grammar, such as node[0-2] or alpha,beta; no spaces",
    "node[0-2]",
)
# Slurm takes any name (no check in node_conf.c); these are what hostname(7) and DNS can hold, and
# '_', which machines have all the same.
HOST_NAME: Final = Kind(
    "host name",
    r"^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*$",
    "one host name: letters, digits, '-', '_' and single dots, 63 at most",
    "node0",
)
PARTITION_NAME: Final = Kind(
    "partition name",
    r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,62}$",
    "letters, digits, '_', '.', '+' and '-', 63 at most, not '-' or '.' first",
    "main",
)
ACCOUNT_NAME: Final = Kind(
    "account name",
    # sacctmgr keeps accounts and QOS in lower case.
    r"^[a-z0-9_][a-z0-9_.-]{0,62}$",
    "lower-case letters, digits, '_', '.' and '-', 63 at most, not '-' or '.' first",
    "physics",
)
ADDRESS: Final = Kind(
    "address",
    r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,253}[A-Za-z0-9])?$",
    "an IP address or a DNS name",
    "192.168.1.10",
)
ABSOLUTE_PATH: Final = Kind(
    "path",
    r"^(/\.?[A-Za-z0-9_][A-Za-z0-9._+-]*){1,32}$",
    "an absolute path of plain names such as /srv/data; no spaces, no .., no / at the end",
    "/shared",
)
IMAGE_NAME: Final = Kind(
    "image",
    r"^/?[A-Za-z0-9][A-Za-z0-9._:@+-]*(/[A-Za-z0-9][A-Za-z0-9._:@+-]*){0,15}$",
    "auto, or an image name as podman takes it, 255 characters at most; no spaces, no ..",
    "auto",
)
USER_NAME: Final = Kind(
    "user name",
    r"^[a-z_][a-z0-9_-]{0,30}$",
    "a Linux login name: lower-case letters, digits, '_' and '-', 31 at most",
    "alice",
)
FEATURE: Final = Kind(
    "feature",
    # Without what --constraint gives a meaning: , & | * [ ] ( ).
    r"^[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,63}$",
    "letters, digits, '_', '.', ':', '+' and '-', 64 at most, a letter, digit or '_' first",
    "bigmem",
)
GPU_TYPE: Final = Kind(
    "GPU type",
    r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}$",
    "letters, digits, '_', '.', '+' and '-', such as rtx5090; no spaces",
    "rtx5090",
)
VERSION_RANGE: Final = Kind(
    "version",
    r"^(>=|==|~=)?[0-9][0-9]\.[0-9][0-9](\.[0-9]{1,2})?$",
    'a Slurm release in quotes, such as ">=24.11", "~=24.11" or "==24.11.5"',
    ">=24.11",
)
MAINTENANCE_RELEASE: Final = Kind(
    "release",
    r"^[0-9][0-9]\.[0-9][0-9]\.[0-9]{1,2}$",
    "a maintenance release of Slurm, such as 25.11.6",
    "25.11.6",
)
TIME_LIMIT: Final = Kind(
    "time",
    rf"^(infinite|{FORM})$",
    "infinite or [days-]hours[:minutes[:seconds]] in quotes, such as \"2-00:00:00\" or '12:30:00'",
    "infinite",
)
INTERFACE: Final = Kind(
    "interface",
    r"^[a-z][a-z0-9._-]{0,14}$",
    "the name of one network interface such as eno1, 15 characters at most",
    "eno1",
)
PKEY: Final = Kind(
    "partition key",
    r"^0x[0-9a-f]{4}$",
    "four hexadecimal digits after 0x, as /sys/class/infiniband/*/ports/*/pkeys shows them",
    "0x8001",
)
NCCL: Final = Kind(
    "NCCL setting",
    r"^NCCL_[A-Z0-9_]{1,64}=[A-Za-z0-9=^.,:/_+-]{1,256}$",
    "a variable of NCCL and its value, such as NCCL_IB_TC=106; no spaces or quotes",
    "NCCL_IB_TC=106",
)
SSH_KEY: Final = Kind(
    "ssh key",
    r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh\.com"
    r"|sk-ecdsa-sha2-nistp256@openssh\.com) AAAA[A-Za-z0-9+/]{16,4000}={0,3}"
    r"( [A-Za-z0-9][A-Za-z0-9@._+-]{0,127})?$",
    "one line of a .pub file: type, key and comment; no options before it",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl alice",
)
AGE_RECIPIENT: Final = Kind(
    "recipient",
    r"^(age1[a-z0-9]{20,4000}|(ssh-ed25519|ssh-rsa) [A-Za-z0-9+/]{16,4000}={0,3}"
    r"( [^\x00-\x1f\x7f]{1,200})?)$",
    "a public key of age (age1...) or of SSH (ssh-ed25519 ..., ssh-rsa ...)",
    "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
)

DRIVER: Final = Kind(
    "driver",
    r"^(auto|none|[0-9]{3}(-server)?(-open)?)$",
    "auto, none, or a branch in quotes with its flavour, such as 580-open or 580-server-open",
    "580-open",
)
CUDA: Final = Kind(
    "cuda",
    r"^(none|distribution|[1-9][0-9]\.[0-9])$",
    'none, distribution, or a release of the toolkit in quotes, such as "13.0"',
    "none",
)
DEB_SOURCE: Final = Kind(
    "package file",
    r"^(https:/)?(/\.?[A-Za-z0-9_][A-Za-z0-9._+-]*){1,32}\.deb$",
    "an https address without user, port or query, or an absolute path, that ends in .deb",
    "/srv/debs/cuda-keyring.deb",
)
PACKAGE_PLACE: Final = Kind(
    "packages",
    r"^(https:/)?(/\.?[A-Za-z0-9_][A-Za-z0-9._:~+-]*){1,32}$",
    "an https address without user or query, or an absolute path",
    "/srv/slurm-debs",
)
SHA256: Final = Kind(
    "sha256",
    r"^[0-9a-f]{64}$",
    "the SHA-256 of a file, 64 lower-case hexadecimal digits",
    "0" * 64,
)
TRACKING_URI: Final = Kind(
    "web address",
    r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?"
    r"(/[A-Za-z0-9_~][A-Za-z0-9._~+-]*){0,32}/?$",
    "an http or https address of a server; no user, password, query or ..",
    "https://mlflow.example.org",
)

PAGE_ORIGIN: Final = Kind(
    "page address",
    r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?/?$",
    "an http or https address of a server: name and port, no path",
    "https://west.example.org:8765",
)

CONTROL_URL: Final = Kind(
    "control server",
    r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?$",
    "http or https, a host and perhaps a port; no path, user or query",
    "https://headscale.example.org",
)

HEADER_NAME: Final = Kind(
    "request header",
    r"^[A-Za-z][A-Za-z0-9-]{1,62}$",
    "the name of a request header: letters, digits and -, no _, which proxies drop",
    "Remote-User",
)
ISSUER: Final = Kind(
    "issuer",
    r"^https://[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?"
    r"(/[A-Za-z0-9_~][A-Za-z0-9._~+-]*){0,32}/?$",
    "the https address that the provider's description has as issuer, character by character",
    "https://login.example.org/realms/hpc",
)
CLIENT_ID: Final = Kind(
    "client",
    r"^[A-Za-z0-9][A-Za-z0-9._~@-]{0,254}$",
    "the name that the provider gave this page: letters, digits and ._~@-",
    "corral",
)
CLAIM: Final = Kind(
    "claim",
    r"^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$",
    "the name of a claim or scope: letters, digits and _.:-",
    "preferred_username",
)
LDAP_URI: Final = Kind(
    "LDAP address",
    r"^ldaps?://[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?$",
    "ldaps:// or ldap://, a host and perhaps a port; no path, user or query",
    "ldaps://ldap.example.org",
)
# Without what RFC 4514 escapes, and without what ends a value of sssd.conf.
DISTINGUISHED_NAME: Final = Kind(
    "distinguished name",
    r"^[A-Za-z]{1,32}=[A-Za-z0-9]([A-Za-z0-9 ._@-]{0,126}[A-Za-z0-9])?"
    r"(,[A-Za-z]{1,32}=[A-Za-z0-9]([A-Za-z0-9 ._@-]{0,126}[A-Za-z0-9])?){0,15}$",
    "attributes and values such as ou=people,dc=example,dc=org; no spaces around , and =",
    "dc=example,dc=org",
)
KEY_PATH: Final = Kind(
    "key file",
    r"^~?(/\.?[A-Za-z0-9_][A-Za-z0-9._@+-]*){1,32}$",
    "an absolute path, or one in your home folder such as ~/.ssh/lab; no spaces, no ..",
    "~/.ssh/lab",
)
JUMP: Final = Kind(
    "jump hosts",
    r"^([a-z_][a-z0-9_.-]{0,30}@)?[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?"
    r"(,([a-z_][a-z0-9_.-]{0,30}@)?[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?(:[0-9]{1,5})?){0,4}$",
    "[user@]host[:port], or several with commas between them, five at most",
    "admin@gate:2222",
)

INTERVAL: Final = Kind(
    "interval",
    r"^(off|[1-9][0-9]{0,2}[smhd])$",
    "off, or a number with s, m, h or d for seconds, minutes, hours or days",
    "5m",
)

MOMENT: Final = Kind(
    "moment",
    r"^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]$",
    'a date and a time in quotes, such as "2030-01-31T08:00"',
    "2030-01-31T08:00",
)
SPAN: Final = Kind(
    "span",
    r"^([0-9]{1,3}-)?[0-9]{1,3}(:[0-5][0-9])?$",
    'a length of time in quotes: [days-]hours[:minutes], such as "4:30" or "2-00"',
    "4:30",
)
LICENSE: Final = Kind(
    "licence",
    # Without what has a meaning in Licenses= and --licenses: @ : , |
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$",
    "letters, digits, '_', '.' and '-', 63 at most, a letter, digit or '_' first",
    "matlab",
)
OVERSUBSCRIBE: Final = Kind(
    "sharing",
    r"^(no|exclusive|(yes|force)(:[1-9][0-9]{0,2})?)$",
    "no, exclusive, yes or force, the last two with the number of jobs: yes:4",
    "exclusive",
)
SETTING: Final = Kind(
    "setting",
    r"^\.?([A-Za-z0-9_/:,;=*+@%()\[\]-]\.?){1,1000}$",
    "one word as slurm.conf takes it; no spaces, quotes or #, no two dots in a row",
    "bf_interval=60,bf_max_job_test=1000",
)

OFFER_TYPE: Final = Kind(
    "offer",
    # Single dots only: nothing that is taken for a path climbs out of it.
    r"^[A-Za-z0-9]+(([.]|[_:/@+ -]{1,3})[A-Za-z0-9]+)*$",
    "a provider's own name of what it rents, as corral offers shows it",
    "gpu_1x_h100_pcie",
)
REGION: Final = Kind(
    "region",
    r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}[A-Za-z0-9]$",
    "a provider's region or data center, as corral offers shows it",
    "us-west-1",
)
DURATION: Final = Kind(
    "duration",
    r"^[0-9]{1,5}[smh]$",
    "a number with s, m or h for seconds, minutes or hours",
    "10m",
)
VOLUME: Final = Kind(
    "volume",
    r"^[A-Za-z0-9][A-Za-z0-9-]{0,59}$",
    "the name or id of a file system of the account: letters, digits and '-'",
    "datasets",
)

MAIL_ADDRESS: Final = Kind(
    "mail address",
    r"^[A-Za-z0-9_][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$",
    "an address of mail without a name before it",
    "cluster@example.org",
)
MAIL_LOGIN: Final = Kind(
    "mail login",
    r"^[A-Za-z0-9_][A-Za-z0-9._%+@-]{0,253}$",
    "a login of a mail server, often an address",
    "cluster@example.org",
)
KINDS: Final = (
    NAME,
    CLUSTER_NAME,
    PARTITION_NAME,
    ACCOUNT_NAME,
    HOST_LIST,
    HOST_NAME,
    ADDRESS,
    ABSOLUTE_PATH,
    IMAGE_NAME,
    USER_NAME,
    FEATURE,
    GPU_TYPE,
    VERSION_RANGE,
    MAINTENANCE_RELEASE,
    TIME_LIMIT,
    INTERVAL,
    MOMENT,
    SPAN,
    LICENSE,
    OVERSUBSCRIBE,
    SETTING,
    INTERFACE,
    PKEY,
    NCCL,
    OFFER_TYPE,
    REGION,
    DURATION,
    VOLUME,
    KEY_PATH,
    JUMP,
    DRIVER,
    CUDA,
    DEB_SOURCE,
    PACKAGE_PLACE,
    SHA256,
    SSH_KEY,
    AGE_RECIPIENT,
    TRACKING_URI,
    PAGE_ORIGIN,
    CONTROL_URL,
    HEADER_NAME,
    ISSUER,
    CLIENT_ID,
    CLAIM,
    LDAP_URI,
    DISTINGUISHED_NAME,
    MAIL_ADDRESS,
    MAIL_LOGIN,
)

Name = Annotated[str, Field(pattern=NAME.pattern)]
ClusterName = Annotated[str, Field(pattern=CLUSTER_NAME.pattern, max_length=40)]
PartitionName = Annotated[str, Field(pattern=PARTITION_NAME.pattern)]
AccountName = Annotated[str, Field(pattern=ACCOUNT_NAME.pattern)]
HostList = Annotated[str, Field(pattern=HOST_LIST.pattern, max_length=65536)]
HostName = Annotated[str, Field(pattern=HOST_NAME.pattern, max_length=63)]
Address = Annotated[str, Field(pattern=ADDRESS.pattern)]
AbsolutePath = Annotated[str, Field(pattern=ABSOLUTE_PATH.pattern, max_length=1024)]
ImageName = Annotated[str, Field(pattern=IMAGE_NAME.pattern, max_length=255)]
KeyPath = Annotated[str, Field(pattern=KEY_PATH.pattern, max_length=1024)]
Jump = Annotated[str, Field(pattern=JUMP.pattern, max_length=1024)]
UserName = Annotated[str, Field(pattern=USER_NAME.pattern)]
Feature = Annotated[str, Field(pattern=FEATURE.pattern)]
GpuType = Annotated[str, Field(pattern=GPU_TYPE.pattern)]
VersionRange = Annotated[str, Field(pattern=VERSION_RANGE.pattern)]
MaintenanceRelease = Annotated[str, Field(pattern=MAINTENANCE_RELEASE.pattern)]
TimeLimit = Annotated[str, Field(pattern=TIME_LIMIT.pattern)]
Interval = Annotated[str, Field(pattern=INTERVAL.pattern)]
Moment = Annotated[str, Field(pattern=MOMENT.pattern)]
Span = Annotated[str, Field(pattern=SPAN.pattern)]
LicenseName = Annotated[str, Field(pattern=LICENSE.pattern)]
OverSubscribe = Annotated[str, Field(pattern=OVERSUBSCRIBE.pattern)]
Interface = Annotated[str, Field(pattern=INTERFACE.pattern)]
PartitionKey = Annotated[str, Field(pattern=PKEY.pattern)]
NcclSetting = Annotated[str, Field(pattern=NCCL.pattern)]
AgeRecipient = Annotated[str, Field(pattern=AGE_RECIPIENT.pattern)]
SshKey = Annotated[str, Field(pattern=SSH_KEY.pattern, max_length=4096)]
Driver = Annotated[str, Field(pattern=DRIVER.pattern)]
Cuda = Annotated[str, Field(pattern=CUDA.pattern)]
DebSource = Annotated[str, Field(pattern=DEB_SOURCE.pattern, max_length=1024)]
PackagePlace = Annotated[str, Field(pattern=PACKAGE_PLACE.pattern, max_length=1024)]
Sha256 = Annotated[str, Field(pattern=SHA256.pattern)]
ControlUrl = Annotated[str, Field(pattern=CONTROL_URL.pattern)]
HeaderName = Annotated[str, Field(pattern=HEADER_NAME.pattern)]
Issuer = Annotated[str, Field(pattern=ISSUER.pattern, max_length=1024)]
ClientId = Annotated[str, Field(pattern=CLIENT_ID.pattern)]
Claim = Annotated[str, Field(pattern=CLAIM.pattern)]
LdapUri = Annotated[str, Field(pattern=LDAP_URI.pattern)]
DistinguishedName = Annotated[str, Field(pattern=DISTINGUISHED_NAME.pattern, max_length=512)]
MailAddress = Annotated[str, Field(pattern=MAIL_ADDRESS.pattern)]
MailLogin = Annotated[str, Field(pattern=MAIL_LOGIN.pattern)]
PageOrigin = Annotated[str, Field(pattern=PAGE_ORIGIN.pattern, max_length=300)]
TrackingUri = Annotated[str, Field(pattern=TRACKING_URI.pattern, max_length=1024)]


def _as_text(value: object) -> object:
    """A number or boolean of YAML as slurm.conf has it."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value) if isinstance(value, int) else value


_SETTING_SCHEMA: Final = {"type": ["string", "integer", "boolean"], "pattern": SETTING.pattern}
Setting = Annotated[
    str,
    Field(pattern=SETTING.pattern),
    BeforeValidator(_as_text),
    WithJsonSchema(_SETTING_SCHEMA),
]
Settings = dict[str, Setting]
"""Keys of slurm.conf; a rule judges each by the table of keys."""


def about(impact: FieldImpact, text: str, **more: Any) -> Any:
    """A field with its meaning and what changing it does to a live cluster."""
    return Field(description=text, json_schema_extra={"x-impact": impact}, **more)


class Model(BaseModel):
    """Base: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
