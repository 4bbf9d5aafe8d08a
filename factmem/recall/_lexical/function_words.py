# ruff: noqa: RUF001 - Cyrillic letters that look like Latin ones
"""Function words of questions: pronouns, question words, articles, prepositions and auxiliaries.

A question has many of them and a fact, which is a short phrase, has few. So those that are in some
fact are rare in the index, and BM25 would rank that fact first: in Russian "Кем она работает?"
found the only fact with "она". Lists of search libraries remove nouns and verbs too ("home",
"work", "жизнь"), so these lists are short and have function words only. Hangul, Han and Kana need
none: see `analysis`.
"""

import unicodedata
from collections.abc import Iterable

_LANGUAGES = {
    "english": """
        a about an and any are as at be been by can could did do does for from had has have he her
        him his how i if in is it its me my of on or our she should so than that the their them
        there these they this those to us was we were what when where which who whom whose why will
        with would you your
    """,
    "german": """
        aber als am an auf aus bei bin bis bist da das dass dein deine dem den der des die dir du
        ein eine einem einen einer er es für hat hast hatte habe haben ich ihm ihn ihr ihre ihrem
        ihren im in ist kann mein meine mich mir mit nach oder sein seine seinen sich sie sind so
        und uns unser vom von vor wann war waren warum was wem wen wer wessen wie wir wird wo wofür
        womit woher wohin wovor welche welchem welchen welcher welches zu zum zur
    """,
    "spanish": """
        a al algo como con cual cuales cuando cuanto cuanta cuantos cuantas de del donde e el ella
        ellas ellos en era eres es esta este esto fue ha han hay la las le les lo los me mi mis no
        nos o para pero por porque que quien quienes se ser si sido sin son su sus te tiene tu tus
        un una uno y ya yo
    """,
    "french": """
        a au aux avec ce ces cette comment d dans de des du elle elles en es est et eu il ils j je
        l la le les leur lui ma mes mon n ne nous on ou où par pas pour pourquoi qu quand que quel
        quelle quelles quels qui quoi s sa se ses son sont sur t ta te tes ton tu un une vous y
    """,
    "italian": """
        a ai al alla che chi ci come con cosa da dal dei del della di dove e è gli ha hai ho i il in
        io la le lei lo lui ma mi ne nel nella non o per perché quale quali quando quanto quanti si
        sono su sua sue suo suoi ti tu un una uno vi
    """,
    "portuguese": """
        a ao aos as com como da das de do dos e é ela ele eles em era eu foi há isso lhe mas me meu
        minha na não nas no nos o onde os ou para por porque qual quais quando quanto quantos que
        quem se seu sua suas são te tem um uma você
    """,
    "dutch": """
        aan als bij dat de der die dit door een en er haar had heb heeft hem hen het hij hoe hun ik
        in is je jij kan maar me met mij mijn naar niet nog of om onze op over te tot uit van voor
        waar waarom was wat we welk welke wie wij worden zij zijn
    """,
    "russian": """
        а без был была были было быть в вам вас во вот все вы где да для до его ее ей ему если есть
        же за зачем и из или им их к как какая какие каким какими каких какого какое какой какому
        какую ко когда кого кем ком кому который которая которые кто куда ли мне мой моя мы на над
        не него нее ней нет но ну о об он она они оно от откуда по под почему при с сколько со так
        там те тебе ты у уже чего чей чем чему чья чье чьи чью что чтобы эта эти это этот я
    """,
    "arabic": """
        أن أنا أنت أو أي أية أين إلى إن التي الذي ثم على عن عند عندما عندها عنده في كان كانت كم كل كيف
        لا لقد لم لماذا له لها ليس لمن ما ماذا متى مم مع من منذ هذا هذه هل هم هو هي و يا
    """,
}


def _folded(word: str) -> str:
    """Fold a word as `analysis` does: without accents if the rest is ASCII."""
    bare = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return bare if bare.isascii() else word


_BY_LANGUAGE = [frozenset(map(_folded, words.split())) for words in _LANGUAGES.values()]

FUNCTION_WORDS: frozenset[str] = frozenset().union(*_BY_LANGUAGE)
"""The words of all languages."""


def function_words(asked: Iterable[str]) -> frozenset[str]:
    """Return the function words of the language that a question is probably in.

    It is the language with the most of them: "son" is Spanish for "are" and "die" a German article,
    and both are nouns or verbs in an English question. Without any, it is English.

    Args:
        asked: The words of the question.
    """
    found = FUNCTION_WORDS.intersection(asked)
    return max(_BY_LANGUAGE, key=lambda known: len(known & found)) if found else found
