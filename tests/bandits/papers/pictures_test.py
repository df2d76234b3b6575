import dataclasses

from bandits import metrics
from bandits.papers import pictures
from tests.bandits.papers.toy_figures import toy_figure, toy_runs


def test_a_picture_names_stand_in_data(tmp_path, monkeypatch):
    figure = toy_figure(curves=(metrics.ROUND_REWARD,), data_kind="stand-in", data="a toy")
    finished = {}
    for label in ("near", "far"):
        by_seed = toy_runs(tmp_path, label, *({metrics.ROUND_REWARD: [reward]} for reward in (0.5, 0.51)))
        finished[label] = list(by_seed.values())
    drawn = []
    monkeypatch.setattr(pictures.files, "save_picture", lambda picture, path, dpi: drawn.append((picture, path)))
    pictures.draw(figure, finished, tmp_path)
    ((picture, path),) = drawn
    assert path == tmp_path / "f1.png"
    assert picture.get_suptitle() == "Figure 1: a toy"
    title = picture.legends[0].get_title().get_text()
    assert title.startswith("Nobody 2020. Stand-in data, not the paper's: a toy. Bars: 95%")
    assert [text.get_text() for text in picture.legends[0].get_texts()][:2] == ["near", "far"]
    references = tuple(dataclasses.replace(one, is_drawn=False) for one in figure.configurations)
    pictures.draw(dataclasses.replace(figure, configurations=references), {"near": finished["near"]}, tmp_path)
    assert [text.get_text() for text in drawn.pop()[0].legends[0].get_texts()][:1] == ["near"]  # Chosen alone.
    pictures.draw(toy_figure(curves=()), finished, tmp_path)
    assert len(drawn) == 1
