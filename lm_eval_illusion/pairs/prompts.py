"""The prompt of a question, in the language's own words; both halves of a pair get exactly the same text.

The prompt ends with the answer label and no space. The harness puts the target delimiter before each option and each
demonstrated answer: a space, or nothing after a full-width colon (`DELIMITERS`; the task files say the same).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import IllusionError
from .normalise import base_language, fold_whitespace


@dataclass(frozen=True)
class Labels:
    """The words of a prompt, with their colon."""

    passage: str
    question: str
    answer: str
    options: str
    """Before a list of options."""
    earlier: str
    """Before the model's earlier answer."""


LABELS: dict[str, Labels] = {
    "ar": Labels("النص:", "السؤال:", "الإجابة:", "الخيارات:", "الإجابة السابقة:"),
    "bn": Labels("অনুচ্ছেদ:", "প্রশ্ন:", "উত্তর:", "বিকল্পসমূহ:", "আগের উত্তর:"),
    "de": Labels("Text:", "Frage:", "Antwort:", "Optionen:", "Frühere Antwort:"),
    "el": Labels("Κείμενο:", "Ερώτηση:", "Απάντηση:", "Επιλογές:", "Προηγούμενη απάντηση:"),
    "en": Labels("Passage:", "Question:", "Answer:", "Options:", "Earlier answer:"),
    "es": Labels("Texto:", "Pregunta:", "Respuesta:", "Opciones:", "Respuesta anterior:"),
    "fi": Labels("Teksti:", "Kysymys:", "Vastaus:", "Vaihtoehdot:", "Aiempi vastaus:"),
    "fr": Labels("Texte :", "Question :", "Réponse :", "Options :", "Réponse précédente :"),
    "hi": Labels("अनुच्छेद:", "प्रश्न:", "उत्तर:", "विकल्प:", "पिछला उत्तर:"),
    "id": Labels("Teks:", "Pertanyaan:", "Jawaban:", "Pilihan:", "Jawaban sebelumnya:"),
    "ja": Labels("文章：", "質問：", "答え：", "選択肢：", "前の答え："),
    "ko": Labels("지문:", "질문:", "답변:", "선택지:", "이전 답변:"),
    "ro": Labels("Text:", "Întrebare:", "Răspuns:", "Opțiuni:", "Răspuns anterior:"),
    "ru": Labels("Текст:", "Вопрос:", "Ответ:", "Варианты:", "Предыдущий ответ:"),
    "sw": Labels("Kifungu:", "Swali:", "Jibu:", "Chaguo:", "Jibu la awali:"),
    "te": Labels("పాఠ్యం:", "ప్రశ్న:", "సమాధానం:", "ఎంపికలు:", "మునుపటి సమాధానం:"),
    "th": Labels("บทความ:", "คำถาม:", "คำตอบ:", "ตัวเลือก:", "คำตอบก่อนหน้า:"),
    "tr": Labels("Metin:", "Soru:", "Cevap:", "Seçenekler:", "Önceki cevap:"),
    "vi": Labels("Đoạn văn:", "Câu hỏi:", "Trả lời:", "Các lựa chọn:", "Câu trả lời trước:"),
    "zh": Labels("文章：", "问题：", "答案：", "选项：", "之前的答案："),
}
"""Labels per language; add a row to prompt in another one."""

LETTERS: tuple[str, ...] = ("A", "B", "C", "D")
"""What options are called where a letter is the answer, in every script: exams use them in all these languages."""

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
    return compose(language, passage=passage, question=question)


def compose(
    language: str,
    *,
    passage: str | None = None,
    question: str | None = None,
    options: Sequence[str] = (),
    lettered: bool = False,
    earlier: str | None = None,
) -> str:
    """Return the text of any condition: the parts that are given, a line each, then the answer label.

    Args:
        language: ISO 639-1 code.
        passage: None asks without it.
        question: None asks without it.
        options: Listed a line each, in this order.
        lettered: Options begin with their letters ("A. ") and not with a dash.
        earlier: The model's earlier answer; "" if it said nothing.
    """
    labels, space = labels_of(language), delimiter_of(language)
    lines = [
        f"{label}{space}{fold_whitespace(text)}".rstrip()
        for label, text in ((labels.passage, passage), (labels.question, question))
        if text is not None
    ]
    if options:
        marks = [f"{letter}." for letter in LETTERS] if lettered else ["-"] * len(options)
        lines.append(labels.options)
        lines += [f"{mark} {fold_whitespace(option)}" for mark, option in zip(marks, options, strict=True)]
    if earlier is not None:
        lines.append(f"{labels.earlier}{space}{fold_whitespace(earlier)}".rstrip())
    return "\n".join([*lines, labels.answer])
