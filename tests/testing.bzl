"""The rule of this workspace's tests."""

def unit_test(name, deps = [], **kwargs):
    """Runs the test file <name>.py by pytest, with the options in pyproject.toml.

    Args:
      name: The file's name without its suffix.
      deps: What it imports.
      **kwargs: Other arguments of py_test, such as data.
    """
    native.py_test(
        name = name,
        srcs = [name + ".py", "//tests:run_pytest.py"] + native.glob(["conftest.py"]),
        main = "//tests:run_pytest.py",
        args = [native.package_name() + "/" + name + ".py"],
        # Keeps the runner's folder off the import path: its subfolder `data` is not the package of that name.
        env = {"PYTHONSAFEPATH": "1"},
        deps = deps + ["//tests:run_pytest"],
        **kwargs
    )
