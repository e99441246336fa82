"""One registry for everything that can be added by name: files of this package, entry points of other packages.

The modules of a folder are imported. An entry point is imported when its name is used, or when everything is listed.
What lacks an optional dependency is unavailable, with the extra to install, and breaks nothing else. The third way is
module:Class, imported by name: for commands, Python and sweep files, never for text from a run file.
"""

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar, cast

from resetfree.core.arguments import shown
from resetfree.core.errors import InvalidInput, UnknownName, imported, one_line

T = TypeVar("T")
OWN = "resetfree"


class Unfit(Exception):
    """An entry point or module:Class that cannot be used; the message continues a sentence after "it "."""


class Unavailable:
    """A registered name that cannot be used here; `why` continues a sentence after "it "."""

    def __init__(self, why: str) -> None:
        self.why = why


class Registry(Mapping[str, T]):
    """Everything of one kind by name; as a mapping it holds what is available.

    kind: the word for one of them in messages.
    folders: packages whose modules are imported.
    look: module -> what it adds, by name.
    holding: what the source of a module must hold to be imported; None: every module is.
    group: the group of entry points.
    accept: (name, object) -> what an entry point adds, None for what belongs to another registry of the same group;
      raises `Unfit` for anything else.
    """

    def __init__(
        self,
        kind: str,
        *,
        group: str,
        accept: Callable[[str, Any], T | None],
        folders: tuple[str, ...] = (),
        look: Callable[[ModuleType], Mapping[str, T]] = lambda module: {},
        holding: re.Pattern[str] | None = None,
    ) -> None:
        self.kind, self.group = kind, group
        self._accept, self._folders, self._look, self._holding = accept, folders, look, holding
        self._loaded: dict[str, T | Unavailable | None] = {}

    def find(self, name: str) -> T:
        """The one with this name; raises UnknownName with the known names, or InvalidInput with what is missing."""
        found = self._named(name)
        if isinstance(found, Unavailable):
            raise InvalidInput(f"The {self.kind} '{name}' is not available: it {found.why}.")
        if found is None:
            raise UnknownName(self.kind, name, sorted({*self._files[0], *self._entry_points}))
        return found

    def load(self, text: str) -> T:
        """Import module:Class: only for text that the user typed."""
        found = imported(text, f"{self._one().capitalize()} must be a known name or module:Class.")
        try:
            taken = self._accept(getattr(found, "name", text), found)
        except Unfit as error:
            raise InvalidInput(f"'{text}' cannot be used as {self._one()}: it {error}.") from error
        if taken is None:
            raise InvalidInput(f"'{text}' must be {self._one()}. Got {shown(found)} instead.")
        return taken

    def _one(self) -> str:
        return f"{'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind}"

    def knows(self, name: str) -> bool:
        """Whether the name is registered, available or not; imports nothing of other packages."""
        return name in self._files[0] or name in self._files[1] or name in self._entry_points

    @property
    def own(self) -> Mapping[str, T]:
        """What modules of this package add, by name."""
        return self._files[0]

    @property
    def unavailable(self) -> dict[str, str]:
        """The names that cannot be used, with the reason."""
        found = {name: one.why for name, one in self._files[1].items()}
        for name in self._entry_points:
            one = self._from_entry_points(name)
            if isinstance(one, Unavailable):
                found[name] = one.why
        return dict(sorted(found.items()))

    def __getitem__(self, name: str) -> T:
        found = self._named(name)
        if found is None or isinstance(found, Unavailable):
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted({*self._files[0], *self._entry_points}) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _named(self, name: str) -> T | Unavailable | None:
        own, broken = self._files
        if name in own:
            return own[name]
        return self._from_entry_points(name) if name in self._entry_points else broken.get(name)

    @cached_property
    def _files(self) -> tuple[dict[str, T], dict[str, Unavailable]]:
        """What modules of this package add, and those that lack a dependency, by the name of their file."""
        found: dict[str, T] = {}
        broken: dict[str, Unavailable] = {}
        for folder in self._folders:
            path = importlib.import_module(folder).__path__
            for info in pkgutil.iter_modules(path):
                if info.name.startswith("_") or not self._holds(f"{folder}.{info.name}"):
                    continue
                try:
                    module = importlib.import_module(f"{folder}.{info.name}")
                except ImportError as error:
                    if (error.name or OWN).partition(".")[0] == OWN:
                        raise  # an error in this package
                    broken[info.name.replace("_", "-")] = Unavailable(_import_failure(error, OWN))
                    continue
                for name, one in self._look(module).items():
                    if name in found:
                        raise InvalidInput(f"The name of {self._one()} must be its own. Got '{name}' twice.")
                    found[name] = one
        return dict(sorted(found.items())), broken

    def _holds(self, module: str) -> bool:
        """Whether a module is to be imported, by its source."""
        loader: Any = getattr(importlib.util.find_spec(module), "loader", None)
        source = loader.get_source(module) if self._holding and hasattr(loader, "get_source") else None
        return source is None or self._holding is None or self._holding.search(source) is not None

    @cached_property
    def _entry_points(self) -> dict[str, list[importlib.metadata.EntryPoint]]:
        """Entry points by name; those of one distribution that is found twice count once."""
        found: dict[str, list[importlib.metadata.EntryPoint]] = {}
        for point in importlib.metadata.entry_points(group=self.group):
            same = found.setdefault(point.name, [])
            if point not in same:
                same.append(point)
        return found

    def _from_entry_points(self, name: str) -> T | Unavailable | None:
        """The object of the entry points with this name, imported once."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> T | Unavailable | None:
        point, *others = self._entry_points[name]
        package = "another package" if point.dist is None else f"the package '{point.dist.name}'"
        if others:
            values = " and ".join(sorted(one.value for one in (point, *others)))
            return Unavailable(f"is the name of more than one entry point ({values}): write the module:Class you mean")
        if name in self._files[0]:
            return Unavailable(f"is the name of one of {OWN}'s own, which {package} must not take ({point.value})")
        if ":" in name or not name.isprintable():
            return Unavailable(f"has a name that {package} must not give it: no ':' and no control characters")
        try:
            return self._accept(name, point.load())
        except KeyboardInterrupt:
            raise
        except Unfit as error:
            return Unavailable(f"{error} ({point.value} of {package})")
        except ImportError as error:
            return Unavailable(_import_failure(error, None if point.dist is None else point.dist.name, point.extras))
        except BaseException as error:  # a foreign module may raise anything at its import, and call exit
            return Unavailable(f"raised {one_line(error)} when {point.value} of {package} was imported")


def classes_in(module: ModuleType, base: type) -> Iterator[Any]:
    """The concrete subclasses of `base` that a module (or a folder, in its `__init__`) itself defines."""
    for cls in vars(module).values():
        of_kind = inspect.isclass(cls) and issubclass(cls, base) and not inspect.isabstract(cls)
        if of_kind and f"{cls.__module__}.".startswith(f"{module.__name__}."):
            yield cls


def checked_class(name: str, found: Any, base: type, *, settings: bool = True) -> Any:
    """A class of a kind whose `name` is that of its entry point; raises `Unfit` for anything else.

    settings: whether it must be a dataclass, whose fields are its settings.
    """
    if not inspect.isclass(found) or not issubclass(found, base) or inspect.isabstract(found):
        raise Unfit(f"must be a class that implements {base.__name__}, and is {shown(found)}")
    if getattr(found, "name", None) != name:
        raise Unfit(f"calls itself {getattr(found, 'name', None)!r} and its entry point '{name}': give both one name")
    if settings and not dataclasses.is_dataclass(found):
        raise Unfit("must be a frozen dataclass, whose fields are its settings")
    return found


def _import_failure(error: ImportError, distribution: str | None, extras: list[str] | None = None) -> str:
    """The reason why an import failed, with what to install."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return f"does not import: {one_line(error)}"
    module = error.name.partition(".")[0]
    extra = extras[0] if extras else _extra_with(module, distribution)
    install = f': pip install "{distribution}[{extra}]"' if extra and distribution else ""
    return f"needs '{module}', which is not installed{install}"


def _extra_with(module: str, distribution: str | None) -> str | None:
    """The smallest extra of a distribution that installs a module, by the name of the package."""
    try:
        required = importlib.metadata.requires(distribution or "") or []
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    extras: dict[str, set[str]] = {}
    for line in required:
        package = re.match(r"[\w.-]+", line)
        for extra in re.findall(r"extra\s*==\s*['\"]([\w.-]+)['\"]", line):
            extras.setdefault(extra, set()).add(_normalised(cast(re.Match[str], package)[0]))
    having = [extra for extra, packages in extras.items() if _normalised(module) in packages]
    return min(having, key=lambda extra: (len(extras[extra]), extra), default=None)


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


MOVED = {  # former addresses that the docs named, and where their names are now
    **{
        f"resetfree.problems.operators.{way}": "resetfree.problems.operators.calls"
        for way in ("webhook", "mail", "ntfy")
    },
    "resetfree.problems.factors": "resetfree.problems.knowledge",
    "resetfree.game.auto": "resetfree.game.capabilities",
    "resetfree.runs.callbacks": "resetfree.runs.session",
    "resetfree.runs.tracking.recording": "resetfree.runs.tracking",
}


class Former(MetaPathFinder, Loader):
    """Finds modules of this package by their former addresses, which scripts of users may import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module that was moved, None for any other."""
        return ModuleSpec(name, self) if name in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Give it the names of the module that it became a part of."""
        now = vars(importlib.import_module(MOVED[module.__name__]))
        vars(module).update({name: one for name, one in now.items() if not name.startswith("__")})


sys.meta_path.append(Former())
