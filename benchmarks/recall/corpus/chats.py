"""The chats of the recall corpus: conversations of three groups of people, message by message.

Each scene is a short conversation, written by hand. One line of it answers the question without
repeating its topic, so the topic of that line is only clear from the lines around it. A scene is
played twelve times, with other people and another topic, so that each question has one right answer
and eleven similar wrong ones. Everything is generated from a fixed seed.

Two of three conversations are stored message by message, with numbers. Of the third, only the first
speaker's messages are stored, with quotes and without numbers, like the facts of a detection.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.recall.corpus import Fact, Question

__all__ = ["CHATTERS", "read_chats"]

CHATTERS = {
    "en": ("Imogen", "Callum", "Priya", "Desmond"),
    "ko": ("하린", "도현", "은채", "민재"),
    "de": ("Wiebke", "Jonas", "Annegret", "Emre"),
}
_START = datetime(2024, 1, 8, 9, tzinfo=UTC)
_PLAYED = 12


@dataclass(frozen=True)
class _Scene:
    """A conversation of a, b and c. {k} is the topic of the question, {v} the answer."""

    lines: tuple[tuple[str, str], ...]
    answer: int
    """The index of the line with the answer."""
    questions: tuple[str, ...]
    keys: str
    values: str


def _scene(text: str, answer: int, questions: Sequence[str], keys: str, values: str) -> _Scene:
    lines = tuple((line[0], line[3:]) for line in map(str.strip, text.strip().splitlines()))
    return _Scene(lines, answer, tuple(questions), keys, values)


_CITIES = "Oslo|Lisbon|Tallinn|Naples|Dublin|Krakow|Athens|Ghent|Porto|Riga|Turin|Malmo"
_ENGLISH = (
    _scene(
        """
        a: The trip to {k} is booked at last, I leave on the ninth.
        b: Oh nice! How are you getting there?
        a: Mostly by {v}, it is slower but I can read on the way.
        b: Send pictures, please.
        """,
        2,
        ("How is {a} travelling to {k}?", "Which means of transport does {a} take to {k}?"),
        _CITIES,
        "ferry|night train|coach|an old camper van|bicycle|cargo ship|car share|motorbike"
        "|a rented scooter|sailing boat|regional trains|seaplane",
    ),
    _scene(
        """
        a: My {k} broke again this morning.
        c: Again? Did you find somebody for it?
        a: Yes, {v} comes on Thursday and knows the model.
        b: Mine died last year, I never replaced it.
        a: We shall see, I am not very hopeful.
        """,
        2,
        ("Who repairs {a}'s {k}?", "Whom did {a} find to fix the {k}?"),
        "dishwasher|boiler|sewing machine|espresso machine|lawnmower|projector|freezer|accordion"
        "|record player|stairlift|garage door|telescope",
        "Mr Alderton|a student called Beth|the Hollis brothers|Ines from the market|old Pemberton"
        "|my neighbour Gus|a firm named Brightwell|Rosalind|the caretaker|a Mr Okafor"
        "|uncle Fergus|Tamsin",
    ),
    _scene(
        """
        a: I have started learning {k}.
        b: Really? What made you do that?
        a: Honestly, {v}, and I needed something for the evenings.
        c: I tried once and gave up after a week.
        """,
        2,
        ("Why is {a} learning {k}?", "What got {a} interested in {k}?"),
        "the cello|Icelandic|beekeeping|calligraphy|fencing|bookbinding|sign language|welding"
        "|archery|Morse code|glass blowing|chess",
        "a film I saw in March|my grandmother's letters|a bet with my boss|a podcast about monks"
        "|the empty loft|a gift voucher from Lou|my son's homework|an old photograph"
        "|the noise of the city|a broken wrist|a dream I had twice|a stall at the fair",
    ),
    _scene(
        """
        a: Guess what, the interview at the {k} went well.
        b: Congratulations! So when do you begin?
        a: On {v}, if the references are fine.
        b: We must celebrate.
        a: Let us wait until I have signed.
        """,
        2,
        ("When does {a} start the job at the {k}?", "What is {a}'s first day at the {k}?"),
        "aquarium|court library|bakery school|observatory|tram depot|hospice|auction house"
        "|seed bank|puppet theatre|salt works|radio station|map archive",
        "the third of June|a Wednesday in autumn|the first Monday after Easter|2 November"
        "|the day after the carnival|the last week of August|14 February|midsummer"
        "|the Tuesday of the fair|New Year's Day|my birthday|the tenth",
    ),
    _scene(
        """
        c: Who is bringing what to the {k} party?
        a: I can take care of {v}.
        b: Then I bring the music.
        c: Good, and I do the chairs.
        """,
        1,
        ("What does {a} bring to the {k} party?", "What is {a} in charge of at the {k} party?"),
        "harvest|farewell|rooftop|housewarming|retirement|lantern|garden|graduation|costume"
        "|boat|street|anniversary",
        "two lentil pies|the paper lamps|forty deck quizzes|cold soup|a crate of pears"
        "|the barbecue|flowers in jars|plates and forks|a big tent|elderflower lemonade"
        "|face paint|the firewood",
    ),
    _scene(
        """
        a: The doctor had a look at my {k} yesterday.
        b: And? What did she say?
        a: Nothing serious, but I am to {v} for six weeks.
        b: That sounds bearable.
        """,
        2,
        ("What does {a} have to do about the {k}?", "What was {a} told to do for the {k}?"),
        "left knee|shoulder|eyesight|stomach|ankle|lower back|hearing|wisdom tooth|wrist"
        "|eczema|cough|blood pressure",
        "swim twice a week|sleep on the other side|wear drops at night|avoid tomatoes"
        "|walk with a stick|stretch every hour|give up headphones|rinse with sage"
        "|type with a splint|bathe in oats|breathe steam|leave out salt",
    ),
    _scene(
        """
        a: We adopted a {k} from the shelter.
        c: How lovely! Does it have a name yet?
        a: The children settled on {v}.
        b: Ha, of course they did.
        """,
        2,
        ("What is {a}'s {k} called?", "Which name did {a}'s {k} get?"),
        "greyhound|tortoise|parrot|ferret|donkey|rabbit|hedgehog|goat|terrier|guinea pig"
        "|kitten|duck",
        "Pickle|Admiral|Sputnik|Marzipan|Clementine|Bolt|Teapot|Duchess|Waffles|Nimbus"
        "|Gherkin|Orlando",
    ),
    _scene(
        """
        a: I finally sold the {k}.
        b: For what you had hoped?
        a: Almost, I got {v} and a handshake.
        c: Better than nothing.
        """,
        2,
        ("How much did {a} get for the {k}?", "At what price did {a} sell the {k}?"),
        "caravan|piano|canoe|wardrobe|stamp collection|typewriter|tractor|oil painting"
        "|tent|chandelier|racing bike|fur coat",
        "850 pounds|1,200 in cash|90 pounds|three hundred|4,750|65 pounds|2,999|610 pounds"
        "|45 pounds|780 in notes|1,050|twenty pounds",
    ),
)
_KOREAN = (
    _scene(
        """
        a: 드디어 {k} 여행 예약했어. 구일에 떠나.
        b: 우와 좋겠다! 어떻게 가는데?
        a: {v} 타고 가. 느려도 책 읽기 좋잖아.
        b: 사진 꼭 보내 줘.
        """,
        2,
        ("{a}|{k}에 뭐 타고 가?", "{a}|{k} 여행 갈 때 교통편이 뭐야?"),
        "강릉|통영|목포|속초|경주|여수|안동|춘천|제천|울릉도|남해|군산",
        "야간열차|고속버스|여객선|캠핑카|자전거|완행열차|오토바이|화물차|렌터카|요트|카풀|택시",
    ),
    _scene(
        """
        a: 오늘 아침에 {k} 또 고장 났어.
        c: 또? 고칠 사람은 찾았어?
        a: 응, {v} 목요일에 오기로 했어.
        b: 우리 집 건 작년에 버렸는데.
        """,
        2,
        ("{a}|{k} 누가 고쳐 줘?", "{a}|{k} 수리를 맡은 사람이 누구야?"),
        "식기세척기|보일러|재봉틀|커피머신|예초기|빔프로젝터|냉동고|아코디언|턴테이블"
        "|정수기|차고문|망원경",
        "옆집 박 씨가|동생 친구 수아가|삼거리 철물점이|이모부가|관리실 김 소장이|배 기사님이"
        "|대학생 지민이가|전파사 할아버지가|사촌 태오가|청년 가게가|윗집 누나가|오 반장님이",
    ),
    _scene(
        """
        a: 나 요즘 {k} 배우기 시작했어.
        b: 진짜? 어쩌다가?
        a: 사실 {v} 때문이야. 저녁에 할 일도 필요했고.
        c: 난 일주일 만에 포기했는데.
        """,
        2,
        ("{a}|왜 {k} 배워?", "{a}|{k} 시작한 계기가 뭐야?"),
        "첼로|아이슬란드어|양봉|서예|펜싱|제본|수어|용접|양궁|모스부호|유리공예|바둑",
        "삼월에 본 영화|할머니 편지|팀장님과 한 내기|수도사 팟캐스트|텅 빈 다락방|생일 상품권"
        "|아들 숙제|낡은 사진 한 장|도시 소음|부러진 손목|두 번 꾼 꿈|장터 구경",
    ),
    _scene(
        """
        a: {k} 면접 붙었다!
        b: 축하해! 그럼 언제부터 나가?
        a: {v}부터. 서류만 괜찮으면.
        b: 축하 파티 하자.
        """,
        2,
        ("{a}|{k} 첫 출근이 언제야?", "{a}|{k} 일은 언제 시작해?"),
        "수족관|법원도서관|제빵학교|천문대|전차기지|요양원|경매장|종자은행|인형극장|염전"
        "|방송국|지도박물관",
        "유월 초|가을 어느 수요일|부활절 다음 월요일|십일월 이일|축제 다음 날|팔월 마지막 주"
        "|이월 십사일|하지 무렵|장날 화요일|새해 첫날|내 생일|다음 달 십일",
    ),
    _scene(
        """
        c: {k} 잔치 때 누가 뭐 가져와?
        a: 나는 {v} 맡을게.
        b: 그럼 난 음악 준비할게.
        c: 좋아, 의자는 내가 챙길게.
        """,
        1,
        ("{a}|{k} 잔치에 뭐 가져가?", "{a}|{k} 잔치에서 맡은 게 뭐야?"),
        "추수|송별|옥상|집들이|은퇴|등불|정원|졸업|가면|뱃놀이|골목|기념일",
        "녹두전|종이등|퀴즈 사십 개|냉국|배 한 상자|바비큐|꽃병|접시와 젓가락|큰 천막|매실차"
        "|페이스페인팅|장작",
    ),
    _scene(
        """
        a: 어제 {k} 때문에 병원 다녀왔어.
        b: 뭐래? 괜찮대?
        a: 심각하진 않은데 육 주 동안 {v} 해.
        b: 그 정도면 할 만하네.
        """,
        2,
        ("{a}|{k} 때문에 뭘 해야 한대?", "{a}|{k} 처방이 뭐였어?"),
        "왼쪽 무릎|어깨|시력|위장|발목|허리|청력|사랑니|손목|아토피|기침|혈압",
        "일주일에 두 번 수영해야|반대쪽으로 자야|밤마다 안약 넣어야|토마토를 끊어야"
        "|지팡이 짚고 다녀야|한 시간마다 스트레칭해야|이어폰을 쓰지 말아야|세이지로 가글해야"
        "|부목을 대야|귀리 목욕을 해야|수증기를 쐬야|소금을 줄여야",
    ),
    _scene(
        """
        a: 보호소에서 {k} 데려왔어.
        c: 귀엽겠다! 이름은 지었어?
        a: 애들이 {v} 하자고 해서 그걸로 했어.
        b: 하하, 그럴 줄 알았어.
        """,
        2,
        ("{a}|{k} 이름이 뭐야?", "{a}|{k}를 뭐라고 불러?"),
        "그레이하운드|거북이|앵무새|페럿|당나귀|토끼|고슴도치|염소|테리어|기니피그|새끼고양이|오리",
        "오이라고|장군이라고|로켓이라고|찹쌀이라고|귤이라고|번개라고|주전자라고|마님이라고"
        "|와플이라고|구름이라고|감자라고|초롱이라고",
    ),
    _scene(
        """
        a: 드디어 {k} 팔았다.
        b: 원하던 만큼 받았어?
        a: 거의. {v} 받고 악수했지.
        c: 그게 어디야.
        """,
        2,
        ("{a}|{k} 얼마에 팔았어?", "{a}|{k} 값으로 얼마를 받았어?"),
        "카라반|피아노|카누|옷장|우표책|타자기|경운기|유화|텐트|샹들리에|경주용자전거|모피코트",
        "팔십오만 원|백이십만 원|구만 원|삼십만 원|사백칠십만 원|육만오천 원|이백구십만 원"
        "|육십일만 원|사만오천 원|칠십팔만 원|백오만 원|이만 원",
    ),
)
_GERMAN = (
    _scene(
        """
        a: Die Reise nach {k} ist endlich gebucht, am neunten geht es los.
        b: Schön! Wie kommst du hin?
        a: Größtenteils mit {v}, das dauert länger, aber ich kann lesen.
        b: Schick bitte Fotos.
        """,
        2,
        ("Womit reist {a} nach {k}?", "Welches Verkehrsmittel nimmt {a} nach {k}?"),
        "Bergamo|Odense|Brügge|Salzburg|Danzig|Utrecht|Verona|Aarhus|Basel|Laibach|Nizza|Olmütz",
        "der Fähre|dem Nachtzug|dem Fernbus|einem alten Wohnmobil|dem Fahrrad|einem Frachter"
        "|einer Mitfahrgelegenheit|dem Motorrad|einem Roller|dem Segelboot|Regionalzügen"
        "|einem Wasserflugzeug",
    ),
    _scene(
        """
        a: Heute früh ist {k} schon wieder kaputtgegangen.
        c: Schon wieder? Hast du jemanden dafür gefunden?
        a: Ja, {v} kommt am Donnerstag und kennt das Modell.
        b: Meins ist letztes Jahr auf dem Müll gelandet.
        """,
        2,
        ("Wer repariert bei {a} {k}?", "Wen hat {a} gefunden, um {k} zu richten?"),
        "die Spülmaschine|die Heizung|die Nähmaschine|die Kaffeemaschine|der Rasenmäher"
        "|der Beamer|die Gefriertruhe|das Akkordeon|der Plattenspieler|der Treppenlift"
        "|das Garagentor|das Teleskop",
        "Herr Brinkmann|eine Studentin namens Ylva|der Betrieb Sanders|Tante Hedwig"
        "|der alte Quast|mein Nachbar Piet|die Firma Lohbeck|Roswitha|der Hausmeister"
        "|ein Herr Demir|Onkel Alwin|Swantje",
    ),
    _scene(
        """
        a: Ich lerne seit Kurzem {k}.
        b: Echt? Wie bist du darauf gekommen?
        a: Ehrlich gesagt durch {v}, und abends war mir langweilig.
        c: Ich habe nach einer Woche aufgegeben.
        """,
        2,
        ("Warum lernt {a} {k}?", "Wodurch kam {a} auf {k}?"),
        "Cello|Isländisch|Imkern|Kalligrafie|Fechten|Buchbinden|Gebärdensprache|Schweißen"
        "|Bogenschießen|Morsen|Glasblasen|Schach",
        "einen Film im März|die Briefe meiner Großmutter|eine Wette mit der Chefin"
        "|einen Podcast über Mönche|den leeren Dachboden|einen Gutschein von Lou"
        "|die Hausaufgaben meines Sohns|ein altes Foto|den Lärm in der Stadt"
        "|ein gebrochenes Handgelenk|einen Traum|einen Stand auf dem Jahrmarkt",
    ),
    _scene(
        """
        a: Das Vorstellungsgespräch {k} lief gut.
        b: Glückwunsch! Und wann fängst du an?
        a: {v}, wenn die Zeugnisse stimmen.
        b: Das müssen wir feiern.
        """,
        2,
        ("Wann beginnt {a} {k}?", "Wann ist der erste Arbeitstag von {a} {k}?"),
        "im Aquarium|in der Gerichtsbibliothek|in der Backschule|in der Sternwarte"
        "|im Straßenbahndepot|im Hospiz|im Auktionshaus|in der Saatgutbank|im Puppentheater"
        "|in der Saline|beim Rundfunk|im Kartenarchiv",
        "Anfang Juni|an einem Mittwoch im Herbst|am Montag nach Ostern|am 2. November"
        "|am Tag nach dem Karneval|in der letzten Augustwoche|am 14. Februar|zur Sonnenwende"
        "|am Kirmesdienstag|an Neujahr|an meinem Geburtstag|am zehnten",
    ),
    _scene(
        """
        c: Wer bringt was zum {k} mit?
        a: Ich kümmere mich um {v}.
        b: Dann übernehme ich die Musik.
        c: Gut, und ich besorge Stühle.
        """,
        1,
        ("Was bringt {a} zum {k} mit?", "Wofür ist {a} beim {k} zuständig?"),
        "Erntefest|Abschiedsfest|Dachfest|Einzugsfest|Rentenfest|Laternenfest|Gartenfest"
        "|Abschlussfest|Kostümfest|Bootsfest|Straßenfest|Jubiläum",
        "zwei Linsenkuchen|die Papierlampen|das Quiz|kalte Suppe|eine Kiste Birnen|den Grill"
        "|Blumen in Gläsern|Teller und Gabeln|ein großes Zelt|Holunderlimonade|Kinderschminke"
        "|das Brennholz",
    ),
    _scene(
        """
        a: Gestern hat sich die Ärztin {k} angesehen.
        b: Und? Was sagt sie?
        a: Nichts Schlimmes, aber ich soll sechs Wochen lang {v}.
        b: Das klingt machbar.
        """,
        2,
        ("Was soll {a} tun, seit die Ärztin {k} angesehen hat?", "Was wurde {a} für {k} geraten?"),
        "mein linkes Knie|meine Schulter|meine Augen|meinen Magen|meinen Knöchel|meinen Rücken"
        "|mein Gehör|meinen Weisheitszahn|mein Handgelenk|mein Ekzem|meinen Husten"
        "|meinen Blutdruck",
        "zweimal die Woche schwimmen|auf der anderen Seite schlafen|nachts Tropfen nehmen"
        "|Tomaten meiden|am Stock gehen|stündlich dehnen|auf Kopfhörer verzichten"
        "|mit Salbei gurgeln|eine Schiene tragen|in Hafer baden|Dampf einatmen|Salz weglassen",
    ),
    _scene(
        """
        a: Wir haben {k} aus dem Tierheim geholt.
        c: Wie schön! Gibt es schon einen Namen?
        a: Die Kinder haben sich auf {v} geeinigt.
        b: Das war ja klar.
        """,
        2,
        ("Wie heißt bei {a} {k} aus dem Tierheim?", "Welchen Namen bekam bei {a} {k}?"),
        "einen Windhund|eine Schildkröte|einen Papagei|ein Frettchen|einen Esel|ein Kaninchen"
        "|einen Igel|eine Ziege|einen Terrier|ein Meerschweinchen|ein Kätzchen|eine Ente",
        "Gürkchen|Admiral|Sputnik|Marzipan|Mandarine|Blitz|Kännchen|Gräfin|Waffel|Wölkchen"
        "|Knödel|Orlando",
    ),
    _scene(
        """
        a: Ich habe {k} endlich verkauft.
        b: Für das, was du wolltest?
        a: Fast, ich bekam {v} und einen Händedruck.
        c: Besser als nichts.
        """,
        2,
        ("Wie viel bekam {a} für {k}?", "Zu welchem Preis hat {a} {k} verkauft?"),
        "den Wohnwagen|das Klavier|das Kanu|den Kleiderschrank|die Briefmarken"
        "|die Schreibmaschine|den Traktor|das Ölgemälde|das Zelt|den Kronleuchter|das Rennrad"
        "|den Pelzmantel",
        "850 Euro|1.200 in bar|90 Euro|dreihundert|4.750 Euro|65 Euro|2.999 Euro|610 Euro"
        "|45 Euro|780 Euro|1.050 Euro|zwanzig Euro",
    ),
)
_SCENES = {"en": _ENGLISH, "ko": _KOREAN, "de": _GERMAN}
_SMALL_TALK = {
    "en": (
        (
            "b",
            (
                "Morning! Sorry, I only saw your message now.|Hello you, long time no see."
                "|How was your weekend?|It has been raining here since Sunday."
            ),
        ),
        (
            "a",
            (
                "Busy as always, and you?|All fine here, thanks.|I slept badly, but never mind."
                "|Better than last week at least."
            ),
        ),
    ),
    "ko": (
        (
            "b",
            (
                "안녕! 메시지 이제 봤어.|오랜만이다, 잘 지냈어?|주말 잘 보냈어?"
                "|여긴 일요일부터 계속 비 와."
            ),
        ),
        ("a", "늘 바쁘지, 너는?|난 잘 지내, 고마워.|잠을 설쳤는데 괜찮아.|그래도 지난주보단 나아."),
    ),
    "de": (
        (
            "b",
            (
                "Morgen! Ich sehe deine Nachricht erst jetzt.|Na du, lange nicht gesehen."
                "|Wie war dein Wochenende?|Hier regnet es seit Sonntag."
            ),
        ),
        (
            "a",
            (
                "Viel los wie immer, und bei dir?|Alles gut hier, danke."
                "|Schlecht geschlafen, aber egal.|Immerhin besser als letzte Woche."
            ),
        ),
    ),
}
_TOPICS = {
    "en": "What was said in a chat",
    "ko": "대화에서 한 말",
    "de": "Was in einem Chat gesagt wurde",
}


def read_chats() -> tuple[list[Fact], list[Question], list[Question]]:
    """Return facts, questions that one of them answers, and questions that none answers."""
    chance = random.Random(20261122)
    facts: list[Fact] = []
    questions: list[Question] = []
    unanswerable: list[Question] = []
    at = _START
    for language, scenes in _SCENES.items():
        for number, scene in enumerate(scenes):
            keys, values = scene.keys.split("|"), scene.values.split("|")
            chance.shuffle(values)
            for played in range(_PLAYED):
                people = list(CHATTERS[language])
                chance.shuffle(people)
                names = dict(zip("abc", people, strict=False))
                at += timedelta(hours=chance.randrange(5, 40))
                chat = f"{language}-{number}-{played}"
                parts = names | {"k": keys[played], "v": values[played]}
                is_numbered = played % 3 != 2
                facts += _facts_of(chat, language, scene, parts, at, is_numbered=is_numbered)
                asked = scene.questions[played % 2]
                kind = "turns" if is_numbered else "extracted"
                if "c" in {speaker for speaker, _ in scene.lines}:
                    kind += "-group"
                right = frozenset({f"{chat}-{scene.answer}"})
                questions.append(_question(chat, language, asked, parts, right, kind))
                if played < 4:  # the same question about a person who was not in the chat
                    parts |= {"a": people[-1]}
                    unanswerable.append(
                        _question(f"n-{chat}", language, asked, parts, frozenset(), kind)
                    )
    return facts, questions, unanswerable


def _question(
    id: str,  # noqa: A002
    language: str,
    text: str,
    parts: dict[str, str],
    right: frozenset[str],
    kind: str,
) -> Question:
    """Fill in a question. A Korean one names the person first, with the matching particle."""
    person, bar, rest = text.partition("|")
    filled = (rest if bar else text).format(**parts)
    if bar:
        name = person.format(**parts)
        filled = f"{name}{'이는' if (ord(name[-1]) - 0xAC00) % 28 else '는'} {filled}"
    return Question(id=id, language=language, text=filled, facts=right, kinds=frozenset({kind}))


def _facts_of(
    chat: str,
    language: str,
    scene: _Scene,
    parts: dict[str, str],
    at: datetime,
    *,
    is_numbered: bool,
) -> Iterator[Fact]:
    """Convert the messages to facts.

    In the notes of a conversation of two people, the second one is the assistant. As in a
    detection, its message before the quote is kept as `before`. Messages of other users are not
    kept.
    """
    talk = random.Random(chat)
    is_group = "c" in {speaker for speaker, _ in scene.lines}
    earlier = None
    opening = [(speaker, talk.choice(texts.split("|"))) for speaker, texts in _SMALL_TALK[language]]
    for number, (speaker, text) in enumerate((*opening, *scene.lines), start=-len(opening)):
        before, earlier = earlier, text.format(**parts)
        if not is_numbered and (speaker != "a" or number < 0):
            continue
        said = earlier
        yield Fact(
            id=f"{chat}-{number}" if number >= 0 else f"{chat}-hello{-number}",
            entity=parts[speaker],
            language=language,
            keyword=f"chat-{chat[3:]}",
            description=_TOPICS[language],
            fact_type="multiple",
            values=(said,),
            timestamp=at + timedelta(minutes=number),
            quote=None if is_numbered else said,
            conversation=chat,
            message=number + len(opening) if is_numbered else None,
            before=None if is_numbered or is_group else before,
        )
