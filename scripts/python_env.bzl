"""The Python environment of this workspace, without any downloaded rule set.

`python_env` defines a Python toolchain around the interpreter that
`scripts/python` runs, so that every py_binary and py_test runs in the same
environment as the command line; the script makes it if it is missing.

`offline_stubs` stands in for the rule sets that Bazel 4 would download from
GitHub before it analyses any target, even one that is pure Python.
"""

_BUILD = """\
load("@bazel_tools//tools/python:toolchain.bzl", "py_runtime_pair")

py_runtime(
    name = "py3_runtime",
    interpreter_path = "{interpreter}",
    python_version = "PY3",
    stub_shebang = "#!/usr/bin/env python3",
)

py_runtime_pair(
    name = "py_runtime_pair",
    py3_runtime = ":py3_runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":py_runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

def _python_env_impl(ctx):
    ctx.path(ctx.attr._lock)  # Because of this call, Bazel runs this again when the file changes.
    script = ctx.path(ctx.attr._script)

    ctx.report_progress("Setting up the Python environment (once, a few minutes)")
    if ctx.execute([script, "-c", ""], quiet = False, timeout = 3600).return_code:
        fail("scripts/python could not set up the environment; see its messages above.")

    interpreter = ctx.execute([script, "-c", "import sys; print(sys.executable)"]).stdout.strip()
    ctx.file("BUILD", _BUILD.format(interpreter = interpreter))

python_env = repository_rule(
    implementation = _python_env_impl,
    attrs = {
        "_lock": attr.label(default = "//:requirements.lock"),
        "_script": attr.label(default = "//scripts:python"),
    },
    environ = ["PROJECT_PYTHON"],
    local = True,  # Each new Bazel server runs this again, since .venv may have been deleted.
    doc = "A Python toolchain, @<name>//:toolchain.",
)

_CC_DEFS = """\
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_library = native.objc_library
"""

_CC_BUILD = """\
toolchain_type(
    name = "toolchain_type",
    visibility = ["//visibility:public"],
)
"""

_JAVA_DEFS = """\
java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
"""

_COVERAGE_BUILD = """\
package(default_visibility = ["//visibility:public"])

filegroup(name = "coverage_report_generator")

filegroup(name = "lcov_merger")
"""

def _stub_impl(ctx):
    for path, content in ctx.attr.files.items():
        ctx.file(path, content)

_stub = repository_rule(
    implementation = _stub_impl,
    attrs = {"files": attr.string_dict(mandatory = True)},
)

def offline_stubs():
    """Defines local rules_cc, rules_java and remote_coverage_tools for Bazel 4.

    Later versions of Bazel have their own. Debian's build of Bazel 4.2.3
    reports an empty version.
    """
    if native.bazel_version and not native.bazel_version.startswith("4."):
        return
    _stub(
        name = "rules_cc",
        files = {"BUILD": "", "cc/BUILD": _CC_BUILD, "cc/defs.bzl": _CC_DEFS},
    )
    _stub(
        name = "rules_java",
        files = {"BUILD": "", "java/BUILD": "", "java/defs.bzl": _JAVA_DEFS},
    )
    _stub(
        name = "remote_coverage_tools",
        files = {"BUILD": _COVERAGE_BUILD},
    )
