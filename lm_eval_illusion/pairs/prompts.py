"""The prompt of a question, in the language's own words; both halves of a pair get exactly this text.

The prompt ends with the answer label and no space. The harness puts the target delimiter before each option and each
demonstrated answer: a space, or nothing after a full-width colon (`DELIMITERS`; the task files say the same).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import IllusionError
from .normalise import base_language, fold_whitespace


@dataclass(frozen=True)
class Labels:
    """The three words of a prompt, with their colon."""

    passage: str
    question: str
    answer: str


LABELS: dict[str, Labels] = {
    "ar": Labels("النص:", "السؤال:", "الإجابة:"),
    "bn": Labels("অনুচ্ছেদ:", "প্রশ্ন:", "উত্তর:"),
    "de": Labels("Text:", "Frage:", "Antwort:"),
    "el": Labels("Κείμενο:", "Ερώτηση:", "Απάντηση:"),
    "en": Labels("Passage:", "Question:", "Answer:"),
    "es": Labels("Texto:", "Pregunta:", "Respuesta:"),
    "fi": Labels("Teksti:", "Kysymys:", "Vastaus:"),
    "fr": Labels("Texte :", "Question :", "Réponse :"),
    "hi": Labels("अनुच्छेद:", "प्रश्न:", "उत्तर:"),
    "id": Labels("Teks:", "Pertanyaan:", "Jawaban:"),
    "ja": Labels("文章：", "質問：", "答え："),
    "ko": Labels("지문:", "질문:", "답변:"),
    "ro": Labels("Text:", "Întrebare:", "Răspuns:"),
    "ru": Labels("Текст:", "Вопрос:", "Ответ:"),
    "sw": Labels("Kifungu:", "Swali:", "Jibu:"),
    "te": Labels("పాఠ్యం:", "ప్రశ్న:", "సమాధానం:"),
    "th": Labels("บทความ:", "คำถาม:", "คำตอบ:"),
    "tr": Labels("Metin:", "Soru:", "Cevap:"),
    "vi": Labels("Đoạn văn:", "Câu hỏi:", "Trả lời:"),
    "zh": Labels("文章：", "问题：", "答案："),
}
"""Labels per language; add a row to prompt in another one."""

DELIMITERS: dict[str, str] = {"zh": "", "ja": ""}
"""What stands between the answer label and the answer where it is not one space."""


def labels_of(language: str) -> Labels:
    """Return the labels of a language; an unknown one is an error that lists the known."""
    try:
        return LABELS[base_language(language)]
    except KeyError:
        raise IllusionError(
            f"no prompt labels for language {language!r}; known: {', '.join(sorted(LABELS))}; "
            "add a row to LABELS in lm_eval_illusion/pairs/prompts.py"
        ) from None


def delimiter_of(language: str) -> str:
    """Return what the harness must put between the answer label and an answer."""
    return DELIMITERS.get(base_language(language), " ")


def build_prompt(passage: str, question: str, language: str) -> str:
    """Return passage, question and answer label, a line each.

    Whitespace inside passage and question is folded: a newline there would look like the end of a part, and base models
    would take the lines after it for another question.
    """
    labels, space = labels_of(language), delimiter_of(language)
    return (
        f"{labels.passage}{space}{fold_whitespace(passage)}\n"
        f"{labels.question}{space}{fold_whitespace(question)}\n"
        f"{labels.answer}"
    )
