"""Features of states for linear players, one map per file, found in the folder and by entry points.

A map is a frozen dataclass of settings; `fit` takes the states seen so far and returns `Features`, a dataclass of
arrays and numbers that is saved with the run. A linear player uses phi(s, a) = psi(s) in the block of action a, a dual
player xi = psi. docs/features.md compares the maps.

Legend: D numbers in a state, d features, psi(s) [d].
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from resetfree.core import Floats, check_fields, check_names, expect, words
from resetfree.core.discovery import Registry, checked_class, classes_in


class Features(ABC):
    """Fitted features psi: a dataclass of arrays and numbers (see `core.state`)."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number d of features."""

    @property
    @abstractmethod
    def norm_bound(self) -> float:
        """An upper bound on |psi(s)| over all states, inf if there is none."""

    @property
    def non_negative(self) -> bool:
        """Whether psi(s) >= 0 for every state: then <psi(s), theta> >= 0 wherever theta >= 0."""
        return False

    @abstractmethod
    def __call__(self, states: Floats) -> Floats:
        """Psi [n, d] of states [n, D]."""


class FeatureMap(ABC):
    """A way to make features from states: settings, without any data."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self, self.name)

    @abstractmethod
    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Features:
        """The features fitted to states.

        states: [n, D] seen so far (n may be 0).  low, high: [D] bounds, which may be infinite.
        """


MAPS: Registry[type[FeatureMap]] = Registry(
    "feature map",
    group="resetfree.features",
    accept=lambda name, found: checked_class(name, found, FeatureMap),
    folders=(__name__,),
    look=lambda module: {cls.name: cls for cls in classes_in(module, FeatureMap)},
)


def discover() -> Registry[type[FeatureMap]]:
    """Every feature map by name.

    >>> "random-fourier" in discover()
    True
    """
    return MAPS


def settings(cls: type[FeatureMap]) -> dict[str, Any]:
    """Names and defaults of a map's settings.

    >>> settings(discover()["polynomial"])
    {'degree': 2}
    """
    return {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]


def make_features(name: str, options: Mapping[str, Any] | None = None) -> FeatureMap:
    """A feature map by name and settings; raises InvalidInput or UnknownName."""
    cls = discover().find(words(name, "'name' of features"))
    expect(isinstance(options, Mapping | None), "settings of features", "be a dictionary", options)
    check_names(options or {}, settings(cls), f"setting of feature map '{name}'")
    return cls(**(options or {}))
