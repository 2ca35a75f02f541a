"""Every answer can be saved by the suffix with a chosen resolution, and a report is reachable from the room itself."""

from PIL import Image

from bulkedge import show


def test_the_resolution_is_the_one_asked_for(made, tmp_path):
    sizes = []
    for dpi in (50, 100):
        with Image.open(show.save(made.threshold().plot(), tmp_path / f"{dpi}.png", dpi=dpi)) as image:
            sizes.append(image.width)
    assert sizes == [170, 340]
