"""`python -m tests.fuzz`: run cases and print what came of them, or one of them again.

python -m tests.fuzz                              the short part
python -m tests.fuzz --full                       the long part
python -m tests.fuzz --kind cells --cases 500     so many of one kind
python -m tests.fuzz --case cells:0:17            one case again, with what it did and printed
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import LONG, SHORT, campaign, distinct, make_corpus, replay, table
from tests.fuzz.cases import KINDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--full", action="store_true", help="The long part: more files to spoil, more cases.")
    parser.add_argument("--kind", choices=list(KINDS), help="Only cases of this kind.")
    parser.add_argument("--cases", type=int, help="How many of each kind.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="The first index.")
    parser.add_argument("--case", metavar="KIND:SEED:INDEX", help="Run this one again, and keep its folder.")
    parser.add_argument("--corpus", type=Path, help="A corpus that was made before, or where to make one and keep it.")
    parser.add_argument("--verbose", action="store_true", help="Tell of each case that goes wrong, as it does.")
    asked = parser.parse_args()
    counts = {kind: asked.cases or n for kind, n in (LONG if asked.full else SHORT).items()}
    counts = {asked.kind: counts[asked.kind]} if asked.kind else counts
    work = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        corpus = asked.corpus or work / "corpus"
        if not (corpus / "corpus.json").exists():
            make_corpus(corpus, full=asked.full)
        if asked.case:
            print(replay(asked.case, corpus, work))
            return 0
        found = campaign(
            counts, corpus, work, seed=asked.seed, first=asked.first, tell=print if asked.verbose else None
        )
    finally:
        if not asked.case:
            shutil.rmtree(work, ignore_errors=True)
    print(distinct(found))
    print(table(found))
    return 1 if any(not one.good for _, one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
