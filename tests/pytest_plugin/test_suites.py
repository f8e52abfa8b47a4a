"""Test suites of users with the plugin's fixtures: what passes, what fails and with which whole message."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import pytest

import virt_dra.pytest_plugin.domains
import virt_dra.pytest_plugin.golden_domains
import virt_dra.pytest_plugin.readiness  # noqa: F401 - once, and not for each suite, whose end restores what was imported

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.slow(seconds=0.5)

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "testing"
UNKNOWN_RELEASE: Final = (
    "KubeVirt 1.99 is newer than the releases known here: 1.6, 1.7, 1.8, 1.9 and main; main has the newest rules"
)
WAITS: Final = """\
AssertionError: VirtualMachine team-a/trainer isn't ready: placement: the one node can't take it. Nearest: node-2, \
request gpu: 1 device: memory is 16Gi (KubeVirt 1.9)
VirtualMachine team-a/trainer: not ready  (vm.yaml:18 (document 2))
├── admission: allowed
├── launcher pod: virt-launcher-trainer-bbbbb
├── claims
│   └── gpu: virt-launcher-trainer-bbbbb-gpu-bbbbc (from template large-gpu)
└── placement: FAILED Unschedulable
    ├── the one node can't take it. Nearest: node-2, request gpu: 1 device: memory is 16Gi
    ├── in detail
    │   └── node node-2: memory is 16Gi (1 device reachable)
    │       └── claim team-a/virt-launcher-trainer-bbbbb-gpu-bbbbc, request gpu: 0 of 1 device at best
    │           └── gpu.example.com/node-2/gpu-0: SelectorMismatch: memory is 16Gi: \
device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("39Gi"))
    └── what to do: correct the selectors of the claim or its DeviceClass, or add a node with devices that match them
Not known: Pods aren't given or readable: the room that they use and who runs beside whom isn't known
Not known: no node lists devices.kubevirt.io/kvm, devices.kubevirt.io/tun, devices.kubevirt.io/vhost-net: whether \
there is any isn't checked
"""
DIFFERS: Final = """\
AssertionError: the XML differs from golden.xml; if the new XML is right: pytest --virt-dra-update
--- golden.xml
+++ the XML made here
@@ -18,7 +18,7 @@
     <controller index="1" model="pcie-root-port" type="pci"/>
     <hostdev managed="no" type="pci">
       <source>
-        <address bus="0x41" domain="0x0000" function="0x0" slot="0x00"/>
+        <address bus="0x42" domain="0x0000" function="0x0" slot="0x00"/>
       </source>
       <alias name="ua-dra-gpu-gpu1"/>
     </hostdev>
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with the example's VM, cluster and reviewed domain."""
    for name in ("vm.yaml", "cluster.yaml"):
        (pytester.path / name).write_bytes((EXAMPLE / name).read_bytes())
    (pytester.path / "golden.xml").write_bytes((EXAMPLE / "vm.xml").read_bytes())
    settings = ["asyncio_mode = auto", "asyncio_default_fixture_loop_scope = function", "filterwarnings =", "  error"]
    settings.append(
        "  ignore::pytest.PytestAssertRewriteWarning"
    )  # virt_dra is imported already, where the suite is run in this process
    pytester.makeini("\n".join(("[pytest]", *settings)))
    return pytester


def _ran(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    """In this process, but for xdist."""
    return suite.runpytest_subprocess(*options) if "-n1" in options else suite.runpytest_inprocess(*options)


def _errors(ran: pytest.RunResult) -> str:
    """The lines that pytest prints of the error, without its mark."""
    return (
        "\n".join(line[1:].removeprefix("       ") for line in ran.outlines if line == "E" or line.startswith("E   "))
        + "\n"
    )


def _failure(suite: pytest.Pytester, statement: str, *options: str) -> str:
    suite.makepyfile(f"def test_it(assert_vm_ready, domain_xml, assert_domain_xml):\n    {statement}\n")
    ran = suite.runpytest_inprocess(*options)
    ran.assert_outcomes(failed=1)
    assert [line for line in ran.outlines if line.startswith(">")] == [f">       {statement}"]
    assert ran.errlines == []
    return _errors(ran)


def test_the_package_has_the_entry_point_of_the_plugin() -> None:
    points = [
        point for point in entry_points(group="pytest11", name="virt_dra") if point.value == "virt_dra.pytest_plugin"
    ]
    assert points, "the environment is older than pyproject.toml; make it anew: tools/venv.sh dev"


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["one process", "xdist"])
def test_plain_tests_and_coroutines_pass(suite: pytest.Pytester, options: tuple[str, ...]) -> None:
    suite.makepyfile(
        """
        def test_ready(assert_vm_ready):
            (vm,) = assert_vm_ready("vm.yaml", cluster="cluster.yaml")
            assert (vm.node, vm.devices[0].allocated) == ("node-1", "gpu.example.com/node-1/gpu-0")

        async def test_ready_in_a_coroutine(assert_vm_ready):
            assert assert_vm_ready("vm.yaml", cluster=["cluster.yaml"])[0].ready

        def test_domain(domain_xml, assert_domain_xml):
            assert_domain_xml(domain_xml("vm.yaml", {"gpus/gpu1": "0000:41:00.0"}), "golden.xml")
        """
    )
    _ran(suite, *options).assert_outcomes(passed=3)


def test_a_vm_that_is_not_ready_fails_with_the_whole_explanation(suite: pytest.Pytester) -> None:
    assert _failure(suite, 'assert_vm_ready("vm.yaml", cluster="cluster.yaml", node="node-2")') == WAITS


def test_a_coroutine_fails_with_the_whole_explanation(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        'async def test_it(assert_vm_ready):\n    assert_vm_ready("vm.yaml", cluster="cluster.yaml", node="node-2")\n'
    )
    ran = suite.runpytest_inprocess()
    ran.assert_outcomes(failed=1)
    assert _errors(ran) == WAITS


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            'assert_vm_ready("nix.yaml", cluster="no/dump.yaml")',
            "nix.yaml: no such file or folder\nno/dump.yaml: no such file or folder",
        ),
        ("assert_vm_ready()", "assert_vm_ready: name a file that has a VirtualMachine or VirtualMachineInstance"),
        (
            'assert_vm_ready("cluster.yaml", cluster="vm.yaml")',
            "cluster.yaml: no VirtualMachine or VirtualMachineInstance found; name the file that has one",
        ),
        (
            'assert_vm_ready("vm.yaml", kubevirt="newest")',
            "kubevirt: 'newest' is no KubeVirt version; write for example 1.9, 1.8.3 or main",
        ),
        (
            'assert_vm_ready("vm.yaml", kubevirt="1.99")',
            f"kubevirt: {UNKNOWN_RELEASE}",
        ),
        (
            'assert_vm_ready("vm.yaml", ignore=["nonsense"])',
            "ignore: 'nonsense' is no finding; virt-dra lint --list shows them",
        ),
        ('domain_xml("nix.yaml")', "nix.yaml: no such file or folder"),
        (
            'domain_xml("cluster.yaml")',
            "cluster.yaml: 0 VirtualMachine(Instance)s found; name a file that has one, or pass the object as a dict",
        ),
        ('domain_xml({"kind": "Pod"})', "kind: must be VirtualMachineInstance or VirtualMachine"),
        ('domain_xml("vm.yaml", kubevirt="0")', "'0' is no KubeVirt version; write for example 1.9, 1.8.3 or main"),
        ('domain_xml("vm.yaml", kubevirt="1.99")', UNKNOWN_RELEASE),
        (
            'domain_xml("vm.yaml", {"gpus/gpu2": "0000:41:00.0"})',
            "addresses: gpus/gpu2 is no device of trainer; its devices are: gpus/gpu1",
        ),
        (
            'domain_xml({"spec": {"domain": {"devices": {"gpus": [{"name": "g", '
            '"deviceName": "v.com/g"}]}}}}, {"gpus/g": "0000:41:00.0"})',
            "addresses: gpus/g comes from a device plugin (v.com/g); "
            "give the variable that it sets with env={'PCI_RESOURCE_...': '0000:41:00.0'}",
        ),
        ('assert_domain_xml("<domain>", "golden.xml")', None),
        ('assert_domain_xml("<domain/>", "vm.yaml")', None),
        ('assert_domain_xml("<domain/>", ".")', "golden file .: Is a directory"),
    ],
)
def test_unusable_input_is_an_error_of_its_own_that_names_it(
    suite: pytest.Pytester, statement: str, message: str | None
) -> None:
    failure = _failure(suite, statement)
    if message is not None:
        assert failure == f"virt_dra.pytest_plugin.UnusableInput: {message}\n"
    else:
        name = "vm.yaml" if "vm.yaml" in statement else "the XML to compare"
        assert failure.startswith(f"virt_dra.pytest_plugin.UnusableInput: {name}: line 1, column ")


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "examples" / "failing").iterdir()))
def test_a_failing_example_fails_a_test_and_nothing_else(suite: pytest.Pytester, name: str) -> None:
    """Hostile YAML, names and selectors among them: text without control characters, no traceback, in time."""
    path = ROOT / "examples" / "failing" / name / "vm.yaml"
    failure = _failure(suite, f'assert_vm_ready("{path}")')
    expected = (path.parent / "EXPECTED").read_text(encoding="utf-8").splitlines()
    kind = {"exit 1": "AssertionError: ", "exit 2": "virt_dra.pytest_plugin.UnusableInput: "}[expected[0]]
    assert failure.startswith(kind)
    assert all(line.isprintable() for line in failure.splitlines())


def test_escape_sequences_of_a_tenant_do_not_reach_the_terminal(suite: pytest.Pytester) -> None:
    (suite.path / "bad.yaml").write_text(
        'apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: "a\\e[31mb\\a"}\nspec: {}\n'
    )
    failure = _failure(suite, 'assert_vm_ready("bad.yaml")')
    assert "default/a\\x1b[31mb\\a isn't ready: " in failure
    assert all(line.isprintable() for line in failure.splitlines())


def test_a_domain_that_cannot_be_made_fails_with_the_launchers_message(suite: pytest.Pytester) -> None:
    failure = _failure(suite, 'domain_xml("vm.yaml", {"gpus/gpu1": "41:0"})')
    assert failure == (
        "launcher.errors.LauncherError: failed to create DRA GPU host-devices: failed to create PCI device for gpu1: "
        "failed to parse pci address 41:0\n"
    )


def test_what_the_launcher_warns_of_is_a_warning_at_the_line_of_the_test(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        def test_it(domain_xml):
            with pytest.warns(UserWarning, match="^gpus/gpu1: libvirt will refuse 0000:41:ff.0: ") as found:
                domain_xml("vm.yaml", {"gpus/gpu1": "0000:41:ff.0"})
            assert [warning.filename for warning in found] == [__file__]
        """
    )
    suite.runpytest_inprocess().assert_outcomes(passed=1)


def test_an_assertion_about_a_host_device_fails_with_the_nearest(suite: pytest.Pytester) -> None:
    made = 'assert_domain_xml(domain_xml("vm.yaml", {"gpus/gpu1": "0000:42:00.0"}))'
    assert _failure(suite, f'{made}.has_hostdev(alias="dra-gpu-gpu1").has_hostdev(pci="0000:41:00.0")') == (
        "AssertionError: no hostdev has pci 0000:41:00.0\n"
        "the nearest one is ua-dra-gpu-gpu1:\n"
        "  pci: wanted 0000:41:00.0, is 0000:42:00.0\n"
        "all hostdevs:\n"
        "  pci 0000:42:00.0, ua-dra-gpu-gpu1\n"
    )


def test_addresses_are_those_of_the_status(suite: pytest.Pytester) -> None:
    """``addresses`` and ``device_status`` are two ways to say the same, for PCI devices and mediated ones, of a dict
    and of a file."""
    suite.makepyfile(
        """
        UUID = "8b7aa0f3-0a4c-4a4b-8a52-0c1a1d5f9e00"
        GPUS = [{"name": "g", "claimName": "c", "requestName": "r"}]
        HOST_DEVICES = [{"name": "h", "claimName": "c", "requestName": "s"}]
        SPEC = {"domain": {"devices": {"gpus": GPUS, "hostDevices": HOST_DEVICES}}}
        VMI = {"metadata": {"name": "v"}, "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}], **SPEC}}

        def status(name, **attributes):
            return {"name": name, "deviceResourceClaimStatus": {"attributes": attributes}}

        def test_it(domain_xml):
            made = domain_xml(VMI, {"hostDevices/h": "0000:05:00.1", "gpus/g": UUID})
            host_devices = [status("h", pciAddress="0000:05:00.1")]
            given = {"gpuStatuses": [status("g", mDevUUID=UUID)], "hostDeviceStatuses": host_devices}
            assert made == domain_xml(VMI, device_status=given)
            assert f'<address uuid="{UUID}"/>' in made and 'bus="0x05"' in made
            assert made == domain_xml(VMI, {"gpus/g": UUID}, device_status={**given, "gpuStatuses": []})
        """
    )
    suite.runpytest_inprocess().assert_outcomes(passed=1)


# --- golden files -------------------------------------------------------------------------------------------------


def test_a_difference_is_shown_as_a_unified_diff(suite: pytest.Pytester) -> None:
    failure = _failure(suite, 'assert_domain_xml(domain_xml("vm.yaml", {"gpus/gpu1": "0000:42:00.0"}), "golden.xml")')
    assert failure == DIFFERS


def test_a_missing_golden_file_fails_with_its_name_and_the_xml(suite: pytest.Pytester) -> None:
    failure = _failure(suite, "assert_domain_xml(\"<a><b y='1' x='2'/></a>\", \"none.xml\")")
    heading = "none.xml: no such golden file; if the new XML is right: pytest --virt-dra-update"
    assert failure == f'AssertionError: {heading}\nthe XML made here:\n<a>\n  <b x="2" y="1"/>\n</a>\n'
    assert not (suite.path / "none.xml").exists()


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["one process", "xdist"])
def test_update_writes_what_differs_or_is_missing_and_names_it(
    suite: pytest.Pytester, options: tuple[str, ...]
) -> None:
    kept = "<!-- reviewed -->\n<a   y='2'\n x='1'></a>"
    (suite.path / "kept.xml").write_text(kept)
    (suite.path / "broken.xml").write_text("<a")
    suite.makepyfile(
        """
        def test_it(assert_domain_xml):
            assert_domain_xml("<a x='1' y='2'/>", "kept.xml")
            assert_domain_xml("<a x='1' y='2'/>", "broken.xml")
            assert_domain_xml("<?xml version='1.0' encoding='latin-1'?><a>\\u00e4</a>", "new/deep.xml")

        def test_another(assert_domain_xml):
            assert_domain_xml(b"<a><b/></a>", "golden.xml")
        """
    )
    ran = suite.runpytest_inprocess("--virt-dra-update", *options)
    ran.assert_outcomes(passed=2)
    names = ("broken.xml", "golden.xml", "new/deep.xml")
    assert [line for line in ran.outlines if "wrote" in line] == [f"virt-dra: wrote {name}" for name in names]
    written = {name: (suite.path / name).read_text(encoding="utf-8") for name in (*names, "kept.xml")}
    assert written == {
        "kept.xml": kept,
        "broken.xml": '<a x="1" y="2"/>\n',
        "golden.xml": "<a><b/></a>\n",
        "new/deep.xml": "<a>ä</a>\n",
    }
    _ran(suite, *options).assert_outcomes(passed=2)


def test_a_golden_file_that_cannot_be_written_is_named(suite: pytest.Pytester) -> None:
    failure = _failure(suite, 'assert_domain_xml("<a/>", "vm.yaml/golden.xml")', "--virt-dra-update")
    assert failure == "virt_dra.pytest_plugin.UnusableInput: golden file vm.yaml/golden.xml: Not a directory\n"


# --- the plugin in any pytest -------------------------------------------------------------------------------------


def test_options_are_in_a_group_of_their_own(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_inprocess("--help")
    ran.stdout.fnmatch_lines(
        ["unit tests of VMs (virt-dra):", "  --virt-dra-update*", "  --virt-dra-kubevirt=VERSION"], consecutive=False
    )


def test_a_release_of_the_command_line_counts_where_the_test_names_none(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        def test_default(assert_vm_ready):
            with pytest.raises(AssertionError, match=r"\\(KubeVirt 1\\.8\\.3\\)"):
                assert_vm_ready("vm.yaml", cluster="cluster.yaml")

        def test_named(assert_vm_ready):
            assert_vm_ready("vm.yaml", cluster="cluster.yaml", kubevirt="1.9")
        """
    )
    suite.runpytest_inprocess("--virt-dra-kubevirt", "1.8.3").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ("new", "'new' is no KubeVirt version; write for example 1.9, 1.8.3 or main"),
        ("1.99", UNKNOWN_RELEASE),
    ],
)
def test_a_release_that_is_none_ends_pytest_with_one_line(release: str, message: str, suite: pytest.Pytester) -> None:
    ran = suite.runpytest_inprocess("--virt-dra-kubevirt", release)
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in ran.errlines if line] == [f"ERROR: --virt-dra-kubevirt: {message}"]


def test_pytest_starts_without_importing_anything_of_virt_dra_but_the_plugin(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.partition(".")[0] in ("virt_dra", "launcher", "webhooks")}
            assert ours == {"virt_dra", "virt_dra.pytest_plugin"}
            assert not {"pydantic", "lxml", "yaml", "click", "rich", "re2"} & sys.modules.keys()
        """
    )
    suite.runpytest_subprocess("-W", "default").assert_outcomes(passed=1)


def test_the_plugin_can_be_left_out(suite: pytest.Pytester) -> None:
    suite.makepyfile("import sys\ndef test_it():\n    assert 'virt_dra' not in sys.modules\n")
    suite.runpytest_subprocess("-p", "no:virt_dra").assert_outcomes(passed=1)
