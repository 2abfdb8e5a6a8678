"""The tracking server: what the controller holds, from which wheels, and what jobs get."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from corral.errors import Code, CorralError
from corral.roles.services import mlflow
from corral.roles.services.corral_wheels import locked, wheels_of
from corral.spec.impacts import Impact
from corral.spec.models import Storage
from corral.spec.sections.services import Services
from corral.spec.systems import pythons
from corral.state.base import Context, Resource, Seen
from corral.state.databases import Postgres
from corral.state.files import Directory, File
from corral.state.pyenv import PythonEnv, Wheel
from tests.unit.roles.test_cluster import FACTS, laptop, site

ON = Services(mlflow=True)


def held(storage: tuple[Storage, ...] = (), **facts: object) -> dict[str, list[Resource]]:
    spec = laptop(services=ON, **({"storage": storage} if storage else {}))
    (stage,) = mlflow.on_controller(site(spec, **facts))
    resources: dict[str, list[Resource]] = {}
    for entry in stage.desired:
        for node in entry.nodes:
            resources.setdefault(node, []).extend(entry.resources)
    return resources


def resource_of(resources: list[Resource], kind: type[Resource], part: str = "") -> Resource:
    (resource,) = [r for r in resources if isinstance(r, kind) and part in r.id]
    return resource


def test_unit_and_folders() -> None:
    resources = held()
    assert set(resources) == {"node0"}
    unit = resource_of(resources["node0"], File)
    assert isinstance(unit, File)
    assert "--host 10.0.0.10 --port 5000" in unit.content
    assert "--artifacts-destination /shared/corral/mlflow" in unit.content
    assert "User=corral-mlflow" in unit.content
    assert "%" not in unit.content, "a place that was not filled in"
    folders = {r.path: (r.owner, r.mode) for r in resources["node0"] if isinstance(r, Directory)}
    assert set(folders.values()) == {("corral-mlflow:corral-mlflow", "700")}
    assert set(folders) == {"/var/lib/corral-mlflow", "/shared/corral/mlflow"}


def test_the_folder_of_artifacts_is_made_where_root_is_root() -> None:
    """Root of an NFS client is nobody on the server (root_squash)."""
    nfs = Storage(mount="/data", kind="nfs", server="node2", path="/srv/x")
    resources = held((nfs,))
    assert set(resources) == {"node0", "node2"}
    assert resource_of(resources["node2"], Directory).id == "directory:/data/corral/mlflow"
    assert {r.id for r in resources["node2"]} >= {"user:corral-mlflow"}
    assert "directory:/data/corral/mlflow" not in {r.id for r in resources["node0"]}


def test_postgresql_is_a_package_a_service_and_a_database_without_a_password() -> None:
    spec = laptop(services=Services(mlflow=True, mlflow_store="postgresql"))
    (stage,) = mlflow.on_controller(site(spec))
    resources = [r for entry in stage.desired for r in entry.resources]
    ids = [r.id for r in resources]
    assert ids.index("packages:postgresql") < ids.index("service:postgresql")
    assert ids.index("service:postgresql") < ids.index("postgres:corral-mlflow")
    assert ids.index("user:corral-mlflow") < ids.index("postgres:corral-mlflow")
    unit = resource_of(resources, File)
    assert isinstance(unit, File)
    store = "postgresql+psycopg2:///corral-mlflow?host=/var/run/postgresql"
    assert f"--backend-store-uri {store} " in unit.content
    assert "After=network-online.target postgresql.service" in unit.content
    assert "%" not in unit.content
    environment = resource_of(resources, PythonEnv)
    assert isinstance(environment, PythonEnv)
    drivers = [w for w in environment.wheels if w.file.startswith("psycopg2")]
    assert len(drivers) == 1
    assert len([w for w in environment.wheels if w.file.startswith("pip-")]) == 1
    assert set(locked("mlflow-postgresql")) == set(locked("mlflow"))


def test_the_database_is_made_once() -> None:
    made = Postgres("corral-mlflow").diff(Seen(0, "absent"), Context("node0"))
    assert made is not None
    assert "'CREATE ROLE \"corral-mlflow\" LOGIN'" in made.script
    assert "REVOKE ALL" in made.script
    assert Postgres("corral-mlflow").diff(Seen(0, "ready"), Context("node0")) is None


def test_without_shared_storage_artifacts_stay_on_the_controller() -> None:
    spec = laptop(services=ON, storage=())
    assert mlflow.artifacts_of(spec) == "/var/lib/corral-mlflow/artifacts"


def test_not_declared_it_is_stopped_and_nothing_else() -> None:
    (stage,) = mlflow.on_controller(site(laptop()))
    assert [r.id for w in stage.desired for r in w.resources] == ["stopped:corral-mlflow"]


def test_what_jobs_get() -> None:
    assert mlflow.uri(laptop()) == ""
    assert mlflow.uri(laptop(services=ON, controller="node2")) == "http://node2:5000"
    other = Services(mlflow_uri="https://mlflow.example.org")
    assert mlflow.uri(laptop(services=other)) == "https://mlflow.example.org"


@pytest.mark.parametrize("version", sorted(pythons()))
def test_each_system_has_a_complete_lock_of_its_python(version: str) -> None:
    python = version.replace(".", "")
    wheels = locked("mlflow")[version]
    names = [w.requirement.partition("==")[0] for w in wheels]
    assert Counter(names).most_common(1)[0][1] == 1, "a package twice"
    assert {"mlflow", "mlflow_skinny", "pip", "sqlalchemy", "uvicorn"} <= set(names)
    for wheel in wheels:
        assert re.fullmatch(r"[0-9a-f]{64}", wheel.sha256)
        assert re.fullmatch(r"[A-Za-z0-9_.]+-[0-9][A-Za-z0-9_.!+]*-.*\.whl", wheel.file)
        tag = re.search(r"-cp(3\d+)-(cp3\d+|abi3)-", wheel.file)
        assert tag is None or tag[1] == python or tag[2] == "abi3", wheel.file
        assert "x86_64" in wheel.file or wheel.file.endswith("-none-any.whl"), wheel.file
    versions = {
        next(w.requirement for w in each if w.file.startswith("mlflow-"))
        for each in locked("mlflow").values()
    }
    assert len(versions) == 1, "one MLflow, whatever the Python"


def test_a_system_without_lock_is_refused() -> None:
    with pytest.raises(CorralError) as caught:
        held(os_id="rocky", os_version="9")
    assert caught.value.code is Code.NOT_GOOD
    assert "mlflow_uri" in caught.value.hint
    assert wheels_of("mlflow", FACTS) == locked("mlflow")["3.13"]


WHEELS = (Wheel("a_b-1.0-py3-none-any.whl", "a" * 64), Wheel("pip-26-py3-none-any.whl", "b" * 64))


def test_an_environment_is_made_once_and_again_when_its_wheels_are_others() -> None:
    env = PythonEnv("/opt/corral/x", "X 1.0", WHEELS)
    assert env.diff(Seen(0, env.digest), Context("n")) is None
    fresh = env.diff(Seen(0, ""), Context("n"))
    other = env.diff(Seen(0, "0" * 64), Context("n"))
    assert fresh is not None
    assert other is not None
    assert (fresh.impact, other.impact) == (Impact.NONE, Impact.RESTART)
    assert [ref.path for ref in fresh.secrets] == [
        f"wheels/{'a' * 64}/a_b-1.0-py3-none-any.whl",
        f"wheels/{'b' * 64}/pip-26-py3-none-any.whl",
    ]
    assert f"{'a' * 64}  a_b-1.0-py3-none-any.whl" in fresh.script
    assert WHEELS[0].requirement == "a_b==1.0"
    assert env.digest != PythonEnv("/opt/corral/x", "X 1.0", WHEELS[:1]).digest
