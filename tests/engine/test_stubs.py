"""Each stub of the engine says what the compiled module has: no name more, and none less."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# The modules import each other; the engine is where that begins.

# Not by the module: an engine with sanitizers is built elsewhere, without its sources.
ENGINE = Path(__file__).parents[2] / "src" / "leporid" / "engine"
MODULES = sorted(
    ".".join(path.relative_to(ENGINE).with_suffix("").parts) for path in ENGINE.rglob("*.pyx")
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def path_of(name: str, suffix: str) -> Path:
    return ENGINE.joinpath(*name.split(".")).with_suffix(suffix)


@pytest.fixture(params=MODULES)
def name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def module(name: str) -> ModuleType:
    return importlib.import_module(f"leporid.engine.{name}")


@pytest.fixture
def stub(name: str) -> ast.Module:
    return ast.parse(path_of(name, ".pyi").read_text(encoding="utf-8"))


def is_public(name: str) -> bool:
    return not name.startswith("_")


def classes_of(stub: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}


def functions_of(node: ast.Module | ast.ClassDef) -> dict[str, Function]:
    """Functions and methods; properties are none."""
    return {
        part.name: part
        for part in node.body
        if isinstance(part, Function) and not part.decorator_list
    }


def attributes_of(node: ast.Module | ast.ClassDef) -> set[str]:
    """Names with a type: attributes that may be set, or constants."""
    return {
        part.target.id
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }


def properties_of(node: ast.ClassDef) -> set[str]:
    return {part.name for part in node.body if isinstance(part, Function) and part.decorator_list}


def compiled_classes(module: ModuleType) -> dict[str, type]:
    return {
        name: value
        for name, value in vars(module).items()
        if is_public(name) and isinstance(value, type) and value.__module__ == module.__name__
    }


def parameters(function: Function) -> list[str]:
    arguments = function.args
    rest = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]
    return [one.arg for one in found]


def compiled_parameters(function: Any) -> list[str]:
    """Names of the parameters; `inspect` cannot read defaults that are names."""
    text = function.__text_signature__.replace("($module, /, ", "(").replace("($module, /)", "()")
    (found,) = ast.parse(f"def function{text.replace('$', '')}: ...").body
    assert isinstance(found, ast.FunctionDef)
    return parameters(found)


def declared_attributes(name: str) -> Iterator[tuple[str, str, str]]:
    """Class, attribute, and `public` or `readonly`, as the Cython sources declare them."""
    for suffix in (".pxd", ".pyx"):
        path = path_of(name, suffix)
        found = ""
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            if opening := re.match(r"cdef class (\w+)", line):
                found = opening[1]
            access = re.match(r" +cdef (public|readonly) [\w. ]+? (\w+(?:, *\w+)*)\s*(?:#|$)", line)
            if access:
                for attribute in re.findall(r"\w+", access[2]):
                    yield found, attribute, access[1]


def is_for_types(base: str) -> bool:
    """Whether a base is there for whoever checks types, and for nobody else."""
    return base.startswith("Generic[")


def test_modules_are_found():
    assert {"engine", "connection.connection", "queue.queue"} <= set(MODULES)


def test_classes_and_their_bases(module: ModuleType, stub: ast.Module):
    there = {
        name: [base.__name__ for base in value.__bases__ if base is not object]
        for name, value in compiled_classes(module).items()
    }
    said = {
        name: [said for base in node.bases if not is_for_types(said := ast.unparse(base))]
        for name, node in classes_of(stub).items()
        if is_public(name)
    }
    assert said == there


def test_members(module: ModuleType, stub: ast.Module):
    for name, compiled in compiled_classes(module).items():
        node = classes_of(stub)[name]
        inherited = {member for base in compiled.__bases__ for member in dir(base)}
        there = {member for member in dir(compiled) if is_public(member)} - inherited
        methods = {member for member in functions_of(node) if is_public(member)}
        assert methods | properties_of(node) | attributes_of(node) == there, name
        assert methods == {member for member in there if callable(getattr(compiled, member))}, name


def test_parameters_of_methods(module: ModuleType, stub: ast.Module):
    for name, compiled in compiled_classes(module).items():
        for method, function in functions_of(classes_of(stub)[name]).items():
            if is_public(method):
                there = compiled_parameters(getattr(compiled, method))
                assert parameters(function) == there, f"{name}.{method}"


def test_functions(module: ModuleType, stub: ast.Module):
    there = {
        name: compiled_parameters(value)
        for name, value in vars(module).items()
        if is_public(name)
        and callable(value)
        and not isinstance(value, type)
        and value.__module__ == module.__name__
    }
    said = {name: parameters(function) for name, function in functions_of(stub).items()}
    assert said == there


def test_constants(name: str, module: ModuleType, stub: ast.Module):
    source = path_of(name, ".pyx").read_text(encoding="utf-8")
    there = set(re.findall(r"(?m)^([A-Z][A-Z0-9_]*) = ", source))
    assert there <= vars(module).keys()
    assert {name for name in attributes_of(stub) if is_public(name)} == there


def test_what_may_be_set(name: str, stub: ast.Module):
    for owner, attribute, access in declared_attributes(name):
        node = classes_of(stub)[owner]
        said = "public" if attribute in attributes_of(node) else "readonly"
        assert said == access, f"{owner}.{attribute}"
