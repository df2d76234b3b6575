"""Rules of this workspace's tests."""

def pytest_test(name, srcs, marked = "", deps = [], timeout = "long", **kwargs):
    """Runs test files by pytest, with the options in pyproject.toml.

    Args:
      name: The target's name.
      srcs: The test files, and what else of their folder they import.
      marked: pytest's expression of marks; all tests by default.
      deps: What the tests import beside the project.
      timeout: Bazel's class of the timeout.
      **kwargs: Other arguments of py_test, such as data.
    """
    native.py_test(
        name = name,
        srcs = srcs + ["//tests:run_pytest.py"],
        main = "//tests:run_pytest.py",
        args = [native.package_name()] + (["-m", "'" + marked + "'"] if marked else []),
        # Keeps the runner's folder off the import path: its subfolder `data` is not the package of that name.
        env = {"PYTHONSAFEPATH": "1"},
        deps = ["//tests:run_pytest"] + deps,
        timeout = timeout,
        **kwargs
    )

def folder_tests(name, slow = False, deps = []):
    """Runs the tests of a folder: the fast ones, and, as a target of their own, those marked slow.

    Args:
      name: The folder's name; `<name>_slow` runs the slow tests.
      slow: Whether there are slow tests.
      deps: What the tests need beside the project and what all folders share, such as fixtures of the folder above.
    """
    srcs = native.glob(["*.py"])
    toys = ["//tests/scripts:toy_binary", "//tests/bandits:whole_runs"] + deps
    data = native.glob(["*.json"], allow_empty = True)
    pytest_test(name, srcs, "not slow" if slow else "", toys, data = data)
    if slow:
        pytest_test(name + "_slow", srcs, "slow", toys, "eternal", data = data)
