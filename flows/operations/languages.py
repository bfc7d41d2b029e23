"""English names of the languages that the service tells documents by."""

_LANGUAGES = """
af Afrikaans, ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, ca Catalan, cs Czech, cy Welsh,
da Danish, de German, el Greek, en English, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fr French,
ga Irish, gl Galician, he Hebrew, hi Hindi, hr Croatian, hu Hungarian, hy Armenian, id Indonesian, is Icelandic,
it Italian, ja Japanese, ka Georgian, kk Kazakh, km Khmer, ko Korean, lo Lao, lt Lithuanian, lv Latvian, mk Macedonian,
mr Marathi, ms Malay, mt Maltese, my Burmese, ne Nepali, nl Dutch, no Norwegian, pl Polish, pt Portuguese, ro Romanian,
ru Russian, sk Slovak, sl Slovenian, sq Albanian, sr Serbian, sv Swedish, sw Swahili, ta Tamil, th Thai, tl Tagalog,
tr Turkish, uk Ukrainian, ur Urdu, vi Vietnamese, zh Chinese
"""
_NAMES = {code: name for code, _, name in (each.strip().partition(" ") for each in _LANGUAGES.split(","))}


def name_language(code: str) -> str:
    """Return the English name of a language (ISO 639-1); its code where the name isn't known."""
    return _NAMES.get(code, code)
