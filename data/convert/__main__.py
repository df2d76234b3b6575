"""`python -m data.convert`: converts data sets and logs to the files that tasks read; see docs/data.md."""

import argparse
import contextlib
import hashlib
import importlib
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from data import files
from data.errors import Failure, UsageError

_USAGE = """
Converts the published files in SOURCE to a file that a task reads in --data_dir, or to a table with one row per
decision and offered action. docs/data.md lists the sources.
"""
# File name (empty for a table, which --output names), converting module, source files, and minima of further flags.
KINDS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "mnist_writers": ("mnist_with_writers.npz", "images", "MNIST's four files and QMNIST's two label files", {}),
    "fashion_mnist": ("fashion_mnist_pool.npz", "images", "Fashion-MNIST's four files", {}),
    "cifar100": ("cifar100_subset150.npz", "images", "CIFAR-100, Python version", {}),
    "heart_disease": ("heart_disease_4sites.csv", "texts", "UCI Heart Disease, processed.*.data", {}),
    "routellm": ("routellm_mmlu.csv.gz", "texts", "RouteLLM's routellm/evals/mmlu/responses/mmlu_*.csv", {}),
    "stackexchange": ("stackexchange_posts.jsonl.gz", "texts", "Stack Exchange's dumps, SITE/Posts.xml for each", {}),
    "vw": ("", "vw", "Vowpal Wabbit's log, dsjson or text, also .gz", {"client_feature": "", "max_features": 1}),
    "movielens": ("", "ratings", "MovieLens 100k or ml-latest-small, folder or .zip", {"set_size": 2}),
    "lastfm": ("", "ratings", "HetRec 2011's Last.fm, folder or .zip", {"set_size": 2, "seed": 0}),
}
_FLAGS: dict[str, tuple[type, str]] = {
    "client_feature": (str, "vw: feature NAMESPACE^NAME that names the client (default: none)"),
    "max_features": (int, "vw: number of most frequent features to keep, at least 1 (default: 200)"),
    "set_size": (int, "number of actions in a set, at least 2 (default: movielens 10, lastfm 25)"),
    "seed": (int, "lastfm: random seed of the sets, at least 0 (default: 0)"),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see --help).")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parses a command line that begins with the program's name."""
        return self.parse_args(argv[1:])


def define() -> _Parser:
    """Declares the program's arguments."""
    lines = [f"  {name:<15}{file or 'a table'} from {source}" for name, (file, _, source, _) in KINDS.items()]
    parser = _Parser(
        "data.convert",
        description=_USAGE,
        epilog="KIND is one of\n" + "\n".join(lines),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--helpfull", action="help", help=argparse.SUPPRESS)
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help="data set, see below")
    parser.add_argument("source", type=_user_path, metavar="SOURCE", help="folder with the published files, or a file")
    output = "output folder, or for a table a .parquet or .csv file; existing files are not replaced"
    parser.add_argument("--output", type=_user_path, required=True, metavar="PATH", help=output)
    for flag, (kind, words) in _FLAGS.items():
        parser.add_argument(f"--{flag}", type=kind, help=words)
    return parser


def program(settings: argparse.Namespace) -> None:
    """Writes the files and prints their paths and SHA-256; for a table, also the command that trains on it.

    Raises:
      UsageError: If an argument or a source file is invalid; nothing is written in that case.
      Failure: If the file cannot be written.
    """
    name, module, wanted, minima = KINDS[settings.kind]
    given = {flag: getattr(settings, flag) for flag in _FLAGS if getattr(settings, flag) is not None}
    if wrong := [f"--{flag}={value}" for flag, value in given.items() if flag not in minima or value < minima[flag]]:
        raise UsageError(f"{wrong[0]} is not possible for {settings.kind}: --help lists each KIND's flags and minima.")
    if not (settings.source.is_dir() if name else settings.source.exists()):
        raise UsageError(f"There is no {'folder ' if name else ''}{settings.source}: SOURCE must hold {wanted}.")
    path = settings.output / name
    files.check_output("output", path, () if name else (".parquet", ".csv"))
    paths = [path] if name else [path, path.with_stem(f"{path.stem}_actions")]
    if existing := next((path for path in paths if path.exists()), None):
        raise UsageError(f"--output: {existing} already exists, and is not replaced: move it, or name another place.")
    content = getattr(importlib.import_module(f"data.convert.{module}"), settings.kind)(settings.source, **given)
    tables, flags, notes = ([content], (), ()) if name else content
    if not name:
        is_csv = path.suffix == ".csv"
        tables = [each.to_csv(index=False).encode() if is_csv else each.to_parquet(index=False) for each in tables]
    contents = dict(zip(paths, tables, strict=False))
    with contextlib.ExitStack() as stack:
        for path, each in contents.items():
            file = stack.enter_context(files.whole(path))
            if isinstance(each, bytes):
                file.write(each)
            elif callable(each):  # Too large for memory.
                each(pathlib.Path(file.name))
            else:
                import numpy as np

                np.savez_compressed(file, **each)
    for path in contents:
        with path.open("rb") as written:
            print(f"{path}\nsha256 {hashlib.file_digest(written, 'sha256').hexdigest()}")
    if not name:
        print(*notes, sep="\n", file=sys.stderr)
        places = [f"--{flag}={path}" for flag, path in zip(("data_file", "action_table"), contents, strict=False)]
        print(f"./scripts/python -m bandits.run_federated {shlex.join([*flags, *places])}")


def _user_path(path: str) -> pathlib.Path:
    """Absolute path; under `bazel run`, relative paths start at the user's working directory."""
    if not path:
        raise argparse.ArgumentTypeError("is empty: name a path")
    return pathlib.Path(files.user_path(path))


def main() -> None:
    """Runs the program on this process's command line and exits with its status."""
    try:
        program(define().parse(sys.argv))
    except UsageError as error:
        print(f"Usage error: {error}", file=sys.stderr)
        sys.exit(2)
    except (Failure, OSError) as error:
        print(f"{error} Nothing was written.", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
