"""Sound command lines go on to TensorFlow, which cannot be imported here; bad ones are in bad_invocations_test."""

import pytest


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("bandits.run_federated", ("--total_rounds=1",)),
        ("optimization.posterior.run_posterior", ("--algorithm=fedbe", "--server_data=clients:2")),
    ],
)
def test_a_sound_command_line_goes_on_to_tensorflow(without_tensorflow, tmp_path, module, arguments):
    done = without_tensorflow(module, f"--root_output_dir={tmp_path}", *arguments)
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")
