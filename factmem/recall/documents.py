"""What of a fact is searched: its words, and the text whose meaning is compared.

Both have the entity's name, the keyword, the description and the values. The words have the date and
the source's quote besides: on the corpus in `benchmarks/recall` both help the lexical side; in the
text that is embedded, the quote loses and the date gains nothing.
"""

from hashlib import blake2b
from typing import Any

from factmem.models import AnyFact
from factmem.recall.fields import fact_fields, value_words

__all__ = ["LONGEST_TEXT", "meaning_of", "plain_values", "text_digest", "words_of"]

LONGEST_TEXT = 4_000
"""Characters of a fact that are embedded: every model takes so many, and means little by more."""


def words_of(fact: AnyFact, entity: str | None) -> dict[str, str]:
    """Lay out a fact as the fields of a document for `LexicalIndex.add`.

    Args:
        fact: A fact that was loaded.
        entity: Whom its subject is bound to.
    """
    return fact_fields(
        keyword=fact.concept.keyword,
        description=fact.concept.description,
        values=plain_values(fact),
        moment=fact.timestamp,
        entity=entity,
        quote=None if fact.source is None else fact.source.quote,
    )


def meaning_of(fact: AnyFact, entity: str | None) -> str:
    """Return the text that stands for a fact when meanings are compared.

    "alice: home city (Where the user lives): Busan", at most 4,000 characters.
    """
    concept = fact.concept
    topic = concept.keyword.replace("-", " ").replace("_", " ")
    about = f" ({concept.description})" if concept.description else ""
    whom = f"{entity}: " if entity else ""
    values = ", ".join(map(value_words, plain_values(fact)))
    return f"{whom}{topic}{about}: {values}"[:LONGEST_TEXT]


def text_digest(text: str) -> bytes:
    """Return 16 bytes that name a text: the vectors of what was embedded are kept under them."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def plain_values(fact: AnyFact) -> list[Any]:
    """Return the values of a fact as JSON has them."""
    concept = fact.concept
    if concept.codec.is_plain_text:
        return list(fact.values)
    plain: list[Any] = []
    for value in fact.values:
        try:
            plain.append(concept.codec.dump(value, concept.keyword))
        except ValueError:  # it was loaded as a type that it could not be saved as
            plain.append(str(value))
    return plain
