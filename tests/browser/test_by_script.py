"""A job by script: when it would start, what is refused at its line, image and environment."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api import Environments
from corral.api.page.job_environments import Image
from tests.browser.helper_double import Desk, desk, spec
from tests.browser.test_access import in_both_themes

SCRIPT = "#!/bin/bash\n#SBATCH --partition=gone\n#SBATCH --constraint=ib\n\nsrun python train.py\n"
REFUSED = "Batch job submission failed: Invalid partition name specified"


@pytest.fixture
def at(chromium: Any, tmp_path: Path) -> Iterator[Desk]:
    cluster = spec()
    cluster["software"]["containers"] = "pyxis"
    hooks = [{"name": "lab-chat", "url": "https://chat.example.org/secret"}]
    mail = {"relay": "mail.example.org", "domain": "example.org", "sender": "c@example.org"}
    cluster["services"]["notify"] = {**mail, "webhooks": hooks}
    with desk(chromium, tmp_path, cluster) as view:
        image, python = Image("/shared/images/torch.sqsh", 5 << 30), "/shared/envs/torch"
        view.helper.environments = Environments((image,), (python,))
        view.open("submit")
        view.page.click("button:text-is('By script')")
        view.page.wait_for_selector("textarea")
        yield view


def submitted(page: Any, status: int, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Answers to scripts that are submitted: the double of slurmrestd takes none."""
    sent: list[dict[str, Any]] = []

    def answered(route: Any) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(status=status, json=body)

    page.route("**/api/jobs", answered)
    return sent


def test_a_script_is_asked_when_it_would_start(at: Desk, shoot: Callable[[Any, str], None]) -> None:
    page = at.page
    start = int(time.time()) + 7300
    at.helper.expected = {"start_at": start, "nodes": "node[1-2]"}
    page.fill("input[name=nodes]", "2")
    page.click("button:text-is('Expected start')")
    page.wait_for_selector("p[role=status] >> text=in 2 h 1 min on node[1-2]")
    shoot(page, "by-script")
    (asked,) = [each["fields"] for each in at.helper.asked if each["do"] == "script-expected"]
    assert asked["script"].startswith("#!/bin/bash\n##SBATCH --nodes=1\n#SBATCH --nodes=2\n")
    assert not [each for each in at.helper.asked if each["do"] == "submit"]
    page.fill("input[name=nodes]", "3")
    page.wait_for_selector("p[role=status] >> text=Slurm would start", state="detached")


def test_what_slurm_refuses_is_at_its_line_and_field(at: Desk) -> None:
    page = at.page
    page.fill("textarea", SCRIPT)
    page.wait_for_selector("small:text-is('from line 2 of the script')")
    fields = {"partition": REFUSED, "constraint": "Invalid feature specification"}
    at.helper.refused = {"code": "slurm-refused", "message": "Slurm refuses", "fields": fields}
    page.click("button:text-is('Expected start')")
    page.wait_for_selector("form [role=alert] >> text=line 2")
    lines = page.locator("form [role=alert] li").all_inner_texts()
    assert lines == [
        f"line 2: {REFUSED}",
        "line 3: --constraint=ib: Invalid feature specification",
    ]
    assert page.inner_text("#script-fault-partition") == REFUSED
    assert page.get_attribute("[name=partition]", "aria-invalid") == "true"
    assert page.locator(".toast").count() == 0
    assert not in_both_themes(page)
    page.fill("textarea", SCRIPT.replace("gone", "main"))
    page.wait_for_selector("form [role=alert]", state="detached")
    submitted(page, 500, {"error": {"code": "slurm-refused", "message": "", "fields": fields}})
    page.click("button:text-is('Submit')")
    page.wait_for_selector("#script-fault-partition")
    assert f"line 2: {REFUSED}" in page.inner_text("form [role=alert]")


def test_an_image_and_an_environment_are_written_into_the_script(at: Desk) -> None:
    page = at.page
    page.fill("textarea", SCRIPT.replace("gone", "main"))
    page.wait_for_selector(".offers >> text=1 image on shared storage")
    for name, value in (
        ("container", "/shared/images/torch.sqsh"),
        ("python", "/shared/envs/torch"),
    ):
        page.fill(f"#script-{name}", value)
        page.press(f"#script-{name}", "Tab")
    text = page.input_value("textarea")
    assert "\nsrun --container-image=/shared/images/torch.sqsh python train.py\n" in text
    assert "\nexport PATH=/shared/envs/torch/bin:$PATH\nsrun" in text
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    sent = submitted(page, 200, {"id": 1})
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/1$"))
    assert [body["script"] for body in sent] == [text]


LACKING = "#!/bin/bash\n#SBATCH --gres=gpu:h200:2\n#SBATCH --export=NONE --signal=B:TERM@60\n"


def test_no_gpus_are_sent_as_shown_and_what_the_api_lacks_goes_by_sbatch(at: Desk) -> None:
    """Two GPUs came where the page had 0, and --export blocked the form."""
    page = at.page
    page.fill("textarea", f"{LACKING}#SBATCH --exclusive --mem=4G\n\nsrun python train.py\n")
    page.wait_for_selector("p, div >> text=It is submitted by sbatch, as you")
    assert page.locator("div.dim li >> text=line 3: --export").count() == 1
    assert page.input_value("input[name=gpus]") == "h200:2"
    assert page.input_value("input[name=memory]") == "4G"
    assert page.input_value("select[name=exclusive]") == "yes"
    assert page.is_visible("select[name=exclusive]"), "what is in use is not folded"
    page.fill("input[name=gpus]", "0")
    page.fill("input[name=memory]", "")
    assert page.locator("small:text-is('overrides line 2 of the script')").count() == 1
    assert page.locator("small:text-is('overrides line 4 of the script')").count() == 1
    assert not in_both_themes(page)
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/1$"))
    (job,) = [each["fields"] for each in at.helper.asked if each["do"] == "submit-script"]
    assert job["script"].startswith(
        "#!/bin/bash\n##SBATCH --gres=gpu:h200:2\n#SBATCH --export=NONE --signal=B:TERM@60\n"
        "#SBATCH --exclusive\n"
    )


def test_a_message_at_its_end_goes_to_a_webhook_by_name(at: Desk) -> None:
    page = at.page
    offered = """(id) => [...document.querySelector(id).list.options]
      .map((option) => [option.value, option.label])"""
    names = [["lab-chat", "lab-chat (webhook)"], ["kim", "kim (mail to kim@example.org)"]]
    assert page.evaluate(offered, "input[name=mail]") == names
    assert "lab-chat (webhook)" in page.inner_text("label:has(input[name=mail])")
    page.fill("input[name=mail]", "lab-chat")
    sent = submitted(page, 200, {"id": 1})
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/1$"))
    assert [body["mail"] for body in sent] == ["lab-chat"]
    at.open("submit")
    page.wait_for_selector("#field-mail")
    assert page.evaluate(offered, "#field-mail") == names
    page.fill("#field-command", "true")
    page.fill("#field-mail", "lab-chat:end,fail")
    page.click("text=Show the batch script")
    page.wait_for_selector("pre >> text=#SBATCH --mail-user=lab-chat")
    page.click("button:text-is('Submit')")
    page.wait_for_url(re.compile(r"#job/1$"))
    (fields,) = [asked["fields"] for asked in at.helper.asked if asked["do"] == "submit"]
    assert fields["mail"] == "lab-chat:end,fail"
