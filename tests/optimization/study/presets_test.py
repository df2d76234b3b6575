import pytest

from bandits import studies
from bandits.mab_fl import flags as mab_fl_flags
from data.errors import UsageError
from optimization.study import frame, presets


@pytest.mark.parametrize("module", studies.STUDIES.values())
def test_every_published_setting_is_taken_as_flags_are(module):
    study = studies.load(module)
    if module == studies.STUDIES["run_mab_fl"]:
        settings = [one for each in mab_fl_flags.load_studies().values() for one in each.settings.values()]
    else:
        settings = [preset.values for preset in presets.load(study.presets).values()]
    parsed = frame.flag_set(study).parse(["x"])
    assert settings
    for values in settings:
        converted = parsed.converted(values)
        texts = {name: value for name, value in converted.items() if not isinstance(value, tuple)}
        assert texts.items() <= values.items()
        assert converted.keys() == values.keys()


def _plan(tmp_path, text: str, *arguments: str):
    (tmp_path / "my.toml").write_text(text)
    module = studies.STUDIES["run_federated"]
    flags = studies.flag_set(module).parse(["x", f"--config={tmp_path / 'my.toml'}", *arguments])
    return frame.plan(studies.load(module), flags)


def test_the_command_line_wins_over_the_config_and_the_config_over_its_preset(tmp_path):
    text = 'about = "mine"\npreset = "emnist_scratch_softmax"\ntotal_rounds = 7\nclients_per_round = 3\nrepeat = 2\n'
    first, second = _plan(tmp_path, text, "--clients_per_round=4")
    assert (first.total_rounds, first.clients_per_round, first.task_type) == (7, 4, "emnist_chars")
    assert (first.experiment_name, first.seed, second.seed) == ("emnist_scratch_softmax/seed_0", 0, 1)
    (alone,) = _plan(tmp_path, text, "--preset=emnist_scratch_greedy", "--repeat=1")
    assert (alone.bandits_type, alone.total_rounds) == ("greedy", 7)


@pytest.mark.parametrize(
    ("text", "arguments", "text_shown"),
    [
        ('bandits_type = "greedy"\nbandits_mu = 12\n', [], " {} sets --bandits_mu, --bandits_type."),
        ('bandits_type = "greedy"\n', ["--bandits_mu=12"], " {} sets --bandits_type."),
        ("seed = 3\n", ["--bandits_type=greedy", "--bandits_mu=12"], ""),
    ],
)
def test_flags_that_clash_are_reported_with_the_config_that_gives_them(tmp_path, text, arguments, text_shown):
    with pytest.raises(UsageError) as caught:
        _plan(tmp_path, text, *arguments)
    owners = "falcon or falcon_epochs or squarecb or falcon_ce or falcon_epochs_ce or squarecb_ce"
    clash = f"--bandits_mu belongs to --bandits_type={owners}, not to greedy."
    assert str(caught.value) == clash + text_shown.format(tmp_path / "my.toml")
