"""The picture in the README shows the program as it is."""

from tests.cli.screenshot import FILE, picture, texts


def test_the_picture_is_current() -> None:
    """Otherwise: python -m tests.cli.screenshot."""
    kept = texts(FILE.read_text())

    assert "preferred-language" in " ".join(kept)
    assert texts(picture()) == kept
