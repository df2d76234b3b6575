"""Runs one test file by pytest under Bazel; the file is the argument."""

import os
import sys

import pytest


def main(arguments: list[str]) -> int:
    """Runs pytest with Bazel's folder for temporary files, its report file and its test filter."""
    arguments = [*arguments, "-p", "no:cacheprovider"]
    if folder := os.environ.get("TEST_TMPDIR"):
        arguments.append(f"--basetemp={folder}/pytest")
    if report := os.environ.get("XML_OUTPUT_FILE"):
        arguments.append(f"--junitxml={report}")
    if wanted := os.environ.get("TESTBRIDGE_TEST_ONLY"):
        arguments += ["-k", wanted]
    return pytest.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
