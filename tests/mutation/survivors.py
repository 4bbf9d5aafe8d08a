"""Mutants that no test can catch, each with the reason."""

EXPLAINED: dict[str, str] = {
    "ledger/ledger.py: self._applied += 1 [1 -> 2]": (
        "versions are compared for being equal, and the change log counts in the same steps"
    ),
    "ledger/resolution.py: F_co = TypeVar('F_co', bound='AnyFact', default='AnyFact', "
    "covariant=True) [True -> False]": "only type checkers read it",
    "models/_values.py: errors = exc.errors(include_url=False, include_context=False, "
    "include_input=False) [False -> True]": "only the types of the errors are used",
    "recall/_ranking.py: best = [each for each in scored if each[0] >= least] "
    "[each[0] >= least -> each[0] > least]": (
        "no score is exactly a rounding step below that of the last match"
    ),
    "recall/_ranking.py: if best and len(best) < len(scored): "
    "[len(best) < len(scored) -> len(best) <= len(scored)]": "all tie with the last, or score more",
    "detection/_candidates.py: start, end = (max(citation.span[0] - 40, 0), citation.span[1]) "
    "[40 -> 41]": "one character more around a quote in which a few words are looked for",
    "providers/_sql/places.py: if row.size > _LARGE: [row.size > _LARGE -> row.size >= _LARGE]": (
        "a place of exactly that size is read in two ways with one result"
    ),
    "recall/_ranking.py: return zip(*(column[best].tolist() for column in columns), strict=True) "
    "[True -> False]": "one selection is applied to all columns, so they are equally long",
    "recall/_ranking.py: return stretched if known is True else np.where(known, stretched, usual) "
    "[True -> False]": "numpy.where with True returns its second argument",
}
"""The name of a mutant, and why it changes nothing that a caller could see."""
