"""What the studio's tests share: one server for those that only ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.show.studio.serving import Here, Served, served


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("runs")) as one:
        yield one


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    one = Here(tmp_path)
    yield one
    one.close()
