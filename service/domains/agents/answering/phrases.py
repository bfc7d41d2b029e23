"""The phrases of the built-in model's own, in the language of the question: what it says around quotes, and small talk.

It knows a greeting ("Hello, how are you?"), thanks, and a question of what it can do when that is the whole message.
Which language a question is in is told by its words of grammar, and where they leave it open by the letters; English is
what is left.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from service.domains.search.understanding.folding import fold
from service.index.tokenization import WORD
from service.text.languages import ENGLISH, tell_language


@dataclass(frozen=True, slots=True)
class Phrases:
    """What the built-in model says in a language, and the words that it knows of it.

    `source` and `section` name where quotes stand: by the document alone, and by document and heading.
    `nothing_answers` is said whether there is nothing at all, nothing near enough, or only what one may not read;
    `nothing_about` is said so of the new words of a message that follows an earlier one.
    """

    nothing_answers: str
    nothing_about: str
    source: str
    section: str
    welcome: str
    you_are_welcome: str
    ability: str
    greetings: frozenset[str]
    thanks: frozenset[str]
    ability_questions: frozenset[str]
    grammar: frozenset[str]


def _greetings(greetings: str, well_being: str) -> frozenset[str]:
    """Return greetings, questions how somebody is, and the ones followed by the others."""
    greets, asks = _fold_all(greetings), _fold_all(well_being)
    return greets | asks | {f"{greeting} {question}" for greeting in greets for question in asks}


def _fold_all(phrases: str, separator: str = ",") -> frozenset[str]:
    return frozenset(_plain(phrase) for phrase in phrases.split(separator))


def _plain(text: str) -> str:
    """Return the words of a text without accents, capitals and punctuation."""
    return " ".join(WORD.findall(fold(text)))


_ENGLISH = Phrases(
    nothing_answers="Nothing that you may read here answers this.",
    nothing_about="Nothing that you may read here answers this for “{0}”.",
    source="From “{0}”:",
    section="From “{0}”, under “{1}”:",
    welcome="Hello! Ask me something: I look it up in the documents that you may read here.",
    you_are_welcome="You are welcome.",
    ability=(
        "I look your question up in the documents that you may read here, and answer with sentences from them, each "
        "with its source. I add nothing of my own. When nothing answers, I say so."
    ),
    greetings=_greetings(
        "hi, hello, hey, hi there, hello there, good morning, good afternoon, good evening, good day",
        "how are you, how are you doing, how are you today, how is it going, how's it going",
    ),
    thanks=_fold_all(
        "thanks, thank you, thanks a lot, many thanks, thank you very much, thank you so much, thx, cheers"
    ),
    ability_questions=_fold_all(
        "what can you do, what can you do for me, what can i ask, what can i ask you, what can you help with, what can "
        "you help me with, how can you help, how can you help me, who are you, what are you, how do you work, help"
    ),
    grammar=_fold_all(
        "the a an of is are was do does did can i we you to for in what which who how when where why", " "
    ),
)
_GERMAN = Phrases(
    nothing_answers="Nichts, was Sie hier lesen dürfen, beantwortet das.",
    nothing_about="Nichts, was Sie hier lesen dürfen, beantwortet das für „{0}“.",
    source="Aus „{0}“:",
    section="Aus „{0}“, unter „{1}“:",
    welcome="Guten Tag! Fragen Sie mich etwas: Ich schlage es in den Dokumenten nach, die Sie hier lesen dürfen.",
    you_are_welcome="Gern geschehen.",
    ability=(
        "Ich schlage Ihre Frage in den Dokumenten nach, die Sie hier lesen dürfen, und antworte mit Sätzen daraus, "
        "jeden mit seiner Quelle. Von mir füge ich nichts hinzu. Wenn nichts antwortet, sage ich es."
    ),
    greetings=_greetings(
        "hallo, guten tag, guten morgen, guten abend, grüß gott, moin, servus, grüezi",
        "wie geht's, wie gehts, wie geht es, wie geht's dir, wie geht es dir, wie geht es Ihnen, wie geht's Ihnen",
    ),
    thanks=_fold_all("danke, vielen dank, danke schön, dankeschön, besten dank, danke sehr"),
    ability_questions=_fold_all(
        "was kannst du, was können sie, was kannst du tun, was können sie tun, was kann ich fragen, was kann ich dich "
        "fragen, was kann ich sie fragen, wobei kannst du helfen, wobei können sie helfen, wer bist du, wer sind sie, "
        "hilfe"
    ),
    grammar=_fold_all(
        "der die das den dem des ein eine einen ist sind war und ich wir sie für nicht kann gibt es viele wie was wo "
        "wann wer warum welche welcher welches im am zu von mit auf bei",
        " ",
    ),
)
_FRENCH = Phrases(
    nothing_answers="Rien de ce que vous pouvez lire ici ne répond à cette question.",
    nothing_about="Rien de ce que vous pouvez lire ici ne répond à cette question pour « {0} ».",
    source="Dans « {0} » :",
    section="Dans « {0} », sous « {1} » :",
    welcome="Bonjour ! Posez-moi une question : je cherche la réponse dans les documents que vous pouvez lire ici.",
    you_are_welcome="Je vous en prie.",
    ability=(
        "Je cherche la réponse dans les documents que vous pouvez lire ici, et je cite leurs phrases, chacune avec sa "
        "source. Je n'ajoute rien de moi-même. Quand rien ne répond, je le dis."
    ),
    greetings=_greetings(
        "bonjour, bonsoir, salut",
        "ça va, comment ça va, comment vas-tu, comment allez-vous, tu vas bien, vous allez bien",
    ),
    thanks=_fold_all("merci, merci beaucoup, merci bien, un grand merci"),
    ability_questions=_fold_all(
        "que peux-tu faire, que pouvez-vous faire, que sais-tu faire, que savez-vous faire, qu'est-ce que tu peux "
        "faire, qu'est-ce que vous pouvez faire, qui es-tu, qui êtes-vous, aide"
    ),
    grammar=_fold_all(
        "le la les un une des du de est sont et je nous vous pour pas que quel quelle quels quelles comment où quand "
        "qui pourquoi combien dans sur avec au aux",
        " ",
    ),
)
_SPANISH = Phrases(
    nothing_answers="Nada de lo que usted puede leer aquí responde a esto.",
    nothing_about="Nada de lo que usted puede leer aquí responde a esto sobre «{0}».",
    source="De «{0}»:",
    section="De «{0}», en «{1}»:",
    welcome="¡Hola! Pregúnteme algo: lo busco en los documentos que usted puede leer aquí.",
    you_are_welcome="De nada.",
    ability=(
        "Busco su pregunta en los documentos que usted puede leer aquí y respondo con frases de ellos, cada una con su "
        "fuente. No añado nada mío. Cuando nada responde, lo digo."
    ),
    greetings=_greetings(
        "hola, buenos días, buenas tardes, buenas noches",
        "qué tal, cómo estás, cómo está, cómo está usted, cómo te va, cómo le va",
    ),
    thanks=_fold_all("gracias, muchas gracias"),
    ability_questions=_fold_all(
        "qué puedes hacer, qué puede hacer, qué puedo preguntar, quién eres, quién es usted, ayuda"
    ),
    grammar=_fold_all(
        "el la los las un una del de es son y para no hay que cuál cuáles cómo dónde cuándo quién cuánto cuánta "
        "cuántos cuántas por en con se al",
        " ",
    ),
)
_ITALIAN = Phrases(
    nothing_answers="Niente di ciò che Lei può leggere qui risponde a questa domanda.",
    nothing_about="Niente di ciò che Lei può leggere qui risponde a questa domanda per «{0}».",
    source="Da «{0}»:",
    section="Da «{0}», sotto «{1}»:",
    welcome="Buongiorno! Mi chieda qualcosa: lo cerco nei documenti che Lei può leggere qui.",
    you_are_welcome="Prego.",
    ability=(
        "Cerco la Sua domanda nei documenti che Lei può leggere qui e rispondo con le loro frasi, ciascuna con la "
        "fonte. Non aggiungo niente di mio. Quando niente risponde, lo dico."
    ),
    greetings=_greetings(
        "ciao, buongiorno, buon giorno, buonasera, buona sera, salve",
        "come stai, come sta, come va, tutto bene",
    ),
    thanks=_fold_all("grazie, grazie mille, molte grazie"),
    ability_questions=_fold_all(
        "che cosa puoi fare, cosa puoi fare, cosa può fare, cosa sai fare, chi sei, chi è lei, aiuto"
    ),
    grammar=_fold_all(
        "il lo la i gli le un una di del della dei delle è sono e per non che quale quali come dove quando chi perché "
        "quanto quanta quanti quante nel nella con si al cosa",
        " ",
    ),
)
_DUTCH = Phrases(
    nothing_answers="Niets van wat u hier mag lezen beantwoordt dit.",
    nothing_about="Niets van wat u hier mag lezen beantwoordt dit voor “{0}”.",
    source="Uit “{0}”:",
    section="Uit “{0}”, onder “{1}”:",
    welcome="Goedendag! Stel mij een vraag: ik zoek het op in de documenten die u hier mag lezen.",
    you_are_welcome="Graag gedaan.",
    ability=(
        "Ik zoek uw vraag op in de documenten die u hier mag lezen, en antwoord met zinnen daaruit, elk met zijn bron. "
        "Zelf voeg ik niets toe. Als niets antwoordt, zeg ik dat."
    ),
    greetings=_greetings(
        "goedendag, goedemorgen, goedemiddag, goedenavond, hoi, hallo, dag",
        "hoe gaat het, hoe gaat het met je, hoe gaat het met jou, hoe gaat het met u, hoe gaat het ermee, alles goed",
    ),
    thanks=_fold_all("bedankt, dank je, dank u, dank je wel, dank u wel, dankjewel, dankuwel"),
    ability_questions=_fold_all(
        "wat kun je, wat kan je, wat kunt u, wat kun je doen, wat kunt u doen, wie ben je, wie bent u"
    ),
    grammar=_fold_all(
        "de het een en ik wij we u voor niet kan er zijn wat hoe waar wanneer wie waarom welke welk van met op bij "
        "hoeveel is aan mag moet",
        " ",
    ),
)
_PORTUGUESE = Phrases(
    nothing_answers="Nada do que pode ler aqui responde a isto.",
    nothing_about="Nada do que pode ler aqui responde a isto sobre “{0}”.",
    source="De “{0}”:",
    section="De “{0}”, em “{1}”:",
    welcome="Olá! Faça-me uma pergunta: procuro a resposta nos documentos que pode ler aqui.",
    you_are_welcome="De nada.",
    ability=(
        "Procuro a resposta nos documentos que pode ler aqui e cito as frases deles, cada uma com a sua fonte. Não "
        "acrescento nada meu. Quando nada responde, digo-o."
    ),
    greetings=_greetings(
        "olá, oi, bom dia, boa tarde, boa noite",
        "tudo bem, como vai, como estás, como está, como você está",
    ),
    thanks=_fold_all("obrigado, obrigada, muito obrigado, muito obrigada"),
    ability_questions=_fold_all(
        "o que podes fazer, o que pode fazer, o que você pode fazer, quem és, quem é você, ajuda"
    ),
    grammar=_fold_all(
        "o a os as um uma do da dos das de é são e para não há que qual quais como onde quando quem quanto quanta "
        "quantos quantas no na nos nas com se em ao por",
        " ",
    ),
)

PHRASES: Mapping[str, Phrases] = {
    ENGLISH: _ENGLISH,
    "de": _GERMAN,
    "fr": _FRENCH,
    "es": _SPANISH,
    "it": _ITALIAN,
    "nl": _DUTCH,
    "pt": _PORTUGUESE,
}
"""By the language's code of ISO 639-1."""

_CLAUSE = re.compile(r"[^,.!:;\n]{1,40}(?:[,.!:;\n]+|\Z)")


def phrases_of(question: str) -> Phrases:
    """Return the phrases of the language that a question is in. It may take a second: run it in a thread."""
    words = _plain(question).split()
    hits = {code: sum(word in one.grammar for word in words) for code, one in PHRASES.items()}
    most = max(hits.values())
    likely = [code for code, count in hits.items() if count == most]
    if most and len(likely) == 1:
        return PHRASES[likely[0]]
    told = tell_language([question])
    return PHRASES[told if told in likely else ENGLISH]


def drop_greeting(message: str) -> str:
    """Return a message without the greeting that it begins with ("Hello, when …"); a greeting alone stays."""
    bare = message.lstrip()
    clause = _CLAUSE.match(bare)
    if clause is None or not any(_plain(clause[0]) in one.greetings for one in PHRASES.values()):
        return message
    rest = bare[clause.end() :].lstrip()
    return rest if _plain(rest) else message


def answer_small_talk(message: str) -> str | None:
    """Return the reply to a message that greets, thanks, or asks what can be asked, and does nothing else."""
    # The whole message is looked at first: the greeting tells the language of "como está".
    for said in (_plain(message), _plain(drop_greeting(message))):
        for one in PHRASES.values():
            for known, reply in (
                (one.greetings, one.welcome),
                (one.thanks, one.you_are_welcome),
                (one.ability_questions, one.ability),
            ):
                if said in known:
                    return reply
    return None
