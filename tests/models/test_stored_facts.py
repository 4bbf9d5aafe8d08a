"""Facts that a store fills in without validation equal validated ones."""

import copy
import dataclasses
import os
import pickle
from datetime import UTC, datetime
from inspect import signature

import pytest

from factmem import Concept, FactType, SingleFact
from factmem.models.facts import NO_METADATA, new_id, stored_concept, stored_single

AT = datetime(2026, 1, 2, tzinfo=UTC)
CITY = Concept("city", "Where the user lives")
CHECKED = SingleFact(CITY, "Busan", id="x", timestamp=AT, confirmed_at=AT)


def _filled() -> SingleFact[str]:
    concept = stored_concept("city", "Where the user lives", FactType.SINGLE, str)
    return stored_single(concept, "Busan", "x", AT, AT, 0.5, None, None, NO_METADATA)


def test_a_filled_fact_equals_a_validated_one() -> None:
    """Type, fields, equality, hash and repr are the same."""
    filled = _filled()

    assert type(filled) is SingleFact
    assert type(filled.concept) is Concept
    assert filled == CHECKED
    assert hash(filled) == hash(CHECKED)
    assert repr(filled) == repr(CHECKED)
    for field in dataclasses.fields(SingleFact):
        assert getattr(filled, field.name) == getattr(CHECKED, field.name)


def test_a_filled_fact_is_frozen_copied_and_pickled() -> None:
    """It behaves like any other fact."""
    filled = _filled()

    with pytest.raises(dataclasses.FrozenInstanceError):
        filled.value = "Seoul"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        filled.concept.keyword = "town"
    assert pickle.loads(pickle.dumps(filled)) == filled
    assert copy.deepcopy(filled) == filled
    assert dataclasses.replace(filled, value="Seoul").value == "Seoul"


def test_a_concept_is_pickled_with_all_its_fields() -> None:
    """The `detect` flag is not part of equality."""
    owned = Concept("plan", "The plan", FactType.MULTIPLE, value_type=int, detect=False)
    assert owned.codec.load(1) == 1

    back = pickle.loads(pickle.dumps(owned))

    assert back == owned
    assert back.detect is False
    assert back.codec.load(1) == 1


def test_wrong_arguments_of_a_fact_name_its_class() -> None:
    """The constructor fills the fields of another class, which no error mentions."""
    wrong = {"colour": 1}

    with pytest.raises(TypeError, match=r"^SingleFact\.__init__\(\) got an unexpected .* 'colour'"):
        SingleFact(CITY, "Busan", **wrong)  # type: ignore[arg-type]
    assert list(signature(SingleFact).parameters)[:2] == ["concept", "value"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_forked_child_makes_other_ids() -> None:
    """The random parts differ, whatever the clock says: two processes may save at one time."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, new_id()[13:].encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reader, 19) != new_id()[13:].encode()
    os.close(reader)
    os.close(writer)
