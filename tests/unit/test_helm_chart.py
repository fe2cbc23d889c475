"""The Helm chart: rendered by Helm itself; what it sets are settings that nodes have."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from node.config.settings import load

ROOT: Final = Path(__file__).resolve().parent.parent.parent
CHART: Final = ROOT / "deploy/helm/warren"
HELM: Final = shutil.which("helm")
VALIDATE: Final = shutil.which("kubernetes-validate")
KUBERNETES: Final = "1.30"
pytestmark = [
    pytest.mark.source,
    pytest.mark.skipif(HELM is None, reason="helm is not there"),
]


def helm(*words: str, code: int = 0) -> str:
    command = [HELM or "helm", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def template(*settings: str) -> str:
    words = [word for setting in settings for word in ("--set", setting)]
    place = ("--kube-version", f"{KUBERNETES}.0", "--namespace", "shop")
    return helm("template", "mq", str(CHART), *place, *words)


def rendered(*settings: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The manifests by kind and name."""
    yaml = pytest.importorskip("yaml")
    found = [each for each in yaml.safe_load_all(template(*settings)) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def container_of(manifests: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    spec = manifests["StatefulSet", "mq"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return dict(container)


def test_helm_finds_no_fault() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.skipif(VALIDATE is None, reason="kubernetes-validate is not there")
@pytest.mark.parametrize(
    "settings", [(), ("replicas=1",), ("topologySpread.enabled=false", "auth.existingSecret=mine")]
)
def test_manifests_fit_the_schemas_of_kubernetes(settings: tuple[str, ...], tmp_path: Path) -> None:
    """Strictly: unknown fields are refused."""
    (tmp_path / "chart.yaml").write_text(template(*settings))
    command = [VALIDATE or "", "--strict", "-k", KUBERNETES, str(tmp_path / "chart.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    shown = done.stdout + done.stderr
    assert (done.returncode, "passed for resource statefulset/mq" in shown) == (0, True), shown


@pytest.mark.parametrize("replicas", [1, 3, 5, 7])
def test_a_node_takes_the_settings(replicas: int, tmp_path: Path) -> None:
    manifests = rendered(f"replicas={replicas}")
    given = container_of(manifests)["env"]
    environment = {
        each["name"]: each.get("value", "n1").replace("$(WARREN_NODE_NAME)", "mq-0")
        for each in given
    }
    file = tmp_path / "warren.toml"
    file.write_text(manifests["ConfigMap", "mq"]["data"]["warren.toml"], "utf-8")
    config = load(file, {}, [], environment)
    assert len(config.cluster.seeds) == replicas
    assert config.cluster.advertised == config.cluster.seeds[0]
    assert config.log.format == "json"
    assert config.default_user == "n1"


def test_nodes_that_are_added_are_no_founders() -> None:
    container = container_of(rendered("replicas=5", "founders=3"))
    (seeds,) = (
        each["value"] for each in container["env"] if each["name"] == "WARREN_CLUSTER_SEEDS"
    )
    assert seeds.split(",") == [f"mq-{n}.mq-nodes.shop.svc:25672" for n in range(3)]


def test_another_number_of_nodes_is_refused() -> None:
    text = helm(
        "template", "mq", str(CHART), "--kube-version", "1.30.0", "--set", "replicas=4", code=1
    )
    assert "replicas is 4; allowed: 1, 3, 5, 7" in text


def test_ports_probes_and_volumes_name_what_is_there() -> None:
    manifests = rendered()
    container = container_of(manifests)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for service in ("mq", "mq-nodes"):
        for each in manifests["Service", service]["spec"]["ports"]:
            assert ports[each["targetPort"]] == each["port"]
    for probe in ("readinessProbe", "startupProbe", "livenessProbe"):
        (how,) = (
            container[probe].get(kind)
            for kind in ("tcpSocket", "httpGet")
            if kind in container[probe]
        )
        assert how["port"] in ports
    spec = manifests["StatefulSet", "mq"]["spec"]
    volumes = {each["name"] for each in spec["template"]["spec"]["volumes"]}
    volumes |= {each["metadata"]["name"] for each in spec["volumeClaimTemplates"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    assert spec["podManagementPolicy"] == "Parallel"
    assert manifests["Service", "mq-nodes"]["spec"]["publishNotReadyAddresses"] is True
    disrupted = manifests["PodDisruptionBudget", "mq"]["spec"]
    assert disrupted["selector"]["matchLabels"] == spec["selector"]["matchLabels"]


def test_the_node_is_drained_by_a_command_that_is_there() -> None:
    from node.cli.warrenctl import main

    words = container_of(rendered())["lifecycle"]["preStop"]["exec"]["command"][2]
    (options,) = re.findall(r"warrenctl (.*)", words)
    assert main([*options.split(), "--help"]) == 0


def test_a_secret_of_the_users_own_is_used() -> None:
    manifests = rendered("auth.existingSecret=mine")
    assert not any(kind == "Secret" for kind, _ in manifests)
    spec = manifests["StatefulSet", "mq"]["spec"]["template"]["spec"]
    names = [each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each]
    assert names == ["mine"]
