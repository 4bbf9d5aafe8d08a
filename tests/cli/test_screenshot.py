"""The picture in the README is the program's current screen."""

import pytest

from tests.cli.screenshot import FILE, picture, texts


@pytest.mark.storm
def test_the_picture_is_current() -> None:
    """If it fails, run python -m tests.cli.screenshot."""
    kept = texts(FILE.read_text())

    assert "preferred-language" in " ".join(kept)
    assert texts(picture()) == kept
