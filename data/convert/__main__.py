"""`python -m data.convert`: converts published data sets to the files that tasks read; see docs/data.md."""

import argparse
import hashlib
import importlib
import pathlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from data import files
from data.errors import Failure, UsageError

_USAGE = """
Converts the published files in SOURCE_DIR to a file that a task reads in --data_dir.
docs/data.md lists their sources.
"""
# File name, converting module, and source files.
KINDS = {
    "mnist_writers": ("mnist_with_writers.npz", "images", "MNIST's four files and QMNIST's two label files"),
    "fashion_mnist": ("fashion_mnist_pool.npz", "images", "Fashion-MNIST's four files"),
    "cifar100": ("cifar100_subset150.npz", "images", "CIFAR-100, Python version"),
    "heart_disease": ("heart_disease_4sites.csv", "texts", "UCI Heart Disease, processed.*.data"),
    "routellm": ("routellm_mmlu.csv.gz", "texts", "RouteLLM's routellm/evals/mmlu/responses/mmlu_*.csv"),
    "stackexchange": ("stackexchange_posts.jsonl.gz", "texts", "dumps of Stack Exchange, SITE/Posts.xml for each site"),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see --help).")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parses a command line that begins with the program's name."""
        return self.parse_args(argv[1:])


def define() -> _Parser:
    """Declares the program's arguments."""
    lines = [f"  {name:<15}{file} from {source}" for name, (file, _, source) in KINDS.items()]
    parser = _Parser(
        "data.convert",
        description=_USAGE,
        epilog="KIND is one of\n" + "\n".join(lines),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--helpfull", action="help", help=argparse.SUPPRESS)
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help="data set, see below")
    parser.add_argument("source", type=_user_path, metavar="SOURCE_DIR", help="folder with the published files")
    parser.add_argument(
        "--output", type=_user_path, required=True, metavar="DIR", help="output folder; existing files are not replaced"
    )
    return parser


def program(settings: argparse.Namespace) -> None:
    """Writes the file and prints its path and its SHA-256.

    Raises:
      UsageError: If an argument or a source file is invalid; nothing is written in that case.
      Failure: If the file cannot be written.
    """
    name, module, wanted = KINDS[settings.kind]
    if not settings.source.is_dir():
        raise UsageError(f"There is no folder {settings.source}: SOURCE_DIR must hold {wanted}.")
    if not settings.output.is_dir():
        raise UsageError(f"--output: there is no folder {settings.output}.")
    path = settings.output / name
    if path.exists():
        raise UsageError(f"--output: {path} already exists, and is not replaced: move it, or name another folder.")
    content = getattr(importlib.import_module(f"data.convert.{module}"), settings.kind)(settings.source)
    with files.whole(path) as file:
        if isinstance(content, bytes):
            file.write(content)
        elif callable(content):  # Too large for memory.
            content(pathlib.Path(file.name))
        else:
            import numpy as np

            np.savez_compressed(file, **content)
    with path.open("rb") as file:
        print(f"{path}\nsha256 {hashlib.file_digest(file, 'sha256').hexdigest()}")


def _user_path(path: str) -> pathlib.Path:
    """Absolute path; under `bazel run`, relative paths start at the user's working directory."""
    if not path:
        raise argparse.ArgumentTypeError("is empty: name a folder")
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
