"""Scripts of `examples` as modules, for the tests that run them."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


def load_script(folder: str, name: str) -> Any:
    """A script as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"{folder}_example_{name}", EXAMPLES / folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # classes are looked up there
    spec.loader.exec_module(module)
    return module
