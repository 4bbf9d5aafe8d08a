"""Wrong arguments of keys; the constructors of stores are tested in `tests/providers`."""

from factmem.storage.encryption.key import Key
from tests.tables import table
from tests.wrong_calls import Call, Wrong, check_wrong_call

WRONG: list[Wrong] = [
    (Key.from_file, None, TypeError, r"not NoneType: Key\.from_file\("),
    (Key.from_env, None, TypeError, r"not NoneType: Key\.from_env\("),
]


@table(("call", "given", "error", "message"), WRONG)
async def test_wrong_arguments(
    call: Call, given: object, error: type[Exception], message: str
) -> None:
    """Each error names the type and shows a correct call."""
    await check_wrong_call(call, given, error, message)
