"""The names of ``jsproto`` are imported at their first use, and type checkers see the same ones."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from importlib import import_module

import pytest

import jsproto
from tests.readmes import ROOT


def test_each_name_comes_from_where_type_checkers_look() -> None:
    tree = ast.parse((ROOT / "jsproto" / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {name.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert sorted([*seen, "__version__"]) == sorted(jsproto.__all__)
    for name, module in seen.items():
        if module == "jsproto":
            assert getattr(jsproto, name) is import_module(f"jsproto.{name}")
        else:
            assert jsproto._HOMES[name] == module
            assert getattr(jsproto, name) is getattr(import_module(str(module)), name)
    assert {*jsproto.__all__} <= {*dir(jsproto)}


def test_a_module_is_imported_when_it_is_named() -> None:
    """Whoever has imported a part of the core has it without asking."""
    assert jsproto.__getattr__("errors") is jsproto.errors


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'jsproto' has no attribute 'Nothing'"):
        _ = jsproto.Nothing


def test_an_import_alone_brings_nothing() -> None:
    program = "import sys, jsproto; print(sorted(name for name in sys.modules if name.startswith('jsproto.')))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "['jsproto._version']\n"


def test_the_package_says_where_to_read_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert import_module("jsproto.__main__").WHERE.startswith(f"jsproto {jsproto.__version__} is a library.")
    assert capsys.readouterr().out == ""
    sys.modules.pop("jsproto.__main__")
    runpy.run_module("jsproto", run_name="__main__")
    assert capsys.readouterr().out == import_module("jsproto.__main__").WHERE
