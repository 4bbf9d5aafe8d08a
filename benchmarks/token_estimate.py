"""The error of `estimate_tokens` against real tokenizers, on rendered facts.

    TIKTOKEN_CACHE_DIR=... python -m benchmarks.token_estimate

Needs tiktoken, and its vocabularies or a network to download them. Each row is one memory message
of thirty facts in one language or script, including its opening and closing text.
"""

# ruff: noqa: RUF001 - the samples are in many scripts

import anyio
import tiktoken

from factmem.ledger.resolution import PlacedFact
from factmem.llm.base import estimate_tokens
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.prompt.memory_message import render

SAMPLES = {
    "English": [
        "The theme that the user prefers in an IDE",
        "prefers Kotlin over Java for backend services",
        "allergic to peanuts and shellfish since childhood",
        "Works as a paediatric nurse at St Mary's Hospital in Manchester",
        "has two children, Emma (7) and Noah (4)",
        "Wants invoices sent to billing@example.com on the 1st of each month",
        "runs Ubuntu 24.04 LTS on a ThinkPad X1 Carbon Gen 11",
        "Prefers short answers with code first, explanation after.",
    ],
    "German": [
        "bevorzugt ein dunkles Farbschema in der Entwicklungsumgebung",
        "wohnt in München und fährt mit dem Fahrrad zur Arbeit",
        "Rechnungen bitte monatlich per E-Mail an die Buchhaltung",
    ],
    "Korean": [
        "어두운 테마를 좋아해요",
        "서울 강남구에 살고 있으며 지하철로 출퇴근합니다",
        "땅콩과 갑각류 알레르기가 있음",
        "두 아이의 아버지이고 주말에는 등산을 합니다",
        "답변은 짧고 명확하게 해 주세요",
    ],
    "Chinese": [
        "我喜欢深色主题",
        "住在上海市浦东新区，每天坐地铁上班",
        "主要使用 Python 和 Go 编写后端服务",
        "希望回答简短明了，先给代码再解释",
    ],
    "Japanese": [
        "暗いテーマが好きです",
        "東京都渋谷区に住んでいて、電車で通勤しています",
        "回答は短くてわかりやすいものを希望",
    ],
    "Russian": [
        "Предпочитает тёмную тему оформления",
        "живёт в Москве и работает программистом",
        "использует Python и Go для серверной части",
    ],
    "Arabic": ["أفضل السمة الداكنة في محرر الشيفرة", "لدي حساسية من الفول السوداني"],
    "Hindi": ["मुझे डार्क थीम पसंद है", "मूंगफली से एलर्जी है और दिल्ली में रहता हूँ"],
    "Thai": ["ฉันชอบธีมมืดและภาษาไพธอน", "แพ้ถั่วลิสงและอาหารทะเล"],
    "emoji": ["loves 🍕 and 🍣, hates 🥦", "👍🏽 always reply with emoji 😀🎉🚀", "trip to 🇰🇷"],
    "identifiers": [
        "a3f8c9d1e0b24f57a3f8c9d1e0b24f57",
        "https://example.com/a/b?c=1&d=%20x",
        "550e8400-e29b-41d4-a716-446655440000",
        "/usr/local/lib/python3.11/site-packages",
        "192.168.0.1:8080",
    ],
}


def message(values: list[str]) -> str:
    """Return a memory message of thirty facts."""
    place = Place(MemoryScope.Agent("bot"), MemorySubject("user", "", 1))
    facts = [
        SingleFact(Concept(f"preference-{number:02}", "What the user said about it"), value)
        for number, value in enumerate((values * 30)[:30])
    ]
    return render([PlacedFact(place, fact) for fact in facts]).text


async def main() -> None:
    """Print one row for each sample: the estimate's error against each tokenizer."""
    encodings = {name: tiktoken.get_encoding(name) for name in ("o200k_base", "cl100k_base")}
    print(f"{'':12}{'estimate':>10}" + "".join(f"{name:>22}" for name in encodings))
    for language, values in SAMPLES.items():
        text = message(values)
        estimate = estimate_tokens(text)
        row = f"{language:12}{estimate:10}"
        for encoding in encodings.values():
            exact = len(encoding.encode_ordinary(text))
            row += f"{exact:12} ({estimate / exact - 1:+.0%})".rjust(22)
        print(row)


if __name__ == "__main__":
    anyio.run(main)
