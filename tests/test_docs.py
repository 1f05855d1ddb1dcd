"""The documents say what the program does: commands, options, fields, exit codes, links; every example runs.

A code block marked console is a session: each line after "$ " is typed into bash, in order, in one fresh
folder. It must end with exit code 0, or with the one that a "# exits NN" at its end names. Lines below a
command, if there are any, are its whole output, stderr and stdout together; "..." stands for anything,
alone on a line for any lines.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pybfv import cli, errors, flow
from pybfv.io.sign import SigningKey
from pybfv.workload import discover

ROOT = Path(__file__).resolve().parent.parent
CLI = ROOT / "docs" / "cli.md"
WORKLOAD = ROOT / "docs" / "adding-a-workload.md"
HOWTO = sorted((ROOT / "docs" / "howto").glob("*.md"))
USER_PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", CLI, WORKLOAD, *HOWTO]
PAGES = sorted(
    path
    for folder in (".", "docs", "host_c", "tests", "demo", "pybfv", "dpu")
    for path in (ROOT.glob("*.md") if folder == "." else (ROOT / folder).rglob("*.md"))
)


def _leaves(group: click.Group, path: str = "") -> dict[str, click.Command]:
    """Every command by what is typed after pybfv: "plan", "bench paper"."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        found |= _leaves(command, f"{path}{name} ") if isinstance(command, click.Group) else {path + name: command}
    return found


COMMANDS = _leaves(cli.cli)


# --- reading Markdown ---------------------------------------------------------------------------


def blocks(text: str, language: str) -> list[str]:
    """The code blocks marked with a language, without their indentation."""
    found = []
    for indent, body in re.findall(rf"^( *)```{language}\n(.*?)^\1```$", text, re.M | re.S):
        found.append("".join(line.removeprefix(indent) for line in body.splitlines(keepends=True)))
    return found


def prose(text: str) -> str:
    """The text without code blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.M | re.S)


def slug(heading: str) -> str:
    """The anchor of a heading, as repository sites make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def sections(text: str) -> dict[str, str]:
    """Anchor to the text below its heading, up to the next heading."""
    parts = re.split(r"^#+ (.+)$", re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.M | re.S), flags=re.M)
    return {slug(heading): body for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table rows, without head and rule."""
    found = []
    for line in section.splitlines():
        if line.startswith("|"):
            found.append([c.strip().replace(r"\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]])
    return [row for row in found[1:] if not set(row[0]) <= set("-: ")]


def code_spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- sessions -----------------------------------------------------------------------------------


@dataclass
class Step:
    """One command of a session, and what the page says of it."""

    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        found = re.search(r"# exits (\d+)$", self.command.splitlines()[0])
        return int(found.group(1)) if found else 0


def steps(page: Path) -> list[Step]:
    """Every command of a page's sessions, in order."""
    found: list[Step] = []
    for block in blocks(page.read_text(), "console"):
        lines = iter(block.splitlines())
        for line in lines:
            if not line.startswith("$ "):
                assert found, f"{page.name}: a session begins with a command, not with {line!r}"
                found[-1].shown.append(line)
                continue
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines)
            end = re.search(r"<<'(\w+)'", command)
            if end:
                command += "\n" + "\n".join(_until(lines, end.group(1)))
            found.append(Step(command))
    return found


def _until(lines: Iterator[str], last: str) -> Iterator[str]:
    for line in lines:
        yield line
        if line == last:
            return
    raise AssertionError(f"a here-document is never closed by {last}")


def pattern(shown: list[str]) -> str:
    """The shown output as a regular expression."""
    lines = [r"(?:.*\n)*" if s == "..." else re.escape(s).replace(r"\.\.\.", ".*") + r"\n" for s in shown]
    return "".join(lines)


def play(page: Path, folder: Path, **environment: str) -> int:
    """Runs a page's sessions in a folder; how many commands there were."""
    bin_folder = folder / ".bin"
    bin_folder.mkdir()
    for name, module in (("pybfv", " -m pybfv"), ("python", "")):
        command = bin_folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        command.chmod(0o755)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    played = steps(page)
    for step in played:
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            env={**os.environ, "PATH": path, **environment},
        )
        assert done.returncode == step.code, f"{page.name}: $ {step.command}\n{done.stdout}"
        if step.shown:
            assert re.fullmatch(pattern(step.shown), done.stdout), f"{page.name}: $ {step.command}\n{done.stdout}"
    return len(played)


def test_a_session_can_fail(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for wrong in ("$ false", "$ true   # exits 3", "$ echo one\ntwo", "$ printf 'a\\nb\\n'\na"):
        page.write_text(f"```console\n{wrong}\n```\n")
        with pytest.raises(AssertionError, match=r"page.md: \$"):
            play(page, tmp_path)
        shutil.rmtree(tmp_path / ".bin")
    page.write_text("```console\n$ printf 'a 1\\nb\\nc\\n'; exit 3   # exits 3\na ...\n...\nc\n```\n")
    assert play(page, tmp_path) == 1


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "README.md", CLI], ids=lambda p: p.name)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    assert play(page, tmp_path) > 10


@pytest.mark.slow
@pytest.mark.parametrize("page", HOWTO, ids=lambda p: p.stem)
def test_every_workload_has_a_page_that_runs(page: Path, tmp_path: Path) -> None:
    assert {p.stem for p in HOWTO} == set(discover())
    assert play(page, tmp_path) > 4


@pytest.mark.slow
def test_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    readme = ROOT / "README.md"
    (example,) = blocks(readme.read_text(), "python")
    (data,) = re.findall(r"> people.csv <<'END'\n(.*?)^END$", readme.read_text(), re.M | re.S)
    (tmp_path / "people.csv").write_text(data)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    assert "mean age 42.375 339/8\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_workload_is_one_file(tmp_path: Path) -> None:
    """The page's example, beside copies of the package's workloads, works with no edit anywhere."""
    package = tmp_path / "path" / "pybfv_workloads"
    package.mkdir(parents=True)
    for path in (ROOT / "workloads").glob("*.py"):
        shutil.copy(path, package)
    (example,) = blocks(WORKLOAD.read_text(), "python")
    (name,) = re.findall(r"`workloads/(\w+\.py)`", WORKLOAD.read_text().split("```python")[0])
    (package / name).write_text(example)
    assert play(WORKLOAD, tmp_path, PYTHONPATH=str(package.parent)) > 2


# --- commands and options -----------------------------------------------------------------------


def documented_options(command: str) -> dict[str, list[str]]:
    """Option (its long form) to its table row, of a command's section and the shared ones it links to."""
    found = sections(CLI.read_text())
    body = found[slug(f"pybfv {command}")]
    tables = [body, *(found[anchor] for anchor in re.findall(r"\]\(#([\w-]+-options)\)", body))]
    options = {}
    for table in tables:
        for row in rows(table):
            names = [span.split()[0] for span in code_spans(row[0]) if span.startswith("-")]
            if names:
                options[" ".join(names)] = row
    return options


def test_every_command_is_documented() -> None:
    found = {anchor for anchor in sections(CLI.read_text()) if anchor.startswith("pybfv-")}
    assert found == {slug(f"pybfv {command}") for command in COMMANDS}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_is_documented_and_exists(command: str) -> None:
    options = {" ".join(p.opts): p for p in COMMANDS[command].params if isinstance(p, click.Option)}
    table = documented_options(command)
    assert table.keys() == options.keys()
    for names, option in options.items():
        _, default, meaning, *_ = table[names]
        assert ("repeatable" in meaning) == option.multiple, names
        if option.required:
            assert default == "required", names
        elif not option.is_flag and isinstance(option.default, (str, int, float)):
            shown = option.default if isinstance(option.default, str) else f"{option.default:g}"
            assert code_spans(default)[:1] == [shown], names
        else:
            assert default != "required", names
            assert not default.startswith("`"), names
        if isinstance(option.type, click.Choice):
            spans = code_spans(meaning)
            assert all(choice in spans for choice in option.type.choices), names
        if option.metavar:
            assert option.metavar in "".join(code_spans(table[names][0])), names


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_argument_is_documented(command: str) -> None:
    usage = code_spans(sections(CLI.read_text())[slug(f"pybfv {command}")])[0]
    assert usage.startswith(f"pybfv {command}")
    for argument in COMMANDS[command].params:
        if isinstance(argument, click.Argument):
            assert (argument.metavar or "").split("|")[0].rstrip(".") in usage


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda p: p.name)
def test_no_page_invents_options_or_commands(page: Path) -> None:
    text = page.read_text()
    known = {o for c in COMMANDS.values() for p in c.params for o in p.opts} | {"--help", "--version"}
    code = [span for span in code_spans(prose(text)) if not span.startswith(("make", "pip"))]
    code += [s.command for s in steps(page) if "pybfv" in s.command and not s.command.startswith("python")]
    used = {o for span in code for o in re.findall(r"(?<![\w-])--[a-z][a-z-]+", span)}
    assert used <= known
    named = {c for span in code for c in re.findall(r"\bpybfv ([a-z]+)\b", span)}
    assert named <= cli.cli.commands.keys()


# --- exit codes ---------------------------------------------------------------------------------


def exit_codes() -> dict[int, str]:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__mro__[1:2] != (Exception,)]
    return {c.exit_code: c.__name__ for c in classes if issubclass(c, errors.PybfvError)}


def test_exit_codes() -> None:
    table = {int(code_spans(row[0])[0]): code_spans(row[1]) for row in rows(sections(CLI.read_text())["exit-codes"])}
    assert table.pop(0) == []
    assert {code: names[0] for code, names in table.items() if names} == exit_codes()
    assert {code for code, names in table.items() if not names} == {130, 143}
    readme = {int(row[0]) for row in rows(sections((ROOT / "README.md").read_text())["refusals"])}
    assert readme == {0, *exit_codes()}
    for code in (0, *exit_codes()):
        assert re.search(rf"\b{code} [a-z]", cli.EXIT_CODES), code


# --- JSON documents -----------------------------------------------------------------------------

SPECS = ["count", "sum:x", "mean:y", "variance:x", "linreg:y~x"]
TYPES: dict[str, Any] = {
    "text": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, float),
    "boolean": lambda v: isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
    "list of text": lambda v: isinstance(v, list) and all(isinstance(x, str) for x in v),
    "list of number": lambda v: isinstance(v, list) and all(isinstance(x, float) for x in v),
    "list of object": lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v),
}


def check_fields(found: dict[str, Any], table: dict[str, str]) -> None:
    """A JSON object has exactly the documented fields, of the documented types."""
    assert set(found) == set(table)
    for name, text in table.items():
        assert any(TYPES[one](found[name]) for one in text.split(" or ")), (name, text, found[name])


def field_table(anchor: str) -> dict[str, str]:
    return {code_spans(row[0])[0]: row[1] for row in rows(sections(CLI.read_text())[anchor])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one file of each kind."""
    where = tmp_path_factory.mktemp("kinds")
    data = where / "data.csv"
    data.write_text("x,y\n1,2\n2,5\n4,4\n7,9\n")
    options: dict[str, Any] = {"set_name": "insecure_n64_q214", "insecure": True, "max_contributions": 1}
    study = flow.plan(str(data), SPECS, **options).study
    (where / "study.json").write_bytes(study.doc.raw)
    secret, public = flow.keygen(study)
    flow.write_keys(secret, public, str(where / "keys"))
    flow.encrypt(study, str(data), public, str(where / "data.bfvc"))
    flow.compute_to_partial([str(where / "data.bfvc")], str(where / "data.bfvp"))
    flow.compute([str(where / "data.bfvc")], str(where / "data.bfvr"), key=public)
    signer = SigningKey.generate()
    flow.encrypt(study, str(data), public, str(where / "signed.bfvc"), sign=signer)
    flow.compute_to_partial([str(where / "data.bfvc")], str(where / "signed.bfvp"), sign=signer)
    flow.compute([str(where / "data.bfvc")], str(where / "signed.bfvr"), key=public, sign=signer)
    return where


def asked(*args: object) -> dict[str, Any]:
    """A command's JSON document."""
    done = CliRunner().invoke(cli.cli, [str(a) for a in args])
    assert done.exit_code == 0, done
    return json.loads(done.stdout)


def test_result_document(folder: Path) -> None:
    document = asked("decrypt", folder / "data.bfvr", "--key", folder / "keys" / "secret.key", "--json")
    table = field_table("the-result-document")
    verified = {"verified": table.pop("verified")}
    check_fields(document, table)
    check_fields(document["backend"], field_table("the-field-backend"))
    stats = [s for spec in SPECS for s in ("--stat", spec)]
    run = asked("run", folder / "data.csv", *stats, "--set", "insecure_n64_q214", "--insecure", "--verify", "--json")
    check_fields(run, table | verified)
    assert run["verified"] is True
    assert run["results"] == document["results"]
    assert document["schema_version"] == 1


def test_fields_of_each_statistic(folder: Path) -> None:
    documented: dict[str, dict[str, str]] = {}
    for stats, name, text, *_ in rows(sections(CLI.read_text())["the-list-results"]):
        for stat in code_spans(stats):
            documented.setdefault(stat, {})[code_spans(name)[0]] = text
    results = asked("decrypt", folder / "data.bfvr", "--key", folder / "keys" / "secret.key", "--json")["results"]
    assert {r["stat"] for r in results} == set(documented)
    for result in results:
        check_fields(result, documented[result["stat"]])


def test_inspect_fields(folder: Path) -> None:
    files = {
        "study": "study.json",
        "public key": "keys/public.key",
        "contribution": "data.bfvc",
        "partial": "data.bfvp",
        "result": "data.bfvr",
        "signed contribution": "signed.bfvc",
        "signed partial": "signed.bfvp",
        "signed result": "signed.bfvr",
    }
    table = rows(sections(CLI.read_text())["the-inspect-document"])
    for kind, file in files.items():
        kinds = {"all", kind, kind.removeprefix("signed ")}
        expected = {code_spans(name)[0]: text for name, text, of, *_ in table if kinds & set(of.split(", "))}
        found = asked("inspect", folder / file, "--json")
        assert found["kind"] == kind.removeprefix("signed ")
        check_fields(found, expected)


# --- pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), target
        assert path.is_relative_to(ROOT), target
        if anchor:
            assert anchor in sections(path.read_text()), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_have_no_leftovers(page: Path) -> None:
    assert not re.search(r"\b(TODO|FIXME|TBD|XXX)\b|lorem ipsum", page.read_text(), re.I)


def test_every_environment_variable_is_documented() -> None:
    """Those that the Python and C sources ask for are the ones in docs/cli.md."""
    used: set[str] = set()
    for path in (ROOT / "pybfv").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used |= set(re.findall(r"^PYBFV_[A-Z]+$", node.value))
    for path in (ROOT / "host_c").rglob("*.c"):
        used |= set(re.findall(r'getenv\("(\w+)"\)', path.read_text()))
    documented = {code_spans(row[0])[0] for row in rows(sections(CLI.read_text())["environment-variables"])}
    assert documented == used | {"TMPDIR"}
